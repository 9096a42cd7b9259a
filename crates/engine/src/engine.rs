//! Everything that the service does, as one thing that the server holds.

use std::sync::Arc;
use std::time::Duration;

use idgen::error::ParseError;
use idgen::format::Format;
use storage::{Noticeboard, Reading, Store};
use tokio::sync::watch;
use tracing::{error, info};

use crate::answers::Answers;
use crate::audit::Audit;
use crate::batches::{BatchSettings, Batches};
use crate::catalogue::Catalogue;
use crate::codes::Codes;
use crate::documents::Documents;
use crate::error::IssueError;
use crate::gaps::Gaps;
use crate::issuing::{Issuer, IssuingSettings, SharedPoolSet};
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
    /// What instances tell each other beside the store; none if they tell nothing.
    pub board: Option<Arc<dyn Noticeboard>>,
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
    /// How long what comes along with scans is kept; not at all where it is zero.
    pub keep_contexts: Duration,
    /// Longest time that a request can take.
    pub request_time_max: Duration,
    /// Requests per second of keys that have no limit of their own.
    pub default_rate: Option<u32>,
    /// How long an instance may be silent before others take it for gone.
    pub lease: Duration,
    /// How often shared pools are looked at, in case that a refill went wrong.
    pub pool_check: Duration,
    /// How often serials are looked for that nothing explains.
    pub reconcile: Duration,
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
    /// Gives documents their numbers.
    pub documents: Arc<Documents>,
    /// Tells gaps.
    pub gaps: Arc<Gaps>,
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
        self.documents.close().await;
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
