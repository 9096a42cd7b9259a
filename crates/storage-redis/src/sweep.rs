//! Deleting what is left of epochs that have ended.
//!
//! Nobody reads them any more, they only take up memory. They could be given a time to live
//! instead, but then a pool that nobody has used for that time would lose its serials, and a server
//! that evicts keys with a time to live would choose the pools first.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::sleep;

use crate::breaker::Shared;
use crate::error::Trouble;
use crate::keys;
use crate::link::Link;
use crate::wire::Wire;

/// Keys that the server looks at in one step. It does nothing else meanwhile.
const STEP_KEYS: u32 = 500;

/// A pause after each step, so that a server full of other people's keys is not kept busy.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// Goes through the keys of each server once, as long as the link lives. What it misses the next
/// epoch finds.
pub(crate) async fn sweep(shared: Arc<Shared>, link: Weak<Link>) {
    let Some(nodes) = link.upgrade().map(|link| link.found.nodes.len()) else { return };
    for place in 0..nodes {
        let mut cursor = String::from("0");
        loop {
            let Some(link) = link.upgrade() else { return };
            let Some(node) = link.found.nodes.get(place) else { return };
            let step = step(&shared, &node.wire, &cursor, link.epoch);
            let Ok(next) = shared.over(&link, step).await else { return };
            if next == "0" {
                break;
            }
            cursor = next;
            drop(link);
            sleep(STEP_PAUSE).await;
        }
    }
}

/// Deletes what one step finds. Returns where to go on.
async fn step(shared: &Shared, wire: &Wire, cursor: &str, epoch: u64) -> Result<String, Trouble> {
    let namespace = &shared.settings.namespace;
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(cursor);
    scan.arg("MATCH").arg(keys::all(namespace)).arg("COUNT").arg(STEP_KEYS);
    let Value::Array(answer) = wire.ask(&scan).await? else { return Err(NO_KEYS) };
    let [next, Value::Array(found)] = &answer[..] else { return Err(NO_KEYS) };
    let mut unlink = Pipeline::new();
    // Other people's keys may look like ours, and need not even be text.
    for key in found.iter().filter_map(|key| text(key).ok()) {
        if keys::epoch_of(namespace, key).is_some_and(|of| of < epoch) {
            unlink.cmd("UNLINK").arg(key);
        }
    }
    if !unlink.is_empty() {
        wire.ask_all(&unlink).await?;
        shared.figures.keys_swept.add(unlink.len() as u64);
    }
    Ok(text(next)?.to_owned())
}

fn text(value: &Value) -> Result<&str, Trouble> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| NO_KEYS),
        _ => Err(NO_KEYS),
    }
}

const NO_KEYS: Trouble = Trouble::Unexpected("a list of keys");
