//! Whose turn it is, where instances tell each other. Where they do not, or cannot at the moment, the
//! store knows: nothing here may fail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storage::{Noticeboard, StoreError, WorkerName};
use tokio::time::Instant;
use tracing::debug;

/// How long nobody waits for turns after that has failed, so that a server which takes no more connections
/// is not asked for them all the time.
const DEAF_FOR: Duration = Duration::from_secs(1);

/// Turns of tenants, for the workers of this instance.
pub(super) struct Turns {
    board: Option<Arc<dyn Noticeboard>>,
    /// Until when waiting for a turn is of no use.
    deaf_until: Mutex<Option<Instant>>,
}

impl Turns {
    pub(super) fn new(board: Option<Arc<dyn Noticeboard>>) -> Self {
        Self { board, deaf_until: Mutex::default() }
    }

    fn board(&self) -> Option<&Arc<dyn Noticeboard>> {
        self.board.as_ref().filter(|board| board.is_up())
    }

    /// Whether whoever waits hears of the turns that other instances offer.
    pub(super) fn are_heard(&self) -> bool {
        self.board().is_some() && !self.is_deaf()
    }

    fn is_deaf(&self) -> bool {
        let until = self.deaf_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
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
        if let Some(board) = self.board().filter(|_| !self.is_deaf()) {
            match board.await_turn(worker, wait).await {
                Ok(turn) => return turn,
                Err(problem) => {
                    told("wait for", &problem);
                    let mut deaf = self.deaf_until.lock().unwrap_or_else(PoisonError::into_inner);
                    *deaf = Some(Instant::now() + DEAF_FOR);
                    // How long to wait was decided by somebody who hoped to be called.
                    return None;
                }
            }
        }
        tokio::time::sleep(wait).await;
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
