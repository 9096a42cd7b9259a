//! Snowflakes: made on demand from the clock, within stretches of time that were drawn durably.
//!
//! A snowflake is its own serial. Each node of a type has a counter over these numbers, and a draw
//! takes the numbers of the next half second. So the same rules hold as for every other type: no
//! number is used that was not drawn first, two draws never overlap, whatever the clock does, and
//! what a crash leaves behind is found as a gap.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use idgen::snowflake::{Next, SnowflakeFormat, SnowflakeGenerator};
use storage::{Draw, Issue, IssueGroup, Span, Store, StoredType, TypeId};

use super::log::{Account, Accountable, LogWriter};
use super::stock::{IdList, Taker};
use crate::error::IssueError;
use crate::membership::Membership;
use crate::surroundings::Clock;

/// How far ahead time is drawn. After a crash nothing is made before this has passed.
const AHEAD_MS: i64 = 500;
/// With less than this left, more is drawn.
const LOW_MS: i64 = 100;
/// Longest wait for a clock that is behind.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What snowflake types need from their surroundings.
#[derive(Clone)]
pub(crate) struct SnowflakeParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The writer's queue holds types, so a type must not hold the writer.
    pub(crate) log: Weak<LogWriter>,
    /// Knows the node that this instance holds.
    pub(crate) membership: Arc<Membership>,
}

/// A snowflake type.
pub(crate) struct SnowflakeLine {
    type_id: TypeId,
    revision: i64,
    format: SnowflakeFormat,
    parts: SnowflakeParts,
    state: Mutex<State>,
    drawing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    generator: Option<SnowflakeGenerator>,
    /// The node that the generator and the draws are for.
    node: u16,
    /// Groups of a node that this instance holds no more.
    finished: Vec<IssueGroup>,
    /// Draws that are not fully accounted for, in order.
    draws: VecDeque<Range<u64>>,
    issues: VecDeque<Issue>,
    in_log_queue: bool,
    closed: bool,
}

impl SnowflakeLine {
    pub(crate) fn new(stored: &StoredType, format: SnowflakeFormat, parts: SnowflakeParts) -> Self {
        let (state, drawing) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { type_id: stored.id, revision: stored.revision, format, parts, state, drawing }
    }

