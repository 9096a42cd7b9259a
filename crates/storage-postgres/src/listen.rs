//! Hearing of the orders that other instances take, by a connection to each database of its own.
//!
//! Nothing depends on it but how soon idle workers start: what is not heard is found at the next look.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storage::Wake;
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use crate::PostgresSettings;
use crate::address::Address;
use crate::error::OpenError;
use crate::tls;

/// As in the trigger on batches.
const LISTEN: &str = "LISTEN mintage_orders";

const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Who wants to hear of orders, and whether anything can be heard.
#[derive(Default)]
pub(crate) struct Orders {
    wake: Mutex<Option<Wake>>,
    /// Databases that are listened to.
    heard: AtomicUsize,
}

impl Orders {
    pub(crate) fn tell(&self, wake: Wake) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }

    /// Whether the orders on so many databases are heard.
    pub(crate) fn are_heard_on(&self, databases: usize) -> bool {
        self.heard.load(Ordering::Acquire) == databases
    }

    fn wake(&self) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

/// Counts a database as listened to, for as long as it is there.
struct Heard<'a>(&'a Orders);

impl<'a> Heard<'a> {
    fn new(orders: &'a Orders) -> Self {
        orders.heard.fetch_add(1, Ordering::AcqRel);
        Self(orders)
    }
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        self.0.heard.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What it takes to listen to a database.
pub(crate) struct Listener {
    config: Config,
    tls: MakeRustlsConnect,
    shown: String,
}

impl Listener {
    pub(crate) fn new(address: &Address, settings: &PostgresSettings) -> Result<Self, OpenError> {
        let tls = tls::connector(address, settings.tls_root_file.as_deref())?;
        Ok(Self { config: address.config.clone(), tls, shown: address.shown.clone() })
    }

    /// Listens for good.
    pub(crate) async fn run(self, orders: Arc<Orders>) {
        loop {
            if let Err(problem) = self.listen(&orders).await {
                debug!(database = self.shown, "cannot hear of orders: {problem}");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Listens until the connection ends.
    async fn listen(&self, orders: &Orders) -> Result<(), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        let hear = async {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message? {
                    orders.wake();
                }
            }
            Ok(())
        };
        let ask = async {
            client.batch_execute(LISTEN).await?;
            let _heard = Heard::new(orders);
            // For those that were taken while nobody listened.
            orders.wake();
            pending().await
        };
        tokio::select! {
            ended = hear => ended,
            refused = ask => refused,
        }
    }
}
