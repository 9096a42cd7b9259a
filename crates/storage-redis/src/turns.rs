//! Whose turn it is: a list of tenants that have chunks to be done. A worker moves the first one to a
//! list of its own, looks for a chunk of that tenant in the store, and puts the tenant behind all others.
//!
//! Nothing depends on these lists but who comes first. A turn that is lost is offered again by whoever
//! finds a chunk without one; a turn too many leads to a look that finds nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Pipeline, Value};
use storage::{Dispatch, Result, WorkerName};

use crate::SharedRedis;
use crate::breaker::Shared;
use crate::error::Trouble;
use crate::keys::{self, DISPATCH, TurnKeys};
use crate::link::Link;
use crate::waiting;

/// Offers turns. Key: queue. Arguments: tenants.
const OFFER: &str = "\
for _, turn in ipairs(ARGV) do
  if not redis.call('LPOS', KEYS[1], turn) then redis.call('RPUSH', KEYS[1], turn) end
end
return redis.call('LLEN', KEYS[1])";

/// Takes a turn. What never reached the worker is put back first. Answers with the turn, and with some
/// workers that have not been seen for long.
///
/// Keys: queue, processing, workers. Arguments: worker, longest silence in ms.
const TAKE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lost = redis.call('RPOP', KEYS[2])
while lost do
  if not redis.call('LPOS', KEYS[1], lost) then redis.call('LPUSH', KEYS[1], lost) end
  lost = redis.call('RPOP', KEYS[2])
end
local turn = redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
if turn then redis.call('ZADD', KEYS[3], now, ARGV[1]) end
local silent = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[2], 'LIMIT', 0, 8)
table.insert(silent, 1, turn)
return silent";

/// Ends a turn. Keys: queue, processing, workers. Arguments: worker, tenant, 1 if it goes on.
const END: &str = "\
redis.call('LREM', KEYS[2], 0, ARGV[2])
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[1]) end
if ARGV[3] == '1' and not redis.call('LPOS', KEYS[1], ARGV[2]) then
  redis.call('RPUSH', KEYS[1], ARGV[2])
end
return 1";

/// Puts back the turns of a worker that has not been seen for long, and says how many these were.
///
/// Keys: queue, processing, workers. Arguments: worker, longest silence in ms.
const RETURN: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not seen or tonumber(seen) > now - ARGV[2] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
local count = 0
local turn = redis.call('RPOP', KEYS[2])
while turn do
  if not redis.call('LPOS', KEYS[1], turn) then redis.call('LPUSH', KEYS[1], turn) end
  count = count + 1
  turn = redis.call('RPOP', KEYS[2])
end
return count";

impl Shared {
    pub(crate) fn turn_keys(&self, link: &Link, worker: &WorkerName) -> TurnKeys {
        TurnKeys::of(&self.settings.namespace, link.epoch, worker)
    }

    async fn take(&self, link: &Arc<Link>, worker: &WorkerName) -> Result<Option<String>, Trouble> {
        let keys = self.turn_keys(link, worker);
        let commands = script(TAKE, &keys, &[&self.silence_ms()]);
        let answers = self.ask_aside(link, DISPATCH, commands).await?;
        let [Value::Array(found)] = &answers[..] else { return Err(NO_TURN) };
        let [turn, silent @ ..] = &found[..] else { return Err(NO_TURN) };
        for worker in silent {
            let worker = read_turn(worker)?.ok_or(NO_TURN)?;
            self.return_turns(link, worker).await?;
        }
        let turn = read_turn(turn)?;
        self.figures.turns_taken.add(u64::from(turn.is_some()));
        Ok(turn)
    }

    /// Puts back what a worker that is gone has taken.
    async fn return_turns(&self, link: &Arc<Link>, worker: String) -> Result<(), Trouble> {
        let keys = TurnKeys::named(&self.settings.namespace, link.epoch, worker);
        let commands = script(RETURN, &keys, &[&self.silence_ms()]);
        let answers = self.ask_aside(link, DISPATCH, commands).await?;
        let [Value::Int(count)] = &answers[..] else { return Err(NO_TURN) };
        self.figures.turns_returned.add(u64::try_from(*count).unwrap_or_default());
        Ok(())
    }

    fn silence_ms(&self) -> String {
        self.settings.turn_ttl.as_millis().to_string()
    }
}

/// A script about the turns of a worker.
fn script(text: &str, keys: &TurnKeys, arguments: &[&str]) -> Pipeline {
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("EVAL").arg(text).arg(3);
    commands.arg(&keys.queue).arg(&keys.processing).arg(&keys.workers);
    commands.arg(&keys.worker).arg(arguments);
    commands
}

/// The tenant, if there is one.
pub(crate) fn read_turn(answer: &Value) -> Result<Option<String>, Trouble> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map(Some).map_err(|_| NO_TURN),
        _ => Err(NO_TURN),
    }
}

#[async_trait]
impl Dispatch for SharedRedis {
    async fn offer_turns(&self, tenants: &[&str]) -> Result<()> {
        if tenants.is_empty() {
            return Ok(());
        }
        let link = self.shared.breaker.link()?;
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("EVAL").arg(OFFER).arg(1);
        commands.arg(keys::queue(&self.shared.settings.namespace, link.epoch)).arg(tenants);
        self.shared.ask_aside(&link, DISPATCH, commands).await?;
        Ok(())
    }

    async fn take_turn(&self, worker: &WorkerName) -> Result<Option<String>> {
        let link = self.shared.breaker.link()?;
        Ok(self.shared.take(&link, worker).await?)
    }

    async fn await_turn(&self, worker: &WorkerName, wait: Duration) -> Result<Option<String>> {
        Ok(waiting::await_turn(&self.shared, worker, wait).await?)
    }

    async fn end_turn(&self, worker: &WorkerName, tenant: &str, goes_on: bool) -> Result<()> {
        let link = self.shared.breaker.link()?;
        let keys = self.shared.turn_keys(&link, worker);
        let commands = script(END, &keys, &[tenant, if goes_on { "1" } else { "0" }]);
        self.shared.ask_aside(&link, DISPATCH, commands).await?;
        Ok(())
    }
}

const NO_TURN: Trouble = Trouble::Unexpected("a turn");
