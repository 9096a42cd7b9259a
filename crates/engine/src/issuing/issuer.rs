//! The front of the engine: finds the type, takes from its pool, starts what has to follow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idgen::format::Format;
use storage::Store;
use tracing::{error, info};

use super::log::LogWriter;
use super::pool::{Pool, PoolView, Take};
use super::refill::{RefillSettings, Refiller};
use super::stock::{IdList, Taken, Taker};
use crate::catalogue::Catalogue;
use crate::error::IssueError;
use crate::live_type::{Line, LiveType};
use crate::metrics::EngineMetrics;
use crate::surroundings::Clock;

/// Spaces with no more serials left than this are counted, not estimated.
const COUNT_LEFT_MAX: u64 = 20_000;

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

/// What can be said about a pool.
#[derive(Debug, Clone)]
pub struct PoolReport {
    /// The tenant.
    pub tenant: String,
    /// The type.
    pub type_name: String,
    /// The counter within the type.
    pub period: String,
    /// IDs that are ready.
    pub level: u64,
    /// IDs that a refill aims for.
    pub size: u64,
    /// The level at which it is refilled.
    pub watermark: u64,
    /// IDs per second that are taken.
    pub burn_per_second: f64,
    /// IDs that are left, those in the pool included.
    pub valid_left: u64,
    /// Whether `valid_left` was counted, not estimated.
    pub exact: bool,
    /// Share of the space that is drawn.
    pub used_ratio: f64,
    /// At the present rate; none if nothing is taken.
    pub days_left: Option<f64>,
    /// Whether the space is used up.
    pub exhausted: bool,
}

/// Issues IDs.
pub struct Issuer {
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    catalogue: Arc<Catalogue>,
    refiller: Arc<Refiller>,
    log: Arc<LogWriter>,
    metrics: Arc<EngineMetrics>,
    settings: IssuingSettings,
    /// Pools on their way out, to be waited for.
    retiring: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Issuer {
    /// Puts the parts together and loads the catalogue.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        instance: String,
        catalogue: Arc<Catalogue>,
        log: Arc<LogWriter>,
        metrics: Arc<EngineMetrics>,
        settings: IssuingSettings,
    ) -> Self {
        let refiller = Refiller::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            instance,
            Arc::clone(&log),
            Arc::clone(&metrics),
            RefillSettings { sizes: settings.pool_sizes, at_once: settings.refills_at_once },
        );
        let retiring = Mutex::default();
        Self { clock, store, catalogue, refiller, log, metrics, settings, retiring }
    }

    /// Issues IDs: all that were asked for, or none.
    pub async fn issue(&self, request: IssueRequest<'_>) -> Result<IdList, IssueError> {
        let IssueRequest { tenant, type_name, count, key_id } = request;
        let max = self.settings.count_max;
        let size = match usize::try_from(count) {
            Ok(size) if (1..=max).contains(&count) => size,
            _ => return Err(IssueError::Count { count, max }),
        };
        let ids = match self.issue_from(tenant, type_name, size, key_id).await {
            // The type was changed meanwhile. Its new pool is there when the change is done.
            Err(IssueError::Closed) => {
                self.catalogue.settled().await;
                self.issue_from(tenant, type_name, size, key_id).await?
            }
            result => result?,
        };
        self.metrics.ids_issued.inc_by(count);
        Ok(ids)
    }

    async fn issue_from(
        &self,
        tenant: &str,
        type_name: &str,
        count: usize,
        key_id: i64,
    ) -> Result<IdList, IssueError> {
        let live = self.catalogue.find(tenant, type_name)?;
        match &live.line {
            Line::Random(pool) => Ok(self.take(pool, count, key_id).await?.ids),
            Line::Sequence(line) => {
                let (today, over) =
                    line.today(live.stored(), self.refiller.size_min(), &*self.clock)?;
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

    async fn take(&self, pool: &Arc<Pool>, count: usize, key_id: i64) -> Result<Taken, IssueError> {
        let taker = Taker { key_id, at_ms: self.clock.now_ms() };
        let (take, refill) = pool.take(count, taker, self.settings.watermark, &self.log)?;
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

    /// Fills the pools of every type ahead of the first request.
    pub fn warm_up(&self) {
        for live in self.catalogue.all() {
            if let Some(pool) = live.pool()
                && pool.start_refill()
            {
                self.refiller.spawn(pool);
            }
        }
    }

    /// Gives up the pool of a period that is over, in the background.
    fn retire(&self, pool: Arc<Pool>) {
        let log = Arc::clone(&self.log);
        let task = tokio::spawn(async move { log.give_back(&pool).await });
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

    /// The state of every pool, or of one tenant's.
    pub async fn pools(&self, tenant: Option<&str>) -> Result<Vec<PoolReport>, IssueError> {
        let mut reports = Vec::new();
        for live in self.catalogue.all() {
            let matches = tenant.is_none_or(|tenant| live.stored().id_type.tenant() == tenant);
            if let Some(pool) = live.pool().filter(|_| matches) {
                reports.push(self.report(&live, &pool).await?);
            }
        }
        Ok(reports)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates for people"
    )]
    async fn report(&self, live: &LiveType, pool: &Pool) -> Result<PoolReport, IssueError> {
        let view = pool.view(self.clock.now_ms());
        let (start, end) = pool.bounds;
        let next = match view.next_serial {
            Some(next) => next,
            None => self.stored_position(pool).await?,
        };
        let (left, exact) = valid_left(live, &view, next, end);
        let days_left =
            (view.burn_per_second > 0.001).then(|| left as f64 / view.burn_per_second / 86_400.0);
        Ok(PoolReport {
            tenant: live.stored().id_type.tenant().to_owned(),
            type_name: live.stored().id_type.name().to_owned(),
            period: pool.period.clone(),
            level: view.level as u64,
            size: view.target as u64,
            watermark: (view.target as f64 * (1.0 - self.settings.watermark)) as u64,
            burn_per_second: view.burn_per_second,
            valid_left: left,
            exact,
            used_ratio: match view.next_serial {
                Some(_) => view.used_ratio,
                None => (next - start) as f64 / (end - start) as f64,
            },
            days_left,
            exhausted: left == 0,
        })
    }

    /// Where a counter stands that this instance has not drawn from yet.
    async fn stored_position(&self, pool: &Pool) -> Result<u64, IssueError> {
        let counters = self.store.counters(pool.type_id).await?;
        let found = counters.into_iter().find(|(period, _)| *period == pool.period);
        Ok(found.map_or(pool.bounds.0, |(_, next)| next))
    }
}

/// IDs left in the pool and beyond it, and whether that was counted.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates for people"
)]
fn valid_left(live: &LiveType, view: &PoolView, next: u64, end: u64) -> (u64, bool) {
    let (level, serials) = (view.level as u64, end.saturating_sub(next));
    match live.format() {
        Format::Random(format) if format.shape().has_filters() => {
            if serials <= COUNT_LEFT_MAX {
                let mut left = 0;
                format.for_each(next..end, |_, _| left += 1);
                (level + left, true)
            } else {
                (level + (serials as f64 * view.acceptance) as u64, false)
            }
        }
        _ => (level + serials, true),
    }
}
