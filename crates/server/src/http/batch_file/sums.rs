//! Sums of files: worked out in the background, and remembered.
//!
//! Small files and large ones have a place each, so that nobody waits for a minute of work to get a
//! moment of it. A tenant has one of each kind under way, and those that wait are served in turn, so a
//! tenant with many large batches holds up another one by a single file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Sums that are remembered. Each can be worked out again.
const KEPT_MAX: usize = 10_000;

/// Codes of a small file. More than these take longer than somebody wants to wait for others.
const SMALL_CODES_MAX: u64 = 1_000_000;

/// Files of a kind that are summed up at the same time: each takes a core.
const AT_ONCE: usize = 1;

/// What was worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// How the sum of a file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Ready(Sum),
    Computing,
    /// Others come first.
    Queued,
}

/// The file that a sum is of.
pub(super) struct Subject<'a> {
    pub(super) tenant: &'a str,
    pub(super) codes: u64,
    pub(super) etag: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    Small,
    Large,
}

/// Sums that are ready, those that are not yet, and room for working them out.
pub(in crate::http) struct Sums {
    state: Mutex<State>,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// By the tag of the file.
    ready: HashMap<String, Sum>,
    /// By tenant and size.
    under_way: HashMap<(String, Size), Work>,
}

struct Work {
    etag: String,
    begun: bool,
}

impl Default for Sums {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(AT_ONCE));
        Self { state: Mutex::default(), small: room(), large: room() }
    }
}

impl Sums {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the sum of a file stands. If nobody has begun and the tenant has no other file of this size
    /// under way, `work` is done in its turn; otherwise whoever asks again may find that it is.
    pub(super) fn ask(
        self: &Arc<Self>,
        Subject { tenant, codes, etag }: Subject<'_>,
        work: impl FnOnce() -> Option<Sum> + Send + 'static,
    ) -> Standing {
        let (size, room) = match codes {
            0..=SMALL_CODES_MAX => (Size::Small, &self.small),
            _ => (Size::Large, &self.large),
        };
        let slot = (tenant.to_owned(), size);
        let mut state = self.lock();
        if let Some(sum) = state.ready.get(&etag) {
            return Standing::Ready(sum.clone());
        }
        if let Some(work) = state.under_way.get(&slot) {
            let this = work.begun && work.etag == etag;
            return if this { Standing::Computing } else { Standing::Queued };
        }
        let place = Arc::clone(room).try_acquire_owned().ok();
        let begun = place.is_some();
        state.under_way.insert(slot.clone(), Work { etag: etag.clone(), begun });
        drop(state);
        let turn = Turn { sums: Arc::clone(self), slot, etag };
        tokio::spawn(turn.take(Arc::clone(room), place, work));
        if begun { Standing::Computing } else { Standing::Queued }
    }

    fn keep(&self, etag: String, sum: Sum) {
        let ready = &mut self.lock().ready;
        if ready.len() >= KEPT_MAX {
            ready.clear();
        }
        ready.insert(etag, sum);
    }
}

/// What a tenant has under way, until it is dropped. If anything goes wrong, whoever asks again starts
/// again.
struct Turn {
    sums: Arc<Sums>,
    slot: (String, Size),
    etag: String,
}

impl Turn {
    async fn take(
        self,
        room: Arc<Semaphore>,
        place: Option<OwnedSemaphorePermit>,
        work: impl FnOnce() -> Option<Sum> + Send + 'static,
    ) {
        let _place = if let Some(place) = place {
            place
        } else {
            let Ok(place) = room.acquire_owned().await else { return };
            if let Some(work) = self.sums.lock().under_way.get_mut(&self.slot) {
                work.begun = true;
            }
            place
        };
        if let Ok(Some(sum)) = tokio::task::spawn_blocking(work).await {
            self.sums.keep(self.etag.clone(), sum);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.sums.lock().under_way.remove(&self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const LARGE: u64 = SMALL_CODES_MAX + 1;

    /// Asks for a sum that takes until the sender says what it is, or is gone.
    fn ask(sums: &Arc<Sums>, tenant: &str, codes: u64, etag: &str) -> (Standing, Sender<Sum>) {
        let (sender, receiver) = channel();
        let subject = Subject { tenant, codes, etag: etag.to_owned() };
        (sums.ask(subject, move || receiver.recv().ok()), sender)
    }

    fn sum(bytes: u64) -> Sum {
        Sum { bytes, sha256: String::new() }
    }

    async fn wait_for(sums: &Arc<Sums>, tenant: &str, codes: u64, etag: &str, wanted: &Standing) {
        while ask(sums, tenant, codes, etag).0 != *wanted {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_small_file_does_not_wait_for_a_large_one() {
        let sums = Arc::new(Sums::default());
        let (large, _under_way) = ask(&sums, "a", LARGE, "large");
        let (small, done) = ask(&sums, "b", SMALL_CODES_MAX, "small");
        assert_eq!((large, small), (Standing::Computing, Standing::Computing));
        done.send(sum(7)).unwrap();
        wait_for(&sums, "b", 1, "small", &Standing::Ready(sum(7))).await;
        assert_eq!(ask(&sums, "a", LARGE, "large").0, Standing::Computing);
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let sums = Arc::new(Sums::default());
        let (first, done) = ask(&sums, "a", LARGE, "a1");
        assert_eq!(first, Standing::Computing);
        let (second, _) = ask(&sums, "a", LARGE, "a2");
        let (other, _under_way) = ask(&sums, "b", LARGE, "b1");
        assert_eq!((second, other), (Standing::Queued, Standing::Queued));
        done.send(sum(1)).unwrap();
        wait_for(&sums, "b", LARGE, "b1", &Standing::Computing).await;
        assert_eq!(ask(&sums, "a", LARGE, "a1").0, Standing::Ready(sum(1)));
        assert_eq!(ask(&sums, "a", LARGE, "a2").0, Standing::Queued, "another one is at work");
    }

    #[tokio::test]
    async fn what_failed_can_be_tried_again() {
        let sums = Arc::new(Sums::default());
        drop(ask(&sums, "a", 1, "x"));
        let (mut standing, mut done) = ask(&sums, "a", 1, "y");
        while standing != Standing::Computing {
            tokio::task::yield_now().await;
            (standing, done) = ask(&sums, "a", 1, "y");
        }
        done.send(sum(3)).unwrap();
        wait_for(&sums, "a", 1, "y", &Standing::Ready(sum(3))).await;
    }
}
