//! One step of filling a pool: lock, look, draw, push, and give back what could not be pushed.
//!
//! Between the draw and the end the serials are recorded under the pool's holder, so whatever goes
//! wrong, none is unexplained. What was *not* pushed for certain is given back; what *may* have been
//! pushed counts as pushed, and is never pushed or given back again.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use storage::{Draw, PoolKey, Result, Span, TopUp, ToppedUp, pool_holder};
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::breaker::Shared;
use crate::error::Trouble;
use crate::keys::{self, PoolKeys};
use crate::link::{Link, Node};
use crate::lock::{Lock, Push};

/// Serials in one script. The server does nothing else while one runs.
const CHUNK: u64 = 512;

/// Scripts that are sent together. What is on its way when a connection breaks may be lost, so it
/// is not too much.
const ROUND_CHUNKS: u64 = 8;

/// How often to try for a lock that another instance has.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Fills a pool a little. The caller sees to it that this runs to its end.
pub(crate) async fn top_up(shared: Arc<Shared>, pool: PoolKey, order: TopUp) -> Result<ToppedUp> {
    let link = shared.breaker.link()?;
    let keys = PoolKeys::new(&shared.settings.namespace, &pool, link.epoch);
    let node = link.node(&keys::tag(&pool))?;
    let refill = Refill { shared: &shared, link: &link, node, keys: &keys, pool: &pool };
    let Some((lock, level)) = refill.lock(order.wait).await? else {
        shared.figures.lock_waits.add(1);
        return Ok(ToppedUp::Busy);
    };
    // The second look: whoever had the lock before may have filled the pool.
    if level >= order.size {
        refill.release(&lock).await;
        return Ok(ToppedUp::Full { level });
    }
    let count = (order.size - level).min(order.serials_max).max(1);
    let drawn = match refill.draw(&lock, &order, count).await {
        Ok(drawn) if !drawn.is_empty() => drawn,
        other => {
            refill.release(&lock).await;
            return other.map(|_| ToppedUp::Exhausted);
        }
    };
    refill.fill(&lock, &order, drawn, level).await
}

struct Refill<'a> {
    shared: &'a Shared,
    link: &'a Arc<Link>,
    node: &'a Node,
    keys: &'a PoolKeys,
    pool: &'a PoolKey,
}

/// Why pushing ended before the end.
enum Stop {
    LockLost,
    NoRoom,
    Refused(Trouble),
    Unknown(Trouble),
}

impl<'a> Refill<'a> {
    /// Takes the lock and tells the level, or finds that somebody else has it.
    async fn lock(&self, wait: bool) -> Result<Option<(Lock<'a>, u64)>, Trouble> {
        let ttl = self.shared.settings.lock_ttl;
        // By then the lock was released, or it has expired.
        let deadline = Instant::now() + ttl + LOCK_RETRY;
        let token = (self.shared.tokens)();
        loop {
            let attempt = Lock::take(self.node, self.keys, token, ttl);
            let (lock, level) = self.shared.over(self.link, attempt).await?;
            if let Some(lock) = lock {
                return Ok(Some((lock, level)));
            }
            // Whoever waits does so because the pool is empty. As soon as it is not, there is
            // something to take.
            if !wait || level > 0 || Instant::now() >= deadline {
                return Ok(None);
            }
            if !self.shared.breaker.holds(self.link) {
                return Err(Trouble::Open);
            }
            sleep(LOCK_RETRY).await;
        }
    }

    /// Draws, and keeps the lock meanwhile.
    async fn draw(&self, lock: &Lock<'_>, order: &TopUp, count: u64) -> Result<Range<u64>> {
        let holder = pool_holder(self.link.epoch);
        let mut draw = pin!(self.shared.store.draw(Draw {
            type_id: self.pool.type_id,
            period: &self.pool.period,
            count,
            bounds: order.bounds,
            holder: &holder,
            revision: order.revision,
            now: order.now,
        }));
        loop {
            tokio::select! {
                drawn = &mut draw => return drawn,
                () = sleep(self.shared.settings.lock_ttl / 3) => {
                    // If it fails, the first push will find out.
                    let _ = self.shared.over(self.link, lock.extend()).await;
                }
            }
        }
    }

