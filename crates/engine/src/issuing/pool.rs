//! A pool: IDs of one counter, ready to hand out, and the requests that wait for more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use idgen::format::Format;
use storage::{IssueGroup, TypeId};
use tokio::sync::{Notify, oneshot};
use tracing::warn;

use super::burn::Burn;
use super::log::{Account, LogWriter};
use super::sizing::Sizing;
use super::stock::{Block, Rest, Stock, Taken, Taker};
use super::supply::Supply;
use crate::error::IssueError;

/// Shares of a space at which somebody should be told.
const WARN_AT: [f64; 2] = [0.90, 0.99];

/// How a draw becomes IDs.
#[derive(Debug, Clone)]
pub(crate) enum Renderer {
    /// Written when handed out.
    Sequence,
    /// Rendered ahead; the format must be a random one.
    Random(Arc<Format>),
}

/// What a pool is for.
pub(crate) struct PoolParts {
    pub(crate) type_id: TypeId,
    /// The revision of the type that the pool works for.
    pub(crate) revision: i64,
    /// For messages: `tenant/name`.
    pub(crate) label: String,
    pub(crate) period: String,
    pub(crate) renderer: Renderer,
    /// First serial of the counter, and the end of its space.
    pub(crate) bounds: (u64, u64),
    pub(crate) supply: Supply,
    pub(crate) sizing: Sizing,
}

/// The pool of one counter.
pub(crate) struct Pool {
    parts: PoolParts,
    state: Mutex<State>,
    /// Woken when a refill ends.
    refill_ended: Notify,
}

#[derive(Debug)]
struct State {
    stock: Stock,
    waiters: VecDeque<Waiter>,
    /// A refill is under way; there is never more than one.
    refilling: bool,
    /// Until then the counter is known to have no serials left. In company others may put some
    /// back, so it is looked at again.
    drained_until_ms: i64,
    /// The pool was given up; it hands out nothing any more.
    closed: bool,
    /// The log writer knows that there is something to write.
    in_log_queue: bool,
    /// How many IDs a refill aims for.
    target: usize,
    last_refill_ms: i64,
    last_take_ms: i64,
    /// Serials drawn here and IDs that they gave, for the share that filters accept.
    drawn: u64,
    accepted: u64,
    /// The counter's next serial as of the last draw.
    next_serial: Option<u64>,
    /// How many of the marks in [`WARN_AT`] have been passed.
    warnings: usize,
    burn: Burn,
}

#[derive(Debug)]
struct Waiter {
    count: usize,
    taker: Taker,
    answer: oneshot::Sender<Result<Taken, IssueError>>,
}

/// What a request meets.
pub(crate) enum Take {
    Now(Taken),
    Later(oneshot::Receiver<Result<Taken, IssueError>>),
}

/// A look at a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolView {
    pub(crate) level: usize,
    pub(crate) target: usize,
    pub(crate) burn_per_second: f64,
    pub(crate) acceptance: f64,
    pub(crate) used_ratio: f64,
    pub(crate) next_serial: Option<u64>,
}

impl Pool {
    pub(crate) fn new(parts: PoolParts) -> Self {
        // A small sample spares a heavily filtered type a series of draws that are far too small.
        let (drawn, accepted) = match &parts.renderer {
            Renderer::Random(format) => sample_acceptance(format),
            Renderer::Sequence => (1, 1),
        };
        let state = State {
            stock: Stock::new(parts.type_id, parts.period.clone()),
            waiters: VecDeque::new(),
            refilling: false,
            drained_until_ms: 0,
            closed: false,
            in_log_queue: false,
            target: parts.sizing.min,
            last_refill_ms: 0,
            last_take_ms: 0,
            drawn,
            accepted,
            next_serial: None,
            warnings: 0,
            burn: Burn::default(),
        };
        let (state, refill_ended) = (Mutex::new(state), Notify::new());
        Self { parts, state, refill_ended }
    }

    /// Whether its IDs take time to write.
    pub(crate) fn is_rendered_ahead(&self) -> bool {
        matches!(self.renderer, Renderer::Random(_))
    }

    /// Whether anybody has ever taken from it here.
    pub(crate) fn is_in_use(&self) -> bool {
        self.lock().last_take_ms != 0
    }

    /// Takes IDs, or a place in the queue, and says whether the caller must start a refill.
    pub(crate) fn take(
        self: &Arc<Self>,
        count: usize,
        taker: Taker,
        log: &LogWriter,
    ) -> Result<(Take, bool), IssueError> {
        let mut state = self.lock();
        if state.closed {
            return Err(IssueError::Closed);
        }
        if state.waiters.is_empty() && state.stock.len() >= count {
            let taken = state.take(count, taker);
            self.tell(&mut state, log);
            return Ok((Take::Now(taken), state.wants_refill(self.sizing.watermark)));
        }
        if taker.at_ms < state.drained_until_ms {
            return Err(IssueError::Exhausted { left: state.stock.len() as u64 });
        }
        let (answer, receiver) = oneshot::channel();
        state.waiters.push_back(Waiter { count, taker, answer });
        let refill = !std::mem::replace(&mut state.refilling, true);
        Ok((Take::Later(receiver), refill))
    }

