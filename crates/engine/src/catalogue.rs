//! The ID types and tenants that this instance knows, and changes to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::spec::{IdType, Kind};
use storage::{
    Change, Removal, Store, StoreError, StoredType, Tenant, TenantLimits, TypeId, TypeState,
};

use crate::error::{AdminError, IssueError};
use crate::issuing::{LogWriter, PoolMaker};
use crate::live_type::LiveType;
use crate::sealing::MasterKey;
use crate::surroundings::{Clock, Common, Entropy};

type Types = HashMap<String, HashMap<String, Arc<LiveType>>>;

/// What became of a type that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    Created,
    /// It was changed, or was the same already.
    Kept,
}

/// Attempts at a change that other instances make at the same time.
const RACES_MAX: u8 = 5;

/// The ID types and tenants that this instance knows.
pub struct Catalogue {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    master_key: Arc<MasterKey>,
    pools: PoolMaker,
    log: Arc<LogWriter>,
    types: ArcSwap<Types>,
    /// The version of the store's catalogue that is in memory.
    version: AtomicU64,
    /// Changes are made one at a time, so that what is in memory follows what is stored.
    changing: tokio::sync::Mutex<()>,
    tenants: Mutex<HashMap<String, Tenant>>,
}

impl Catalogue {
    /// Reads everything from the store.
    pub(crate) async fn load(
        common: &Common,
        master_key: Arc<MasterKey>,
        pools: PoolMaker,
        log: Arc<LogWriter>,
    ) -> Result<Self, AdminError> {
        let Common { store, clock, entropy, .. } = common.clone();
        let catalogue = Self {
            store,
            clock,
            entropy,
            master_key,
            log,
            pools,
            types: ArcSwap::default(),
            version: AtomicU64::new(u64::MAX),
            changing: tokio::sync::Mutex::default(),
            tenants: Mutex::default(),
        };
        catalogue.refresh().await?;
        Ok(catalogue)
    }

    /// Takes over what other instances have changed, and waits for changes under way here.
    pub(crate) async fn refresh(&self) -> Result<(), AdminError> {
        let _one_at_a_time = self.changing.lock().await;
        self.reload().await
    }

