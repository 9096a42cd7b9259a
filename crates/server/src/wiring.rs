//! The places that name concrete parts are this one (clock, chance, how the parts hang together)
//! and `stores`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use engine::backoff::Backoff;
use engine::batches::BatchSettings;
use engine::issuing::IssuingSettings;
use engine::keys::KeyOrder;
use engine::outbox::{DeliverySettings, OutboxSettings};
use engine::surroundings::{Clock, Entropy};
use engine::{Engine, EngineParts, EngineSettings, MasterKey};
use idgen::key::TypeKey;
use serde_json::{Value, json};
use storage::Store;

use crate::carrier::RealCarrier;
use crate::config::{Authentication, Config, OpenG2p, PublicConfig};
use crate::http::{Access, App, AppParts, Build, Public, PublicParts};
use crate::offline::key_file;
use crate::stores::{self, Stores};

/// The wall clock of this machine.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}

/// The operating system's source of secrets.
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has randomness");
    }
}

/// A name that no other running process has.
fn new_instance_name() -> String {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    hex::encode(bytes)
}

/// What a process is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything.
    Server,
    /// Making codes, without an API.
    Worker,
}

/// Everything that a running process consists of, short of a port.
pub(crate) async fn start(config: &Config, role: Role) -> anyhow::Result<(Arc<Engine>, Arc<App>)> {
    let Stores { store, shared_pools, board } = stores::open(config).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let instance = new_instance_name();
    let master_key = master_key(config, &*store).await?;
    let public = public(&config.public, &master_key, &clock, &entropy);
    let parts = EngineParts {
        master_key,
        store,
        clock: Arc::clone(&clock),
        entropy,
        instance: instance.clone(),
        shared_pools,
        board,
        carrier: Arc::new(RealCarrier::new(&config.outbound)?),
    };
    let engine = Arc::new(Engine::start(parts, engine_settings(config)).await?);
    for tenant in &config.tenants {
        engine.put_tenant(tenant.name.clone(), tenant.limits()).await?;
    }
    for id_type in &config.id_types {
        engine.put_type(id_type.clone()).await.with_context(|| {
            format!("the configured ID type {}/{}", id_type.tenant(), id_type.name())
        })?;
    }
    for key in &config.keys {
        let order = KeyOrder {
            name: key.name.clone(),
            tenant: key.tenant.clone(),
            scopes: key.scopes.clone(),
            requests_per_second: key.requests_per_second,
            expires_at: None,
        };
        engine.keys.ensure(key.token.expose(), order).await?;
    }
    // Before anything is drawn: a start that is refused must leave nothing behind.
    let access = access(config, &engine, role)?;
    engine.issuer.warm_up();
    let app = App::new(AppParts {
        engine: Arc::clone(&engine),
        clock,
        instance,
        access,
        body_limit: config.server.body_limit_bytes as usize,
        body_silence: seconds(config.server.header_timeout_seconds),
        bodies_max: config.server.bodies_bytes_max as usize,
        request_timeout: seconds(config.server.request_timeout_seconds),
        heartbeat: seconds(config.server.heartbeat_seconds),
        log_requests: config.log.requests,
        build: build(),
        public,
        documents_body_limit: config.documents.body_bytes_max as usize,
        payload_max: config.documents.payload_bytes_max as usize,
        documents_max: config.documents.count_max as usize,
        hold_seconds: config.documents.reservation_seconds,
        openg2p_config: openg2p_config(config.openg2p.as_ref()),
    });
    Ok((engine, app))
}

