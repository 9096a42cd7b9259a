//! Looking names up. The system does it on a thread that waits, for half a minute where a server of names
//! does not answer.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Policy;
use super::hands::{Hands, NotDone};
use super::room::{Bounds, Full};

/// The threads are from a pool of 512 that also reads the database and writes files. A name is usually found
/// within a millisecond, so few at once are many a second.
const BOUNDS: Bounds = Bounds {
    in_all: 64,
    in_place: 4,
    // The connection has a limit of its own, which this is a part of.
    wait_max: Duration::from_secs(60),
};

/// Looks up names, and leaves out what nothing may be sent to.
pub(super) struct Lookups {
    policy: Policy,
    hands: Arc<Hands>,
}

impl Lookups {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, hands: Arc::new(Hands::new(BOUNDS)) }
    }
}

impl Resolve for Lookups {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, hands) = (self.policy, Arc::clone(&self.hands));
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let look_up = move || Ok((host.as_str(), 0).to_socket_addrs()?.collect::<Vec<_>>());
            let found: std::io::Result<Vec<SocketAddr>> = hands
                .run(name.as_str(), look_up)
                .await
                .map_err(|why| match why {
                NotDone::Full(Full::There) => "earlier look-ups of its name are still under way",
                NotDone::Full(Full::Everywhere) => "too many names are being looked up",
                NotDone::Interrupted => "looking its name up was interrupted",
            })?;
            let mut allowed = found?;
            allowed.retain(|address| policy.allows(address.ip()));
            // Where names of our own network lead to is nobody else's business.
            if allowed.is_empty() {
                return Err("its name leads to nothing that is out on the internet".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused() {
        let policy = Policy { private_addresses: false };
        assert!(policy.check("https://localhost/").is_ok(), "only the look-up can tell");
        let found = Lookups::new(policy).resolve("localhost".parse().unwrap()).await;
        let error = found.err().expect("localhost is not public").to_string();
        assert!(error.contains("out on the internet"), "{error}");
    }

    /// Nobody waits for the server of a name longer than for a connection, but the thread does.
    #[tokio::test]
    async fn a_name_that_is_not_answered_holds_up_no_other() {
        let hands = Arc::new(Hands::new(Bounds { wait_max: Duration::ZERO, ..BOUNDS }));
        let lookups = Lookups { policy: Policy { private_addresses: true }, hands };
        let (entered, mut hanging) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for _ in 0..BOUNDS.in_place {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            ends.push(end);
            let (hands, entered) = (Arc::clone(&lookups.hands), entered.clone());
            let hang = move || {
                entered.send(()).unwrap();
                ended.recv()
            };
            tokio::spawn(async move { hands.run("localhost", hang).await });
            hanging.recv().await.unwrap();
        }
        let error = lookups.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(error.to_string().contains("earlier look-ups"), "{error}");
        assert!(lookups.resolve("127.0.0.1".parse().unwrap()).await.is_ok());
    }
}
