//! This instance among others: its lease, its snowflake node, and what others have left behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage::{Gap, GapReason, Losses, Store, StoreError};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::surroundings::Clock;

/// The lease is renewed so often within its time.
const RENEWALS_PER_LEASE: u32 = 4;

/// This instance among others.
pub(crate) struct Membership {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: String,
    lease: Duration,
    node: Mutex<NodeLease>,
}

#[derive(Debug, Clone, Copy)]
struct NodeLease {
    node: u16,
    /// Counted from before the store was asked, so it ends before the store lets others have it.
    valid_until: Instant,
    /// Since when the lease was renewed without a break.
    steady_since: Instant,
}

impl Membership {
    /// Makes this instance known.
    pub(crate) async fn join(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        instance: String,
        lease: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        let asked = Instant::now();
        let node = store.join(&instance, lease).await?;
        let node = NodeLease { node, valid_until: asked + lease, steady_since: asked };
        Ok(Arc::new(Self { store, clock, instance, lease, node: Mutex::new(node) }))
    }

    /// The name of this instance.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// How long others wait before they take an instance that is silent for gone.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// How long to wait until the next renewal.
    pub(crate) fn renewal_interval(&self) -> Duration {
        self.lease / RENEWALS_PER_LEASE
    }

    /// The snowflake node, as long as it is certain that nobody else has it.
    pub(crate) fn node(&self) -> Option<u16> {
        let lease = self.lease_state();
        (Instant::now() < lease.valid_until).then_some(lease.node)
    }

    /// Renews the lease, or joins again if it was lost.
    pub(crate) async fn renew(&self) -> Result<(), StoreError> {
        let asked = Instant::now();
        if self.store.renew(&self.instance, self.lease).await? {
            let mut lease = self.lock();
            if asked > lease.valid_until {
                lease.steady_since = asked;
            }
            lease.valid_until = asked + self.lease;
            return Ok(());
        }
        let asked = Instant::now();
        let node = self.store.join(&self.instance, self.lease).await?;
        warn!(node, "the lease of this instance had run out; it has joined again as node {node}");
        *self.lock() = NodeLease { node, valid_until: asked + self.lease, steady_since: asked };
        Ok(())
    }

    /// Accounts for what instances that are gone have left behind. An instance that was cut off
    /// itself waits first: the others may only be about to renew their leases, too.
    pub(crate) async fn close_losses(&self) -> Result<Losses, StoreError> {
        if self.lease_state().steady_since.elapsed() < self.lease {
            return Ok(Losses::default());
        }
        self.close_losses_now().await
    }

    /// The same at the start, when a predecessor on the same store is certainly gone.
    pub(crate) async fn close_losses_now(&self) -> Result<Losses, StoreError> {
        let losses =
            self.store.close_lost_draws(&self.instance, self.lease, self.clock.now()).await?;
        for gone in &losses.gone {
            info!(instance = gone, "instance {gone} is gone");
        }
        tell_of(&losses.gaps);
        Ok(losses)
    }

    /// Says that this instance is gone and holds nothing any more.
    pub(crate) async fn leave(&self) {
        if let Err(problem) = self.close_own_losses().await {
            warn!("cannot record what was lost here, others will find it: {problem}");
        }
        if let Err(problem) = self.store.leave(&self.instance).await {
            warn!("cannot sign off, others will notice when the lease runs out: {problem}");
        }
    }

    /// Accounts for what is still on record as ours after all was given back. It is not here: the
    /// answer to a draw got lost, or the store could not be told when something was returned.
    async fn close_own_losses(&self) -> Result<(), StoreError> {
        let lost = self.store.open_draws(&self.instance).await?;
        if !lost.is_empty() {
            let (reason, now) = (GapReason::Crash, self.clock.now());
            tell_of(&self.store.close_draws(&self.instance, &lost, reason, now).await?);
        }
        Ok(())
    }

    fn lease_state(&self) -> NodeLease {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NodeLease> {
        self.node.lock().expect("no code panics while it holds the lease")
    }
}

/// Says that serials were found to be lost.
pub(crate) fn tell_of(gaps: &[Gap]) {
    let serials: u64 = gaps.iter().map(|gap| gap.span.serials.end - gap.span.serials.start).sum();
    if serials > 0 {
        let gaps = gaps.len();
        warn!(gaps, serials, "recorded {serials} serials that were lost as {gaps} gaps");
    }
}
