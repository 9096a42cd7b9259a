//! Everything that runs during a test: the servers, the wires, and the instances.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use redis::{Cmd, FromRedisValue};
use test_services::{Database, Servers};
use tokio::runtime::Runtime;

use crate::documents;
use crate::id_types::CONFIG;
use crate::instance::{Addresses, Instance, Recipe};
use crate::journal::Journal;
use crate::proxy::{Proxy, Wire};

/// How many instances there are.
pub(crate) const INSTANCES: usize = 3;

/// How long Redis may take for an answer to the test itself.
const REDIS_PATIENCE: Duration = Duration::from_secs(5);

/// What an instance is connected to, in the order of its wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Postgres,
    Shard,
    Redis,
}

impl Peer {
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::Shard, Self::Redis];

    /// Its name for `scripts/services`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Shard => "shard",
            Self::Redis => "redis",
        }
    }
}

/// Everything that runs.
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) instances: Vec<Instance>,
    wires: Vec<[Proxy; 3]>,
    /// The databases of the cluster: the catalogue with the first shard, and the second shard.
    pub(crate) databases: [Database; 2],
    pub(crate) servers: Servers,
    pub(crate) lease: Duration,
    pub(crate) has_snapshot: bool,
    /// What went wrong that is not about IDs: an instance that fell over, or did not stop.
    pub(crate) troubles: Vec<String>,
    interrupted: Arc<AtomicBool>,
    _runtime: Runtime,
}

/// What a world is made from.
pub(crate) struct Plan {
    pub(crate) executable: PathBuf,
    /// Logs and settings go here.
    pub(crate) directory: PathBuf,
    pub(crate) lease_seconds: u64,
    pub(crate) interrupted: Arc<AtomicBool>,
}

impl World {
    /// Starts the servers and the wires. The instances are still down.
    pub(crate) fn build(plan: Plan) -> anyhow::Result<Self> {
        let servers = Servers::start();
        let databases = [servers.database(), servers.database_on_shard()];
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("a runtime for the wires")?;
        let config = plan.directory.join("mintage.yaml");
        std::fs::write(&config, CONFIG)?;
        let urls = [databases[0].url(), databases[1].url(), servers.redis.clone()];
        let addresses = Addresses::new(INSTANCES);
        let (mut wires, mut instances) = (Vec::new(), Vec::new());
        for number in 0..INSTANCES {
            let mut led = Vec::new();
            let mut through = Vec::new();
            for url in &urls {
                let proxy = Proxy::start(runtime.handle(), port_of(url)?)?;
                led.push(
                    url.replace(&format!(":{}/", port_of(url)?), &format!(":{}/", proxy.port)),
                );
                through.push(proxy);
            }
            wires.push(through.try_into().ok().context("three wires")?);
            let recipe = Recipe {
                executable: plan.executable.clone(),
                settings: settings(&led, plan.lease_seconds, &plan.directory),
                config: config.clone(),
                directory: plan.directory.clone(),
            };
            instances.push(Instance::new(number, recipe, Arc::clone(&addresses)));
        }
        Ok(Self {
            journal: Journal::new(),
            addresses,
            instances,
            wires,
            databases,
            servers,
            lease: Duration::from_secs(plan.lease_seconds),
            has_snapshot: false,
            troubles: Vec::new(),
            interrupted: plan.interrupted,
            _runtime: runtime,
        })
    }

    pub(crate) fn set_wire(&self, instance: usize, peer: Peer, wire: Wire) {
        self.wires[instance][peer as usize].set(wire);
    }

