//! Writing the issue log, in groups, behind the requests.

use std::sync::{Arc, Mutex};

use storage::{GapReason, GivenBack, IssueGroup, Items, Span, Store, StoreError, pool_holder};
use tracing::{debug, error};

use super::pool::Pool;
use super::snowflakes::SnowflakeLine;
use super::stock::Rest;
use super::supply::{SharedSupply, Supply};
use crate::surroundings::Clock;

/// What the store has to be told.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// What was handed out.
    pub(crate) groups: Vec<IssueGroup>,
    /// What left a shared pool and is still here.
    pub(crate) held: Vec<Span>,
}

/// Something that hands out IDs and keeps account of them until it is asked.
pub(crate) trait Accountable: Send + Sync {
    /// What happened since the last call.
    fn drain_log(&self) -> Account;
}

impl Accountable for Pool {
    fn drain_log(&self) -> Account {
        Self::drain_log(self)
    }
}

/// Collects what was handed out and writes it.
pub(crate) struct LogWriter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: String,
    /// Those with something to write. Each is in here at most once.
    queue: Mutex<Vec<Arc<dyn Accountable>>>,
    /// What could not be written yet. Held while writing, so that groups stay in order.
    unwritten: tokio::sync::Mutex<Account>,
}

impl LogWriter {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, instance: String) -> Arc<Self> {
        let (queue, unwritten) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { store, clock, instance, queue, unwritten })
    }

    pub(crate) fn enqueue(&self, source: Arc<dyn Accountable>) {
        self.lock_queue().push(source);
    }

    /// Writes everything that was handed out before the call.
    pub(crate) async fn flush(&self) -> storage::Result<()> {
        let mut unwritten = self.unwritten.lock().await;
        let sources = std::mem::take(&mut *self.lock_queue());
        for source in sources {
            let Account { groups, held } = source.drain_log();
            unwritten.groups.extend(groups);
            unwritten.held.extend(held);
        }
        self.write(&mut unwritten).await
    }

    async fn write(&self, unwritten: &mut Account) -> storage::Result<()> {
        // First who holds what, so that the log then takes it off the right holder's draws.
        if !unwritten.held.is_empty() {
            if let Some(epoch) = self.store.current_pool_epoch().await? {
                let from = pool_holder(epoch);
                self.store.hand_over(&unwritten.held, &from, &self.instance).await?;
            }
            unwritten.held.clear();
        }
        if !unwritten.groups.is_empty() {
            self.store.record_issues(&unwritten.groups).await?;
            unwritten.groups.clear();
        }
        Ok(())
    }

    /// Closes a pool, writes the last of its log and returns its rest. What cannot be returned now
    /// is found as lost later.
    pub(crate) async fn give_back(&self, pool: &Pool) {
        let (groups, rest) = pool.close().await;
        self.return_rest(pool, groups, rest).await;
    }

    /// Returns what an idle pool has taken ahead of demand, for other instances to have.
    pub(crate) async fn give_back_idle(&self, pool: &Pool, idle_since_ms: i64) {
        if let Some((groups, rest)) = pool.idle_rest(idle_since_ms) {
            self.return_rest(pool, groups, rest).await;
        }
    }

    async fn return_rest(&self, pool: &Pool, groups: Vec<IssueGroup>, rest: Vec<Rest>) {
        let mut unwritten = self.unwritten.lock().await;
        unwritten.groups.extend(groups);
        if let Err(problem) = self.write(&mut unwritten).await {
            error!(pool = pool.label, "cannot write the issue log of {}: {problem}", pool.label);
            return;
        }
        for rest in rest {
            let returned = match (rest, &pool.supply) {
                (Rest::Drawn(span), _) => self.to_counter(pool, &span).await,
                (Rest::Withdrawn(items), Supply::Shared(shared)) => {
                    self.to_pool(pool, shared, &items).await
                }
                (Rest::Withdrawn(_), Supply::Counter) => Ok(()),
            };
            if let Err(problem) = returned {
                error!(pool = pool.label, "cannot give back what {} held: {problem}", pool.label);
                return;
            }
        }
    }

    async fn to_counter(&self, pool: &Pool, span: &Span) -> storage::Result<()> {
        match self.store.give_back(span, &self.instance, self.clock.now()).await {
            // Not found: somebody took this instance for gone and has recorded them as lost.
            Ok(GivenBack::ToCounter) | Err(StoreError::NotFound(_)) => Ok(()),
            Ok(GivenBack::Gap) => {
                debug!(pool = pool.label, "serials {:?} of {} are a gap", span.serials, pool.label);
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn to_pool(
        &self,
        pool: &Pool,
        shared: &SharedSupply,
        items: &Items,
    ) -> storage::Result<()> {
        let put_back = shared.put_back(items).await;
        let Items::Serials(serials) = items else {
            // Rows that stay taken are their own account.
            return put_back.map(drop);
        };
        let spans = spans(pool, serials);
        let epoch = self.store.current_pool_epoch().await?;
        match (epoch.map(pool_holder), put_back) {
            // Where it is not known whether they are back, they are found to be missing if they are not.
            (Some(holder), Ok(true) | Err(_)) => {
                self.store.hand_over(&spans, &self.instance, &holder).await
            }
            (holder, _) => {
                let (reason, now) = (GapReason::PoolDiscarded, self.clock.now());
                for holder in [Some(self.instance.clone()), holder].into_iter().flatten() {
                    self.store.close_draws(&holder, &spans, reason, now).await?;
                }
                Ok(())
            }
        }
    }

    /// Closes a snowflake type and writes the last of its log.
    pub(crate) async fn close_line(&self, line: &SnowflakeLine) {
        let mut unwritten = self.unwritten.lock().await;
        unwritten.groups.extend(line.close());
        if let Err(problem) = self.write(&mut unwritten).await {
            error!("cannot write the issue log: {problem}");
        }
    }

    fn lock_queue(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn Accountable>>> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }
}

/// Serials in ascending order as spans.
pub(crate) fn spans(pool: &Pool, serials: &[u64]) -> Vec<Span> {
    let runs = serials.chunk_by(|a, b| a + 1 == *b);
    runs.map(|run| Span {
        type_id: pool.type_id,
        period: pool.period.clone(),
        serials: run[0]..run[run.len() - 1] + 1,
    })
    .collect()
}
