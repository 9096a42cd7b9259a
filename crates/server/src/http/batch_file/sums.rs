//! Room for summing up files in the background.
//!
//! Small files and large ones have a place each, so that nobody waits for a minute of work to get a
//! moment of it. A tenant has one of each kind under way, and those that wait are served in turn, so a
//! tenant with many large batches holds up another one by a single file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage::BatchId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Codes of a small file. More than these take longer than somebody wants to wait for others.
const SMALL_CODES_MAX: u64 = 1_000_000;

/// Files of a kind that are summed up at the same time: each takes a core.
const AT_ONCE: usize = 1;

/// How the sum of a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Computing,
    /// Others come first.
    Queued,
}

/// The file that a sum is of.
pub(super) struct Subject<'a> {
    pub(super) tenant: &'a str,
    pub(super) codes: u64,
    pub(super) batch: BatchId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    Small,
    Large,
}

/// Sums that are worked out, and room for it.
pub(in crate::http) struct Sums {
    /// By tenant and size.
    under_way: Mutex<HashMap<(String, Size), Work>>,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

struct Work {
    batch: BatchId,
    begun: bool,
}

impl Default for Sums {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(AT_ONCE));
        Self { under_way: Mutex::default(), small: room(), large: room() }
    }
}

impl Sums {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Size), Work>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the sum of a file stands that is not on record. If nobody has begun and the tenant has no
    /// other file of this size under way, `work` is done in its turn; otherwise whoever asks again may
    /// find that it is.
    pub(super) fn ask(
        self: &Arc<Self>,
        Subject { tenant, codes, batch }: Subject<'_>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Standing {
        let (size, room) = match codes {
            0..=SMALL_CODES_MAX => (Size::Small, &self.small),
            _ => (Size::Large, &self.large),
        };
        let slot = (tenant.to_owned(), size);
        let mut under_way = self.lock();
        if let Some(work) = under_way.get(&slot) {
            let this = work.begun && work.batch == batch;
            return if this { Standing::Computing } else { Standing::Queued };
        }
        let place = Arc::clone(room).try_acquire_owned().ok();
        let begun = place.is_some();
        under_way.insert(slot.clone(), Work { batch, begun });
        drop(under_way);
        let turn = Turn { sums: Arc::clone(self), slot };
        tokio::spawn(turn.take(Arc::clone(room), place, work));
        if begun { Standing::Computing } else { Standing::Queued }
    }
}

/// What a tenant has under way, until it is dropped. If anything goes wrong, whoever asks again starts
/// again.
struct Turn {
    sums: Arc<Sums>,
    slot: (String, Size),
}

impl Turn {
    async fn take(
        self,
        room: Arc<Semaphore>,
        place: Option<OwnedSemaphorePermit>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let _place = if let Some(place) = place {
            place
        } else {
            let Ok(place) = room.acquire_owned().await else { return };
            if let Some(work) = self.sums.lock().get_mut(&self.slot) {
                work.begun = true;
            }
            place
        };
        work.await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.sums.lock().remove(&self.slot);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{Sender, channel};

    use super::*;

    const LARGE: u64 = SMALL_CODES_MAX + 1;

    /// Asks for a sum that takes until the sender is used or gone.
    fn ask(sums: &Arc<Sums>, tenant: &str, codes: u64, batch: i64) -> (Standing, Sender<()>) {
        let (sender, receiver) = channel();
        let subject = Subject { tenant, codes, batch: BatchId(batch) };
        let work = async {
            let _ = receiver.await;
        };
        (sums.ask(subject, work), sender)
    }

    /// Asks until the work on a batch of a tenant has begun.
    async fn wait_for(sums: &Arc<Sums>, tenant: &str, codes: u64, batch: i64) -> Sender<()> {
        loop {
            let (standing, done) = ask(sums, tenant, codes, batch);
            if standing == Standing::Computing {
                return done;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_small_file_does_not_wait_for_a_large_one() {
        let sums = Arc::new(Sums::default());
        let (large, _under_way) = ask(&sums, "a", LARGE, 1);
        let (small, done) = ask(&sums, "b", SMALL_CODES_MAX, 2);
        assert_eq!((large, small), (Standing::Computing, Standing::Computing));
        done.send(()).unwrap();
        let _next = wait_for(&sums, "b", 1, 3).await;
        assert_eq!(ask(&sums, "a", LARGE, 1).0, Standing::Computing);
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let sums = Arc::new(Sums::default());
        let (first, done) = ask(&sums, "a", LARGE, 1);
        assert_eq!(first, Standing::Computing);
        let (second, _) = ask(&sums, "a", LARGE, 2);
        let (other, _under_way) = ask(&sums, "b", LARGE, 3);
        assert_eq!((second, other), (Standing::Queued, Standing::Queued));
        done.send(()).unwrap();
        while sums.lock().get(&("b".to_owned(), Size::Large)).is_none_or(|work| !work.begun) {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&sums, "b", LARGE, 3).0, Standing::Computing);
        assert_eq!(ask(&sums, "a", LARGE, 2).0, Standing::Queued, "another one is at work");
    }

    #[tokio::test]
    async fn what_failed_can_be_tried_again() {
        let sums = Arc::new(Sums::default());
        let subject = Subject { tenant: "a", codes: 1, batch: BatchId(1) };
        sums.ask(subject, async { panic!("on purpose") });
        let _under_way = wait_for(&sums, "a", 1, 2).await;
    }
}
