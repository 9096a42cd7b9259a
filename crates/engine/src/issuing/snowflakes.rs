//! Snowflakes: made on demand from the clock, within time that was reserved durably.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idgen::snowflake::{Next, SnowflakeFormat, SnowflakeGenerator};
use storage::{Issue, IssueGroup, NodeLease, Span, Store, TypeId};
use tracing::error;

use super::log::Accountable;
use super::stock::{IdList, Taker, push_issue};
use crate::error::IssueError;
use crate::surroundings::Clock;

/// How far ahead time is reserved. After a crash nothing is made before this has passed.
const RESERVE_MS: i64 = 500;
/// With less than this left, more is reserved in the background.
const RESERVE_LOW_MS: i64 = 250;
/// Longest wait for a clock that is behind.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The node number of this instance, with the time that it may use.
pub(crate) struct SnowflakeNode {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: String,
    lease: NodeLease,
    reserved_ms: AtomicI64,
    reserving: tokio::sync::Mutex<()>,
}

impl SnowflakeNode {
    /// Takes a node number from the store.
    pub(crate) async fn lease(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        instance: String,
    ) -> storage::Result<Arc<Self>> {
        let lease = store.lease_node(&instance).await?;
        Ok(Arc::new(Self {
            store,
            clock,
            instance,
            lease,
            reserved_ms: AtomicI64::new(i64::MIN),
            reserving: tokio::sync::Mutex::default(),
        }))
    }

    /// The time now, once it is reserved.
    async fn usable_now(self: &Arc<Self>) -> Result<i64, IssueError> {
        let now_ms = self.clock.now_ms();
        let left_ms = self.reserved_ms.load(Ordering::Acquire).saturating_sub(now_ms);
        if left_ms < 0 {
            self.reserve(now_ms).await?;
        } else if left_ms < RESERVE_LOW_MS && self.reserving.try_lock().is_ok() {
            let node = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(problem) = node.reserve(now_ms).await {
                    error!("cannot reserve time for snowflakes: {problem}");
                }
            });
        }
        Ok(now_ms)
    }

    async fn reserve(&self, now_ms: i64) -> Result<(), IssueError> {
        let _one_at_a_time = self.reserving.lock().await;
        let wanted_ms = now_ms + RESERVE_MS;
        if self.reserved_ms.load(Ordering::Acquire) < now_ms + RESERVE_LOW_MS {
            self.store.reserve_time(self.lease.node, &self.instance, wanted_ms).await?;
            self.reserved_ms.fetch_max(wanted_ms, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// A snowflake type.
pub(crate) struct SnowflakeLine {
    type_id: TypeId,
    node: Arc<SnowflakeNode>,
    state: Mutex<State>,
}

struct State {
    generator: SnowflakeGenerator,
    issues: Vec<Issue>,
    in_log_queue: bool,
}

impl SnowflakeLine {
    pub(crate) fn new(
        type_id: TypeId,
        format: SnowflakeFormat,
        node: Arc<SnowflakeNode>,
    ) -> Result<Self, IssueError> {
        let generator = format.generator(node.lease.node, node.lease.high_water_ms)?;
        let state = Mutex::new(State { generator, issues: Vec::new(), in_log_queue: false });
        Ok(Self { type_id, node, state })
    }

    /// Makes IDs. Returns them and whether the log writer must be told.
    pub(crate) async fn take(
        &self,
        count: usize,
        key_id: i64,
    ) -> Result<(IdList, bool), IssueError> {
        let mut ids = IdList::default();
        let mut waited = Duration::ZERO;
        let mut enqueue = false;
        loop {
            let now_ms = self.node.usable_now().await?;
            let taker = Taker { key_id, at_ms: now_ms };
            let wait = {
                let mut state = self.lock();
                enqueue |= !std::mem::replace(&mut state.in_log_queue, true);
                state.make(count, &mut ids, taker)?
            };
            let Some(wait) = wait else { return Ok((ids, enqueue)) };
            waited += wait;
            if waited > WAIT_MAX {
                let reason = "the clock was set back; waiting for it to catch up";
                return Err(IssueError::Unavailable(reason.to_owned()));
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds a generator")
    }
}

impl State {
    /// Makes IDs until there are enough, or says how long to wait for the rest.
    fn make(
        &mut self,
        count: usize,
        ids: &mut IdList,
        taker: Taker,
    ) -> Result<Option<Duration>, IssueError> {
        while ids.len() < count {
            match self.generator.next(taker.at_ms)? {
                Next::Ready(id) => {
                    ids.push(&id.to_string());
                    push_issue(&mut self.issues, id, id, taker);
                }
                Next::Wait(wait) => return Ok(Some(wait)),
            }
        }
        Ok(None)
    }
}

impl Accountable for SnowflakeLine {
    fn drain_log(&self) -> Vec<IssueGroup> {
        let mut state = self.lock();
        state.in_log_queue = false;
        let issues = std::mem::take(&mut state.issues);
        let (Some(first), Some(last)) = (issues.first(), issues.last()) else { return Vec::new() };
        let serials = first.first..last.last + 1;
        let span = Span { type_id: self.type_id, period: String::new(), serials };
        vec![IssueGroup { span, issues }]
    }
}
