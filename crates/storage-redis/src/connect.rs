//! From a URL to servers that are recognised: directly, through sentinels, or as a cluster.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::cluster::Guide;
use crate::error::Trouble;
use crate::link::{Found, Node};
use crate::server::Server;
use crate::target::{Address, Place, Target};
use crate::wire::Wire;

/// Finds the servers, connects, and asks each who it is. Where the URL names several hosts, each
/// has as much time as the limit says, so that one that is cut off does not stand for the others.
pub(crate) async fn find(
    target: &Target,
    tls: Option<&TlsConnector>,
    limit: Duration,
) -> Result<Found, Trouble> {
    let late = |_| Trouble::Late(limit);
    let mut trouble = Trouble::Identity("the Redis URL names no host");
    match target {
        Target::Server(place) => return timeout(limit, single(place, tls)).await.map_err(late)?,
        Target::Sentinels { sentinels, master, login, tls: secure } => {
            for sentinel in sentinels {
                // What a sentinel says may be out of date; the server is asked itself afterwards,
                // and the epoch decides.
                let attempt = async {
                    let (host, port) = ask_sentinel(sentinel, master, tls).await?;
                    let address = Address::Tcp { host, port, tls: *secure };
                    single(&Place { address, login: login.clone() }, tls).await
                };
                match timeout(limit, attempt).await.map_err(late).flatten() {
                    Ok(found) => return Ok(found),
                    Err(error) => trouble = error,
                }
            }
        }
        Target::Cluster { seeds } => {
            for seed in seeds {
                match timeout(limit, cluster(seed, tls)).await.map_err(late).flatten() {
                    Ok(found) => return Ok(found),
                    Err(error) => trouble = error,
                }
            }
        }
    }
    Err(trouble)
}

async fn single(place: &Place, tls: Option<&TlsConnector>) -> Result<Found, Trouble> {
    let node = open(place, tls).await?;
    if node.server.is_in_cluster() {
        return Err(Trouble::Identity("the Redis server is in a cluster; use redis+cluster://"));
    }
    Ok(Found { nodes: vec![node], cluster: None })
}

/// Connects to one server and asks who it is.
pub(crate) async fn open(place: &Place, tls: Option<&TlsConnector>) -> Result<Node, Trouble> {
    let wire = Wire::open(place, tls).await?;
    let server = Server::recognise(&wire).await?;
    Ok(Node { wire, server, place: place.clone() })
}

async fn cluster(seed: &Place, tls: Option<&TlsConnector>) -> Result<Found, Trouble> {
    let guide = Guide { wire: Wire::open(seed, tls).await?, place: seed.clone() };
    let layout = guide.layout().await?;
    let mut nodes = Vec::with_capacity(layout.masters.len());
    for address in &layout.masters {
        let place = Place { address: address.clone(), login: seed.login.clone() };
        nodes.push(open(&place, tls).await?);
    }
    Ok(Found { nodes, cluster: Some((layout, guide)) })
}

async fn ask_sentinel(
    sentinel: &Place,
    master: &str,
    tls: Option<&TlsConnector>,
) -> Result<(String, u16), Trouble> {
    let wire = Wire::open(sentinel, tls).await?;
    let mut command = Cmd::new();
    command.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let Value::Array(parts) = wire.ask(&command).await? else {
        return Err(Trouble::Identity("the sentinel knows no master of this name"));
    };
    let mut texts = parts.iter().map(|part| match part {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    });
    match (texts.next().flatten(), texts.next().flatten().and_then(|port| port.parse().ok())) {
        (Some(host), Some(port)) => Ok((host.to_owned(), port)),
        _ => Err(Trouble::Unexpected("the address of a master")),
    }
}
