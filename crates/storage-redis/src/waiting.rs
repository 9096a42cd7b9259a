//! Waiting for a turn. A command that waits keeps its connection busy, so each worker has one of its own,
//! made when it first has nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use storage::WorkerName;
use tokio::time::timeout;

use crate::asking::accepted;
use crate::breaker::Shared;
use crate::connect;
use crate::error::Trouble;
use crate::keys::{DISPATCH, TurnKeys};
use crate::link::{Link, Node};
use crate::turns::read_turn;

/// Notes that a worker is there. Key: workers. Argument: worker.
const SEEN: &str = "\
local time = redis.call('TIME')
return redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])";

/// The connections of workers that have nothing to do. One is in here between two waits; when a wait is
/// broken off, its connection is gone, and so is the server's part of it.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<HashMap<String, Waiter>>);

/// A connection to the server that has the turns, in the epoch of a link.
struct Waiter {
    epoch: u64,
    node: Node,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, worker: &str, epoch: u64) -> Option<Waiter> {
        self.lock().remove(worker).filter(|waiter| waiter.epoch == epoch)
    }

    fn keep(&self, worker: String, waiter: Waiter) {
        self.lock().insert(worker, waiter);
    }

    /// Closes all connections.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

/// Waits for a turn, and has it. A turn that was moved while nobody was there to hear of it is in the
/// worker's list, from which it goes back.
pub(crate) async fn await_turn(
    shared: &Shared,
    worker: &WorkerName,
    wait: Duration,
) -> Result<Option<String>, Trouble> {
    let link = shared.breaker.link()?;
    let keys = shared.turn_keys(&link, worker);
    let waiter = match shared.waiters.take(&keys.worker, link.epoch) {
        Some(waiter) => waiter,
        None => connect(shared, &link).await?,
    };
    // Only the answer can be late: how long the server waits was agreed on.
    let limit = wait + shared.settings.timeout.max(LATE_MIN);
    let answer = timeout(limit, ask(&waiter.node, &keys, wait)).await;
    let turn = answer.map_err(|_| Trouble::Late(limit)).flatten();
    match &turn {
        Ok(turn) => shared.figures.turns_taken.add(u64::from(turn.is_some())),
        Err(Trouble::Refused(_)) => shared.figures.notes_refused.add(1),
        Err(_) => return turn,
    }
    shared.waiters.keep(keys.worker, waiter);
    turn
}

/// A server that is a little late has not gone away: whoever waits here is in no hurry.
const LATE_MIN: Duration = Duration::from_millis(500);

/// Connects to the very server that a link has the turns on.
async fn connect(shared: &Shared, link: &Arc<Link>) -> Result<Waiter, Trouble> {
    let linked = link.node(DISPATCH)?;
    let limit = shared.settings.connect_timeout;
    let open = connect::open(&linked.place, shared.tls.as_ref());
    let node = timeout(limit, open).await.map_err(|_| Trouble::Late(limit)).flatten()?;
    if node.server != linked.server {
        return Err(Trouble::Identity("another Redis server answers at the same place"));
    }
    Ok(Waiter { epoch: link.epoch, node })
}

async fn ask(node: &Node, keys: &TurnKeys, wait: Duration) -> Result<Option<String>, Trouble> {
    let mut commands = Pipeline::with_capacity(3);
    commands.cmd("EVAL").arg(SEEN).arg(1).arg(&keys.workers).arg(&keys.worker);
    commands.cmd("BLMOVE").arg(&keys.queue).arg(&keys.processing).arg("LEFT").arg("RIGHT");
    commands.arg(format!("{:.3}", wait.as_secs_f64().max(0.001)));
    match &accepted(node.ask(commands).await?)?[..] {
        [Value::Int(_), turn] => read_turn(turn),
        _ => Err(Trouble::Unexpected("a turn to wait for")),
    }
}
