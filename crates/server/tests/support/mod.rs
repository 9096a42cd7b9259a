//! A real server for tests: the executable as it is shipped, in a directory of its own, on a port
//! of its own, and a client that talks HTTP to it.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

pub(crate) mod batches;
pub(crate) mod bucket;
mod client;
mod deployment;
pub(crate) mod disk;
mod ledger;
pub(crate) mod receiver;
pub(crate) mod sinks;

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use test_services::{Database, Servers};

pub(crate) use client::{Client, Reply};
pub(crate) use deployment::Deployment;
pub(crate) use ledger::{Ledger, assert_new};

/// Generous, because machines are slow; nothing waits this long where all is well.
const DEADLINE: Duration = Duration::from_secs(120);

/// Data and settings, on which one server after the other can be started, and several at once
/// where the data is in PostgreSQL.
pub(crate) struct Home {
    /// Stays as long as a server is on it.
    directory: Arc<TempDir>,
    database: Option<Database>,
    variables: Vec<(String, String)>,
    config: Option<PathBuf>,
    /// Shell commands that come before the server in its process.
    prelude: Option<String>,
}

impl Home {
    /// The default configuration, but on any free port and with patience, on the deployment that
    /// this run is about.
    pub(crate) fn new() -> Self {
        match Deployment::of_this_run() {
            Deployment::Embedded => Self::embedded(),
            cluster => Self::on(cluster, Servers::shared()),
        }
    }

    /// The same on the embedded store, for tests of what only it has: files, a disk, a lock.
    pub(crate) fn embedded() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let data = directory.path().join("data");
        let (variables, config, prelude) = (Vec::new(), None, None);
        let home = Self { directory, database: None, variables, config, prelude };
        home.with("MINTAGE__STORE__DIRECTORY", data.to_str().unwrap())
            .with("MINTAGE__SERVER__LISTEN", "127.0.0.1:0")
            .with("MINTAGE__SERVER__REQUEST_TIMEOUT_SECONDS", "120")
            .with("MINTAGE__ISSUING__WAIT_MILLISECONDS_MAX", "60000")
    }

    /// The same on a new database of these servers. Instances are soon taken for gone, so that
    /// nobody has to wait long for it.
    pub(crate) fn on(deployment: Deployment, servers: &Servers) -> Self {
        let database = servers.database();
        let home = Self::embedded()
            .with("MINTAGE__POSTGRES__URL", &database.url())
            .with("MINTAGE__SECURITY__MASTER_KEY", &"0f".repeat(32))
            .with("MINTAGE__CLUSTER__LEASE_SECONDS", "1");
        let home = Self { database: Some(database), ..home };
        match deployment {
            Deployment::PostgresAndRedis => home.with("MINTAGE__REDIS__URL", &servers.redis),
            Deployment::Postgres | Deployment::Embedded => home,
        }
    }

    /// A setting, as an environment variable. The last one of a name counts.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(existing, _)| existing != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a setting back.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(existing, _)| existing != name);
        self
    }

    /// A configuration file.
    pub(crate) fn with_config(mut self, yaml: &str) -> Self {
        let path = self.directory.path().join("mintage.yaml");
        fs::write(&path, yaml).unwrap();
        self.config = Some(path);
        self
    }

    /// Shell commands that the server's process runs before it becomes the server.
    pub(crate) fn with_prelude(mut self, script: &str) -> Self {
        self.prelude = Some(script.to_owned());
        self
    }

    /// The database, where the data is in one.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Where the server keeps its data, if it does not keep it in a database.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Everything that is stored, as it is stored.
    pub(crate) fn stored(&self) -> Vec<u8> {
        match &self.database {
            None => {
                let files = fs::read_dir(self.data()).unwrap();
                files.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
            }
            Some(database) => {
                let dump = Command::new("pg_dump").arg(database.url()).output().unwrap();
                assert!(dump.status.success(), "{}", text(&dump.stderr));
                dump.stdout
            }
        }
    }

    /// A file beside the data.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The executable with these arguments and the settings of this directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mintage = env!("CARGO_BIN_EXE_mintage");
        let mut command = match &self.prelude {
            None => Command::new(mintage),
            Some(prelude) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{prelude}; exec \"$0\" \"$@\""), mintage]);
                shell
            }
        };
        command.args(args).current_dir(self.directory.path()).stdin(Stdio::null()).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail with exit code 1, and returns its message.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(!message.contains("panicked"), "{message}");
        message
    }

    fn serve_command(&self) -> Command {
        self.process_command("serve")
    }

    fn process_command(&self, role: &str) -> Command {
        let mut command = self.command(&[role]);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn start(&self) -> Server {
        Server::start(self.serve_command(), Arc::clone(&self.directory))
    }

    /// Starts a process that only makes codes, several chunks at a time, and waits until it listens.
    pub(crate) fn start_worker(&self) -> Server {
        let mut command = self.process_command("worker");
        command.env("MINTAGE__BATCHES__WORKERS", "2");
        Server::start(command, Arc::clone(&self.directory))
    }

    /// Starts a server that must refuse to run, and returns its exit code and its messages.
    pub(crate) fn start_refused(&self) -> (Option<i32>, String) {
        let output = self.serve_command().output().unwrap();
        assert_eq!(text(&output.stdout), "", "it says that it listens");
        (output.status.code(), text(&output.stderr))
    }

    /// Makes an API key without a server, and returns its token.
    pub(crate) fn create_key(&self, args: &[&str]) -> String {
        let token = self.ok(&[&["keys", "create"], args].concat());
        assert!(token.starts_with("mtg_"), "{token}");
        token.trim().to_owned()
    }
}

