//! What an operator can choose, and what the pools need from their surroundings.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::SettingsError;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes numbers that nobody else makes: the tokens by which the owner of a lock is known. Two that
/// are alike could make a pool overfull, so they have to be random.
pub type TokenSource = Arc<dyn Fn() -> u128 + Send + Sync>;

/// How to reach the server and how patient to be with it.
#[derive(Clone)]
pub struct Settings {
    /// Where the server is; the front page lists the forms.
    pub url: String,
    /// Certificates (PEM) to trust in place of the system's, where the URL asks for TLS.
    pub ca_file: Option<PathBuf>,
    /// What the keys begin with. Deployments with different databases that share a server need
    /// different ones, because both count their types and epochs from 1.
    pub namespace: String,
    /// The longest wait for an answer. Whoever waits longer is told that Redis is unavailable, and
    /// the breaker opens.
    pub timeout: Duration,
    /// The longest wait for a new connection, with all that has to be asked before it is used.
    pub connect_timeout: Duration,
    /// How long a refill lock outlives its owner, and so how long an empty pool may have to wait
    /// after an instance died in the middle of a refill. It is extended while the owner works.
    pub lock_ttl: Duration,
    /// How long a worker may have the turn of a tenant, looking for something to do, before the turn goes
    /// to another worker.
    pub turn_ttl: Duration,
    /// How often the server and the epoch are looked at again while a connection lives.
    pub probe_interval: Duration,
    /// The waits between attempts to connect: the first, and the longest.
    pub retry_delays: (Duration, Duration),
}

impl Settings {
    /// The defaults, for a server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_file: None,
            namespace: "mintage".to_owned(),
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            lock_ttl: Duration::from_secs(1),
            turn_ttl: Duration::from_secs(10),
            probe_interval: Duration::from_secs(1),
            retry_delays: (Duration::from_millis(50), Duration::from_secs(1)),
        }
    }

    /// Whether the settings can work at all.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if self.namespace.is_empty() || !self.namespace.bytes().all(allowed) {
            return Err(SettingsError::Namespace);
        }
        let times = [
            self.timeout,
            self.connect_timeout,
            self.lock_ttl,
            self.turn_ttl,
            self.probe_interval,
            self.retry_delays.0,
        ];
        if times.iter().any(|time| time.as_millis() == 0) {
            return Err(SettingsError::Times("every time for Redis must be at least 1 ms"));
        }
        if self.lock_ttl < self.timeout * 4 {
            // It is extended three times in its life, and each time may take that long.
            return Err(SettingsError::Times(
                "the Redis lock must live at least four times as long as an answer may take",
            ));
        }
        Ok(())
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("ca_file", &self.ca_file)
            .field("namespace", &self.namespace)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("lock_ttl", &self.lock_ttl)
            .field("turn_ttl", &self.turn_ttl)
            .field("probe_interval", &self.probe_interval)
            .field("retry_delays", &self.retry_delays)
            .finish_non_exhaustive()
    }
}
