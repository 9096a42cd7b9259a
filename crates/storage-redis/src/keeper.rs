//! The background task that makes links, looks after them and replaces them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::breaker::Shared;
use crate::connect;
use crate::error::Trouble;
use crate::link::Link;
use crate::sweep;

/// The longest wait for the database. It is not asked on behalf of a request.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// A link that lived so long was a good one: after it, waiting starts small again. Links that die
/// young come from instances that disagree on the server, or from a server that refuses something
/// which the probe does not cover.
const GOOD_LIFE: Duration = Duration::from_secs(10);

/// The longest wait after links that died because another server was registered. Each such change
/// costs the contents of all pools.
const CONTESTED_DELAY_MAX: Duration = Duration::from_secs(30);

/// Works until it is aborted.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut delays = Delays::new(shared.settings.retry_delays);
    let mut swept_epoch = None;
    let mut told = false;
    loop {
        match establish(&shared).await {
            Ok(link) => {
                told = false;
                shared.figures.connections.add(1);
                let link = shared.breaker.close(link);
                if swept_epoch.replace(link.epoch) != Some(link.epoch) {
                    tokio::spawn(sweep::sweep(Arc::clone(&shared), Arc::downgrade(&link)));
                }
                let since = Instant::now();
                let contested = watch(&shared, link).await;
                delays.after_life(since.elapsed(), contested);
            }
            Err(trouble) => {
                shared.figures.connect_failures.add(1);
                // Once for each outage: the attempts after the first say nothing new.
                if std::mem::replace(&mut told, true) {
                    debug!("still no connection to Redis: {trouble}");
                } else {
                    warn!("no connection to Redis: {trouble}");
                }
            }
        }
        sleep(delays.next()).await;
    }
}

/// Connects, recognises the server, registers it, and sees that it answers in time.
async fn establish(shared: &Shared) -> Result<Link, Trouble> {
    let limit = shared.settings.connect_timeout;
    let found = connect::find(&shared.target, shared.tls.as_ref(), limit).await?;
    let identity = found.identity();
    let epoch = timeout(STORE_TIMEOUT, shared.store.pool_epoch(&identity, (shared.clock)()))
        .await
        .map_err(|_| Trouble::Epoch("it does not answer".to_owned()))?
        .map_err(|error| Trouble::Epoch(error.to_string()))?;
    let link = Link { epoch, found };
    let limit = shared.settings.timeout;
    timeout(limit, link.probe(&shared.settings.namespace))
        .await
        .map_err(|_| Trouble::Late(limit))??;
    Ok(link)
}

/// Looks after a link until it is gone. True if it went because another epoch came into force.
async fn watch(shared: &Shared, link: Arc<Link>) -> bool {
    loop {
        tokio::select! {
            () = shared.breaker.opened() => {}
            () = sleep(shared.settings.probe_interval) => {}
        }
        // The signal may be about the link before.
        if !shared.breaker.holds(&link) {
            return false;
        }
        let probe = link.probe(&shared.settings.namespace);
        if shared.over(&link, probe).await.is_err() {
            return false;
        }
        shared.return_strays(&link).await;
        // A database that does not answer takes nothing from what is known about the server.
        if let Ok(Ok(Some(epoch))) = timeout(STORE_TIMEOUT, shared.store.current_pool_epoch()).await
            && epoch != link.epoch
        {
            shared.trip(&link, &Trouble::Identity("another Redis server has begun a new epoch"));
            return true;
        }
    }
}

/// How long to wait before the next attempt.
struct Delays {
    first: Duration,
    max: Duration,
    next: Duration,
    contested: bool,
}

impl Delays {
    fn new((first, max): (Duration, Duration)) -> Self {
        Self { first, max, next: first, contested: false }
    }

    fn after_life(&mut self, life: Duration, contested: bool) {
        if life >= GOOD_LIFE {
            self.next = self.first;
        }
        self.contested = contested;
    }

    fn next(&mut self) -> Duration {
        let max = if self.contested { CONTESTED_DELAY_MAX.max(self.max) } else { self.max };
        let delay = self.next.min(max);
        self.next = (delay * 2).min(max);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(delays: &mut Delays, count: usize) -> Vec<u128> {
        (0..count).map(|_| delays.next().as_millis()).collect()
    }

    #[test]
    fn waits_grow_and_start_again_after_a_good_life() {
        let mut delays = Delays::new((Duration::from_millis(50), Duration::from_secs(1)));
        assert_eq!(millis(&mut delays, 7), [50, 100, 200, 400, 800, 1000, 1000]);
        delays.after_life(Duration::from_secs(1), false);
        assert_eq!(millis(&mut delays, 1), [1000]);
        delays.after_life(GOOD_LIFE, false);
        assert_eq!(millis(&mut delays, 2), [50, 100]);
    }

    #[test]
    fn waits_grow_further_while_the_epoch_is_contested() {
        let mut delays = Delays::new((Duration::from_millis(50), Duration::from_secs(1)));
        delays.after_life(Duration::ZERO, true);
        assert_eq!(millis(&mut delays, 11).last(), Some(&30_000));
        delays.after_life(Duration::from_secs(1), false);
        assert_eq!(millis(&mut delays, 1), [1000]);
    }
}