    /// Waits, but not longer than until somebody wants to end it all.
    pub(crate) fn wait(&self, time: Duration) -> anyhow::Result<()> {
        let since = Instant::now();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Waits until something is so, and says whether it came to be in time.
    pub(crate) fn wait_until(
        &self,
        patience: Duration,
        mut condition: impl FnMut() -> bool,
    ) -> anyhow::Result<bool> {
        let since = Instant::now();
        while !condition() {
            if since.elapsed() > patience {
                return Ok(false);
            }
            self.wait(Duration::from_millis(100))?;
        }
        Ok(true)
    }

    /// Starts an instance that is down.
    pub(crate) fn start(&mut self, instance: usize) -> anyhow::Result<()> {
        if !self.instances[instance].is_running() {
            self.instances[instance].start().context("mintage does not start")?;
        }
        Ok(())
    }

    /// Starts instances again that have ended by themselves. That is fine while they are starting,
    /// because they need their database then, and a trouble at any other time.
    pub(crate) fn revive(&mut self) -> anyhow::Result<()> {
        for number in 0..INSTANCES {
            let listened = self.addresses.get(number).is_some();
            if let Some(status) = self.instances[number].ended() {
                let text = format!("instance {number} has ended by itself: {status}");
                self.journal.say(&text);
                if listened {
                    self.troubles.push(text);
                }
                self.start(number)?;
            }
        }
        Ok(())
    }

    /// Asks Redis itself, not over a wire.
    pub(crate) fn redis<T: FromRedisValue>(&self, command: &Cmd) -> anyhow::Result<T> {
        let client = redis::Client::open(self.servers.redis.as_str())?;
        let mut connection = client.get_connection_with_timeout(REDIS_PATIENCE)?;
        connection.set_read_timeout(Some(REDIS_PATIENCE))?;
        Ok(command.query(&mut connection)?)
    }

    /// Whether a log of an instance tells of a panic.
    pub(crate) fn look_for_panics(&mut self, directory: &Path) {
        for number in 0..INSTANCES {
            let path = Instance::log_path(directory, number);
            let log = std::fs::read_to_string(path).unwrap_or_default();
            if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
                self.troubles.push(format!("instance {number} panicked: {line}"));
            }
        }
    }
}

fn port_of(url: &str) -> anyhow::Result<u16> {
    let (_, place) = url.rsplit_once('@').context("a URL with a password")?;
    let (host, _) = place.split_once('/').context("a URL with a path")?;
    let (_, port) = host.rsplit_once(':').context("a URL with a port")?;
    Ok(port.parse()?)
}

/// Short times, so that a run of a minute sees a lot of them pass, and small chunks, so that instances share
/// batches and faults meet them in the middle.
fn settings(urls: &[String], lease_seconds: u64, directory: &Path) -> Vec<(String, String)> {
    let shards = format!("[{{\"url\": \"{}\"}}]", urls[1]);
    let lease = lease_seconds.to_string();
    let sinks = documents::root(directory).display().to_string();
    [
        ("MINTAGE__POSTGRES__URL", urls[0].as_str()),
        ("MINTAGE__POSTGRES__SHARDS", &shards),
        ("MINTAGE__POSTGRES__CONNECTIONS_MAX", "8"),
        ("MINTAGE__POSTGRES__TIMEOUT_MILLISECONDS", "1000"),
        ("MINTAGE__REDIS__URL", &urls[2]),
        ("MINTAGE__REDIS__LOCK_SECONDS", "1"),
        ("MINTAGE__CLUSTER__LEASE_SECONDS", &lease),
        ("MINTAGE__CLUSTER__POOL_CHECK_SECONDS", "2"),
        ("MINTAGE__SECURITY__MASTER_KEY", &"c4a05".repeat(13)[..64]),
        ("MINTAGE__OUTBOUND__DIRECTORY", &sinks),
        ("MINTAGE__SERVER__LISTEN", "127.0.0.1:0"),
        ("MINTAGE__SERVER__REQUEST_TIMEOUT_SECONDS", "4"),
        ("MINTAGE__SERVER__SHUTDOWN_SECONDS", "5"),
        ("MINTAGE__BATCHES__CHUNK_CODES", "1000"),
        ("MINTAGE__BATCHES__WORKERS", "2"),
        ("MINTAGE__BATCHES__SILENT_SECONDS", "5"),
        ("MINTAGE__ISSUING__POOL_SIZE_MIN", "64"),
        ("MINTAGE__ISSUING__WAIT_MILLISECONDS_MAX", "1500"),
        ("MINTAGE__ISSUING__LOG_FLUSH_MILLISECONDS", "200"),
        ("MINTAGE__LOG__FORMAT", "text"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}
