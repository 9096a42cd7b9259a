//! What all parts share, and the breaker: there is a link that can be trusted, or there is none.
//!
//! Closed means that there is a link. The first error takes it away, and from then on every call
//! fails at once, so that nobody waits for a server that does not answer. The
//! [`keeper`](crate::keeper) puts a new one in its place.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use storage::Store;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

use crate::error::Trouble;
use crate::figures::Figures;
use crate::link::Link;
use crate::origins::Origins;
use crate::settings::{Clock, Settings, TokenSource};
use crate::strays::Strays;
use crate::target::Target;
use crate::waiting::Waiters;

/// What all parts share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) target: Target,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) tokens: TokenSource,
    pub(crate) figures: Figures,
    pub(crate) strays: Strays,
    pub(crate) origins: Origins,
    pub(crate) waiters: Waiters,
    pub(crate) breaker: Breaker,
}

/// The link, while it can be trusted.
#[derive(Default)]
pub(crate) struct Breaker {
    link: RwLock<Option<Arc<Link>>>,
    /// Tells the keeper that the link is gone.
    opened: Notify,
    /// The epoch of the link, or of the last one. Zero before the first.
    epoch: AtomicU64,
}

impl Breaker {
    /// The link, or an error at once.
    pub(crate) fn link(&self) -> Result<Arc<Link>, Trouble> {
        let link = self.link.read().unwrap_or_else(PoisonError::into_inner);
        link.clone().ok_or(Trouble::Open)
    }

    /// The epoch in use, or used last.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Waits until a link is taken away.
    pub(crate) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Whether this is still the link.
    pub(crate) fn holds(&self, link: &Arc<Link>) -> bool {
        self.link().is_ok_and(|current| Arc::ptr_eq(&current, link))
    }

    /// Closes the breaker.
    pub(crate) fn close(&self, link: Link) -> Arc<Link> {
        let link = Arc::new(link);
        let mut slot = self.link.write().unwrap_or_else(PoisonError::into_inner);
        self.epoch.store(link.epoch, Ordering::Release);
        *slot = Some(Arc::clone(&link));
        info!(epoch = link.epoch, "Redis pools are in use, in epoch {}", link.epoch);
        link
    }

    /// Opens the breaker, whatever link there is. False if it was open.
    pub(crate) fn open(&self) -> bool {
        self.link.write().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Opens the breaker if this is still the link. False if somebody else was first.
    fn take(&self, link: &Arc<Link>) -> bool {
        let mut slot = self.link.write().unwrap_or_else(PoisonError::into_inner);
        let current = slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, link));
        if current {
            *slot = None;
        }
        current
    }
}

impl Shared {
    /// Opens the breaker because of what happened on a link.
    pub(crate) fn trip(&self, link: &Arc<Link>, why: &Trouble) {
        if self.breaker.take(link) {
            self.figures.openings.add(1);
            warn!(
                epoch = link.epoch,
                "Redis pools are not used for now, serials come from the database: {why}"
            );
            self.breaker.opened.notify_one();
        }
    }

    /// Does something over a link within the time for an answer. Every failure opens the breaker,
    /// except that the server has no memory left: what is in the pools can still leave them.
    pub(crate) async fn over<T>(
        &self,
        link: &Arc<Link>,
        step: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let limit = self.settings.timeout;
        let outcome = timeout(limit, step).await.map_err(|_| Trouble::Late(limit)).flatten();
        if let Err(trouble) = &outcome
            && !trouble.is_out_of_memory()
        {
            self.trip(link, trouble);
        }
        outcome
    }
}
