//! The front of the engine: finds the type, takes from its pool, starts what has to follow.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage::Store;
use tracing::{error, info, warn};

use super::log::LogWriter;
use super::maker::PoolMaker;
use super::pool::{Pool, Take};
use super::refill::{RefillSettings, Refiller};
use super::stock::{IdList, Taken, Taker};
use crate::catalogue::Catalogue;
use crate::error::IssueError;
use crate::live_type::Line;
use crate::membership::Membership;
use crate::metrics::EngineMetrics;
use crate::surroundings::{Clock, Common};

/// Settings of issuing.
#[derive(Debug, Clone, Copy)]
pub struct IssuingSettings {
    /// Most IDs of one request.
    pub count_max: u64,
    /// Smallest and largest size of a pool.
    pub pool_sizes: (usize, usize),
    /// The share of a pool that may be used up before it is refilled.
    pub watermark: f64,
    /// Refills at once, across all pools.
    pub refills_at_once: usize,
    /// Longest wait of a request for an empty pool.
    pub wait_max: Duration,
    /// How often the issue log is written.
    pub log_flush: Duration,
}

/// An order for IDs.
#[derive(Debug, Clone, Copy)]
pub struct IssueRequest<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Of which type.
    pub type_name: &'a str,
    /// How many.
    pub count: u64,
    /// Who asks: the number of the API key, or 0.
    pub key_id: i64,
}

/// Issues IDs.
pub struct Issuer {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<dyn Store>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) refiller: Arc<Refiller>,
    pub(super) log: Arc<LogWriter>,
    pub(super) membership: Arc<Membership>,
    metrics: Arc<EngineMetrics>,
    pub(super) settings: IssuingSettings,
    /// Whether shared pools are filled as far as they have to be before the first request.
    pub(super) warm: AtomicBool,
    /// Whether serials may have been lost on their way to or from shared pools.
    pub(super) losses_suspected: Arc<AtomicBool>,
    /// Pools on their way out, to be waited for.
    retiring: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Issuer {
    /// Puts the parts together and loads the catalogue.
    pub(crate) fn new(
        common: &Common,
        membership: Arc<Membership>,
        catalogue: Arc<Catalogue>,
        log: Arc<LogWriter>,
        settings: IssuingSettings,
    ) -> Self {
        let Common { store, clock, metrics, .. } = common.clone();
        // Whoever was here before may have ended while it was still looking.
        let losses_suspected = Arc::new(AtomicBool::new(true));
        let refiller = Refiller::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            membership.instance().to_owned(),
            Arc::clone(&log),
            Arc::clone(&metrics),
            RefillSettings {
                sizes: settings.pool_sizes,
                at_once: settings.refills_at_once,
                watermark: settings.watermark,
            },
            Arc::clone(&losses_suspected),
        );
        Self {
            clock,
            store,
            catalogue,
            refiller,
            log,
            membership,
            metrics,
            settings,
            warm: AtomicBool::new(false),
            losses_suspected,
            retiring: Mutex::default(),
        }
    }

    /// Issues IDs: all that were asked for, or none.
    pub async fn issue(self: &Arc<Self>, request: IssueRequest<'_>) -> Result<IdList, IssueError> {
        let IssueRequest { tenant, type_name, count, key_id } = request;
        let max = self.settings.count_max;
        let size = match usize::try_from(count) {
            Ok(size) if (1..=max).contains(&count) => size,
            _ => return Err(IssueError::Count { count, max }),
        };
        let ids = match self.issue_from(tenant, type_name, size, key_id).await {
            // The type was changed meanwhile, here or by another instance.
            Err(IssueError::Closed) => {
                Box::pin(self.catalogue.refresh()).await?;
                Box::pin(self.issue_from(tenant, type_name, size, key_id)).await?
            }
            result => result?,
        };
        self.metrics.ids_issued.inc_by(count);
        Ok(ids)
    }

    async fn issue_from(
        self: &Arc<Self>,
        tenant: &str,
        type_name: &str,
        count: usize,
        key_id: i64,
    ) -> Result<IdList, IssueError> {
        let live = self.catalogue.find(tenant, type_name)?;
        match &live.line {
            Line::Random(pool) => Ok(self.take(pool, count, key_id).await?.ids),
            Line::Sequence(line) => {
                let (today, over) = line.today(live.stored(), self.pool_maker())?;
                if let Some(pool) = over {
                    self.retire(pool);
                }
                let taken = self.take(&today.pool, count, key_id).await?;
                Ok(today.write(&taken.serials))
            }
            Line::Snowflake(line) => line.take(count, key_id).await,
            Line::Closed(reason) => Err(reason.clone()),
        }
    }

    pub(super) fn pool_maker(&self) -> &PoolMaker {
        self.catalogue.pool_maker()
    }

    async fn take(&self, pool: &Arc<Pool>, count: usize, key_id: i64) -> Result<Taken, IssueError> {
        let taker = Taker { key_id, at_ms: self.clock.now_ms() };
        let (take, refill) = pool.take(count, taker, &self.log)?;
        if refill {
            self.refiller.spawn(Arc::clone(pool));
        }
        match take {
            Take::Now(taken) => Ok(taken),
            Take::Later(answer) => {
                self.metrics.requests_waited.inc();
                match tokio::time::timeout(self.settings.wait_max, answer).await {
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) | Err(_) => Err(IssueError::PoolEmpty),
                }
            }
        }
    }

    /// Gives up the pool of a period that is over, in the background.
    fn retire(self: &Arc<Self>, pool: Arc<Pool>) {
        let issuer = Arc::clone(self);
        let task = tokio::spawn(async move {
            issuer.log.give_back(&pool).await;
            if let Err(problem) = issuer.discard_shared(&pool).await {
                let label = &pool.label;
                warn!(pool = label, "cannot give up the last period of {label}: {problem}");
            }
        });
        let mut retiring = self.retiring.lock().expect("nobody panics with the list");
        retiring.retain(|task| !task.is_finished());
        retiring.push(task);
    }

    /// Writes the issue log until told to stop. Runs as a task of its own.
    pub async fn write_log(&self, mut stop: tokio::sync::watch::Receiver<bool>) {
        let mut failing = false;
        while !*stop.borrow() {
            tokio::select! {
                () = tokio::time::sleep(self.settings.log_flush) => {}
                _ = stop.changed() => {}
            }
            match self.log.flush().await {
                Ok(()) => failing = false,
                Err(problem) => {
                    self.metrics.log_failures.inc();
                    // Said once, not at every attempt.
                    if !std::mem::replace(&mut failing, true) {
                        error!("cannot write the issue log: {problem}");
                    }
                }
            }
        }
    }

    /// Writes what was handed out before the call to the issue log.
    pub async fn flush_log(&self) -> storage::Result<()> {
        self.log.flush().await
    }

    /// Gives every pool's rest back. Nothing is issued afterwards.
    pub async fn shut_down(&self) {
        // A draw under way would stand between a pool's rest and the counter.
        self.refiller.stop().await;
        let retiring = std::mem::take(&mut *self.retiring.lock().expect("nobody panics with it"));
        for task in retiring {
            let _ = task.await;
        }
        let types = self.catalogue.all();
        for live in &types {
            live.close(&self.log).await;
        }
        if let Err(problem) = self.log.flush().await {
            error!("cannot write the issue log: {problem}");
        }
        info!("gave back what {} ID types had drawn ahead", types.len());
    }
}