/// What strangers may ask, if they may ask anything.
fn public(
    config: &PublicConfig,
    master_key: &MasterKey,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> Option<Public> {
    (!config.types.is_empty()).then(|| {
        Public::new(PublicParts {
            types: config.types.clone(),
            scans_per_minute: config.scans_per_minute,
            scans_per_minute_of_network: config.scans_per_minute_of_network,
            miss: Duration::from_millis(config.miss_milliseconds.into()),
            trusted_proxies: config.trusted_proxies.iter().map(|proxy| proxy.0).collect(),
            // The same for every instance, so that any of them takes what another one gave out.
            token_key: master_key.derive("tokens of public pages"),
            clock: Arc::clone(clock),
            entropy: Arc::clone(entropy),
        })
    })
}

fn engine_settings(config: &Config) -> EngineSettings {
    let issuing = &config.issuing;
    let threshold = config.openg2p.as_ref().map_or(0, |block| block.pool_min_threshold);
    let size_max = issuing.pool_size_max as usize;
    let threshold = usize::try_from(threshold).unwrap_or(usize::MAX).min(size_max);
    let size_min = (issuing.pool_size_min as usize).max(threshold);
    EngineSettings {
        issuing: IssuingSettings {
            count_max: issuing.count_max.into(),
            pool_sizes: (size_min, size_max),
            watermark: issuing.watermark,
            refills_at_once: issuing.refills_at_once as usize,
            wait_max: Duration::from_millis(issuing.wait_milliseconds_max.into()),
            log_flush: Duration::from_millis(issuing.log_flush_milliseconds.into()),
        },
        batches: batch_settings(config),
        outbox: outbox_settings(config),
        keep_answers: Duration::from_secs(3600 * u64::from(issuing.idempotency_hours)),
        keep_contexts: seconds(config.codes.context_days) * 86_400,
        request_time_max: seconds(config.server.request_timeout_seconds),
        default_rate: config.security.requests_per_second,
        lease: seconds(config.cluster.lease_seconds),
        pool_check: config.openg2p.as_ref().map_or_else(
            || seconds(config.cluster.pool_check_seconds),
            |block| Duration::from_secs(block.pool_check_interval_seconds.clamp(1, 86_400)),
        ),
        reconcile: seconds(config.documents.reconcile_seconds),
    }
}

/// Codes of a chunk. An embedded store has one writer, and requests wait for it.
const CHUNK_CODES: u32 = 100_000;
const CHUNK_CODES_EMBEDDED: u32 = 20_000;

fn batch_settings(config: &Config) -> BatchSettings {
    let is_embedded = config.postgres.url.is_none();
    let usual = if is_embedded { CHUNK_CODES_EMBEDDED } else { CHUNK_CODES };
    let config = &config.batches;
    let chunk_codes = config.chunk_codes.unwrap_or(usual);
    BatchSettings {
        workers: config.workers as usize,
        count_max: config.count_max,
        chunk_codes: chunk_codes.into(),
        active_max: config.active_per_tenant_max.into(),
        codes_max: config.codes_per_tenant_max.unwrap_or(i64::MAX as u64),
        silent: seconds(config.silent_seconds),
        backoff: Backoff {
            retries: config.retries,
            first: Duration::from_millis(config.retry_milliseconds.into()),
            factor: 2,
        },
    }
}

fn outbox_settings(config: &Config) -> OutboxSettings {
    let (webhooks, documents) = (&config.webhooks, &config.documents);
    // Waits of webhooks go from seconds to hours: nobody has to be called out of bed to mend a receiver.
    let backoff = |retries, first, factor| Backoff { retries, first: seconds(first), factor };
    OutboxSettings {
        webhooks: DeliverySettings {
            timeout: seconds(webhooks.timeout_seconds),
            at_once: webhooks.at_once as usize,
            backoff: backoff(webhooks.retries, webhooks.retry_seconds, 4),
        },
        documents: DeliverySettings {
            timeout: seconds(documents.timeout_seconds),
            at_once: documents.at_once as usize,
            backoff: backoff(documents.retries, documents.retry_seconds, 2),
        },
        keep: seconds(webhooks.keep_days) * 86_400,
    }
}

pub(crate) fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

/// The master key from the configuration or its file. A store that holds sealed keys without a
/// master key is a mistake that a new key would only hide.
async fn master_key(config: &Config, store: &dyn Store) -> anyhow::Result<MasterKey> {
    if let Some(key) = &config.security.master_key {
        return Ok(MasterKey::new(&TypeKey::new(*key.as_bytes())));
    }
    let path = config.security.master_key_path(&config.store);
    if let Some(key) = key_file::read(&path)? {
        return Ok(MasterKey::new(&key));
    }
    if store.list_types().await?.iter().any(|stored| !stored.sealed_key.is_empty()) {
        bail!(
            "the master key file {} is missing, and the store holds keys that were sealed with it; \
             put it back",
            path.display()
        );
    }
    let (key, _) = key_file::read_or_create(&path)?;
    Ok(MasterKey::new(&key))
}

/// Who needs a key. Beyond loopback the server does not start without one. A worker has nothing that is
/// worth a key but its metrics, which then stay closed.
fn access(config: &Config, engine: &Engine, role: Role) -> anyhow::Result<Access> {
    let listen = config.server.listen;
    match config.security.authentication {
        Authentication::Off => return Ok(Access::Open),
        Authentication::Auto if listen.ip().is_loopback() => return Ok(Access::OpenWithoutKeys),
        Authentication::Auto | Authentication::Required => {}
    }
    if role == Role::Server && !engine.keys.any_usable() && !listen.ip().is_loopback() {
        bail!(
            "refusing to listen on {listen} without API keys; make one first: \
             mintage keys create --name admin --scope admin"
        );
    }
    Ok(Access::KeyNeeded)
}

fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION"),
        time: env!("MINTAGE_BUILD_TIME"),
        commit: env!("MINTAGE_BUILD_COMMIT"),
    }
}

/// What OpenG2P's `/config` shows: its own types and rules, nothing of the native configuration.
fn openg2p_config(block: Option<&OpenG2p>) -> Value {
    let Some(block) = block else { return json!({"id_types": {}, "filter_rules": {}}) };
    let types = block
        .id_types
        .iter()
        .map(|id_type| (id_type.name.clone(), json!({"id_length": id_type.id_length})))
        .collect::<serde_json::Map<_, _>>();
    json!({"id_types": types, "filter_rules": block.filter_rules})
}
