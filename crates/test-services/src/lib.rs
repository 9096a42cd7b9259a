#![doc = include_str!("../README.md")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A set of servers.
#[derive(Debug)]
pub struct Servers {
    directory: PathBuf,
    /// The first PostgreSQL.
    pub postgres: String,
    /// A streaming replica of it.
    pub replica: String,
    /// Another PostgreSQL.
    pub shard: String,
    /// Redis.
    pub redis: String,
}

impl Servers {
    /// The set that all tests of this program share.
    pub fn shared() -> &'static Self {
        static SERVERS: OnceLock<Servers> = OnceLock::new();
        SERVERS.get_or_init(Self::start)
    }

    /// A set of its own, for tests that break servers.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("mintage-test-")
            .disable_cleanup(true)
            .tempdir()
            .expect("a directory for the servers")
            .path()
            .to_owned();
        // The servers do not run as root.
        #[cfg(unix)]
        std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("the directory is ours");
        stop_when_we_end(&directory);
        let printed = services(&["start", "--no-fsync", "--dir", &directory.to_string_lossy()]);
        let shards = setting(&printed, "MINTAGE__POSTGRES__SHARDS");
        let shard = shards.split('"').find(|part| part.starts_with("postgres://"));
        Self {
            postgres: setting(&printed, "MINTAGE__POSTGRES__URL"),
            replica: setting(&printed, "MINTAGE__POSTGRES__REPLICA"),
            redis: setting(&printed, "MINTAGE__REDIS__URL"),
            shard: shard.expect("the second shard").to_owned(),
            directory,
        }
    }

    /// Where they keep what they have.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Breaks or mends one of them: `kill`, `pause`, `resume`, `restart`, `empty`, `snapshot`,
    /// `restore`, as `scripts/services` describes them.
    pub fn tell(&self, command: &str, name: &str) {
        services(&[command, name, "--dir", &self.directory.to_string_lossy()]);
    }

    /// What leads to the copy of a database at the replica.
    pub fn replica_of(&self, database: &Database) -> String {
        with_database(&self.replica, &database.name)
    }

    /// Keeps the replica as it is, until it is let go on.
    pub fn hold_replica(&self) {
        self.tell_replica("pg_wal_replay_pause");
    }

    /// Lets the replica follow again.
    pub fn release_replica(&self) {
        self.tell_replica("pg_wal_replay_resume");
    }

    fn tell_replica(&self, function: &str) {
        let password = std::fs::read_to_string(self.directory.join("run/superuser"));
        let password = password.expect("the password of the superuser");
        let (_, place) = self.replica.rsplit_once('@').expect("a URL with a user");
        let url = format!("postgres://postgres:{}@{place}", password.trim());
        sql(&url, &format!("SELECT {function}()"));
    }

    /// A new and empty database on the first PostgreSQL.
    pub fn database(&self) -> Database {
        Database::create(&self.postgres)
    }

    /// A new and empty database on the second one.
    pub fn database_on_shard(&self) -> Database {
        Database::create(&self.shard)
    }
}

/// A database for one test. It goes with its server: to drop one, PostgreSQL first writes everything
/// that it has not written yet, of all of them, and most tests would wait longer for that than for
/// what they are about.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    fn create(server: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        sql(server, &format!("CREATE DATABASE {name}"));
        Self { server: server.to_owned(), name }
    }

    /// What leads to it.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Runs statements in it, and returns what they print: a row a line, a `|` between columns.
    pub fn sql(&self, statements: &str) -> String {
        sql(&self.url(), statements)
    }
}

fn with_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}

fn sql(url: &str, statements: &str) -> String {
    let output = Command::new("psql")
        .args([url, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statements])
        .env("PGCONNECT_TIMEOUT", "5")
        .stdin(Stdio::null())
        .output()
        .expect("psql runs");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{statements}: {problem}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services")
}

/// Runs the script that looks after servers.
fn services(arguments: &[&str]) -> String {
    let output = Command::new(script()).args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("the script runs");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "services {arguments:?}: {problem}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Tests cannot tidy up when the last of them ends, so somebody waits for the process to end.
#[expect(clippy::zombie_processes, reason = "it outlives this process, that is what it is for")]
fn stop_when_we_end(directory: &Path) {
    let wait_and_stop = "tail --pid=\"$1\" -f /dev/null; \"$2\" stop --dir \"$3\"; rmdir \"$3\"";
    Command::new("setsid")
        .args(["sh", "-c", wait_and_stop, "sh", &std::process::id().to_string()])
        .arg(script())
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("somebody to stop the servers");
}

fn setting(printed: &str, name: &str) -> String {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("{name} in {printed}")).trim_matches('\'').to_owned()
}
