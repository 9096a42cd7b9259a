//! Claims deliveries, has them tried, and writes down how that went.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use storage::{Delivery, ReceiverId, StoreError, Wanted};
use tokio::sync::watch;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::Outbox;
use super::attempt::{Done, attempt};
use super::breaker::Breaker;

/// How often to look for what is due again, or was left by an instance that is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What an instance has beyond the longest attempt to write down how it went.
const CLAIM_MARGIN: Duration = Duration::from_secs(30);

/// How long a stop waits for attempts that are under way. What they would have said is lost, and they
/// are made again.
const STOP_MAX: Duration = Duration::from_secs(5);

/// How one receiver is served.
#[derive(Default)]
struct Lane {
    under_way: usize,
    breaker: Breaker,
}

/// Delivers what is in the outbox.
pub(crate) struct Relay {
    outbox: Arc<Outbox>,
    lanes: HashMap<ReceiverId, Lane>,
    under_way: JoinSet<Done>,
    /// Which receiver an attempt is for, in case that it panics.
    receivers: HashMap<task::Id, ReceiverId>,
    /// Attempts that are over and not yet written down.
    done: Vec<Done>,
}

impl Relay {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        let (lanes, receivers) = (HashMap::new(), HashMap::new());
        Self { outbox, lanes, under_way: JoinSet::new(), receivers, done: Vec::new() }
    }

    /// Delivers until told to stop.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let outbox = Arc::clone(&self.outbox);
        let mut failing = false;
        while !*stop.borrow() {
            let claimed = self.step().await;
            match &claimed {
                Ok(_) => failing = false,
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!("cannot deliver what is in the outbox: {problem}");
                    }
                }
            }
            // There may be more where these came from.
            if claimed.is_ok_and(|claimed| claimed > 0) {
                continue;
            }
            tokio::select! {
                // What failed to be written down has to wait for its next try.
                Some(done) = self.under_way.join_next_with_id(), if !failing => self.note(done),
                () = outbox.wake.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = stop.changed() => {}
            }
        }
        self.end().await;
    }

    /// Writes down what is over, then begins what is due. Returns how much that is.
    async fn step(&mut self) -> Result<usize, StoreError> {
        while let Some(done) = self.under_way.try_join_next_with_id() {
            self.note(done);
        }
        let settled = self.settle().await;
        let wanted = self.wanted();
        if wanted.is_empty() {
            return settled.map(|()| 0);
        }
        let now = self.outbox.common.now();
        let time = self.outbox.settings.timeout + CLAIM_MARGIN;
        let until = now + SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let claimed = self.outbox.common.store.claim_deliveries(&wanted, now, until).await?;
        let count = claimed.len();
        for delivery in claimed {
            self.begin(delivery);
        }
        settled.map(|()| count)
    }

    /// Whom to deliver to, and how much at most.
    fn wanted(&self) -> Vec<Wanted> {
        let now = Instant::now();
        let receivers = self.outbox.receivers.all();
        let wanted = receivers.iter().filter(|live| live.stored().disabled.is_none()).map(|live| {
            let at_once = self.outbox.settings.at_once;
            let limit = self.lanes.get(&live.id()).map_or(at_once, |lane| {
                // One that was left alone gets one attempt, and nothing else beside it.
                let at_once = lane.breaker.allows(at_once, now);
                at_once.saturating_sub(lane.under_way)
            });
            Wanted { receiver: live.id(), tenant: live.tenant().to_owned(), limit }
        });
        wanted.filter(|wanted| wanted.limit > 0).collect()
    }

    fn begin(&mut self, delivery: Delivery) {
        // Removed since it was wanted. The claim ends by itself.
        let Some(receiver) = self.outbox.receivers.by_id(delivery.content.receiver) else { return };
        self.lanes.entry(receiver.id()).or_default().under_way += 1;
        let id = receiver.id();
        let attempt = attempt(Arc::clone(&self.outbox), receiver, delivery);
        self.receivers.insert(self.under_way.spawn(attempt).id(), id);
    }

    fn note(&mut self, done: Result<(task::Id, Done), JoinError>) {
        match done {
            Ok((id, done)) => {
                self.receivers.remove(&id);
                let breaker = &mut self.lanes.entry(done.receiver).or_default().breaker;
                if done.worked {
                    breaker.worked();
                } else {
                    let was_open = breaker.is_open();
                    breaker.failed(Instant::now());
                    if breaker.is_open() && !was_open {
                        let to = done.receiver.0;
                        info!(receiver = to, "receiver {to} fails again and again; it gets a rest");
                    }
                }
                self.done.push(done);
            }
            Err(panic) => {
                error!("an attempt at a delivery panicked: {panic}");
                if let Some(receiver) = self.receivers.remove(&panic.id()) {
                    self.leave(receiver);
                }
            }
        }
    }

    /// Writes down what is over, shard by shard: one that is down must not hold up the others. Until it
    /// is done a lane stays as full as it is.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let mut by_shard: BTreeMap<u16, Vec<Done>> = BTreeMap::new();
        for done in std::mem::take(&mut self.done) {
            by_shard.entry(done.outcome.delivery.shard()).or_default().push(done);
        }
        let mut failure = None;
        for done in by_shard.into_values() {
            if let Err((done, problem)) = self.settle_on_shard(done).await {
                self.done.extend(done);
                failure = Some(problem);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn settle_on_shard(&mut self, done: Vec<Done>) -> Result<(), (Vec<Done>, StoreError)> {
        let outcomes: Vec<_> = done.iter().map(|done| done.outcome.clone()).collect();
        let common = &self.outbox.common;
        let settled = match common.store.settle_deliveries(&outcomes, common.now()).await {
            Ok(settled) => settled,
            Err(problem) => return Err((done, problem)),
        };
        for (done, settled) in done.into_iter().zip(settled) {
            self.leave(done.receiver);
            if !settled {
                let id = done.outcome.delivery.0;
                info!(delivery = id, "delivery {id} is no longer ours");
            }
        }
        Ok(())
    }

    fn leave(&mut self, receiver: ReceiverId) {
        if let Some(lane) = self.lanes.get_mut(&receiver) {
            lane.under_way = lane.under_way.saturating_sub(1);
        }
    }

    /// Waits for what is under way and writes it down.
    async fn end(mut self) {
        let deadline = Instant::now() + STOP_MAX;
        while let Ok(Some(done)) =
            tokio::time::timeout_at(deadline, self.under_way.join_next_with_id()).await
        {
            self.note(done);
        }
        if let Err(problem) = self.settle().await {
            warn!("cannot write down how deliveries went: {problem}");
        }
    }
}
