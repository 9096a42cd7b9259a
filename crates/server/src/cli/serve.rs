//! `mintage serve`: the server.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

use super::config::ConfigArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::http::Api;
use crate::{serve, stores, telemetry, wiring};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (config, _) = args.config.load()?;
    telemetry::init(&config.log, std::io::stderr().is_terminal());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve_until_told_to_stop(&config))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve_until_told_to_stop(config: &Config) -> anyhow::Result<()> {
    // Before anybody can know that the server runs: who stops it at once stops it properly.
    let signals = Signals::new()?;
    // The port first: if it is taken, nothing is drawn that would have to be given back.
    let listener = serve::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.server.listen))?;
    let address = listener.local_addr()?;
    let (engine, app) = wiring::start(config).await?;
    let (stop, stopped) = watch::channel(false);
    let limits = serve::Limits {
        header_timeout: wiring::seconds(config.server.header_timeout_seconds),
        connections_max: config.server.connections_max as usize,
        shutdown: wiring::seconds(config.server.shutdown_seconds),
    };
    let api = Api::new(app.clone());
    let server = tokio::spawn(serve::run(listener, api, limits, stopped));
    announce(address, config);

    signals.wait().await;
    info!("shutting down");
    app.begin_shutdown();
    stop.send_replace(true);
    server.await.context("the listener failed")?;
    engine.shut_down().await;
    Ok(())
}

/// What a person needs to know, on standard output; the log is on standard error.
fn announce(address: std::net::SocketAddr, config: &Config) {
    info!(%address, "listening on {address}");
    let sample = config.id_types.first().map_or("TYPE", |id_type| id_type.name());
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; that is no reason to stop.
    let _ = writeln!(
        out,
        "Mintage is listening on http://{address}\n\
         Reference:  http://{address}/docs\n\
         Data:       {}\n\
         Try it:     curl -s http://{address}/api/v1/ids -d '{{\"type\":\"{sample}\"}}'",
        stores::place(config)
    );
    let _ = out.flush();
}

/// The signals that stop the server.
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
