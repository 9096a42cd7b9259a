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

    /// How long a step waits until those who were just answered are back, beside those who wait already.
    /// Clients that ask again and again come back a moment later, and one step for all of them costs little
    /// more than one for a few.
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
    size: usize,
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
    /// The size of all that waits.
    size: usize,
    /// Whom to tell when so many wait.
    wanted: Option<(usize, oneshot::Sender<()>)>,
}

impl<S: GroupStep> Queue<S> {
    /// Whether there is enough for a step that should have so many requests.
    fn has_enough(&self, wanted: usize) -> bool {
        self.waiting.len() >= wanted || self.size >= S::SIZE_MAX
    }
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
        if self.shared.enqueue(key, Waiting { size: S::size(&request), request, answer }) {
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
                queue.size += waiting.size;
                queue.waiting.push(waiting);
                if queue.wanted.as_ref().is_some_and(|(wanted, _)| queue.has_enough(*wanted))
                    && let Some((_, enough)) = queue.wanted.take()
                {
                    // Whoever has lost patience does not need it.
                    let _ = enough.send(());
                }
                false
            }
            Entry::Vacant(place) => {
                place.insert(Queue { size: waiting.size, waiting: vec![waiting], wanted: None });
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

    /// What tells when all are back who were just served. None if there is enough for a step without them,
    /// or if nobody has the patience.
    fn want(&self, key: S::Key, served: usize) -> Option<oneshot::Receiver<()>> {
        let mut queues = self.lock();
        let queue = queues.get_mut(&key)?;
        let wanted = queue.waiting.len() + served;
        if S::PATIENCE.is_zero() || queue.has_enough(wanted) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        queue.wanted = Some((wanted, sender));
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
        let queue = queues.get_mut(&key)?;
        queue.wanted = None;
        if queue.waiting.is_empty() {
            queues.remove(&key);
            return None;
        }
        let mut size = 0;
        let full = queue.waiting.iter().position(|waiting| {
            size += waiting.size;
            size > S::SIZE_MAX
        });
        // One that is too large for any step has one to itself.
        let rest = queue.waiting.split_off(full.unwrap_or(queue.waiting.len()).max(1));
        queue.size = rest.iter().map(|waiting| waiting.size).sum();
        Some(std::mem::replace(&mut queue.waiting, rest))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Mutex, mpsc};
    use tokio::task::JoinHandle;

    use super::*;

    /// Says what it was asked, and waits until it may answer.
    struct Gate<const PATIENCE_SECONDS: u64> {
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

    /// Groups behind a gate.
    struct Bench<const PATIENCE_SECONDS: u64> {
        groups: Arc<Groups<Gate<PATIENCE_SECONDS>>>,
        steps: mpsc::UnboundedReceiver<Vec<usize>>,
        gate: mpsc::UnboundedSender<()>,
    }

    impl<const PATIENCE_SECONDS: u64> Bench<PATIENCE_SECONDS> {
        fn new() -> Self {
            let (asked, steps) = mpsc::unbounded_channel();
            let (gate, open) = mpsc::unbounded_channel();
            let groups = Arc::new(Groups::new(Gate { asked, open: Mutex::new(open) }));
            Self { groups, steps, gate }
        }

        /// Asks, and is in the queue when this returns.
        async fn ask(&self, request: usize) -> JoinHandle<Option<usize>> {
            let groups = Arc::clone(&self.groups);
            let asking = tokio::spawn(async move { groups.ask(1, request).await });
            tokio::task::yield_now().await;
            asking
        }

        async fn ask_all<const N: usize>(
            &self,
            requests: [usize; N],
        ) -> Vec<JoinHandle<Option<usize>>> {
            let mut asking = Vec::new();
            for request in requests {
                asking.push(self.ask(request).await);
            }
            asking
        }

        /// What the next step was asked.
        async fn next_step(&mut self) -> Vec<usize> {
            self.steps.recv().await.unwrap()
        }

        /// Lets one step answer.
        fn open(&self) {
            self.gate.send(()).unwrap();
        }
    }

    async fn answers(asking: Vec<JoinHandle<Option<usize>>>) -> Vec<usize> {
        let mut answers = Vec::new();
        for asking in asking {
            answers.push(asking.await.unwrap().unwrap());
        }
        answers
    }

    #[tokio::test]
    async fn what_waits_together_is_served_together() {
        let mut bench = Bench::<0>::new();
        let first = bench.ask(1).await;
        assert_eq!(bench.next_step().await, [1]);
        let rest = bench.ask_all([4, 6, 3, 20, 2]).await;
        for expected in [vec![4, 6], vec![3], vec![20], vec![2]] {
            bench.open();
            assert_eq!(bench.next_step().await, expected);
        }
        bench.open();
        assert_eq!(first.await.unwrap(), Some(1));
        assert_eq!(answers(rest).await, [4, 6, 3, 20, 2]);
    }

    #[tokio::test]
    async fn a_step_that_panics_stops_nobody_else() {
        let bench = Bench::<0>::new();
        bench.open();
        assert_eq!(bench.groups.ask(1, 0).await, None);
        assert_eq!(bench.groups.ask(1, 5).await, Some(5));
    }

    #[tokio::test]
    async fn a_step_waits_until_those_before_are_back() {
        let mut bench = Bench::<3600>::new();
        let first = bench.ask(1).await;
        assert_eq!(bench.next_step().await, [1]);
        let two = bench.ask_all([2, 3]).await;
        bench.open();
        assert_eq!(first.await.unwrap(), Some(1));
        let back = bench.ask(1).await;
        assert_eq!(bench.next_step().await, [2, 3, 1]);
        bench.open();
        assert_eq!(answers(two).await, [2, 3]);
        assert_eq!(back.await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn a_step_that_is_full_waits_for_nobody() {
        let mut bench = Bench::<3600>::new();
        let three = bench.ask_all([1, 5, 5]).await;
        assert_eq!(bench.next_step().await, [1]);
        bench.open();
        assert_eq!(bench.next_step().await, [5, 5]);
        bench.open();
        assert_eq!(answers(three).await, [1, 5, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let mut bench = Bench::<1>::new();
        let first = bench.ask(1).await;
        assert_eq!(bench.next_step().await, [1]);
        let two = bench.ask_all([2, 3]).await;
        bench.open();
        assert_eq!(first.await.unwrap(), Some(1));
        // It does not come back.
        assert_eq!(bench.next_step().await, [2, 3]);
        bench.open();
        assert_eq!(answers(two).await, [2, 3]);
        // Nobody does, and whoever comes after that does not wait.
        tokio::time::advance(Duration::from_secs(2)).await;
        let last = bench.ask(4).await;
        assert_eq!(bench.next_step().await, [4]);
        bench.open();
        assert_eq!(last.await.unwrap(), Some(4));
    }

    #[tokio::test]
    async fn a_key_is_forgotten_when_nobody_works_on_it() {
        let bench = Bench::<0>::new();
        for _ in 0..3 {
            bench.open();
        }
        let asking = bench.ask_all([1, 2, 3]).await;
        assert_eq!(answers(asking).await, [1, 2, 3]);
        while !bench.groups.shared.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
