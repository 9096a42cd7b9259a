//! Servers that run as processes of their own while a benchmark lasts.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A server process; ended when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Server {
    /// `mintage serve` on a data directory of its own and a free port.
    pub(super) fn mintage(data: &Path) -> anyhow::Result<Self> {
        Self::start(this_executable()?.arg("serve").env("MINTAGE__STORE__DIRECTORY", data))
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
