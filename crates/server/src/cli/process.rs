//! A process that runs until it is told to stop: what `mintage serve` and `mintage worker` share.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{debug, info};

use crate::config::Config;
use crate::http::Api;
use crate::wiring::{self, Role};
use crate::{serve, telemetry};

/// Runs until told to stop. `announce` says that it runs, and where.
pub(super) fn run(
    config: &Config,
    role: Role,
    announce: impl Fn(SocketAddr) + Send,
) -> anyhow::Result<()> {
    telemetry::init(&config.log, io::stderr().is_terminal());
    open_as_many_files_as_allowed();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(run_until_told_to_stop(config, role, announce))
}

/// Every connection is an open file. What a process may open at first is often 1024, which is for programs
/// of old that know no more, and it may take more by itself.
fn open_as_many_files_as_allowed() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => debug!(?maximum, before = ?current, "the limit of open files is raised"),
        Err(problem) => debug!(?current, "the limit of open files stays as it is: {problem}"),
    }
}

async fn run_until_told_to_stop(
    config: &Config,
    role: Role,
    announce: impl Fn(SocketAddr),
) -> anyhow::Result<()> {
    // Before anybody can know that the process runs: who stops it at once stops it properly.
    let signals = Signals::new()?;
    // The port first: if it is taken, nothing is drawn that would have to be given back.
    let listener = serve::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.server.listen))?;
    let address = listener.local_addr()?;
    let (engine, app) = wiring::start(config, role).await?;
    let (stop, stopped) = watch::channel(false);
    let limits = serve::Limits {
        header_timeout: wiring::seconds(config.server.header_timeout_seconds),
        stall_timeout: wiring::seconds(config.server.stall_timeout_seconds),
        connections_max: config.server.connections_max as usize,
        shutdown: wiring::seconds(config.server.shutdown_seconds),
    };
    let api = match role {
        Role::Server => Api::new(app.clone()),
        Role::Worker => Api::of_worker(app.clone()),
    };
    let server = tokio::spawn(serve::run(listener, api, limits, stopped));
    info!(%address, "listening on {address}");
    announce(address);

    signals.wait().await;
    info!("shutting down");
    app.begin_shutdown();
    stop.send_replace(true);
    server.await.context("the listener failed")?;
    engine.shut_down().await;
    Ok(())
}

/// The signals that stop the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for the first one. From then on a second one means: at once.
    async fn wait(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(130);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
