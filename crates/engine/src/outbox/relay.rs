//! Claims deliveries, has them tried, and writes down how that went.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use storage::{Delivery, Next, ReceiverId, StoreError, Wanted};
use tokio::sync::watch;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::attempt::{Done, attempt_all, untried};
use super::breaker::Breaker;
use super::{Freight, LiveReceiver, Outbox};

/// How often to look for what is due again, or was left by an instance that is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files are written so often at most: a wait for the disk costs about as much for many as for one. The
/// first after a pause are written at once.
const FILES_EVERY: Duration = Duration::from_millis(25);

/// How long a stop waits for attempts that are under way. What they would have said is lost, and they
/// are made again.
const STOP_MAX: Duration = Duration::from_secs(5);

/// How one receiver is served.
#[derive(Default)]
struct Lane {
    breaker: Breaker,
    /// Claimed, and waiting until those before are over. Only where deliveries are made together.
    waiting: Vec<Delivery>,
    /// Whether some are under way.
    busy: bool,
    /// When those that wait may begin.
    begin_at: Option<Instant>,
}

impl Lane {
    /// Whether some only wait for their time.
    fn is_held_back(&self) -> bool {
        !self.busy && !self.waiting.is_empty()
    }
}

/// What a task is about, also if it panics.
struct Trip {
    receiver: Arc<LiveReceiver>,
    freight: Freight,
    began: Instant,
}

/// Delivers what is in the outbox.
pub(crate) struct Relay {
    outbox: Arc<Outbox>,
    lanes: HashMap<ReceiverId, Lane>,
    under_way: JoinSet<Vec<Done>>,
    trips: HashMap<task::Id, Trip>,
    /// Attempts that are over and not yet written down.
    done: Vec<Done>,
    /// When to look for what is due again, or was left by an instance that is gone.
    look_at: Instant,
}

