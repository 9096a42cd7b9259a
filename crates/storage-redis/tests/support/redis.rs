//! A `redis-server` process of the test's own.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};
use tempfile::TempDir;

/// Starting takes some ten milliseconds, unless the machine is very busy.
const START_MAX: Duration = Duration::from_secs(20);

/// A server on a free port with a directory of its own. It ends with the test.
pub(crate) struct Redis {
    pub(crate) port: u16,
    pub(crate) directory: TempDir,
    password: Option<String>,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Redis {
    /// An empty server that keeps nothing unless it is told to.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let password = arguments.iter().position(|argument| *argument == "--requirepass");
        let mut redis = Self {
            port: free_port(),
            directory: tempfile::tempdir().unwrap(),
            password: password.map(|place| arguments[place + 1].to_owned()),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            process: None,
        };
        redis.launch();
        redis
    }

    /// Starts the process again, on the same port and in the same directory.
    pub(crate) fn launch(&mut self) {
        assert!(self.process.is_none(), "it is running");
        let mut process = self.spawn();
        let since = Instant::now();
        while self.try_connect().is_none() {
            assert!(since.elapsed() < START_MAX, "redis-server does not start");
            thread::sleep(Duration::from_millis(5));
            // Somebody's connection may have the port for a moment.
            if process.try_wait().unwrap().is_some() {
                process = self.spawn();
            }
        }
        self.process = Some(process);
    }

    fn spawn(&self) -> Child {
        let log = File::create(self.directory.path().join("log")).unwrap();
        Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"])
            .args(["--repl-diskless-sync-delay", "0"])
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.arguments)
            .stdout(Stdio::from(log))
            .stderr(Stdio::inherit())
            .spawn()
            .expect("redis-server is installed")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A connection of the test's own, once the server has loaded its data.
    fn try_connect(&self) -> Option<Connection> {
        let user = self.password.as_ref().map_or_else(String::new, |word| format!(":{word}@"));
        let url = format!("redis://{user}127.0.0.1:{}", self.port);
        let mut connection = redis::Client::open(url).unwrap().get_connection().ok()?;
        redis::cmd("PING").exec(&mut connection).ok()?;
        Some(connection)
    }

    /// Does something behind the pools' back.
    pub(crate) fn run<T: FromRedisValue>(&self, command: &str) -> T {
        let mut connection = self.try_connect().expect("the server is up");
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.query(&mut connection).unwrap()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it is running");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// `SIGSTOP`: connections stay open, and nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    /// `SIGCONT`.
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.process.as_ref().expect("it is running").id();
        assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
    }
}

/// A port that nobody uses at the moment.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
