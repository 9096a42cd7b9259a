//! Work on file systems that may never come back from it. A call to one that hangs cannot be ended, so
//! what is bounded is how many of them hang.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Threads that may be in a file system at once. The pool that they are from also serves others, and has
/// several times as many.
const AT_ONCE: usize = 64;

/// Of these, in the same place: sinks can share a directory, and each has one write at a time.
const AT_ONCE_IN_PLACE: usize = 4;

/// Whoever finds all of them taken for so long is told, and comes again later.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Threads that do what may hang.
pub(super) struct Hands {
    all: Arc<Semaphore>,
    /// Those that are in use in each place.
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
    wait_max: Duration,
}

impl Hands {
    pub(super) fn new() -> Self {
        Self::waiting(WAIT_MAX)
    }

    fn waiting(wait_max: Duration) -> Self {
        let (all, places) = (Arc::new(Semaphore::new(AT_ONCE)), Mutex::default());
        Self { all, places, wait_max }
    }

    /// Does something on a thread that may block. Says so if too many hang already, in this place or
    /// anywhere.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        place: String,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let in_place = self.place(place);
        // The place first: those that wait there must not keep anybody from another one.
        let in_place = self.permit(in_place).await.ok_or_else(|| hangs("the directory"))?;
        let anywhere = self.permit(Arc::clone(&self.all)).await;
        let anywhere = anywhere.ok_or_else(|| hangs("the server's outbound.directory"))?;
        let done = tokio::task::spawn_blocking(move || {
            // Given back when the step is over, whether or not anybody still waits for it.
            let _permits = (in_place, anywhere);
            step()
        });
        done.await.map_err(|_| "writing was interrupted".to_owned())
    }

    async fn permit(&self, permits: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        timeout(self.wait_max, permits.acquire_owned()).await.ok()?.ok()
    }

    fn place(&self, name: String) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits for one or has one has the place as well.
        places.retain(|_, place| Arc::strong_count(place) > 1);
        let new = || Arc::new(Semaphore::new(AT_ONCE_IN_PLACE));
        Arc::clone(places.entry(name).or_insert_with(new))
    }
}

fn hangs(what: &str) -> String {
    format!("{what} does not answer: earlier writes to it are still under way")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_place_that_hangs_holds_up_no_other() {
        let hands = Arc::new(Hands::waiting(Duration::ZERO));
        let (entered, mut hanging) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for _ in 0..AT_ONCE_IN_PLACE {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (hands, entered) = (Arc::clone(&hands), entered.clone());
            let hang = move || {
                entered.send(()).unwrap();
                ended.recv()
            };
            tokio::spawn(async move { hands.run("away".to_owned(), hang).await });
            hanging.recv().await.unwrap();
        }
        let refused = hands.run("away".to_owned(), || ()).await.unwrap_err();
        assert!(refused.contains("earlier writes"), "{refused}");
        assert_eq!(hands.run("here".to_owned(), || 7).await, Ok(7));
        // What hung comes to an end.
        drop(ends);
        while hands.run("away".to_owned(), || ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