impl Relay {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        let (lanes, trips) = (HashMap::new(), HashMap::new());
        let (under_way, done, look_at) = (JoinSet::new(), Vec::new(), Instant::now());
        Self { outbox, lanes, under_way, trips, done, look_at }
    }

    /// Delivers until told to stop.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let outbox = Arc::clone(&self.outbox);
        let mut failing = false;
        while !*stop.borrow() {
            match self.step().await {
                Ok(claimed) => {
                    failing = false;
                    // There may be more where these came from.
                    if claimed > 0 {
                        continue;
                    }
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!("cannot deliver what is in the outbox: {problem}");
                    }
                }
            }
            let next_at = self.next_at();
            tokio::select! {
                // What failed to be written down has to wait for its next try.
                Some(done) = self.under_way.join_next_with_id(), if !failing => {
                    self.note(done);
                }
                () = outbox.wake.notified() => {}
                () = tokio::time::sleep_until(next_at) => {}
                _ = stop.changed() => {}
            }
        }
        self.end().await;
    }

    /// Writes down what is over, then begins what was handed over and what is due. Returns how much was
    /// due.
    async fn step(&mut self) -> Result<usize, StoreError> {
        while let Some(done) = self.under_way.try_join_next_with_id() {
            self.note(done);
        }
        let handed_over = self.outbox.take_handed_over();
        self.begin(handed_over, false);
        self.begin_late();
        let settled = self.settle().await;
        if !self.has_to_look() {
            return settled.map(|()| 0);
        }
        self.look_at = Instant::now() + LOOK_EVERY;
        let settings = self.outbox.settings;
        let until = [settings.webhooks, settings.documents].map(|kind| self.outbox.claim_end(kind));
        let until = until[0].max(until[1]);
        let due = self.claim_due(until).await?;
        let mut count = due.len();
        self.begin(due, true);
        let refused = self.claim_refused(until).await?;
        count += refused.len();
        self.begin(refused, true);
        settled.map(|()| count)
    }

    async fn claim_due(&self, until: Timestamp) -> Result<Vec<Delivery>, StoreError> {
        let (receivers, gone) = (self.outbox.receivers.all(), self.outbox.receivers.gone());
        let in_use = receivers.iter().filter(|live| live.is_in_use());
        let (wanted, full) = self.wanted(in_use.chain(&gone));
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.outbox.unclaimed.store(full, Ordering::Release);
        let now = self.outbox.common.now();
        let claimed = self.outbox.common.store.claim_deliveries(&wanted, now, until).await;
        if claimed.as_ref().map_or(true, |claimed| !claimed.is_empty()) {
            self.outbox.unclaimed.store(true, Ordering::Release);
        }
        claimed
    }

    /// Claims what waits for receivers that were disabled, to make dead letters of it. Once attempts from
    /// before that are over, it need not be due: it would go out late if the receiver is put to use again.
    async fn claim_refused(&self, until: Timestamp) -> Result<Vec<Delivery>, StoreError> {
        let (now, receivers) = (self.outbox.common.now(), self.outbox.receivers.all());
        // What is under way here already would be claimed again.
        let is_busy = |live: &LiveReceiver| {
            let mut known = self.trips.values().map(|trip| trip.receiver.id());
            known.any(|id| id == live.id())
                || self.done.iter().any(|done| done.receiver.id() == live.id())
        };
        let disabled = receivers.iter().filter(|live| !live.is_in_use() && !is_busy(live));
        let (lately, before): (Vec<_>, Vec<_>) = disabled.partition(|live| {
            let since = live.stored().disabled.as_ref().map_or(now, |disabled| disabled.at);
            now.duration_since(since) < until.duration_since(now)
        });
        let mut claimed = Vec::new();
        for (receivers, due) in [(lately, now), (before, Timestamp::MAX)] {
            let (wanted, _) = self.wanted(receivers.into_iter());
            if !wanted.is_empty() {
                let store = &self.outbox.common.store;
                claimed.extend(store.claim_deliveries(&wanted, due, until).await?);
            }
        }
        Ok(claimed)
    }

    /// Whether something may be due that was not handed over: somebody says so, or a while has passed,
    /// in which others may have left something.
    fn has_to_look(&self) -> bool {
        self.outbox.unclaimed.load(Ordering::Acquire) || Instant::now() >= self.look_at
    }

    /// Which of some receivers to deliver to, and how much at most. And whether there is somebody who has
    /// no room just now, so that one has to look again when there is.
    fn wanted<'a>(
        &self,
        receivers: impl Iterator<Item = &'a Arc<LiveReceiver>>,
    ) -> (Vec<Wanted>, bool) {
        let now = Instant::now();
        let (mut wanted, mut full) = (Vec::new(), false);
        for live in receivers {
            let at_once = self.outbox.settings(live.stored().receiver.purpose).at_once;
            let lane = self.lanes.get(&live.id());
            // One that was left alone gets one attempt, and nothing else beside it.
            let at_once = lane.map_or(at_once, |lane| lane.breaker.allows(at_once, now));
            if at_once == 0 {
                continue;
            }
            let ordered = live.is_ordered();
            let limit = match lane {
                // The order would be lost beside those that are under way.
                Some(lane) if ordered && lane.busy => 0,
                _ if ordered => live.load.room(at_once),
                // Half of them, so that some can be claimed while others are under way.
                _ => live.load.room(at_once).min(at_once.div_ceil(2)),
            };
            if limit == 0 {
                full = true;
                continue;
            }
            let (receiver, tenant) = (live.id(), live.tenant().to_owned());
            wanted.push(Wanted { receiver, tenant, limit, ordered });
        }
        (wanted, full)
    }

    /// Begins attempts. Those that were handed over have taken up their room already.
    fn begin(&mut self, deliveries: Vec<Delivery>, enter: bool) {
        let mut by_receiver: HashMap<ReceiverId, Vec<Delivery>> = HashMap::new();
        for delivery in deliveries {
            by_receiver.entry(delivery.content.receiver).or_default().push(delivery);
        }
        for (id, deliveries) in by_receiver {
            // Unknown only if it was deleted long ago. The claims end by themselves.
            let Some(receiver) = find(&self.outbox, id) else { continue };
            if enter {
                receiver.load.enter(freight_of(&deliveries));
            }
            if receiver.takes_together() {
                self.lanes.entry(id).or_default().waiting.extend(deliveries);
                self.begin_waiting(&receiver);
            } else {
                for delivery in deliveries {
                    self.spawn(&receiver, vec![delivery]);
                }
            }
        }
    }

    fn begin_waiting(&mut self, receiver: &Arc<LiveReceiver>) {
        let now = Instant::now();
        let at_once = self.outbox.settings(receiver.stored().receiver.purpose).at_once;
        // Nothing comes to those that wait if there is no room, or if the order counts.
        let grows = !receiver.is_ordered() && receiver.load.room(at_once) > 0;
        let lane = self.lanes.entry(receiver.id()).or_default();
        let is_early = grows && lane.begin_at.is_some_and(|at| now < at);
        if lane.busy || lane.waiting.is_empty() || is_early {
            return;
        }
        lane.busy = true;
        lane.begin_at = Some(now + FILES_EVERY);
        let deliveries = std::mem::take(&mut lane.waiting);
        self.spawn(receiver, deliveries);
    }

    /// Begins what has waited long enough.
    fn begin_late(&mut self) {
        let held_back = self.lanes.iter().filter(|(_, lane)| lane.is_held_back());
        let held_back: Vec<ReceiverId> = held_back.map(|(id, _)| *id).collect();
        for id in held_back {
            match find(&self.outbox, id) {
                Some(receiver) => self.begin_waiting(&receiver),
                // It was deleted long ago. The claims end by themselves.
                None => self.lanes.entry(id).or_default().waiting.clear(),
            }
        }
    }

    /// When something has to be done next, if nobody says anything.
    fn next_at(&self) -> Instant {
        let held_back = self.lanes.values().filter(|lane| lane.is_held_back());
        held_back.filter_map(|lane| lane.begin_at).fold(self.look_at, Instant::min)
    }

    fn spawn(&mut self, receiver: &Arc<LiveReceiver>, deliveries: Vec<Delivery>) {
        let (freight, began) = (freight_of(&deliveries), Instant::now());
        let trip = Trip { receiver: Arc::clone(receiver), freight, began };
        let attempts = attempt_all(Arc::clone(&self.outbox), Arc::clone(receiver), deliveries);
        self.trips.insert(self.under_way.spawn(attempts).id(), trip);
    }

    fn note(&mut self, done: Result<(task::Id, Vec<Done>), JoinError>) {
        let id = match &done {
            Ok((id, _)) => *id,
            Err(panic) => panic.id(),
        };
        let Some(Trip { receiver, freight, began }) = self.trips.remove(&id) else { return };
        let lane = self.lanes.entry(receiver.id()).or_default();
        lane.busy = false;
        match done {
            Ok((_, done)) => {
                note_health(&receiver, &mut lane.breaker, worked(&done), began);
                self.done.extend(done);
            }
            Err(panic) => {
                error!("an attempt at a delivery panicked: {panic}");
                receiver.load.leave(freight);
            }
        }
        self.begin_waiting(&receiver);
    }

    /// Writes down what is over, shard by shard: one that is down must not hold up the others. Until that
    /// is done it takes up room.
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

    async fn settle_on_shard(&self, done: Vec<Done>) -> Result<(), (Vec<Done>, StoreError)> {
        let outcomes: Vec<_> = done.iter().map(|done| done.outcome.clone()).collect();
        let common = &self.outbox.common;
        let settled = match common.store.settle_deliveries(&outcomes, common.now()).await {
            Ok(settled) => settled,
            Err(problem) => return Err((done, problem)),
        };
        let mut arrived = Vec::new();
        for (done, settled) in done.into_iter().zip(settled) {
            done.receiver.load.leave(done.freight);
            if settled {
                continue;
            }
            let id = done.outcome.delivery;
            info!(delivery = id.0, "delivery {} is no longer ours", id.0);
            if done.outcome.next == Next::Delivered {
                arrived.push((id, done.outcome.attempt));
            }
        }
        if !arrived.is_empty() {
            let outbox = Arc::clone(&self.outbox);
            tokio::spawn(async move { outbox.note_arrivals(arrived).await });
        }
        Ok(())
    }

    /// Leaves what is claimed and was not begun to whoever comes next.
    fn leave_untried(&mut self) {
        let waiting = self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.waiting));
        for delivery in waiting.chain(self.outbox.take_handed_over()) {
            if let Some(receiver) = self.outbox.receivers.by_id(delivery.content.receiver) {
                self.done.push(untried(&self.outbox, &receiver, &delivery));
            }
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
        self.leave_untried();
        if let Err(problem) = self.settle().await {
            warn!("cannot write down how deliveries went: {problem}");
        }
    }
}

fn freight_of(deliveries: &[Delivery]) -> Freight {
    Freight::of(deliveries.iter().map(|delivery| &delivery.content.body))
}

/// A receiver, also one that was deleted a moment ago.
fn find(outbox: &Outbox, id: ReceiverId) -> Option<Arc<LiveReceiver>> {
    let gone = || outbox.receivers.gone().into_iter().find(|live| live.id() == id);
    outbox.receivers.by_id(id).or_else(gone)
}

fn note_health(
    receiver: &LiveReceiver,
    breaker: &mut Breaker,
    worked: Option<bool>,
    began: Instant,
) {
    match worked {
        Some(true) => breaker.worked(),
        Some(false) => breaker.failed(began, Instant::now()),
        None => return,
    }
    let rests = breaker.is_open();
    if receiver.load.set_resting(rests) && rests {
        let name = receiver.name();
        info!(receiver = name, "{name} fails again and again; it is left alone for a while");
    }
}

/// Whether the receiver works, by what was tried together: however many that were, it is one experience.
fn worked(done: &[Done]) -> Option<bool> {
    done.iter().filter_map(|done| done.worked).reduce(|one, other| one || other)
}
