//! The lock on refilling a pool, and the pushes that it fences.
//!
//! The lock expires, so an owner that was stopped in the middle may wake up without it. Therefore
//! nothing is pushed on the strength of having had the lock: every push is a script that first
//! looks whether the lock is still the owner's.

use std::ops::Range;
use std::time::Duration;

use redis::{Cmd, Pipeline, ServerError, Value};

use crate::error::Trouble;
use crate::keys::PoolKeys;
use crate::link::Node;
use crate::withdraw::read_length;

/// Pushes serials if the lock is ours and the list does not grow beyond its size. A push that fails
/// ends the lock, so that no later push of the same round gets past it: serials go into the list in
/// order or not at all. The only write that can be refused comes first, so an error means that
/// nothing was pushed.
///
/// Keys: list, lock. Arguments: token, time to live in ms, size, serials.
const PUSH: &str = "\
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
if redis.call('LLEN', KEYS[1]) + #ARGV - 3 > tonumber(ARGV[3]) then
  redis.pcall('DEL', KEYS[2])
  return -2
end
local pushed = redis.pcall('RPUSH', KEYS[1], unpack(ARGV, 4))
if type(pushed) == 'table' then
  redis.pcall('DEL', KEYS[2])
  return pushed
end
redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
return pushed";

/// Extends the lock if it is ours. Key: lock. Arguments: token, time to live in ms.
const EXTEND: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// Deletes the lock if it is ours. Key: lock. Argument: token.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])";

/// A lock that was taken, and may have been lost since.
pub(crate) struct Lock<'a> {
    node: &'a Node,
    keys: &'a PoolKeys,
    token: String,
    ttl_ms: u64,
}

/// What became of the serials of one push.
#[derive(Debug)]
pub(crate) enum Push {
    /// They are in the list, which is now so long.
    Done(u64),
    /// They are not: the lock is another's, or nobody's.
    LockLost,
    /// They are not: there is no room for them.
    NoRoom,
    /// They are not: the server refuses.
    Refused(ServerError),
}

impl<'a> Lock<'a> {
    /// Tries to take the lock, and looks at the level afterwards.
    pub(crate) async fn take(
        node: &'a Node,
        keys: &'a PoolKeys,
        token: u128,
        ttl: Duration,
    ) -> Result<(Option<Self>, u64), Trouble> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let token = format!("{token:032x}");
        let mut commands = Pipeline::with_capacity(3);
        commands.cmd("SET").arg(&keys.refill).arg(&token).arg("NX").arg("PX").arg(ttl_ms);
        commands.cmd("LLEN").arg(&keys.serials);
        let answers = node.ask(commands).await?;
        let [set, length] = &answers[..] else { return Err(NO_LOCK) };
        let level = read_length(length)?;
        match set {
            Value::Okay => Ok((Some(Self { node, keys, token, ttl_ms }), level)),
            Value::Nil => Ok((None, level)),
            Value::ServerError(error) => Err(Trouble::Refused(error.clone())),
            _ => Err(NO_LOCK),
        }
    }

    /// Pushes serials in several scripts at once, and returns what became of each. On an error
    /// nobody knows what was pushed.
    pub(crate) async fn push(
        &self,
        chunks: &[Range<u64>],
        size: u64,
    ) -> Result<Vec<Push>, Trouble> {
        let mut commands = Pipeline::with_capacity(chunks.len() + 1);
        for chunk in chunks {
            commands.cmd("EVAL").arg(PUSH).arg(2).arg(&self.keys.serials).arg(&self.keys.refill);
            commands.arg(&self.token).arg(self.ttl_ms).arg(size);
            for serial in chunk.clone() {
                commands.arg(serial);
            }
        }
        self.node.ask(commands).await?.into_iter().map(read_push).collect()
    }

    /// Extends the lock, if it is still there.
    pub(crate) async fn extend(&self) -> Result<(), Trouble> {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(EXTEND).arg(1).arg(&self.keys.refill);
        command.arg(&self.token).arg(self.ttl_ms);
        self.node.wire.ask(&command).await.map(drop)
    }

    /// Lets go of the lock, if it is still there.
    pub(crate) async fn release(&self) -> Result<(), Trouble> {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(RELEASE).arg(1).arg(&self.keys.refill).arg(&self.token);
        self.node.wire.ask(&command).await.map(drop)
    }
}

fn read_push(answer: Value) -> Result<Push, Trouble> {
    match answer {
        Value::Int(-1) => Ok(Push::LockLost),
        Value::Int(-2) => Ok(Push::NoRoom),
        Value::ServerError(error) => Ok(Push::Refused(error)),
        Value::Int(length) => u64::try_from(length).map(Push::Done).map_err(|_| NO_PUSH),
        _ => Err(NO_PUSH),
    }
}

const NO_LOCK: Trouble = Trouble::Unexpected("whether the lock is taken");
const NO_PUSH: Trouble = Trouble::Unexpected("what became of a push");
