//! Instances of one cluster.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use test_services::{Database, Servers};

use crate::support::{Deployment, Home, Server, wait_until};

/// One type of each kind.
pub(crate) const CONFIG: &str = r#"
id_types:
  - { name: order, sequence: { template: "ORD-{seq:08}" } }
  - { name: card, random: { alphabet: crockford32, length: 12, check: iso7064 } }
  - { name: event, snowflake: {} }
"#;

/// A new cluster on the servers that all tests share, without instances.
pub(crate) fn home(deployment: Deployment) -> Home {
    Home::on(deployment, Servers::shared()).with_config(CONFIG)
}

/// Servers to break, for one test at a time.
pub(crate) fn breakable_servers() -> MutexGuard<'static, Servers> {
    static SERVERS: OnceLock<Mutex<Servers>> = OnceLock::new();
    let servers = SERVERS.get_or_init(|| Mutex::new(Servers::start()));
    // A test that failed may have left something broken.
    let servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["postgres", "redis"] {
        servers.tell("restart", name);
    }
    servers
}

/// Starts instances at the same moment.
pub(crate) fn start_together(home: &Home, count: usize) -> Vec<Server> {
    thread::scope(|scope| {
        let starts: Vec<_> = (0..count).map(|_| scope.spawn(|| home.start())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    })
}

/// Stops all instances and starts another one.
pub(crate) fn start_afresh(home: &Home, servers: Vec<Server>) -> Server {
    for server in servers {
        server.stop();
    }
    home.start()
}

/// The serial of an order.
pub(crate) fn order_serial(id: &str) -> u64 {
    id.strip_prefix("ORD-").unwrap().parse().unwrap()
}

/// The node that made a snowflake.
pub(crate) fn node(id: &str) -> u64 {
    id.parse::<u64>().unwrap() >> 12 & 0x3ff
}

/// Waits until an instance has noticed that so many others are gone.
pub(crate) fn wait_until_gone(witness: &Server, count: usize) {
    wait_until("others are taken for gone", || {
        witness.log().lines().filter(|line| line.contains("is gone")).count() >= count
    });
}

/// A figure of the metrics page.
pub(crate) fn metric(server: &Server, name: &str) -> f64 {
    let page = server.client().get("/metrics").text;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
}

/// Waits for something that every instance is promised to know within a second.
pub(crate) fn within_a_second(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(1), "a second passed before {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A lock on a table, by which a step of an instance can be held up. It is released when it is
/// dropped.
pub(crate) struct TableLock(Child);

impl TableLock {
    pub(crate) fn take(database: &Database, table: &str) -> Self {
        let mut psql = Command::new("psql")
            .args([&database.url(), "-X", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql runs");
        let statements = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n");
        psql.stdin.as_mut().unwrap().write_all(statements.as_bytes()).unwrap();
        let granted = format!(
            "SELECT count(*) FROM pg_locks
             WHERE relation = '{table}'::regclass AND mode = 'AccessExclusiveLock' AND granted"
        );
        wait_until("the table is locked", || database.sql(&granted) == "1");
        Self(psql)
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        // The end of its input is the end of its transaction.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
