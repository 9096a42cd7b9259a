//! The listener: accepts connections, limits them, and drains them when it is time to go.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tracing::{debug, info, warn};

use crate::http::Api;

/// Limits of the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long a client may take for its headers.
    pub(crate) header_timeout: Duration,
    /// Connections at once; more wait in the kernel's queue.
    pub(crate) connections_max: usize,
    /// How long requests may still take once the server was told to stop.
    pub(crate) shutdown: Duration,
}

/// Opens the port.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until told to stop, then lets requests finish within the limit.
pub(crate) async fn run(
    listener: TcpListener,
    api: Api,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    // HTTP/1 only: proxies speak it to what is behind them, and it has one time limit for silence.
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections_max));

    while !*stop.borrow() {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.changed() => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(problem) => {
                // Usually too many open files; accepting again at once would only burn a core.
                warn!("cannot accept a connection: {problem}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let api = api.clone();
        let service = service_fn(move |request| {
            let answer = api.clone().answer(request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(problem) = connection.await {
                debug!("a connection ended early: {problem}");
            }
            drop(place);
        });
    }

    drop(listener);
    info!(
        "no longer listening; finishing {} connections",
        limits.connections_max - places.available_permits()
    );
    if tokio::time::timeout(limits.shutdown, graceful.shutdown()).await.is_err() {
        warn!(
            "some requests did not finish within {} s and were cut off",
            limits.shutdown.as_secs()
        );
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.expect("the places are never closed");
    let (stream, _) = listener.accept().await?;
    // Answers are small; waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}
