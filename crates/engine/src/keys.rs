//! API keys: who may do what, how often, and for which tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use storage::{ApiKey, NewApiKey, Scope, Store, StoreError, Tenant};
use subtle::ConstantTimeEq as _;

use crate::error::AdminError;
use crate::rate::{RateLimit, RateState};
use crate::surroundings::{Clock, Entropy};

/// Symbols of the random parts: no two look alike, and none needs quoting anywhere.
const SYMBOLS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &str = "mtg_";
const SHORT_CHARS: usize = 8;
/// 160 bits.
const SECRET_CHARS: usize = 32;
const NAME_CHARS_MAX: usize = 100;

/// A key at work.
pub struct LiveKey {
    stored: ApiKey,
    rate: Option<RateLimit>,
}

/// Why a key does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not one of ours. Which part is wrong is nobody's business.
    #[error("the API key is not valid")]
    Unknown,
    /// It was revoked.
    #[error("the API key was revoked")]
    Revoked,
    /// Its time is over.
    #[error("the API key has expired")]
    Expired,
}

/// What a new key is made from.
#[derive(Debug, Clone)]
pub struct KeyOrder {
    /// What people call it.
    pub name: String,
    /// Whose it is. None is for every tenant.
    pub tenant: Option<String>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Requests per second; none is the server's default.
    pub requests_per_second: Option<u32>,
    /// When it stops working by itself.
    pub expires_at: Option<Timestamp>,
}

impl LiveKey {
    fn new(stored: ApiKey, default_rate: Option<u32>) -> Self {
        let rate = RateLimit::per_second(stored.key.requests_per_second.or(default_rate));
        Self { stored, rate }
    }

    /// As it is stored.
    pub fn stored(&self) -> &ApiKey {
        &self.stored
    }

    /// Whether it may do something. An administrator may do everything.
    pub fn allows(&self, scope: Scope) -> bool {
        self.stored.key.scopes.iter().any(|held| *held == scope || *held == Scope::Admin)
    }
}

/// The API keys.
pub struct Keys {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    default_rate: Option<u32>,
    by_short: ArcSwap<HashMap<String, Arc<LiveKey>>>,
    /// The version of the store's catalogue up to which changes by others are known.
    version: AtomicU64,
    /// Changes are made one at a time, so that a late reader never brings a revoked key back.
    changing: tokio::sync::Mutex<()>,
    /// Limits that all keys of a tenant share.
    tenant_rates: ArcSwap<HashMap<String, Arc<RateLimit>>>,
}

