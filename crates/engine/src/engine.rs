//! Everything that the service does, as one thing that the server holds.

use std::sync::Arc;
use std::time::Duration;

use idgen::error::ParseError;
use idgen::format::{Format, Parsed};
use idgen::spec::IdType;
use storage::{BatchId, Gap, Issue, IssueRecord, Reading, Removal, Store, StoreError};
use tokio::sync::watch;
use tracing::{error, info};

use crate::answers::Answers;
use crate::batches::{BatchSettings, Batches, Worker};
use crate::catalogue::{Catalogue, Put};
use crate::codes::Codes;
use crate::duties::{self, Duty};
use crate::error::{AdminError, IssueError};
use crate::issuing::{
    Issuer, IssuingSettings, LogWriter, PoolMaker, SharedPoolSet, SnowflakeParts, Supply,
    node_period,
};
use crate::keys::{KeyOrder, Keys, LiveKey};
use crate::live_type::LiveType;
use crate::membership::Membership;
use crate::metrics::EngineMetrics;
use crate::sealing::MasterKey;
use crate::surroundings::{Clock, Entropy};

/// How often expired answers are swept out.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// How often an instance looks for changes that others have made. They have to reach it within a
/// second.
const FOLLOW_EVERY: Duration = Duration::from_millis(300);

/// How often stock that nobody takes is looked for.
const IDLE_EVERY: Duration = Duration::from_millis(500);

/// What the engine is built from.
pub struct EngineParts {
    /// Where everything is remembered.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// What the keys of ID types are sealed with.
    pub master_key: MasterKey,
    /// A name that no other running process has.
    pub instance: String,
    /// Pools that this instance shares with others; none if it is alone.
    pub shared_pools: SharedPoolSet,
}

/// Settings of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// Of issuing.
    pub issuing: IssuingSettings,
    /// Of batches.
    pub batches: BatchSettings,
    /// How long answers to requests with an idempotency key are kept.
    pub keep_answers: Duration,
    /// Longest time that a request can take.
    pub request_time_max: Duration,
    /// Requests per second of keys that have no limit of their own.
    pub default_rate: Option<u32>,
    /// How long an instance may be silent before others take it for gone.
    pub lease: Duration,
    /// How often shared pools are looked at, in case that a refill went wrong.
    pub pool_check: Duration,
}

/// What became of a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialHistory {
    /// Issues that contain it; more than one only if the type starts again.
    pub issuances: Vec<Issuance>,
    /// Gaps that contain it.
    pub gaps: Vec<Gap>,
    /// The batch that it was ordered with.
    pub batch: Option<BatchId>,
}

/// An issue, with the name of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuance {
    /// The record.
    pub record: IssueRecord,
    /// The public part of the key, if it was one.
    pub key: Option<String>,
    /// What people call the key.
    pub key_name: Option<String>,
}

