//! Wires that can be cut: a TCP proxy between one instance and one server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// What a wire does with what goes over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Carries it.
    Open,
    /// Breaks every connection, and every new one at once.
    Dropped,
    /// Takes bytes and loses them. A connection that has lost some is broken once this is over.
    Swallowing,
    /// Holds bytes back, and carries them on late once this is over.
    Stalled,
}

/// A proxy on a port of its own. It ends with the runtime.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    wire: watch::Sender<Wire>,
}

impl Proxy {
    /// Listens, and leads to a port on this machine.
    pub(crate) fn start(runtime: &Handle, to: u16) -> io::Result<Self> {
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let (wire, state) = watch::channel(Wire::Open);
        runtime.spawn(accept(listener, SocketAddr::from((Ipv4Addr::LOCALHOST, to)), state));
        Ok(Self { port, wire })
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, wire: watch::Receiver<Wire>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(carry(stream, to, wire.clone()));
    }
}

async fn carry(client: TcpStream, to: SocketAddr, wire: watch::Receiver<Wire>) {
    if *wire.borrow() == Wire::Dropped {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let (Ok(()), Ok(())) = (client.set_nodelay(true), server.set_nodelay(true)) else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whoever ends first ends the connection as a whole.
    tokio::select! {
        _ = pump(from_client, to_server, wire.clone()) => {}
        _ = pump(from_server, to_client, wire) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut wire: watch::Receiver<Wire>,
) -> Option<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut has_lost = false;
    loop {
        let over = |wire: &Wire| *wire == Wire::Dropped || (has_lost && *wire != Wire::Swallowing);
        let count = tokio::select! {
            count = from.read(&mut buffer) => count.ok().filter(|count| *count > 0)?,
            _ = wire.wait_for(over) => return None,
        };
        let now = *wire.wait_for(|wire| *wire != Wire::Stalled).await.ok()?;
        match now {
            Wire::Dropped => return None,
            Wire::Swallowing => has_lost = true,
            _ if has_lost => return None,
            _ => to.write_all(&buffer[..count]).await.ok()?,
        }
    }
}
