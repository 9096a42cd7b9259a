//! The listener: accepts connections, limits them, and drains them when it is time to go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Connection};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::{debug, info, warn};

use crate::http::Api;

/// Limits of the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long a client may take for its headers.
    pub(crate) header_timeout: Duration,
    /// For how long a client may take nothing of what it is sent.
    pub(crate) stall_timeout: Duration,
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
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let stopping = Arc::new(AtomicBool::new(false));
    let (tell, told) = watch::channel(());

    while !*stop.borrow() {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places, limits.stall_timeout) => accepted,
            _ = stop.changed() => break,
        };
        let (stream, peer, place) = match accepted {
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
            let answer = api.clone().answer(request, peer);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = until_told(connection, told.clone(), Arc::clone(&stopping));
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
    stopping.store(true, Ordering::Release);
    tell.send_replace(());
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    if tokio::time::timeout(limits.shutdown, places.acquire_many(all)).await.is_err() {
        warn!(
            "some requests did not finish within {} s and were cut off",
            limits.shutdown.as_secs()
        );
    }
}

/// Serves a connection; once the server stops, only until the request under way is answered. A
/// connection is polled twice for each request, and the channel has a lock that all of them share, so
/// the channel is asked once: it wakes this task, which then finds the flag.
async fn until_told(
    connection: Connection<
        TokioIo<TcpStream>,
        impl Service<Request<Incoming>, Response = Response, Error = Infallible>,
    >,
    mut told: watch::Receiver<()>,
    stopping: Arc<AtomicBool>,
) -> hyper::Result<()> {
    let (mut connection, mut told) = (pin!(connection), pin!(told.changed()));
    let (mut asked, mut ending) = (false, false);
    poll_fn(|context| {
        if !std::mem::replace(&mut asked, true) {
            let _ = told.as_mut().poll(context);
        }
        if !ending && stopping.load(Ordering::Acquire) {
            ending = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    stall_timeout: Duration,
) -> io::Result<(TcpStream, IpAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.expect("the places are never closed");
    let (stream, peer) = listener.accept().await?;
    // Answers are small; waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    // The system ends connections to those who are gone, or there and do not read.
    let stall_ms = u32::try_from(stall_timeout.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(&stream, stall_ms)?;
    Ok((stream, peer.ip(), place))
}
