//! Batches that are ordered, and some of them cancelled, while everything breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::batch_check::Checker;
use crate::chance::Chance;
use crate::http::Http;
use crate::instance::Addresses;
use crate::world::{INSTANCES, World};

/// Tenant and name of the types, so that both shards are in use.
pub(crate) const TYPES: [(&str, &str); 2] = [("default", "seal"), ("acme", "cap")];

/// Codes of a batch.
const COUNTS: (u64, u64) = (1, 20_000);

/// The pause after each order, in milliseconds.
const PAUSE_MS: (u64, u64) = (400, 1200);

/// How long a batch that is to be cancelled is left alone, in milliseconds: some of it is made then.
const LEFT_ALONE_MS: (u64, u64) = (0, 400);

/// Why codes of a cancelled batch are void.
const VOID_REASON: &str = "torn";

/// A batch that was accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) id_type: usize,
    pub(crate) id: String,
    pub(crate) count: u64,
    /// With what it is to be cancelled, if it is.
    pub(crate) cancel: Option<Value>,
}

impl Accepted {
    /// The request that cancels it, from whichever instance. It is the same every time.
    pub(crate) fn cancel(&self, http: &Http, url: &str) -> Option<(u16, Value)> {
        let path = format!("{url}/api/v1/batches/{}/cancel", self.id);
        http.post(&path, self.cancel.as_ref()?, Some(&format!("cancel-{}", self.id)))
    }
}

/// Clients that order batches.
pub(crate) struct Orderers {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Accepted>>>,
}

/// What became of the batches.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) batches: usize,
    /// Those that were cancelled before they were complete.
    pub(crate) cancelled: usize,
    pub(crate) codes: usize,
    /// Codes that were scanned.
    pub(crate) scans: usize,
    /// Chunks that had become dead letters, and were retried.
    pub(crate) dead_letters: u64,
    pub(crate) wrong: Vec<String>,
}

impl Orderers {
    pub(crate) fn start(addresses: &Arc<Addresses>, chance: &mut Chance) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..TYPES.len()).map(|id_type| {
            let (stop, addresses) = (Arc::clone(&stop), Arc::clone(addresses));
            let mut client =
                Orderer { id_type, addresses, http: Http::new(), chance: chance.fork() };
            thread::spawn(move || client.work(&stop))
        });
        Self { clients: clients.collect(), stop }
    }

    /// Ends the clients, waits for what they have ordered, and looks at it.
    pub(crate) fn check(self, world: &World) -> anyhow::Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut checker = Checker::new(world);
        for client in self.clients {
            for batch in client.join().expect("clients do not panic") {
                checker.check(&batch)?;
            }
        }
        Ok(checker.outcome)
    }
}

struct Orderer {
    id_type: usize,
    addresses: Arc<Addresses>,
    http: Http,
    chance: Chance,
}

impl Orderer {
    fn work(&mut self, stop: &AtomicBool) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        let (tenant, name) = TYPES[self.id_type];
        for number in 0_u64.. {
            let count = self.chance.between(COUNTS.0, COUNTS.1);
            let order = json!({"tenant": tenant, "type": name, "count": count});
            let key = format!("batch-{tenant}-{number}");
            while !stop.load(Ordering::Relaxed) {
                if let Some(id) = self.order(&order, &key) {
                    let (id_type, cancel) = (self.id_type, self.whether_to_cancel());
                    let batch = Accepted { id_type, id, count, cancel };
                    self.cancel(&batch, stop);
                    accepted.push(batch);
                    break;
                }
                thread::sleep(self.chance.millis(50, 300));
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(self.chance.millis(PAUSE_MS.0, PAUSE_MS.1));
        }
        accepted
    }

    fn order(&mut self, order: &Value, key: &str) -> Option<String> {
        let url = self.addresses.get(self.chance.place(INSTANCES))?;
        let (status, batch) = self.http.post(&format!("{url}/api/v1/batches"), order, Some(key))?;
        (status == 202).then(|| batch["id"].as_str().map(str::to_owned)).flatten()
    }

    /// Every third batch is cancelled. Of half of these, what was made is to be void.
    fn whether_to_cancel(&mut self) -> Option<Value> {
        match self.chance.below(6) {
            0 => Some(json!({})),
            1 => Some(json!({"void_reason": VOID_REASON})),
            _ => None,
        }
    }

    /// Cancels a batch if it is to be, until there is an answer or it is time to end.
    fn cancel(&mut self, batch: &Accepted, stop: &AtomicBool) {
        if batch.cancel.is_none() {
            return;
        }
        thread::sleep(self.chance.millis(LEFT_ALONE_MS.0, LEFT_ALONE_MS.1));
        while !stop.load(Ordering::Relaxed) {
            let url = self.addresses.get(self.chance.place(INSTANCES));
            let answer = url.and_then(|url| batch.cancel(&self.http, &url));
            if answer.is_some_and(|(status, _)| status == 200 || status == 409) {
                break;
            }
            thread::sleep(self.chance.millis(50, 300));
        }
    }
}