    /// The version of the store's catalogue that is in memory.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The same for whoever makes changes.
    async fn reload(&self) -> Result<(), AdminError> {
        // Read before the rest: what changes meanwhile is found the next time.
        let version = self.store.catalogue_version().await?;
        if version == self.version() {
            return Ok(());
        }
        let tenants = self.store.list_tenants().await?;
        *self.lock_tenants() =
            tenants.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect();
        let before = self.types.load_full();
        let mut types = Types::new();
        for stored in self.store.list_types().await? {
            let (tenant, name) = (stored.id_type.tenant(), stored.id_type.name());
            let known = before.get(tenant).and_then(|types| types.get(name));
            let same = |live: &&Arc<LiveType>| {
                live.stored().id == stored.id && live.stored().revision == stored.revision
            };
            let live = match known.filter(same) {
                Some(live) => Arc::clone(live),
                None => self.live(stored)?,
            };
            insert(&mut types, live);
        }
        self.types.store(Arc::new(types.clone()));
        for live in before.values().flat_map(HashMap::values) {
            if !is_in(&types, live) {
                live.close(&self.log).await;
            }
        }
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    /// Makes the pools of this deployment.
    pub(crate) fn pool_maker(&self) -> &PoolMaker {
        &self.pools
    }

    /// A type, retired or not.
    pub fn find(&self, tenant: &str, name: &str) -> Result<Arc<LiveType>, IssueError> {
        let types = self.types.load();
        types.get(tenant).and_then(|types| types.get(name)).cloned().ok_or_else(|| {
            IssueError::UnknownType { tenant: shortened(tenant), name: shortened(name) }
        })
    }

    /// A type by its number.
    pub(crate) fn by_id(&self, id: TypeId) -> Option<Arc<LiveType>> {
        let types = self.types.load();
        types.values().flat_map(HashMap::values).find(|live| live.stored().id == id).cloned()
    }

    /// Every type of a tenant, by name.
    pub(crate) fn of_tenant(&self, tenant: &str) -> Vec<Arc<LiveType>> {
        let types = self.types.load();
        let mut all: Vec<_> =
            types.get(tenant).into_iter().flat_map(|types| types.values().cloned()).collect();
        all.sort_by_cached_key(|live| live.label());
        all
    }

    /// Every type, by tenant and name.
    pub fn all(&self) -> Vec<Arc<LiveType>> {
        let types = self.types.load();
        let mut all: Vec<_> = types.values().flat_map(|types| types.values().cloned()).collect();
        all.sort_by_cached_key(|live| live.label());
        all
    }

    /// Makes a type, or changes it where that repeats and hides no ID.
    pub(crate) async fn put_type(&self, id_type: &IdType) -> Result<Put, AdminError> {
        let _one_at_a_time = self.changing.lock().await;
        // Other instances change types as well; whoever loses the race looks again.
        for _ in 0..RACES_MAX {
            let put = match self.find(id_type.tenant(), id_type.name()) {
                Err(_) => self.create(id_type).await.map(|()| Put::Created),
                Ok(live) => self.change(&live, id_type).await.map(|()| Put::Kept),
            };
            match put {
                Err(AdminError::Store(StoreError::Exists(_) | StoreError::Stale)) => {
                    self.reload().await?;
                }
                other => return other,
            }
        }
        Err(AdminError::Store(StoreError::Stale))
    }

    async fn create(&self, id_type: &IdType) -> Result<(), AdminError> {
        let sealed = self.new_sealed_key(id_type);
        let stored = self.store.create_type(id_type, &sealed, self.clock.now()).await?;
        let tenant = Tenant {
            name: stored.id_type.tenant().to_owned(),
            limits: TenantLimits::default(),
            created_at: stored.created_at,
        };
        self.publish(self.live(stored)?);
        self.lock_tenants().entry(tenant.name.clone()).or_insert(tenant);
        Ok(())
    }

    async fn change(&self, live: &LiveType, id_type: &IdType) -> Result<(), AdminError> {
        let old = live.stored();
        if old.id_type == *id_type && old.state == TypeState::Active {
            return Ok(());
        }
        let frozen = old.id_type.frozen_changes(id_type);
        let sealed_key = match (old.id_type.kind(), id_type.kind()) {
            (Kind::Random(_), Kind::Random(_)) => old.sealed_key.clone(),
            _ => self.new_sealed_key(id_type),
        };
        let changed = StoredType {
            id_type: id_type.clone(),
            sealed_key,
            state: TypeState::Active,
            ..old.clone()
        };
        let only_if_unused = !frozen.is_empty();
        match self
            .store
            .change_type(old.id, old.revision, id_type, &changed.sealed_key, only_if_unused)
            .await?
        {
            Change::TypeIsUsed => Err(AdminError::Frozen(frozen)),
            Change::Done(revision) => {
                // The old pool gives back before the new one draws, so that nothing is missed.
                live.close(&self.log).await;
                self.publish(self.live(StoredType { revision, ..changed })?);
                Ok(())
            }
        }
    }

    /// A key for a type that needs one, sealed.
    fn new_sealed_key(&self, id_type: &IdType) -> Vec<u8> {
        match id_type.kind() {
            Kind::Random(_) => {
                let key = MasterKey::new_type_key(&*self.entropy);
                self.master_key.seal(&key, &id_type.label(), &*self.entropy)
            }
            _ => Vec::new(),
        }
    }

    /// Deletes a type that was never used, retires any other.
    pub(crate) async fn remove_type(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<Removal, AdminError> {
        let _one_at_a_time = self.changing.lock().await;
        self.reload().await?;
        let live = self.find(tenant, name).map_err(|_| AdminError::NotFound("ID type"))?;
        let removal = self.store.remove_type(live.stored().id).await?;
        live.close(&self.log).await;
        match removal {
            Removal::Retired => {
                let state = TypeState::Retired;
                let revision = live.stored().revision + 1;
                let stored = StoredType { state, revision, used: true, ..live.stored().clone() };
                self.publish(self.live(stored)?);
            }
            Removal::Deleted => {
                let mut types = Types::clone(&self.types.load());
                if let Some(types) = types.get_mut(tenant) {
                    types.remove(name);
                }
                self.types.store(Arc::new(types));
            }
        }
        Ok(removal)
    }

    /// Every tenant, by name.
    pub fn tenants(&self) -> Vec<Tenant> {
        let mut tenants: Vec<_> = self.lock_tenants().values().cloned().collect();
        tenants.sort_by(|a, b| a.name.cmp(&b.name));
        tenants
    }

    /// One tenant.
    pub fn tenant(&self, name: &str) -> Option<Tenant> {
        self.lock_tenants().get(name).cloned()
    }

    /// Makes a tenant or changes its settings.
    pub(crate) async fn put_tenant(
        &self,
        name: &str,
        limits: TenantLimits,
    ) -> Result<Put, AdminError> {
        idgen::spec::valid_name("tenant", name)?;
        let _one_at_a_time = self.changing.lock().await;
        self.reload().await?;
        let known = self.tenant(name);
        let put = if known.is_some() { Put::Kept } else { Put::Created };
        let created_at = known.map_or_else(|| self.clock.now(), |tenant| tenant.created_at);
        let tenant = Tenant { name: name.to_owned(), limits, created_at };
        self.store.put_tenant(&tenant).await?;
        self.lock_tenants().insert(name.to_owned(), tenant);
        Ok(put)
    }

    /// Deletes a tenant without types.
    pub(crate) async fn remove_tenant(&self, name: &str) -> Result<(), AdminError> {
        let _one_at_a_time = self.changing.lock().await;
        self.store.remove_tenant(name).await?;
        self.lock_tenants().remove(name);
        Ok(())
    }

    fn live(&self, stored: StoredType) -> Result<Arc<LiveType>, AdminError> {
        let label = stored.id_type.label();
        let key = match stored.id_type.kind() {
            Kind::Random(_) => self
                .master_key
                .open(&stored.sealed_key, &label)
                .map_err(|_| AdminError::MasterKey(label.clone()))?,
            _ => TypeKey::new([0; TypeKey::BYTES]),
        };
        let format = Format::new(&stored.id_type, &key);
        Ok(Arc::new(LiveType::new(stored, format, &self.pools)))
    }

    fn publish(&self, live: Arc<LiveType>) {
        let mut types = Types::clone(&self.types.load());
        insert(&mut types, live);
        self.types.store(Arc::new(types));
    }

    fn lock_tenants(&self) -> std::sync::MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().expect("no code panics while it holds the tenants")
    }
}

/// A name that somebody made up may have any length; an answer should not.
fn shortened(name: &str) -> String {
    let mut chars = name.chars();
    let short: String = chars.by_ref().take(64).collect();
    if chars.next().is_some() { short + "…" } else { short }
}

fn insert(types: &mut Types, live: Arc<LiveType>) {
    let id_type = &live.stored().id_type;
    let (tenant, name) = (id_type.tenant().to_owned(), id_type.name().to_owned());
    types.entry(tenant).or_default().insert(name, live);
}

/// Whether this very type is at work.
fn is_in(types: &Types, live: &Arc<LiveType>) -> bool {
    let id_type = &live.stored().id_type;
    let found = types.get(id_type.tenant()).and_then(|types| types.get(id_type.name()));
    found.is_some_and(|found| Arc::ptr_eq(found, live))
}
