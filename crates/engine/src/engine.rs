//! Everything that the service does, as one thing that the server holds.

use std::sync::Arc;
use std::time::Duration;

use idgen::error::ParseError;
use idgen::format::{Format, Parsed};
use storage::{BatchId, Gap, Issue, IssueRecord, Reading, Store};
use tokio::sync::watch;
use tracing::{error, info};

use crate::answers::Answers;
use crate::audit::Audit;
use crate::batches::{BatchSettings, Batches};
use crate::catalogue::Catalogue;
use crate::codes::Codes;
use crate::error::IssueError;
use crate::issuing::{Issuer, IssuingSettings, SharedPoolSet, Supply, node_period};
use crate::keys::Keys;
use crate::live_type::LiveType;
use crate::membership::Membership;
use crate::metrics::EngineMetrics;
use crate::outbox::{Carrier, Outbox, OutboxSettings};
use crate::sealing::MasterKey;
use crate::surroundings::{Clock, Entropy};
use crate::webhooks::Webhooks;

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
    /// Makes requests to webhooks.
    pub carrier: Arc<dyn Carrier>,
}

/// Settings of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// Of issuing.
    pub issuing: IssuingSettings,
    /// Of batches.
    pub batches: BatchSettings,
    /// Of what is delivered to others.
    pub outbox: OutboxSettings,
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
    pub(crate) store: Arc<dyn Store>,
    /// The types and tenants.
    pub catalogue: Arc<Catalogue>,
    /// Issues IDs.
    pub issuer: Arc<Issuer>,
    /// Makes codes in batches.
    pub batches: Arc<Batches>,
    /// Verifies codes.
    pub codes: Arc<Codes>,
    /// Whom to tell what happened.
    pub webhooks: Webhooks,
    /// What is delivered to others.
    pub outbox: Arc<Outbox>,
    /// Who has done what.
    pub audit: Audit,
    /// The API keys.
    pub keys: Arc<Keys>,
    /// Answers to requests with an idempotency key.
    pub answers: Arc<Answers>,
    /// What is counted.
    pub metrics: Arc<EngineMetrics>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) shared_pools: SharedPoolSet,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) tasks: std::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Engine {
    /// What there is to measure in the stores.
    pub fn readings(&self) -> Vec<Reading> {
        let shared = [&self.shared_pools.ids, &self.shared_pools.serials];
        let mut readings = self.store.readings();
        readings.extend(shared.into_iter().flatten().flat_map(|pools| pools.readings()));
        readings
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

impl Drop for Engine {
    /// An engine that is dropped without a shutdown ends like a process that is killed.
    fn drop(&mut self) {
        if let Ok(tasks) = self.tasks.get_mut() {
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }
}
