//! Attempts that take longer than they have. They are given up on for the record, and go on: what a slow
//! receiver takes after all has arrived.

use std::sync::Arc;
use std::time::Duration;

use storage::{Attempt, DeliveryId};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use super::Outbox;

/// How much longer an attempt goes on.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Attempts that go on at once. Each may hold what is sent.
pub(super) const LATE_AT_ONCE: usize = 64;

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
            let _permit = permit;
            match timeout(LATE_MAX, &mut step).await {
                Ok(Ok(outcome)) => {
                    for (id, attempt) in arrived(outcome) {
                        outbox.note_late(id, &attempt).await;
                    }
                }
                Ok(Err(_)) => {}
                Err(_) => step.abort(),
            }
        });
    }

    /// Where it fails, the record says that the delivery has failed, and it is made again.
    async fn note_late(&self, id: DeliveryId, attempt: &Attempt) {
        let number = id.0;
        match self.common.store.note_arrival(id, attempt, self.common.now()).await {
            Ok(true) => {
                self.common.metrics.deliveries_made.inc();
                info!(delivery = number, "delivery {number} has arrived late");
            }
            Ok(false) => {}
            Err(problem) => {
                warn!(delivery = number, "cannot note that delivery {number} is there: {problem}");
            }
        }
    }
}