/// The service, without HTTP.
pub struct Engine {
    store: Arc<dyn Store>,
    /// The types and tenants.
    pub catalogue: Arc<Catalogue>,
    /// Issues IDs.
    pub issuer: Arc<Issuer>,
    /// Makes codes in batches.
    pub batches: Arc<Batches>,
    /// Verifies codes.
    pub codes: Arc<Codes>,
    /// The API keys.
    pub keys: Arc<Keys>,
    /// Answers to requests with an idempotency key.
    pub answers: Arc<Answers>,
    /// What is counted.
    pub metrics: Arc<EngineMetrics>,
    membership: Arc<Membership>,
    shared_pools: SharedPoolSet,
    stop: watch::Sender<bool>,
    tasks: std::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Engine {
    /// Accounts for what a crash left behind, loads the catalogue and starts the background work.
    pub async fn start(parts: EngineParts, settings: EngineSettings) -> Result<Self, AdminError> {
        let EngineParts { store, clock, entropy, master_key, instance, shared_pools } = parts;
        let membership = Membership::join(
            Arc::clone(&store),
            Arc::clone(&clock),
            instance.clone(),
            settings.lease,
        )
        .await?;
        let losses = membership.close_losses_now().await?;
        let log = LogWriter::new(Arc::clone(&store), Arc::clone(&clock), instance.clone());
        let snowflakes = SnowflakeParts {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            log: Arc::downgrade(&log),
            membership: Arc::clone(&membership),
        };
        let sizes = settings.issuing.pool_sizes;
        let watermark = settings.issuing.watermark;
        let pools = PoolMaker { shared: shared_pools.clone(), snowflakes, sizes, watermark };
        let catalogue = Arc::new(
            Catalogue::load(
                Arc::clone(&store),
                Arc::clone(&clock),
                Arc::clone(&entropy),
                master_key,
                pools,
                Arc::clone(&log),
            )
            .await?,
        );
        let keys = Keys::load(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&entropy),
            settings.default_rate,
        )
        .await?;
        keys.set_tenant_rates(&catalogue.tenants());
        let answers = Arc::new(Answers::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            instance.clone(),
            settings.keep_answers,
            settings.request_time_max,
        ));
        let metrics = Arc::new(EngineMetrics::default());
        let batches = Batches::new(
            Arc::clone(&store),
            Arc::clone(&catalogue),
            Arc::clone(&clock),
            Arc::clone(&metrics),
            settings.batches,
        );
        let codes = Codes::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&metrics));
        let issuer = Arc::new(Issuer::new(
            Arc::clone(&store),
            clock,
            Arc::clone(&membership),
            Arc::clone(&catalogue),
            log,
            Arc::clone(&metrics),
            settings.issuing,
        ));
        if !losses.gone.is_empty() {
            issuer.suspect_losses();
        }
        let (stop, _) = watch::channel(false);
        let engine = Self {
            store,
            catalogue,
            issuer,
            batches,
            codes,
            keys: Arc::new(keys),
            answers,
            metrics,
            membership,
            shared_pools,
            stop,
            tasks: std::sync::Mutex::default(),
        };
        engine.start_duties(settings.pool_check);
        engine.batches.release_lost(&instance).await?;
        engine.start_workers(settings.batches.workers, &entropy, &instance);
        Ok(engine)
    }

    /// Starts what goes on beside requests.
    fn start_duties(&self, pool_check: Duration) {
        let issuer = Arc::clone(&self.issuer);
        let stopped = self.stop.subscribe();
        let mut tasks = vec![tokio::spawn(async move { issuer.write_log(stopped).await })];
        let mut every = |interval, duty| {
            tasks.push(tokio::spawn(duties::run(duty, interval, self.stop.subscribe())));
        };
        every(PURGE_EVERY, Duty::PurgeAnswers(Arc::clone(&self.answers)));
        every(
            self.membership.renewal_interval(),
            Duty::KeepLease {
                membership: Arc::clone(&self.membership),
                issuer: Arc::clone(&self.issuer),
            },
        );
        if self.shared_pools.in_company() {
            every(
                self.membership.renewal_interval(),
                Duty::ReleaseChunks {
                    batches: Arc::clone(&self.batches),
                    instance: self.membership.instance().to_owned(),
                },
            );
            every(
                FOLLOW_EVERY,
                Duty::FollowCatalogue {
                    catalogue: Arc::clone(&self.catalogue),
                    keys: Arc::clone(&self.keys),
                },
            );
            every(IDLE_EVERY, Duty::ReturnIdleStock(Arc::clone(&self.issuer)));
            every(pool_check, Duty::CheckLevels(Arc::clone(&self.issuer)));
        }
        self.tasks.lock().expect("nobody panics with the tasks").extend(tasks);
    }

    /// Starts what makes codes.
    fn start_workers(&self, count: usize, entropy: &Arc<dyn Entropy>, instance: &str) {
        let workers = (0..count).map(|_| {
            let batches = Arc::clone(&self.batches);
            let worker = Worker::new(batches, Arc::clone(entropy), instance.to_owned());
            tokio::spawn(worker.run(self.stop.subscribe()))
        });
        self.tasks.lock().expect("nobody panics with the tasks").extend(workers);
    }

    /// What there is to measure in the stores.
    pub fn readings(&self) -> Vec<Reading> {
        let shared = [&self.shared_pools.ids, &self.shared_pools.serials];
        let mut readings = self.store.readings();
        readings.extend(shared.into_iter().flatten().flat_map(|pools| pools.readings()));
        readings
    }

    /// Makes a type or changes it.
    pub async fn put_type(self: &Arc<Self>, id_type: IdType) -> Result<Put, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.catalogue.put_type(&id_type).await }).await
    }

    /// Deletes or retires a type.
    pub async fn remove_type(
        self: &Arc<Self>,
        tenant: String,
        name: String,
    ) -> Result<Removal, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.catalogue.remove_type(&tenant, &name).await }).await
    }

    /// Makes a tenant or changes its limit.
    pub async fn put_tenant(
        self: &Arc<Self>,
        name: String,
        rate: Option<u32>,
    ) -> Result<Put, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move {
            let put = engine.catalogue.put_tenant(&name, rate).await?;
            engine.keys.set_tenant_rates(&engine.catalogue.tenants());
            Ok(put)
        })
        .await
    }

    /// Deletes a tenant without types.
    pub async fn remove_tenant(self: &Arc<Self>, name: String) -> Result<(), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move {
            engine.catalogue.remove_tenant(&name).await?;
            engine.keys.set_tenant_rates(&engine.catalogue.tenants());
            Ok(())
        })
        .await
    }

    /// Makes an API key. The token is shown once and is never stored.
    pub async fn create_key(
        self: &Arc<Self>,
        order: KeyOrder,
    ) -> Result<(Arc<LiveKey>, String), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.keys.create(order).await }).await
    }

    /// Revokes an API key by its public part. False if it was revoked before.
    pub async fn revoke_key(self: &Arc<Self>, short: String) -> Result<bool, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.keys.revoke(&short).await }).await
    }

    /// Checks the structure of an ID.
    pub fn validate(&self, live: &LiveType, id: &str) -> Result<(), ParseError> {
        match live.format() {
            Format::Random(format) => format.shape().validate(id),
            other => other.parse(id).map(drop),
        }
    }

    /// What became of a serial.
    pub async fn history(
        &self,
        live: &LiveType,
        period: Option<&str>,
        serial: u64,
    ) -> Result<SerialHistory, IssueError> {
        self.issuer.flush_log().await?;
        let type_id = live.stored().id;
        // The snowflakes of several nodes interleave: a gap of one spans those of the others.
        let node = match live.format().parse(&serial.to_string()) {
            Ok(Parsed::Snowflake(parts)) => Some(node_period(parts.node)),
            _ => None,
        };
        let period = period.or(node.as_deref());
        let records = self.store.find_issues(type_id, period, serial).await?;
        let gaps = self.store.find_gaps(type_id, period, serial).await?;
        let keys = self.keys.all();
        let issuances = records.into_iter().map(|record| {
            let key = keys.iter().find(|key| key.stored().id == record.issue.key_id);
            Issuance {
                record,
                key: key.map(|key| key.stored().key.short.clone()),
                key_name: key.map(|key| key.stored().key.name.clone()),
            }
        });
        let mut issuances: Vec<_> = issuances.collect();
        if issuances.is_empty() {
            issuances.extend(self.unlogged(live, serial).await?);
        }
        let batch = self.codes.batch_of(live, serial).await?;
        Ok(SerialHistory { issuances, gaps, batch })
    }

    /// An issue that was never logged, because the instance was gone before: a shared pool that
    /// remembers what was taken still knows when, but not who asked.
    async fn unlogged(&self, live: &LiveType, serial: u64) -> Result<Option<Issuance>, IssueError> {
        let (Some(pool), Format::Random(format)) = (live.pool(), live.format()) else {
            return Ok(None);
        };
        let Supply::Shared(shared) = &pool.supply else { return Ok(None) };
        let Ok(id) = format.render(serial) else { return Ok(None) };
        Ok(shared.taken_at(&id).await?.map(|taken_at| {
            let at_ms = taken_at.as_millisecond();
            let issue = Issue { first: serial, last: serial, key_id: 0, at_ms };
            let record = IssueRecord { period: String::new(), issue };
            Issuance { record, key: None, key_name: None }
        }))
    }

    /// The serial behind an ID. A snowflake is its own serial.
    pub fn serial_of(&self, live: &LiveType, id: &str) -> Result<u64, ParseError> {
        Ok(match live.format().parse(id)? {
            Parsed::Sequence(serial, _) | Parsed::Random(serial) => serial,
            Parsed::Snowflake(_) => {
                let digits: String = id.chars().filter(char::is_ascii_digit).collect();
                digits.parse().map_err(|_| ParseError::OutOfRange)?
            }
        })
    }

    /// Whether the store answers and can write.
    pub async fn check(&self) -> Result<(), IssueError> {
        Ok(self.store.check().await?)
    }

    /// Stops the background work, gives back what was not issued and closes the store. Requests
    /// must have ended before.
    pub async fn shut_down(&self) {
        self.stop.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks.lock().expect("nobody panics with the tasks"));
        for task in tasks {
            if task.await.is_err() {
                error!("a background task panicked");
            }
        }
        self.issuer.shut_down().await;
        self.membership.leave().await;
        for pools in [&self.shared_pools.ids, &self.shared_pools.serials].into_iter().flatten() {
            pools.close().await;
        }
        if let Err(problem) = self.store.close().await {
            error!("cannot close the store: {problem}");
        }
        info!("the engine has stopped");
    }
}

/// Runs a change in a task of its own. A client that goes away in the middle must not leave what is
/// in memory and what is stored different.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, AdminError>> + Send + 'static,
) -> Result<T, AdminError> {
    tokio::spawn(change).await.unwrap_or_else(|_| {
        let reason = "the change was interrupted".to_owned();
        Err(AdminError::Store(StoreError::Unavailable(reason)))
    })
}

impl Drop for Engine {
    /// An engine that is dropped without a shutdown ends like a process that is killed.
    fn drop(&mut self) {
        if let Ok(tasks) = self.tasks.get_mut() {
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }
}
