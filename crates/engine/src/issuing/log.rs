//! Writing the issue log, in groups, behind the requests.

use std::sync::{Arc, Mutex};

use storage::{GivenBack, IssueGroup, Store};
use tracing::{debug, error};

use super::pool::Pool;
use super::snowflakes::SnowflakeLine;
use crate::surroundings::Clock;

/// Something that hands out IDs and keeps account of them until it is asked.
pub(crate) trait Accountable: Send + Sync {
    /// What was handed out since the last call.
    fn drain_log(&self) -> Vec<IssueGroup>;
}

impl Accountable for Pool {
    fn drain_log(&self) -> Vec<IssueGroup> {
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
    /// Groups that could not be written yet. Held while writing, so that groups stay in order.
    unwritten: tokio::sync::Mutex<Vec<IssueGroup>>,
}

impl LogWriter {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, instance: String) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            instance,
            queue: Mutex::default(),
            unwritten: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn enqueue(&self, source: Arc<dyn Accountable>) {
        self.lock_queue().push(source);
    }

    /// Writes everything that was handed out before the call.
    pub(crate) async fn flush(&self) -> storage::Result<()> {
        let mut unwritten = self.unwritten.lock().await;
        let sources = std::mem::take(&mut *self.lock_queue());
        for source in sources {
            unwritten.extend(source.drain_log());
        }
        if !unwritten.is_empty() {
            self.store.record_issues(&unwritten).await?;
            unwritten.clear();
        }
        Ok(())
    }

    /// Closes a pool, writes the last of its log and gives its rest back to the counter. What
    /// cannot be given back now is found as lost at the next start.
    pub(crate) async fn give_back(&self, pool: &Pool) {
        let (groups, rest) = pool.close().await;
        let mut unwritten = self.unwritten.lock().await;
        unwritten.extend(groups);
        if let Err(problem) = self.store.record_issues(&unwritten).await {
            error!(pool = pool.label, "cannot write the issue log of {}: {problem}", pool.label);
            return;
        }
        unwritten.clear();
        for span in rest {
            match self.store.give_back(&span, &self.instance, self.clock.now()).await {
                Ok(GivenBack::ToCounter) => {}
                Ok(GivenBack::Gap) => {
                    debug!(
                        pool = pool.label,
                        "serials {:?} of {} are a gap", span.serials, pool.label
                    );
                }
                Err(problem) => {
                    error!(
                        pool = pool.label,
                        "cannot give back serials of {}: {problem}", pool.label
                    );
                    return;
                }
            }
        }
    }

    /// Closes a snowflake type and writes the last of its log.
    pub(crate) async fn close_line(&self, line: &SnowflakeLine) {
        let mut unwritten = self.unwritten.lock().await;
        unwritten.extend(line.close());
        match self.store.record_issues(&unwritten).await {
            Ok(()) => unwritten.clear(),
            Err(problem) => error!("cannot write the issue log: {problem}"),
        }
    }

    fn lock_queue(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn Accountable>>> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }
}
