//! Documents that are assigned and delivered while everything breaks. Each ID that a client was given must
//! have exactly one document in the end, in the sink, with the payload that the client sent; every other
//! serial below the counter is a gap with a reason; and the gapless type has none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use crate::account::Account;
use crate::chance::Chance;
use crate::http::Http;
use crate::id_types::serial_in;
use crate::instance::Addresses;
use crate::serials::Serials;
use crate::world::{INSTANCES, World};

/// Tenant and name of the types, so that both shards are in use. The second one is gapless.
const TYPES: [(&str, &str); 2] = [("default", "paper"), ("acme", "receipt")];
const GAPLESS: usize = 1;

/// Clients for each type.
const CLIENTS: usize = 2;

/// The pause after each order, in milliseconds.
const PAUSE_MS: (u64, u64) = (10, 60);

/// How long documents may take to arrive when nothing is broken any more. A claim of an instance that was
/// killed has to end first.
const PATIENCE: Duration = Duration::from_secs(90);

/// A document that a client was given an ID for.
#[derive(Debug)]
struct Given {
    id: String,
    payload: Value,
}

/// Clients that have documents.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    clients: Vec<(usize, JoinHandle<Vec<Given>>)>,
}

/// What became of the documents.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) given: usize,
    pub(crate) delivered: usize,
    /// Documents that had become dead letters, and were retried.
    pub(crate) dead_letters: u64,
    /// Serials that are gaps, by reason.
    pub(crate) gaps: BTreeMap<String, u64>,
    pub(crate) wrong: Vec<String>,
}

/// Where sinks are in the directory of a run.
pub(crate) fn root(directory: &Path) -> PathBuf {
    directory.join("sinks")
}

impl Writers {
    /// Makes the sinks, and starts the clients. Nothing is broken yet.
    pub(crate) fn start(world: &World, chance: &mut Chance) -> anyhow::Result<Self> {
        let (http, url) = (Http::new(), world.addresses.get(0).unwrap_or_default());
        for (tenant, _) in TYPES {
            let settings = json!({"tenant": tenant, "directory": "archive"});
            let made = http.put(&format!("{url}/api/v1/sinks/archive"), &settings);
            anyhow::ensure!(made == Some(201), "the sink of {tenant} was not made: {made:?}");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for number in 0..TYPES.len() * CLIENTS {
            let (stop, addresses) = (Arc::clone(&stop), Arc::clone(&world.addresses));
            let mut client = Writer { number, addresses, http: Http::new(), chance: chance.fork() };
            clients.push((number % TYPES.len(), thread::spawn(move || client.work(&stop))));
        }
        Ok(Self { stop, clients })
    }

    /// Ends the clients, waits for what they were promised, and looks at it.
    pub(crate) fn check(self, world: &World, directory: &Path) -> anyhow::Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut outcome = Outcome::default();
        let mut given: [BTreeMap<String, Value>; 2] = Default::default();
        for (id_type, client) in self.clients {
            for Given { id, payload } in client.join().expect("clients do not panic") {
                outcome.given += 1;
                if given[id_type].insert(id.clone(), payload).is_some() {
                    outcome.wrong.push(format!("{id} was given to two documents"));
                }
            }
        }
        for (id_type, given) in given.iter().enumerate() {
            wait_until_delivered(world, id_type, &mut outcome)?;
            compare(&root(directory), id_type, given, &mut outcome);
        }
        Ok(outcome)
    }
}

impl Outcome {
    /// Compares with what is on record about every serial, once all instances have stopped.
    pub(crate) fn account_for(&mut self, account: &Account) {
        for (id_type, (tenant, name)) in TYPES.into_iter().enumerate() {
            let name = (format!("{tenant}/{name}"), String::new());
            let Some(counter) = account.counters.get(&name) else { continue };
            for run in Serials::of(counter, account).unexplained() {
                self.wrong.push(format!("{} {:?}: {}", name.0, run.serials, run.fate));
            }
            for gap in &counter.gaps {
                let serials = gap.serials.end - gap.serials.start;
                *self.gaps.entry(gap.reason.clone()).or_default() += serials;
                if id_type == GAPLESS {
                    self.wrong.push(format!("{} has a gap: {gap:?}", name.0));
                }
            }
        }
    }
}

