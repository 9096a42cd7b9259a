//! Requests that wait at the same moment for the same thing are served by one step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done};
use tokio::sync::oneshot;

/// A step that serves many requests.
#[async_trait]
pub(crate) trait GroupStep: Send + Sync + 'static {
    /// Requests with the same key can be served together.
    type Key: Copy + Eq + Hash + Send + Sync + 'static;
    /// What is asked for.
    type Request: Send + 'static;
    /// What is answered.
    type Answer: Send + 'static;

    /// A step takes requests until it has so much to do.
    const SIZE_MAX: usize;

    /// How long a step waits for those who were just answered. Clients that ask again and again come back
    /// a moment later, and one step for all of them costs little more than one for a few.
    const PATIENCE: Duration = Duration::ZERO;

    /// How much of a step a request takes up.
    fn size(_request: &Self::Request) -> usize {
        1
    }

    /// Serves requests: an answer for each, in order.
    async fn serve(&self, key: Self::Key, group: Vec<Self::Request>) -> Vec<Self::Answer>;
}

/// Collects requests while a step is under way.
pub(crate) struct Groups<S: GroupStep> {
    shared: Arc<Shared<S>>,
}

struct Waiting<S: GroupStep> {
    request: S::Request,
    answer: oneshot::Sender<S::Answer>,
}

/// A step that is under way, and whom to answer.
struct Step<S: GroupStep> {
    serving: MaybeDone<BoxFuture<'static, Vec<S::Answer>>>,
    answers: Vec<oneshot::Sender<S::Answer>>,
}

/// What waits for a key.
struct Queue<S: GroupStep> {
    waiting: Vec<Waiting<S>>,
    /// Whom to tell when so many wait.
    wanted: Option<(usize, oneshot::Sender<()>)>,
}

/// What waits, by key. A key that is in here is being worked on.
type Queues<S> = HashMap<<S as GroupStep>::Key, Queue<S>>;

struct Shared<S: GroupStep> {
    step: S,
    queues: Mutex<Queues<S>>,
}

impl<S: GroupStep> Groups<S> {
    pub(crate) fn new(step: S) -> Self {
        Self { shared: Arc::new(Shared { step, queues: Mutex::default() }) }
    }

    /// The step, for what else it knows.
    pub(crate) fn step(&self) -> &S {
        &self.shared.step
    }

    /// Has a request served, even if whoever waits for it goes away. None if the step panicked.
    pub(crate) async fn ask(&self, key: S::Key, request: S::Request) -> Option<S::Answer> {
        let (answer, receiver) = oneshot::channel();
        if self.shared.enqueue(key, Waiting { request, answer }) {
            tokio::spawn(Arc::clone(&self.shared).work(key));
        }
        receiver.await.ok()
    }
}

