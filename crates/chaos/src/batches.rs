//! Batches that are ordered while everything breaks. Each one that was accepted must be complete in the
//! end, with as many codes as were ordered, all different, and all genuine.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::http::Http;
use crate::instance::Addresses;
use crate::world::{INSTANCES, World};

/// Tenant and name of the types, so that both shards are in use.
const TYPES: [(&str, &str); 2] = [("default", "seal"), ("acme", "cap")];

/// Codes of a batch.
const COUNTS: (u64, u64) = (1, 20_000);

/// The pause after each order, in milliseconds.
const PAUSE_MS: (u64, u64) = (400, 1200);

/// How long a batch may take when nothing is broken any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A batch that was accepted.
#[derive(Debug)]
struct Accepted {
    id_type: usize,
    id: String,
    count: u64,
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
    pub(crate) codes: usize,
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
        let mut outcome = Outcome::default();
        let mut seen = [HashSet::new(), HashSet::new()];
        let http = Http::new();
        for client in self.clients {
            for batch in client.join().expect("clients do not panic") {
                outcome.batches += 1;
                if let Err(problem) = check(world, &http, &batch, &mut outcome, &mut seen)? {
                    outcome.wrong.push(format!("batch {} of {}: {problem}", batch.id, batch.count));
                }
            }
        }
        Ok(outcome)
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
                    accepted.push(Accepted { id_type: self.id_type, id, count });
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
}

/// Looks at one batch. The inner error is what is wrong with it.
fn check(
    world: &World,
    http: &Http,
    batch: &Accepted,
    outcome: &mut Outcome,
    seen: &mut [HashSet<String>; 2],
) -> anyhow::Result<Result<(), String>> {
    let url = world.addresses.get(0).unwrap_or_default();
    let path = format!("{url}/api/v1/batches/{}", batch.id);
    let mut last = Value::Null;
    let completed = world.wait_until(PATIENCE, || {
        last = http.get(&path).unwrap_or_default();
        if last["state"] == "needs_attention" {
            let retry = format!("{url}/api/v1/dead-letters/retry");
            let settled = http.post(&retry, &json!({"batch": batch.id}), None);
            outcome.dead_letters +=
                settled.and_then(|(_, body)| body["settled"].as_u64()).unwrap_or(0);
        }
        last["state"] == "completed"
    })?;
    if !completed || last["made"] != batch.count || last["total"] != batch.count {
        return Ok(Err(format!("it is not complete: {last}")));
    }
    let Some(file) = http.text(&format!("{path}/codes?format=txt")) else {
        return Ok(Err("it has no file".to_owned()));
    };
    let codes: Vec<&str> = file.lines().collect();
    if codes.len() as u64 != batch.count {
        return Ok(Err(format!("its file has {} codes", codes.len())));
    }
    outcome.codes += codes.len();
    if let Some(again) = codes.iter().find(|code| !seen[batch.id_type].insert((**code).to_owned()))
    {
        return Ok(Err(format!("{again} came twice")));
    }
    let (tenant, name) = TYPES[batch.id_type];
    for code in [codes[0], codes[codes.len() / 2], codes[codes.len() - 1]] {
        let scan = json!({"tenant": tenant, "type": name, "code": code});
        let verdict = http.post(&format!("{url}/api/v1/scans"), &scan, None);
        let verdict = verdict.map(|(_, body)| body["verdict"].clone()).unwrap_or_default();
        // A small batch has fewer than three.
        if verdict != "genuine" && !(codes.len() < 3 && verdict == "repeated") {
            return Ok(Err(format!("its code {code} is {verdict}")));
        }
    }
    Ok(Ok(()))
}
