//! Servers that run as processes of their own while a benchmark lasts.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::place::Place;

/// Thousands of pools take a while to fill.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A server process; ended when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Server {
    /// `mintage serve` on a store and a free port.
    pub(super) fn mintage(place: &Place, authentication: &str) -> anyhow::Result<Self> {
        let mut command = place.command()?;
        command.arg("serve").env("MINTAGE__SECURITY__AUTHENTICATION", authentication);
        Self::start_and_wait(&mut command)
    }

    /// The same, open, with a configuration file.
    pub(super) fn with_config(place: &Place, file: &Path) -> anyhow::Result<Self> {
        let mut command = place.command()?;
        command.arg("serve").arg("--config").arg(file);
        command.env("MINTAGE__SECURITY__AUTHENTICATION", "off");
        Self::start_and_wait(&mut command)
    }

    fn start_and_wait(command: &mut Command) -> anyhow::Result<Self> {
        let server = Self::start(command)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The bare axum handler.
    pub(super) fn baseline() -> anyhow::Result<Self> {
        Self::start(this_executable()?.args(["bench", "baseline-server"]))
    }

    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .env("MINTAGE__SERVER__LISTEN", "127.0.0.1:0")
            .env("MINTAGE__LOG__LEVEL", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a server")?;
        let output = child.stdout.take().context("the server's output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().rsplit("http://").next().and_then(|text| text.parse().ok());
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        server.address = address.with_context(|| format!("the server did not start: {line}"))?;
        Ok(server)
    }
}

impl Server {
    /// The process, to look at its memory.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let url = format!("http://{}/readyz", self.address);
        let started = Instant::now();
        while ureq::get(&url).call().is_err() {
            anyhow::ensure!(started.elapsed() < READY_WITHIN, "the server is not ready in time");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command for this executable.
pub(super) fn this_executable() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find this executable")?))
}