/// A running server. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:…`
    pub(crate) url: String,
    stderr: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
    client: Client,
    _directory: Arc<TempDir>,
}

impl Server {
    fn start(mut command: Command, directory: Arc<TempDir>) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (stderr, ended) = collect(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        // Reads on after the first line, so that the server never writes to a closed pipe.
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let Ok(line) = lines.recv_timeout(DEADLINE) else {
            let _ = child.kill();
            let _ = ended.recv_timeout(DEADLINE);
            panic!("the server did not start: {}", text(&stderr.lock().unwrap()));
        };
        let url = line.strip_prefix("Mintage is listening on ").expect(&line);
        let url = url.replace("//0.0.0.0:", "//127.0.0.1:");
        let client = Client::new(&url);
        Self { child, url, stderr, ended, client, _directory: directory }
    }

    /// A client without an API key.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A client with connections of its own.
    pub(crate) fn new_client(&self) -> Client {
        Client::new(&self.url)
    }

    /// A client with an API key.
    pub(crate) fn client_with(&self, token: &str) -> Client {
        self.new_client().with_token(token)
    }

    /// Waits until the server is ready. Pools that instances share are filled first.
    pub(crate) fn ready(self) -> Self {
        wait_until("the server is ready", || self.client.get("/readyz").status == 200);
        self
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that was logged so far.
    pub(crate) fn log(&self) -> String {
        text(&self.stderr.lock().unwrap())
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, name: &str) {
        // The shell's own `kill`: a machine may have no other.
        let script = ["-c", "kill -s \"$2\" \"$1\"", "sh", &self.pid().to_string(), name];
        assert!(Command::new("sh").args(script).status().unwrap().success());
    }

    /// Asks the server to stop and does not wait for it.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops the server in its tracks, until it is resumed.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
        let stat = format!("/proc/{}/stat", self.pid());
        wait_until("the server stands still", || {
            fs::read_to_string(&stat).unwrap().contains(") T ")
        });
    }

    /// Lets a server that was paused go on.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        // Its standard error is closed when it ends.
        self.ended.recv_timeout(DEADLINE).expect("the server ends in time");
        self.child.wait().unwrap()
    }

    /// Stops the server as a service manager does, and returns its log.
    pub(crate) fn stop(mut self) -> String {
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
        self.log()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.kill_now();
        self.wait();
    }

    /// `kill -9`, while others still talk to it.
    pub(crate) fn kill_now(&self) {
        self.signal("KILL");
    }

    /// Sends bytes as they are and returns all that comes back until the server closes.
    pub(crate) fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        text(&answer)
    }

    /// A bare connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects a stream in the background and tells when it ends.
fn collect(mut stream: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, Receiver<()>) {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let (sender, ended) = channel();
    let target = Arc::clone(&collected);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            target.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
        let _ = sender.send(());
    });
    (collected, ended)
}

/// Waits for something that happens in another process.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