    async fn fill(
        &self,
        lock: &Lock<'_>,
        order: &TopUp,
        drawn: Range<u64>,
        level: u64,
    ) -> Result<ToppedUp> {
        // Everything before `settled` is in the list, or may be.
        let (mut settled, mut items, mut level, mut stop) = (drawn.start, 0, level, None);
        while settled < drawn.end && stop.is_none() {
            if !self.shared.breaker.holds(self.link) {
                stop = Some(Stop::Refused(Trouble::Open));
                break;
            }
            let round = settled..drawn.end.min(settled + CHUNK * ROUND_CHUNKS);
            let chunks = chunks(&round);
            let since = Instant::now();
            let outcome = self.shared.over(self.link, lock.push(&chunks, order.size)).await;
            self.shared.figures.pushes.add(since.elapsed());
            match outcome {
                Ok(pushes) => {
                    for (chunk, push) in chunks.into_iter().zip(pushes) {
                        match push {
                            Push::Done(length) => {
                                settled = chunk.end;
                                items += chunk.end - chunk.start;
                                level = length;
                            }
                            Push::LockLost => stop = stop.or(Some(Stop::LockLost)),
                            Push::NoRoom => stop = stop.or(Some(Stop::NoRoom)),
                            Push::Refused(error) => {
                                stop = stop.or(Some(Stop::Refused(Trouble::Refused(error))));
                            }
                        }
                    }
                }
                Err(trouble) => {
                    self.shared.figures.pushes_unknown.add(round.end - round.start);
                    settled = round.end;
                    stop = Some(Stop::Unknown(trouble));
                }
            }
        }
        if settled < drawn.end {
            self.give_back(settled..drawn.end, order).await;
        }
        let added = ToppedUp::Added { drawn: drawn.start..settled, items, level };
        match stop {
            None => {
                self.release(lock).await;
                Ok(added)
            }
            Some(Stop::LockLost) => {
                self.shared.figures.locks_lost.add(1);
                Ok(if items > 0 { added } else { ToppedUp::Busy })
            }
            Some(Stop::NoRoom) => {
                Ok(if items > 0 { added } else { ToppedUp::Full { level: order.size } })
            }
            Some(Stop::Refused(trouble)) => {
                if !trouble.is_out_of_memory() {
                    self.shared.trip(self.link, &trouble);
                }
                if items > 0 { Ok(added) } else { Err(trouble.into()) }
            }
            Some(Stop::Unknown(trouble)) => Err(trouble.into()),
        }
    }

    /// Gives back serials that are certainly in no list.
    async fn give_back(&self, serials: Range<u64>, order: &TopUp) {
        let span = Span {
            type_id: self.pool.type_id,
            period: self.pool.period.clone(),
            serials: serials.clone(),
        };
        let holder = pool_holder(self.link.epoch);
        if let Err(error) = self.shared.store.give_back(&span, &holder, order.now).await {
            // They stay recorded under the pool, and become a gap with it.
            let (first, end) = (serials.start, serials.end);
            warn!(
                tenant = self.pool.tenant,
                name = self.pool.name,
                "serials {first} to {end} (exclusive) of {}/{} could not be given back: {error}",
                self.pool.tenant,
                self.pool.name
            );
        }
    }

    async fn release(&self, lock: &Lock<'_>) {
        // If it fails, the lock expires.
        let _ = self.shared.over(self.link, lock.release()).await;
    }
}

fn chunks(round: &Range<u64>) -> Vec<Range<u64>> {
    let mut chunks = Vec::new();
    let mut start = round.start;
    while start < round.end {
        let end = round.end.min(start + CHUNK);
        chunks.push(start..end);
        start = end;
    }
    chunks
}