impl<S: GroupStep> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, Queues<S>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a request wait, and says whether nobody works on its key.
    fn enqueue(&self, key: S::Key, waiting: Waiting<S>) -> bool {
        match self.lock().entry(key) {
            Entry::Occupied(mut queue) => {
                let queue = queue.get_mut();
                queue.waiting.push(waiting);
                let count = queue.waiting.len();
                if let Some((_, enough)) = queue.wanted.take_if(|(wanted, _)| count >= *wanted) {
                    // Whoever has lost patience does not need it.
                    let _ = enough.send(());
                }
                false
            }
            Entry::Vacant(place) => {
                place.insert(Queue { waiting: vec![waiting], wanted: None });
                true
            }
        }
    }

    /// Serves what waits for a key, until nothing does.
    async fn work(self: Arc<Self>, key: S::Key) {
        let mut under_way = self.begin(key);
        while let Some(Step { mut serving, answers }) = under_way.take() {
            (&mut serving).await;
            let enough = self.want(key, answers.len());
            // Those who wait have waited longer than it takes to answer, so the next step comes first. It
            // is waited for as soon as all have their answers.
            if enough.is_none() {
                under_way = self.begin(key);
            }
            if let Some(next) = &mut under_way {
                let _ = (&mut next.serving).now_or_never();
            }
            let served = Pin::new(&mut serving).take_output().unwrap_or_default();
            for (sender, answer) in answers.into_iter().zip(served) {
                // Whoever is gone does not need it.
                let _ = sender.send(answer);
            }
            if let Some(enough) = enough {
                let _ = tokio::time::timeout(S::PATIENCE, enough).await;
                under_way = self.begin(key);
            }
        }
    }

    /// What tells when as many wait as were just served. None if they do, or if nobody has the patience.
    fn want(&self, key: S::Key, served: usize) -> Option<oneshot::Receiver<()>> {
        let mut queues = self.lock();
        let queue = queues.get_mut(&key)?;
        if S::PATIENCE.is_zero() || queue.waiting.len() >= served {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        queue.wanted = Some((served, sender));
        Some(receiver)
    }

    /// Makes a step of what waits. Nobody is answered if it panics, and the next step follows all the
    /// same.
    fn begin(self: &Arc<Self>, key: S::Key) -> Option<Step<S>> {
        let group = self.next_group(key)?.into_iter();
        let (requests, answers) = group.map(|waiting| (waiting.request, waiting.answer)).unzip();
        let this = Arc::clone(self);
        let serving = async move { this.step.serve(key, requests).await };
        let serving = AssertUnwindSafe(serving).catch_unwind().map(Result::unwrap_or_default);
        Some(Step { serving: maybe_done(serving.boxed()), answers })
    }

    fn next_group(&self, key: S::Key) -> Option<Vec<Waiting<S>>> {
        let mut queues = self.lock();
        let Queue { waiting: queue, wanted } = queues.get_mut(&key)?;
        *wanted = None;
        if queue.is_empty() {
            queues.remove(&key);
            return None;
        }
        let mut size = 0;
        let full = queue.iter().position(|waiting| {
            size += S::size(&waiting.request);
            size > S::SIZE_MAX
        });
        // One that is too large for any step has one to itself.
        let rest = queue.split_off(full.unwrap_or(queue.len()).max(1));
        Some(std::mem::replace(queue, rest))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Mutex, mpsc};

    use super::*;

    /// Says what it was asked, and waits until it may answer.
    struct Gate<const PATIENCE_SECONDS: u64 = 0> {
        asked: mpsc::UnboundedSender<Vec<usize>>,
        open: Mutex<mpsc::UnboundedReceiver<()>>,
    }

    #[async_trait]
    impl<const PATIENCE_SECONDS: u64> GroupStep for Gate<PATIENCE_SECONDS> {
        type Key = u8;
        type Request = usize;
        type Answer = usize;
        const SIZE_MAX: usize = 10;
        const PATIENCE: Duration = Duration::from_secs(PATIENCE_SECONDS);

        fn size(request: &usize) -> usize {
            *request
        }

        async fn serve(&self, _: u8, group: Vec<usize>) -> Vec<usize> {
            assert!(!group.contains(&0), "nobody asks for nothing");
            self.asked.send(group.clone()).unwrap();
            self.open.lock().await.recv().await;
            group
        }
    }

    #[tokio::test]
    async fn what_waits_together_is_served_together() {
        let (asked, mut steps) = mpsc::unbounded_channel();
        let (open, gate) = mpsc::unbounded_channel();
        let groups = Arc::new(Groups::new(Gate::<0> { asked, open: Mutex::new(gate) }));
        let ask = |request| {
            let groups = Arc::clone(&groups);
            tokio::spawn(async move { groups.ask(1, request).await })
        };
        let first = ask(1);
        assert_eq!(steps.recv().await, Some(vec![1]));
        let mut rest = Vec::new();
        for request in [4, 6, 3, 20, 2] {
            rest.push((request, ask(request)));
            tokio::task::yield_now().await;
        }
        for expected in [vec![4, 6], vec![3], vec![20], vec![2]] {
            open.send(()).unwrap();
            assert_eq!(steps.recv().await, Some(expected));
        }
        open.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Some(1));
        for (request, answer) in rest {
            assert_eq!(answer.await.unwrap(), Some(request));
        }
    }

    #[tokio::test]
    async fn a_step_that_panics_stops_nobody_else() {
        let (asked, _steps) = mpsc::unbounded_channel();
        let (open, gate) = mpsc::unbounded_channel();
        let groups = Groups::new(Gate::<0> { asked, open: Mutex::new(gate) });
        open.send(()).unwrap();
        assert_eq!(groups.ask(1, 0).await, None);
        assert_eq!(groups.ask(1, 5).await, Some(5));
    }

    #[tokio::test]
    async fn a_step_waits_for_as_many_as_the_one_before_had() {
        let (asked, mut steps) = mpsc::unbounded_channel();
        let (open, gate) = mpsc::unbounded_channel();
        let groups = Arc::new(Groups::new(Gate::<3600> { asked, open: Mutex::new(gate) }));
        let ask = |request| {
            let groups = Arc::clone(&groups);
            tokio::spawn(async move { groups.ask(1, request).await })
        };
        let first = ask(1);
        assert_eq!(steps.recv().await, Some(vec![1]));
        let (second, third) = (ask(2), ask(3));
        tokio::task::yield_now().await;
        open.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Some(1));
        // More than the one before had, so they did not have to wait.
        assert_eq!(steps.recv().await, Some(vec![2, 3]));
        let fourth = ask(4);
        tokio::task::yield_now().await;
        open.send(()).unwrap();
        assert_eq!((second.await.unwrap(), third.await.unwrap()), (Some(2), Some(3)));
        let fifth = ask(5);
        assert_eq!(steps.recv().await, Some(vec![4, 5]));
        open.send(()).unwrap();
        assert_eq!((fourth.await.unwrap(), fifth.await.unwrap()), (Some(4), Some(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let (asked, mut steps) = mpsc::unbounded_channel();
        let (open, gate) = mpsc::unbounded_channel();
        let groups = Arc::new(Groups::new(Gate::<1> { asked, open: Mutex::new(gate) }));
        let ask = |request| {
            let groups = Arc::clone(&groups);
            tokio::spawn(async move { groups.ask(1, request).await })
        };
        let first = ask(1);
        assert_eq!(steps.recv().await, Some(vec![1]));
        let two = [ask(2), ask(3)];
        tokio::task::yield_now().await;
        open.send(()).unwrap();
        assert_eq!(steps.recv().await, Some(vec![2, 3]));
        open.send(()).unwrap();
        for asking in two {
            asking.await.unwrap();
        }
        // One more comes, and nobody else.
        let last = ask(4);
        assert_eq!(steps.recv().await, Some(vec![4]));
        open.send(()).unwrap();
        assert_eq!((first.await.unwrap(), last.await.unwrap()), (Some(1), Some(4)));
    }
}