impl Keys {
    /// Reads the keys from the store.
    pub async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        default_rate: Option<u32>,
    ) -> Result<Self, StoreError> {
        let (by_short, tenant_rates) = (ArcSwap::default(), ArcSwap::default());
        let (version, changing) = (AtomicU64::new(u64::MAX), tokio::sync::Mutex::default());
        let keys =
            Self { store, clock, entropy, default_rate, by_short, version, changing, tenant_rates };
        keys.reload().await?;
        Ok(keys)
    }

    /// Takes over what other instances have changed up to a version of the store's catalogue. True
    /// if that is another one than the last time: whoever changes a type has the catalogue in
    /// memory look at the store as well, and must not keep the keys from it.
    pub(crate) async fn follow(&self, version: u64) -> Result<bool, StoreError> {
        if version == self.version.load(Ordering::Acquire) {
            return Ok(false);
        }
        let _one_at_a_time = self.changing.lock().await;
        self.reload().await?;
        self.version.store(version, Ordering::Release);
        Ok(true)
    }

    async fn reload(&self) -> Result<(), StoreError> {
        let before = self.by_short.load();
        let keys = self.store.list_keys().await?.into_iter().map(|stored| {
            let short = stored.key.short.clone();
            // A key that did not change keeps its place in its rate limit.
            let live = match before.get(&short) {
                Some(live) if live.stored == stored => Arc::clone(live),
                _ => Arc::new(LiveKey::new(stored, self.default_rate)),
            };
            (short, live)
        });
        self.by_short.store(Arc::new(keys.collect()));
        Ok(())
    }

    /// Whether there is a key that works.
    pub fn any_usable(&self) -> bool {
        let now = self.clock.now();
        self.by_short.load().values().any(|key| usable(&key.stored, now).is_ok())
    }

    /// Whether there is any key, working or not.
    pub fn any(&self) -> bool {
        !self.by_short.load().is_empty()
    }

    /// Every key, oldest first.
    pub fn all(&self) -> Vec<Arc<LiveKey>> {
        let mut keys: Vec<_> = self.by_short.load().values().cloned().collect();
        keys.sort_by_key(|key| key.stored.id);
        keys
    }

    /// The key that a token belongs to, if it works.
    pub fn verify(&self, token: &str) -> Result<Arc<LiveKey>, KeyError> {
        let (short, secret) = split_token(token).ok_or(KeyError::Unknown)?;
        let keys = self.by_short.load();
        let live = keys.get(short).ok_or(KeyError::Unknown)?;
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        if !bool::from(hash.ct_eq(&live.stored.key.secret_hash)) {
            return Err(KeyError::Unknown);
        }
        usable(&live.stored, self.clock.now())?;
        Ok(Arc::clone(live))
    }

    /// Counts a request against the limits of a key and of its tenant, and returns the tighter one.
    pub fn count_request(&self, key: &LiveKey) -> Option<RateState> {
        let own = key.rate.as_ref().map(RateLimit::count);
        if own.is_some_and(|rate| rate.retry_after_seconds > 0) {
            return own;
        }
        let tenant = key.stored.key.tenant.as_ref();
        let shared = tenant.and_then(|tenant| Some(self.tenant_rates.load().get(tenant)?.count()));
        [own, shared]
            .into_iter()
            .flatten()
            .max_by_key(|rate| (rate.retry_after_seconds, std::cmp::Reverse(rate.remaining)))
    }

    /// Takes over the limits of the tenants.
    pub(crate) fn set_tenant_rates(&self, tenants: &[Tenant]) {
        let before = self.tenant_rates.load();
        let rates = tenants.iter().filter_map(|tenant| {
            let limit = RateLimit::per_second(tenant.limits.requests_per_second)?;
            // A limit that did not change keeps its count.
            let kept = before.get(&tenant.name).filter(|kept| kept.is_same_as(&limit)).cloned();
            Some((tenant.name.clone(), kept.unwrap_or_else(|| Arc::new(limit))))
        });
        self.tenant_rates.store(Arc::new(rates.collect()));
    }

    /// Makes a key. The token is shown once and is never stored.
    pub async fn create(&self, order: KeyOrder) -> Result<(Arc<LiveKey>, String), AdminError> {
        let short = self.random_text(SHORT_CHARS);
        let secret = self.random_text(SECRET_CHARS);
        let key = self.new_key(&short, &secret, order)?;
        let _one_at_a_time = self.changing.lock().await;
        self.store.create_key(&key).await?;
        self.reload().await?;
        let live =
            self.by_short.load().get(&short).cloned().ok_or(AdminError::NotFound("API key"))?;
        Ok((live, format!("{PREFIX}{short}_{secret}")))
    }

    /// Makes sure that a key exists whose token is known already, such as one from a configuration
    /// file. A key that was revoked stays so.
    pub async fn ensure(&self, token: &str, order: KeyOrder) -> Result<(), AdminError> {
        let (short, secret) = split_token(token).ok_or(AdminError::NotFound("API key"))?;
        let key = self.new_key(short, secret, order)?;
        let _one_at_a_time = self.changing.lock().await;
        if !self.by_short.load().contains_key(short) {
            match self.store.create_key(&key).await {
                // Another instance with the same configuration may have been first.
                Ok(_) | Err(StoreError::Exists(_)) => self.reload().await?,
                Err(problem) => return Err(problem.into()),
            }
        }
        let known = self.by_short.load().get(short).cloned();
        let known = known.ok_or(AdminError::NotFound("API key"))?;
        let created_at = known.stored.key.created_at;
        if known.stored.key == (NewApiKey { created_at, ..key }) {
            Ok(())
        } else {
            Err(AdminError::KeyDiffers(short.to_owned()))
        }
    }

    /// Revokes a key by its public part. False if it was revoked before.
    pub async fn revoke(&self, short: &str) -> Result<bool, AdminError> {
        let _one_at_a_time = self.changing.lock().await;
        let revoked = self.store.revoke_key(short, self.clock.now()).await?;
        self.reload().await?;
        Ok(revoked)
    }

    /// What is stored of a key, once the order is found to be right.
    fn new_key(&self, short: &str, secret: &str, order: KeyOrder) -> Result<NewApiKey, AdminError> {
        if let Some(tenant) = &order.tenant {
            idgen::spec::valid_name("tenant", tenant)?;
        }
        check_order(&order)?;
        Ok(NewApiKey {
            short: short.to_owned(),
            secret_hash: Sha256::digest(secret.as_bytes()).into(),
            name: order.name,
            tenant: order.tenant,
            scopes: order.scopes,
            requests_per_second: order.requests_per_second,
            created_at: self.clock.now(),
            expires_at: order.expires_at,
        })
    }

    fn random_text(&self, chars: usize) -> String {
        let mut bytes = vec![0; chars];
        self.entropy.fill(&mut bytes);
        bytes.into_iter().map(|byte| char::from(SYMBOLS[usize::from(byte % 32)])).collect()
    }
}

/// The public and the secret part of a token.
fn split_token(token: &str) -> Option<(&str, &str)> {
    token.strip_prefix(PREFIX)?.split_once('_')
}

/// Whether a text has the form of a token and a secret that is long enough.
pub fn is_token(text: &str) -> bool {
    let plain = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric());
    split_token(text).is_some_and(|(short, secret)| {
        (4..=32).contains(&short.len()) && plain(short) && secret.len() >= 24 && plain(secret)
    })
}

fn usable(key: &ApiKey, now: Timestamp) -> Result<(), KeyError> {
    if key.revoked_at.is_some() {
        return Err(KeyError::Revoked);
    }
    match key.key.expires_at {
        Some(end) if end <= now => Err(KeyError::Expired),
        _ => Ok(()),
    }
}

fn check_order(order: &KeyOrder) -> Result<(), AdminError> {
    let mut errors = Vec::new();
    let mut add = |field: &str, message: String| {
        errors.push(idgen::error::FieldError { field: field.to_owned(), message });
    };
    let chars = order.name.chars().count();
    if chars == 0 || chars > NAME_CHARS_MAX || order.name.chars().any(char::is_control) {
        add("name", format!("give the key a name of 1 to {NAME_CHARS_MAX} characters"));
    }
    if order.scopes.is_empty() {
        add("scopes", format!("give at least one of {}", Scope::ALL.map(Scope::name).join(", ")));
    }
    if order.requests_per_second == Some(0) {
        add(
            "requests_per_second",
            "0 would shut the key out; leave it out for no limit".to_owned(),
        );
    }
    if errors.is_empty() { Ok(()) } else { Err(idgen::error::SpecErrors(errors).into()) }
}