    /// Claims the refill of a pool below its watermark, or of any that is not full.
    pub(crate) fn start_refill(&self) -> bool {
        let mut state = self.lock();
        let start = !state.refilling && !state.closed && state.drained_until_ms == 0;
        state.refilling |= start;
        start
    }

    /// Begins a refill: chooses the size of the stock, and returns how many IDs are missing.
    pub(crate) fn begin_refill(&self, now_ms: i64) -> Option<usize> {
        let mut state = self.lock();
        let lasted_ms = (state.last_refill_ms != 0).then(|| now_ms - state.last_refill_ms);
        state.target = self.sizing.next(state.target, lasted_ms);
        state.last_refill_ms = now_ms;
        let missing = state.missing();
        self.continue_or_end(state, missing)
    }

    /// How many IDs a refill should go on for; `None` ends it. A stock that is in use is never
    /// quite full: what was taken meanwhile is left for the next refill.
    pub(crate) fn continue_refill(&self) -> Option<usize> {
        let mut state = self.lock();
        let missing = match state.missing() {
            missing if missing > state.target / 4 || !state.waiters.is_empty() => missing,
            _ => 0,
        };
        self.continue_or_end(state, missing)
    }

    fn continue_or_end(&self, mut state: MutexGuard<'_, State>, missing: usize) -> Option<usize> {
        if missing > 0 && !state.closed {
            return Some(missing);
        }
        state.refilling = false;
        self.refill_ended.notify_waiters();
        None
    }

    /// How many serials give about so many IDs.
    pub(crate) fn serials_for(&self, ids: usize) -> u64 {
        self.lock().serials_for(ids)
    }

    /// The share of serials that filters accept.
    pub(crate) fn acceptance(&self) -> f64 {
        self.lock().acceptance()
    }

    /// Adds the IDs of a draw and serves who waits.
    pub(crate) fn add_drawn(
        self: &Arc<Self>,
        block: Block,
        drawn: &std::ops::Range<u64>,
        log: &LogWriter,
    ) {
        let mut state = self.lock();
        state.drawn += drawn.end - drawn.start;
        state.accepted += block.len() as u64;
        state.next_serial = Some(drawn.end);
        self.add(state, block, log);
    }

    /// Notes how far the counter was drawn for the pool that this one takes from.
    pub(crate) fn note_drawn_for_shared(&self, next: u64) {
        let mut state = self.lock();
        state.next_serial = state.next_serial.max(Some(next));
    }

    /// Adds what came out of a shared pool and serves who waits.
    pub(crate) fn add_withdrawn(self: &Arc<Self>, blocks: Vec<Block>, log: &LogWriter) {
        for block in blocks {
            self.add(self.lock(), block, log);
        }
    }

    fn add(self: &Arc<Self>, mut state: MutexGuard<'_, State>, block: Block, log: &LogWriter) {
        state.stock.add(block);
        state.drained_until_ms = 0;
        self.tell(&mut state, log);
        state.serve_waiters();
    }

    /// Ends a refill that found no serials: serves whom it can and tells the others.
    pub(crate) fn drained(self: &Arc<Self>, until_ms: i64, log: &LogWriter) {
        let mut state = self.lock();
        self.tell(&mut state, log);
        state.refilling = false;
        state.drained_until_ms = until_ms;
        state.next_serial = Some(self.bounds.1);
        for waiter in std::mem::take(&mut state.waiters) {
            if waiter.answer.is_closed() {
                continue;
            }
            let left = state.stock.len();
            let answer = if waiter.count <= left {
                Ok(state.take(waiter.count, waiter.taker))
            } else {
                Err(IssueError::Exhausted { left: left as u64 })
            };
            let _ = waiter.answer.send(answer);
        }
        self.refill_ended.notify_waiters();
    }

    /// Ends a refill that failed, and everybody's wait.
    pub(crate) fn refill_failed(&self, reason: &IssueError) {
        let mut state = self.lock();
        state.refilling = false;
        for waiter in std::mem::take(&mut state.waiters) {
            let _ = waiter.answer.send(Err(reason.clone()));
        }
        self.refill_ended.notify_waiters();
    }

    /// What was handed out since the last call.
    pub(crate) fn drain_log(&self) -> Account {
        let mut state = self.lock();
        state.in_log_queue = false;
        self.warn_about(&mut state);
        Account { groups: state.stock.drain_log(), held: state.stock.newly_held() }
    }

    /// Empties a stock that nobody has taken from for a while, for others to have.
    pub(crate) fn idle_rest(&self, idle_since_ms: i64) -> Option<(Vec<IssueGroup>, Vec<Rest>)> {
        let mut state = self.lock();
        let idle = state.last_take_ms < idle_since_ms && !state.refilling && !state.closed;
        if !idle || state.stock.len() == 0 {
            return None;
        }
        state.target = self.sizing.min;
        let groups = state.stock.drain_log();
        Some((groups, state.stock.drain_rest()))
    }

