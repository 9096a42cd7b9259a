//! One Redis server, or a cluster, that all instances share.

use std::sync::{Arc, Mutex, PoisonError};

use storage::{Noticeboard, Result, Store};
use tokio::task::JoinHandle;

use crate::breaker::{Breaker, Shared};
use crate::error::SettingsError;
use crate::figures::Figures;
use crate::origins::Origins;
use crate::settings::{Clock, Settings, TokenSource};
use crate::strays::Strays;
use crate::target::Target;
use crate::waiting::Waiters;
use crate::{keeper, tls};

/// A Redis server with pools of serials and notes. See the front page.
pub struct SharedRedis {
    pub(crate) shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl SharedRedis {
    /// Starts to connect, in the background: a server that is down now is used when it is up. Fails
    /// only if the settings can never work. Needs a tokio runtime.
    pub fn connect(
        settings: Settings,
        store: Arc<dyn Store>,
        clock: Clock,
        tokens: TokenSource,
    ) -> Result<Arc<Self>, SettingsError> {
        settings.check()?;
        let target = Target::parse(&settings.url)?;
        let tls =
            target.uses_tls().then(|| tls::connector(settings.ca_file.as_deref())).transpose()?;
        let shared = Arc::new(Shared {
            settings,
            target,
            tls,
            store,
            clock,
            tokens,
            figures: Figures::default(),
            strays: Strays::default(),
            origins: Origins::default(),
            waiters: Waiters::default(),
            breaker: Breaker::default(),
        });
        let keeper = Mutex::new(Some(tokio::spawn(keeper::keep(Arc::clone(&shared)))));
        Ok(Arc::new(Self { shared, keeper }))
    }

    /// Whether there is no server to use at the moment.
    pub fn is_open(&self) -> bool {
        self.shared.breaker.link().is_err()
    }

    pub(crate) fn stop_keeper(&self) -> Option<JoinHandle<()>> {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        keeper.abort();
        Some(keeper)
    }
}

impl Noticeboard for SharedRedis {
    fn is_up(&self) -> bool {
        !self.is_open()
    }
}

impl Drop for SharedRedis {
    fn drop(&mut self) {
        self.stop_keeper();
        self.shared.breaker.open();
    }
}