    /// Makes IDs.
    pub(crate) async fn take(
        self: &Arc<Self>,
        count: usize,
        key_id: i64,
    ) -> Result<IdList, IssueError> {
        let mut ids = IdList::default();
        let mut waited = Duration::ZERO;
        loop {
            let now_ms = self.parts.clock.now_ms();
            // Looked at before every ID: whoever is silent for too long may have lost its node.
            let node = self.parts.membership.node().ok_or_else(lost_node)?;
            self.lock().work_as(node, self.type_id);
            self.draw_ahead(now_ms, node).await?;
            let wait = self.make(count, &mut ids, Taker { key_id, at_ms: now_ms })?;
            let Some(wait) = wait else { return Ok(ids) };
            waited += wait;
            if waited > WAIT_MAX {
                let reason = "the clock was set back; waiting for it to catch up";
                return Err(IssueError::Unavailable(reason.to_owned()));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Makes IDs until there are enough, or says how long to wait for the rest. The log is told
    /// under the same lock, so that no ID leaves without a trace.
    fn make(
        self: &Arc<Self>,
        count: usize,
        ids: &mut IdList,
        taker: Taker,
    ) -> Result<Option<Duration>, IssueError> {
        let mut state = self.lock();
        if state.closed {
            return Err(IssueError::Closed);
        }
        if let Some(log) = self.parts.log.upgrade().filter(|_| !state.in_log_queue) {
            log.enqueue(Arc::clone(self) as _);
            state.in_log_queue = true;
        }
        while ids.len() < count {
            let generator = state.generator.as_mut().ok_or(IssueError::PoolEmpty)?;
            match generator.next(taker.at_ms)? {
                Next::Ready(id) => {
                    ids.push(&id.to_string());
                    state.account_for(id, taker);
                }
                Next::Wait(wait) => return Ok(Some(wait)),
            }
        }
        Ok(None)
    }

    /// Sees to it that the numbers of this millisecond are drawn.
    async fn draw_ahead(&self, now_ms: i64, node: u16) -> Result<(), IssueError> {
        let needed = self.format.first_id_at(now_ms + LOW_MS)?;
        if self.lock().drawn_to() >= needed {
            return Ok(());
        }
        let _one_at_a_time = self.drawing.lock().await;
        let drawn_to = self.lock().drawn_to();
        if drawn_to >= needed {
            return Ok(());
        }
        let end = self.format.first_id_at(now_ms + AHEAD_MS)?;
        let period = node_period(node);
        let next = match drawn_to {
            0 => self.stored_position(&period).await?,
            drawn_to => drawn_to,
        };
        // A clock that was set back is still within what was drawn before: draw a little beyond.
        let end = end.max(next.saturating_add(1));
        let draw = Draw {
            type_id: self.type_id,
            period: &period,
            count: end - next,
            bounds: (0, idgen::spec::SERIAL_MAX),
            holder: self.parts.membership.instance(),
            revision: self.revision,
            now: self.parts.clock.now(),
        };
        let drawn = self.parts.store.draw(draw).await?;
        self.lock().add(drawn, self.format, node)
    }

    async fn stored_position(&self, period: &str) -> Result<u64, IssueError> {
        let counters = self.parts.store.counters(self.type_id).await?;
        Ok(counters.into_iter().find(|(name, _)| name == period).map_or(0, |(_, next)| next))
    }

    /// Makes no more IDs, and accounts for all that were drawn.
    pub(crate) fn close(&self) -> Vec<IssueGroup> {
        let mut state = self.lock();
        state.closed = true;
        state.give_up(self.type_id);
        std::mem::take(&mut state.finished)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds a generator")
    }
}

impl State {
    fn drawn_to(&self) -> u64 {
        self.draws.back().map_or(0, |draw| draw.end)
    }

    fn add(
        &mut self,
        drawn: Range<u64>,
        format: SnowflakeFormat,
        node: u16,
    ) -> Result<(), IssueError> {
        if drawn.is_empty() {
            return Err(IssueError::Exhausted { left: 0 });
        }
        if self.node != node {
            // The node was lost while the draw was under way. It is found as lost later.
            return Err(lost_node());
        }
        if self.drawn_to() != drawn.start || self.generator.is_none() {
            // Nothing before this draw is ours.
            self.generator = Some(format.generator(node, format.last_ms_before(drawn.start))?);
        }
        self.draws.push_back(drawn);
        Ok(())
    }

    /// Goes on as another node, if it is another.
    fn work_as(&mut self, node: u16, type_id: TypeId) {
        if self.node != node {
            self.give_up(type_id);
            self.node = node;
        }
    }

    /// Makes no more IDs from what was drawn, and accounts for all of it.
    fn give_up(&mut self, type_id: TypeId) {
        let groups = self.drain(type_id);
        self.finished.extend(groups);
        // What is left was only time. Nobody was given any of it, and nobody misses it.
        for serials in std::mem::take(&mut self.draws) {
            self.finished.push(group(type_id, self.node, serials, Vec::new()));
        }
        self.generator = None;
    }

    fn account_for(&mut self, id: u64, taker: Taker) {
        let Taker { key_id, at_ms } = taker;
        match self.issues.back_mut() {
            Some(issue)
                if issue.last + 1 == id && (issue.key_id, issue.at_ms) == (key_id, at_ms) =>
            {
                issue.last = id;
            }
            _ => self.issues.push_back(Issue { first: id, last: id, key_id, at_ms }),
        }
    }

    /// Groups for everything that was handed out. Draws that lie behind the last ID are closed.
    fn drain(&mut self, type_id: TypeId) -> Vec<IssueGroup> {
        let mut groups = std::mem::take(&mut self.finished);
        let Some(last) = self.issues.back().map(|issue| issue.last) else { return groups };
        let node = self.node;
        while let Some(draw) = self.draws.front_mut() {
            let over = last >= draw.end;
            let end = if over { draw.end } else { last + 1 };
            let count = self.issues.partition_point(|issue| issue.last < end);
            let issues = self.issues.drain(..count).collect();
            groups.push(group(type_id, node, draw.start..end, issues));
            if !over {
                draw.start = end;
                break;
            }
            self.draws.pop_front();
        }
        groups
    }
}

fn group(type_id: TypeId, node: u16, serials: Range<u64>, issues: Vec<Issue>) -> IssueGroup {
    IssueGroup { span: Span { type_id, period: node_period(node), serials }, issues }
}

/// The counter of a node.
pub(crate) fn node_period(node: u16) -> String {
    format!("node-{node}")
}

fn lost_node() -> IssueError {
    IssueError::Unavailable("this instance has lost its node and is waiting for another".to_owned())
}

impl Accountable for SnowflakeLine {
    fn drain_log(&self) -> Account {
        let mut state = self.lock();
        state.in_log_queue = false;
        Account { groups: state.drain(self.type_id), held: Vec::new() }
    }
}
