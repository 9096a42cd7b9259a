//! Doing something one at a time, for all who wait for it.

use tokio::sync::Mutex;
use tokio::time::Instant;

/// One thing to do. It holds when it last went wrong, and how.
pub(super) struct SingleFlight<E>(Mutex<Option<(Instant, E)>>);

impl<E> Default for SingleFlight<E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<E: Clone> SingleFlight<E> {
    /// Does the work for somebody who has `asked` at a moment, unless it `is_done` when their turn comes.
    /// If it went wrong since they asked, that is the answer: trying again for each of them in turn would
    /// keep the last one waiting as often as there are others.
    pub(super) async fn take(
        &self,
        asked: Instant,
        is_done: impl Fn() -> bool,
        work: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let mut failed = self.0.lock().await;
        if is_done() {
            return Ok(());
        }
        if let Some((at, error)) = &*failed
            && asked <= *at
        {
            return Err(error.clone());
        }
        let result = work.await;
        *failed = result.as_ref().err().map(|error| (Instant::now(), error.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::oneshot;

    use super::*;

    /// Fails, once it is told to.
    async fn fail(tries: &AtomicU32, told: Option<oneshot::Receiver<()>>) -> Result<(), u32> {
        let number = tries.fetch_add(1, Ordering::Relaxed);
        if let Some(told) = told {
            told.await.unwrap();
        }
        Err(number)
    }

    #[tokio::test]
    async fn a_failure_is_that_of_all_who_asked_before_it() {
        let (flight, tries) = (SingleFlight::default(), AtomicU32::new(0));
        let (tell, told) = oneshot::channel();
        let asked = Instant::now();
        let first = flight.take(asked, || false, fail(&tries, Some(told)));
        let others = (0..10).map(|_| flight.take(asked, || false, fail(&tries, None)));
        let end = async { tell.send(()).unwrap() };
        let (first, others, ()) = tokio::join!(first, join_all(others), end);
        assert!(first == Err(0) && others.iter().all(|other| *other == Err(0)), "{others:?}");

        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        let later = flight.take(Instant::now(), || false, fail(&tries, None)).await;
        assert_eq!(later, Err(1), "who asks afterwards has another try");
    }

    #[tokio::test]
    async fn what_is_done_is_not_done_again() {
        let (flight, tries) = (SingleFlight::default(), Arc::new(AtomicU32::new(0)));
        let done = || tries.load(Ordering::Relaxed) > 0;
        let work = || async {
            tries.fetch_add(1, Ordering::Relaxed);
            Ok::<(), u32>(())
        };
        let asked = Instant::now();
        let all = join_all((0..5).map(|_| flight.take(asked, done, work()))).await;
        assert_eq!((all, tries.load(Ordering::Relaxed)), (vec![Ok(()); 5], 1));
    }

    #[tokio::test]
    async fn who_gives_up_leaves_the_turn_to_the_next() {
        let (flight, tries) = (SingleFlight::default(), AtomicU32::new(0));
        let asked = Instant::now();
        let (_tell, told) = oneshot::channel();
        {
            let gone = flight.take(asked, || false, fail(&tries, Some(told)));
            tokio::select! {
                biased;
                _ = gone => panic!("nobody has told it to end"),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(flight.take(asked, || false, async { Ok(()) }).await, Ok(()));
    }
}