struct Writer {
    number: usize,
    addresses: Arc<Addresses>,
    http: Http,
    chance: Chance,
}

impl Writer {
    fn work(&mut self, stop: &AtomicBool) -> Vec<Given> {
        let mut given = Vec::new();
        let (tenant, name) = TYPES[self.number % TYPES.len()];
        for turn in 0_u64.. {
            let several = self.chance.one_in(4);
            let count = if several { self.chance.between(2, 30) } else { 1 };
            let payload = |place| json!({"client": self.number, "turn": turn, "place": place});
            let payloads: Vec<Value> = (0..count).map(payload).collect();
            let documents: Vec<_> = payloads.iter().map(|one| json!({"payload": one})).collect();
            let order = json!({"tenant": tenant, "type": name, "documents": documents});
            let key = format!("documents-{}-{turn}", self.number);
            // One without a key is given once: nobody knows what became of it if there is no answer.
            let key = (!self.chance.one_in(3)).then_some(key);
            while !stop.load(Ordering::Relaxed) {
                if let Some(ids) = self.assign(&order, key.as_deref()) {
                    given.extend(
                        ids.into_iter().zip(payloads).map(|(id, payload)| Given { id, payload }),
                    );
                    break;
                }
                if key.is_none() {
                    break;
                }
                thread::sleep(self.chance.millis(50, 300));
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(self.chance.millis(PAUSE_MS.0, PAUSE_MS.1));
        }
        given
    }

    fn assign(&mut self, order: &Value, key: Option<&str>) -> Option<Vec<String>> {
        let url = self.addresses.get(self.chance.place(INSTANCES))?;
        let (status, body) = self.http.post(&format!("{url}/api/v1/documents"), order, key)?;
        let ids = body["ids"].as_array().filter(|_| status == 202)?;
        ids.iter().map(|id| id.as_str().map(str::to_owned)).collect()
    }
}

/// Waits until no document of a type is pending or a dead letter. The latter are retried, as a person
/// would.
fn wait_until_delivered(
    world: &World,
    id_type: usize,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let (http, url) = (Http::new(), world.addresses.get(0).unwrap_or_default());
    let (tenant, name) = TYPES[id_type];
    let mut left = Value::Null;
    let done = world.wait_until(PATIENCE, || {
        let order = json!({"tenant": tenant, "type": name, "reason": "the faults are over"});
        let retried = http.post(&format!("{url}/api/v1/dead-letters/retry"), &order, None);
        let retried = retried.and_then(|(_, body)| body["settled"].as_u64());
        outcome.dead_letters += retried.unwrap_or(0);
        let pending =
            format!("{url}/api/v1/documents?tenant={tenant}&type={name}&state=PENDING&limit=5");
        left = http.get(&pending).map(|page| page["documents"].clone()).unwrap_or_default();
        retried == Some(0) && left.as_array().is_some_and(Vec::is_empty)
    })?;
    if !done {
        outcome.wrong.push(format!("documents of {tenant}/{name} do not arrive: {left}"));
    }
    Ok(())
}

/// Compares what clients were told with what is in the sink. What else is there was assigned for somebody
/// who never got the answer, and has a number of its own.
fn compare(root: &Path, id_type: usize, given: &BTreeMap<String, Value>, outcome: &mut Outcome) {
    let (tenant, name) = TYPES[id_type];
    let files = read_files(&root.join(tenant).join("archive").join(name));
    outcome.delivered += files.len();
    for (id, payload) in given {
        match files.get(id) {
            Some(found) if found == payload => {}
            found => outcome.wrong.push(format!("{id} should be {payload}, and is {found:?}")),
        }
    }
    if id_type == GAPLESS {
        let mut serials: Vec<u64> = files.keys().filter_map(|id| serial_in(id)).collect();
        serials.sort_unstable();
        if let Some(place) = (1..).zip(&serials).find(|(expected, found)| expected != *found) {
            outcome.wrong.push(format!("{tenant}/{name} has a gap at {}", place.0));
        }
    }
}

/// The documents in a directory by their IDs.
fn read_files(directory: &Path) -> BTreeMap<String, Value> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    files
        .filter_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            let id = path.file_stem()?.to_str()?.to_owned();
            Some((id, serde_json::from_str(&text).unwrap_or(Value::Null)))
        })
        .collect()
}
