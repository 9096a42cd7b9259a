//! Taking serials off a pool.
//!
//! A step of its own does the asking, so that its answer is not lost when whoever wanted it has
//! gone: what it brings becomes a [stray](crate::strays).

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use storage::{Items, PoolKey, Withdrawn};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::breaker::Shared;
use crate::error::Trouble;
use crate::keys::{self, PoolKeys};
use crate::link::Link;
use crate::server;

/// How long an answer may be late and still be kept. After that its serials are with the pool for
/// the record, and with nobody in fact.
const LATE_MAX: Duration = Duration::from_secs(30);

/// Takes serials: first those that strayed, then from the server.
pub(crate) async fn withdraw(
    shared: &Arc<Shared>,
    pool: &PoolKey,
    count: usize,
) -> Result<Withdrawn, Trouble> {
    let epoch = shared.breaker.epoch();
    let (strays, dropped) = shared.strays.take(pool, epoch, count);
    shared.figures.strays_dropped.add(dropped as u64);
    let mut strays = Unclaimed { shared, pool, epoch, serials: strays };
    let wanted = count - strays.serials.len();
    if wanted == 0 {
        return Ok(Withdrawn { items: Items::Serials(strays.claim()), left: 0 });
    }
    match from_server(shared, pool, wanted).await {
        Ok(popped) => {
            let mut serials = strays.claim();
            serials.extend(popped.serials);
            Ok(Withdrawn { items: Items::Serials(serials), left: popped.left })
        }
        Err(_) if !strays.serials.is_empty() => {
            Ok(Withdrawn { items: Items::Serials(strays.claim()), left: 0 })
        }
        Err(trouble) => Err(trouble),
    }
}

async fn from_server(
    shared: &Arc<Shared>,
    pool: &PoolKey,
    count: usize,
) -> Result<Popped, Trouble> {
    let since = Instant::now();
    let link = shared.breaker.link()?;
    let epoch = link.epoch;
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(ask(Arc::clone(shared), Arc::clone(&link), pool.clone(), count, sender));
    let mut answer = Answer { shared, pool, epoch, receiver };
    let gone = |_| Trouble::Unexpected("serials");
    let popped = async { (&mut answer.receiver).await.map_err(gone).flatten() };
    let popped = shared.over(&link, popped).await?;
    shared.figures.withdraws.add(since.elapsed());
    Ok(popped)
}

/// What came off a list.
struct Popped {
    /// Ascending.
    serials: Vec<u64>,
    left: u64,
}

async fn ask(
    shared: Arc<Shared>,
    link: Arc<Link>,
    pool: PoolKey,
    count: usize,
    answer: oneshot::Sender<Result<Popped, Trouble>>,
) {
    let popped = pop(&shared.settings.namespace, &link, &pool, count);
    let popped = timeout(LATE_MAX, popped).await.map_err(|_| Trouble::Late(LATE_MAX)).flatten();
    if let Ok(popped) = &popped {
        shared.origins.note(&pool, link.epoch, &popped.serials);
    }
    match answer.send(popped) {
        Ok(()) => {}
        Err(Ok(popped)) => keep(&shared, &pool, link.epoch, &popped.serials),
        Err(Err(trouble)) => shared.trip(&link, &trouble),
    }
}

async fn pop(
    namespace: &str,
    link: &Link,
    pool: &PoolKey,
    count: usize,
) -> Result<Popped, Trouble> {
    let node = link.node(&keys::tag(pool))?;
    let keys = PoolKeys::new(namespace, pool, link.epoch);
    let mut commands = Pipeline::with_capacity(3);
    commands.cmd("LPOP").arg(&keys.serials).arg(count);
    commands.cmd("LLEN").arg(&keys.serials);
    server::ask_history(&mut commands);
    let answers = node.wire.ask_all(&commands).await?;
    let [popped, left, history] = &answers[..] else { return Err(NO_SERIALS) };
    // Before anything else: what came from other data must not be looked at.
    node.server.check_history(history)?;
    let mut serials = read_serials(popped)?;
    serials.sort_unstable();
    if serials.len() > count || serials.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(NO_SERIALS);
    }
    Ok(Popped { serials, left: read_length(left)? })
}

/// Reads serials from a list. One entry that is something else makes the whole answer unusable.
pub(crate) fn read_serials(answer: &Value) -> Result<Vec<u64>, Trouble> {
    match answer {
        Value::Nil => Ok(Vec::new()),
        Value::Array(entries) => entries.iter().map(read_serial).collect(),
        Value::ServerError(error) => Err(Trouble::Refused(error.clone())),
        _ => Err(NO_SERIALS),
    }
}

fn read_serial(entry: &Value) -> Result<u64, Trouble> {
    let Value::BulkString(digits) = entry else { return Err(NO_SERIALS) };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(NO_SERIALS);
    }
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(NO_SERIALS)
}

/// Reads the length of a list.
pub(crate) fn read_length(answer: &Value) -> Result<u64, Trouble> {
    match answer {
        Value::Int(length) => u64::try_from(*length).map_err(|_| NO_LENGTH),
        Value::ServerError(error) => Err(Trouble::Refused(error.clone())),
        _ => Err(NO_LENGTH),
    }
}

fn keep(shared: &Shared, pool: &PoolKey, epoch: u64, serials: &[u64]) {
    let dropped = shared.strays.keep(pool, epoch, serials);
    shared.figures.strays_kept.add(serials.len() as u64);
    shared.figures.strays_dropped.add(dropped as u64);
}

/// An answer that is waited for. If the wait ends first, whatever has arrived is kept.
struct Answer<'a> {
    shared: &'a Shared,
    pool: &'a PoolKey,
    epoch: u64,
    receiver: oneshot::Receiver<Result<Popped, Trouble>>,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // From here on the sender keeps what it gets; what it had sent is still here.
        self.receiver.close();
        if let Ok(Ok(popped)) = self.receiver.try_recv() {
            keep(self.shared, self.pool, self.epoch, &popped.serials);
        }
    }
}

/// Strays that go back unless they are claimed, because their request may go away, too.
struct Unclaimed<'a> {
    shared: &'a Shared,
    pool: &'a PoolKey,
    epoch: u64,
    serials: Vec<u64>,
}

impl Unclaimed<'_> {
    fn claim(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.serials)
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        self.shared.strays.keep(self.pool, self.epoch, &self.serials);
    }
}

const NO_SERIALS: Trouble = Trouble::Unexpected("serials");
const NO_LENGTH: Trouble = Trouble::Unexpected("the length of a list");

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn serials_are_read() {
        let answer = Value::Array(vec![entry("0"), entry("18446744073709551615")]);
        assert_eq!(read_serials(&answer).unwrap(), [0, u64::MAX]);
        assert_eq!(read_serials(&Value::Nil).unwrap(), [0; 0]);
    }

    #[test]
    fn nothing_is_guessed() {
        for text in ["", "+1", "-1", " 1", "1.0", "x", "18446744073709551616"] {
            assert!(read_serials(&Value::Array(vec![entry("1"), entry(text)])).is_err(), "{text}");
        }
        assert!(read_serials(&Value::Array(vec![Value::Int(1)])).is_err());
        assert!(read_serials(&Value::Okay).is_err());
        assert!(read_length(&Value::Int(-1)).is_err());
        assert!(read_length(&Value::Nil).is_err());
    }
}
