//! Attempts that take longer than they have. They are given up on for the record, and go on: what a slow
//! receiver takes after all has arrived.

use std::sync::Arc;
use std::time::Duration;

use storage::{Attempt, DeliveryId};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::Outbox;

/// How much longer an attempt goes on.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Attempts that go on at once. Each may hold what is sent.
pub(super) const LATE_AT_ONCE: usize = 64;

/// How long it is tried to note an arrival while the store does not answer, and how often.
const NOTE_MAX: Duration = Duration::from_secs(600);
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// Does something that is given so much time. If that is not enough, returns what goes on.
pub(super) async fn within<T: Send + 'static>(
    limit: Duration,
    step: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinHandle<T>> {
    let mut step = tokio::spawn(step);
    match timeout(limit, &mut step).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(ended)) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        // It can only have been cancelled because everything ends.
        Ok(Err(_)) | Err(_) => Err(step),
    }
}

impl Outbox {
    /// Waits for what goes on, and notes what has arrived.
    pub(super) fn follow<T: Send + 'static>(
        self: &Arc<Self>,
        mut step: JoinHandle<T>,
        arrived: impl FnOnce(T) -> Vec<(DeliveryId, Attempt)> + Send + 'static,
    ) {
        let Ok(permit) = Arc::clone(&self.late).try_acquire_owned() else {
            return step.abort();
        };
        let outbox = Arc::clone(self);
        tokio::spawn(async move {
            let ended = timeout(LATE_MAX, &mut step).await;
            drop(permit);
            match ended {
                Ok(Ok(outcome)) => {
                    let news = outbox.note_arrivals(arrived(outcome)).await;
                    outbox.common.metrics.deliveries_made.inc_by(news);
                }
                Ok(Err(_)) => {}
                Err(_) => step.abort(),
            }
        });
    }

    /// Notes that deliveries have arrived, whatever the record says. Nobody else knows it, so it is tried
    /// for a while; after that, those that count as failed are made again. Returns how many were news.
    pub(super) async fn note_arrivals(&self, mut arrived: Vec<(DeliveryId, Attempt)>) -> u64 {
        let (mut news, give_up_at) = (0, Instant::now() + NOTE_MAX);
        while let Some((id, attempt)) = arrived.last() {
            let number = id.0;
            match self.common.store.note_arrival(*id, attempt, self.common.now()).await {
                Ok(is_news) => {
                    if is_news {
                        news += 1;
                        info!(delivery = number, "delivery {number} has arrived late");
                    }
                    arrived.pop();
                }
                Err(problem) if Instant::now() >= give_up_at => {
                    let count = arrived.len();
                    warn!(count, "cannot note that {count} deliveries are there: {problem}");
                    break;
                }
                Err(_) => sleep(NOTE_EVERY).await,
            }
        }
        news
    }
}