    /// Says so, once for each mark, when not much of the space is left.
    pub(crate) fn warn_if_nearly_used_up(&self) {
        self.warn_about(&mut self.lock());
    }

    fn warn_about(&self, state: &mut State) {
        let used = self.used_ratio(state);
        while let Some(mark) = WARN_AT.get(state.warnings).filter(|mark| used >= **mark) {
            let percent = mark * 100.0;
            warn!(pool = self.label, "{} has used {percent} % of its space", self.label);
            state.warnings += 1;
        }
    }

    /// The share of the space that is handed out or skipped.
    #[expect(clippy::cast_precision_loss, reason = "a share does not need 64 bits")]
    fn used_ratio(&self, state: &State) -> f64 {
        let (start, end) = self.bounds;
        let pooled = match &self.supply {
            Supply::Counter => 0.0,
            Supply::Shared(shared) => shared.view().items as f64 / state.acceptance(),
        };
        let next = state.next_serial.unwrap_or(start);
        let used = (next - start).saturating_sub(state.stock.serials_left()) as f64 - pooled;
        used.max(0.0) / (end - start) as f64
    }

    /// Gives the pool up: nothing leaves it any more. Waits for the refill under way, whose draw
    /// would stand between the rest and the counter. Returns the last of the log, and the serials
    /// that were never handed out.
    pub(crate) async fn close(&self) -> (Vec<IssueGroup>, Vec<Rest>) {
        {
            let mut state = self.lock();
            state.closed = true;
            for waiter in std::mem::take(&mut state.waiters) {
                let _ = waiter.answer.send(Err(IssueError::Closed));
            }
        }
        loop {
            let ended = self.refill_ended.notified();
            if !self.lock().refilling {
                break;
            }
            ended.await;
        }
        let mut state = self.lock();
        let groups = state.stock.drain_log();
        let rest = state.stock.drain_rest();
        (groups, rest)
    }

    pub(crate) fn view(&self, now_ms: i64) -> PoolView {
        let state = self.lock();
        PoolView {
            level: state.stock.len(),
            target: state.target,
            burn_per_second: state.burn.per_second(now_ms),
            acceptance: state.acceptance(),
            used_ratio: self.used_ratio(&state),
            next_serial: state.next_serial,
        }
    }

    /// Puts the pool into the log writer's queue. Under the same lock as the taking, so that a
    /// flush that begins after a request was answered knows of its IDs.
    fn tell(self: &Arc<Self>, state: &mut State, log: &LogWriter) {
        if !std::mem::replace(&mut state.in_log_queue, true) {
            log.enqueue(Arc::clone(self) as _);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds a pool")
    }
}

impl std::ops::Deref for Pool {
    type Target = PoolParts;

    fn deref(&self) -> &PoolParts {
        &self.parts
    }
}

impl State {
    fn take(&mut self, count: usize, taker: Taker) -> Taken {
        self.last_take_ms = taker.at_ms;
        self.burn.count(count, taker.at_ms);
        self.stock.take(count, taker)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a pool's size is a size"
    )]
    fn wants_refill(&mut self, watermark: f64) -> bool {
        let floor = (self.target as f64 * (1.0 - watermark)) as usize;
        let wants = self.target > 0
            && self.stock.len() <= floor
            && !self.refilling
            && self.drained_until_ms == 0;
        self.refilling |= wants;
        wants
    }

    fn serve_waiters(&mut self) {
        while let Some(waiter) = self.waiters.front() {
            if waiter.answer.is_closed() {
                self.waiters.pop_front();
            } else if waiter.count <= self.stock.len() {
                let waiter = self.waiters.pop_front().expect("it is in front");
                let taken = self.take(waiter.count, waiter.taker);
                // If the client has just left, its IDs stay issued to it: it may have seen them.
                let _ = waiter.answer.send(Ok(taken));
            } else {
                return;
            }
        }
    }

    /// IDs that waiters and the stock want.
    fn missing(&mut self) -> usize {
        self.waiters.retain(|waiter| !waiter.answer.is_closed());
        let waiting: usize = self.waiters.iter().map(|waiter| waiter.count).sum();
        (self.target + waiting).saturating_sub(self.stock.len())
    }

    #[expect(clippy::cast_precision_loss, reason = "a share does not need 64 bits")]
    fn acceptance(&self) -> f64 {
        (self.accepted.max(1) as f64) / (self.drawn.max(1) as f64)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate of how much to draw, clamped"
    )]
    fn serials_for(&self, ids: usize) -> u64 {
        ((ids as f64 / self.acceptance()).ceil() as u64).clamp(1, super::refill::DRAW_MAX)
    }
}

fn sample_acceptance(format: &Format) -> (u64, u64) {
    const SAMPLE: u64 = 2400;
    match format {
        Format::Random(format) if format.shape().has_filters() => {
            let sample = SAMPLE.min(format.serials());
            let mut accepted = 0;
            format.for_each(0..sample, |_, _| accepted += 1);
            (sample, accepted.max(1))
        }
        _ => (1, 1),
    }
}
