//! Real servers for tests: one set for each test binary, and a database for each test.

#![allow(dead_code, reason = "no test binary uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use storage_postgres::{PostgresSettings, ShardSettings};
use tokio_postgres::{Client, NoTls};

/// The servers of this test binary.
pub(crate) struct Servers {
    pub(crate) directory: PathBuf,
    pub(crate) postgres: String,
    pub(crate) replica: String,
    pub(crate) shard: String,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services")
}

/// Runs the script that looks after servers.
pub(crate) fn services(arguments: &[&str]) -> String {
    let output = Command::new(script()).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "services {arguments:?} failed");
    String::from_utf8(output.stdout).unwrap()
}

/// Tests cannot tidy up when the last of them ends, so somebody waits for the process to end.
fn stop_when_we_end(directory: &Path) {
    let wait_and_stop = "tail --pid=\"$1\" -f /dev/null; \"$2\" stop --dir \"$3\"; rmdir \"$3\"";
    let started = Command::new("setsid")
        .args(["--fork", "sh", "-c", wait_and_stop, "sh", &std::process::id().to_string()])
        .arg(script())
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(started.success(), "nobody would stop the servers");
}

impl Servers {
    pub(crate) fn get() -> &'static Self {
        static SERVERS: OnceLock<Servers> = OnceLock::new();
        SERVERS.get_or_init(Self::start)
    }

    fn start() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("mintage-postgres-")
            .disable_cleanup(true)
            .tempdir()
            .unwrap()
            .path()
            .to_owned();
        // The servers do not run as root.
        #[cfg(unix)]
        std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        stop_when_we_end(&directory);
        let printed = services(&["start", "--dir", directory.to_str().unwrap()]);
        let setting = |name: &str| {
            let line = printed.lines().find_map(|line| {
                line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('=')
            });
            line.unwrap_or_else(|| panic!("{name} in {printed}")).trim_matches('\'').to_owned()
        };
        let shards = setting("MINTAGE__POSTGRES__SHARDS");
        let shard = shards.split('"').find(|part| part.starts_with("postgres://")).unwrap();
        Self {
            directory,
            postgres: setting("MINTAGE__POSTGRES__URL"),
            replica: setting("MINTAGE__POSTGRES__REPLICA"),
            shard: shard.to_owned(),
        }
    }

    /// Breaks or mends one of them: `kill`, `pause`, `resume`, `restart`.
    pub(crate) fn tell(&self, command: &str, name: &str) {
        services(&[command, name, "--dir", self.directory.to_str().unwrap()]);
    }
}

/// The same server, another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

/// A plain connection.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Databases for one test, which are dropped with it.
pub(crate) struct Databases {
    pub(crate) urls: Vec<String>,
}

impl Databases {
    /// So many new and empty databases, on one server after the other.
    pub(crate) async fn create(count: usize) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let servers = Servers::get();
        let mut urls = Vec::new();
        for server in [&servers.postgres, &servers.shard].into_iter().cycle().take(count) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("test_{}_{number}", std::process::id());
            connect(server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
            urls.push(with_database(server, &name));
        }
        Self { urls }
    }

    /// What leads to them, as one cluster.
    pub(crate) fn settings(&self) -> PostgresSettings {
        let shard = |url: &String| ShardSettings { url: url.clone(), replica: None };
        PostgresSettings {
            shards: self.urls[1..].iter().map(shard).collect(),
            connections_max: 8,
            ..PostgresSettings::new(&self.urls[0])
        }
    }

    /// A plain connection to the first one.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.urls[0]).await
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let urls = std::mem::take(&mut self.urls);
        let dropping = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for url in urls {
                    let (server, name) = url.rsplit_once('/').unwrap();
                    let sql = format!("DROP DATABASE {name} WITH (FORCE)");
                    connect(&format!("{server}/mintage")).await.batch_execute(&sql).await.unwrap();
                }
            });
        });
        dropping.join().unwrap();
    }
}
