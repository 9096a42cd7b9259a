//! A way to the pools of one epoch: connections to servers that were recognised.

use redis::{Pipeline, Value};

use crate::asking::accepted;
use crate::cluster::{Guide, Layout};
use crate::error::Trouble;
use crate::keys;
use crate::server::{self, Server};
use crate::slots::slot;
use crate::target::Place;
use crate::wire::Wire;

/// Numbers to try as a tag. The slots of so many cover every slot of a cluster several times.
const TAGS_MAX: u32 = 200_000;

/// A connection to a master.
pub(crate) struct Node {
    pub(crate) wire: Wire,
    pub(crate) server: Server,
    /// Where it was reached, for those who need a connection of their own.
    pub(crate) place: Place,
}

impl Node {
    /// Sends commands with the question for the history behind them, which vouches for all answers.
    pub(crate) async fn ask(&self, mut commands: Pipeline) -> Result<Vec<Value>, Trouble> {
        server::ask_history(&mut commands);
        let mut answers = self.wire.ask_all(&commands).await?;
        self.server.check_history(&answers.pop().unwrap_or_default())?;
        Ok(answers)
    }
}

/// The servers that a URL leads to.
pub(crate) struct Found {
    /// One, or the masters of a cluster in the order of its layout.
    pub(crate) nodes: Vec<Node>,
    /// Which of them has which keys, and who says so.
    pub(crate) cluster: Option<(Layout, Guide)>,
}

impl Found {
    /// By which the epoch is found. In a cluster it covers who owns which slot: a slot that moves
    /// ends the epoch, so that a list left behind by a move that went wrong is never used.
    pub(crate) fn identity(&self) -> String {
        let parts: Vec<String> = match &self.cluster {
            None => self.nodes.iter().map(|node| node.server.identity()).collect(),
            Some((layout, _)) => {
                let owned = |slots: &crate::cluster::Slots| {
                    let node = self.nodes.get(slots.node)?;
                    Some(format!("{}-{}/{}", slots.first, slots.last, node.server.identity()))
                };
                layout.slots.iter().filter_map(owned).collect()
            }
        };
        parts.join(",")
    }
}

/// Servers that were recognised and registered under an epoch.
pub(crate) struct Link {
    pub(crate) epoch: u64,
    pub(crate) found: Found,
}

impl Link {
    /// The server that has the keys with a tag.
    pub(crate) fn node(&self, tag: &str) -> Result<&Node, Trouble> {
        let place = match &self.found.cluster {
            None => 0,
            Some((layout, _)) => {
                let slot = slot(tag);
                let owned = layout.slots.iter().find(|slots| slots.contain(slot));
                owned.ok_or(NO_OWNER)?.node
            }
        };
        self.found.nodes.get(place).ok_or(NO_OWNER)
    }

    /// Asks every server whether it still has the same data and lets something leave a list, and a
    /// cluster whether its slots are where they were.
    pub(crate) async fn probe(&self, namespace: &str) -> Result<(), Trouble> {
        for (place, node) in self.found.nodes.iter().enumerate() {
            let mut commands = Pipeline::with_capacity(2);
            commands.cmd("LPOP").arg(keys::probe(namespace, self.tag_of(place))).arg(1);
            accepted(node.ask(commands).await?)?;
        }
        match &self.found.cluster {
            Some((layout, guide)) if guide.layout().await? != *layout => {
                Err(Trouble::Identity("the Redis cluster has moved slots"))
            }
            _ => Ok(()),
        }
    }

    /// A tag whose slot belongs to a node.
    fn tag_of(&self, place: usize) -> u32 {
        let Some((layout, _)) = &self.found.cluster else { return 0 };
        let owned = |tag: &u32| {
            let slot = slot(&tag.to_string());
            layout.slots.iter().any(|slots| slots.node == place && slots.contain(slot))
        };
        (0..TAGS_MAX).find(owned).unwrap_or_default()
    }
}

const NO_OWNER: Trouble = Trouble::Identity("no node of the Redis cluster owns the keys");
