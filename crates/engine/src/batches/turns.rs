//! Whose turn it is, where instances tell each other. Where they do not, or cannot at the moment, the
//! store knows: nothing here may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use storage::{Noticeboard, StoreError, WorkerName};
use tokio::time::Instant;
use tracing::debug;

/// Turns of tenants, for the workers of this instance.
pub(super) struct Turns {
    board: Option<Arc<dyn Noticeboard>>,
    /// Whether the last wait for a turn failed, so that no other is worth anything.
    deaf: AtomicBool,
}

impl Turns {
    pub(super) fn new(board: Option<Arc<dyn Noticeboard>>) -> Self {
        Self { board, deaf: AtomicBool::new(false) }
    }

    fn board(&self) -> Option<&Arc<dyn Noticeboard>> {
        self.board.as_ref().filter(|board| board.is_up())
    }

    /// Whether whoever waits hears of the turns that other instances offer.
    pub(super) fn are_heard(&self) -> bool {
        self.board().is_some() && !self.deaf.load(Ordering::Relaxed)
    }

    /// Says that tenants have chunks to be done. False if nobody can hear it.
    pub(super) async fn offer(&self, tenants: &[&str]) -> bool {
        let Some(board) = self.board() else { return false };
        board.offer_turns(tenants).await.map_err(|problem| told("offer", &problem)).is_ok()
    }

    /// The turn of the tenant that comes next.
    pub(super) async fn take(&self, worker: &WorkerName) -> Option<String> {
        let turn = self.board()?.take_turn(worker).await;
        turn.unwrap_or_else(|problem| {
            told("take", &problem);
            None
        })
    }

    /// Waits for a turn. Where there can be none, waits all the same.
    pub(super) async fn wait(&self, worker: &WorkerName, wait: Duration) -> Option<String> {
        let until = Instant::now() + wait;
        if let Some(board) = self.board() {
            let turn = board.await_turn(worker, wait).await;
            self.deaf.store(turn.is_err(), Ordering::Relaxed);
            match turn {
                Ok(turn) => return turn,
                Err(problem) => told("wait for", &problem),
            }
        }
        tokio::time::sleep_until(until).await;
        None
    }

    /// Ends a turn. The tenant has another one if something was found for it to do.
    pub(super) async fn end(&self, worker: &WorkerName, tenant: &str, goes_on: bool) {
        let Some(board) = self.board() else { return };
        if let Err(problem) = board.end_turn(worker, tenant, goes_on).await {
            told("end", &problem);
        }
    }
}

/// Whatever is wrong with the board says so itself.
fn told(what: &str, problem: &StoreError) {
    debug!("cannot {what} a turn: {problem}");
}
