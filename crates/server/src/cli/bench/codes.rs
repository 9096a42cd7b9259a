//! A server with a batch of codes on it, for the benchmarks of making and of verifying them.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::child::Server;
use super::place::{Place, StoreKind};

/// How often a batch is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Code types that have no other users, with rows and without. Each has tables of its own.
const TYPES: &str = "
id_types:
  - { tenant: bench, name: few, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { tenant: bench, name: stored, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - tenant: bench
    name: derived
    random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived }
";

/// Starts a server that has the types.
pub(super) fn serve(store: StoreKind) -> anyhow::Result<(Server, Place)> {
    let place = store.place()?;
    let file = place.file("types.yaml");
    std::fs::write(&file, TYPES).context("cannot write the configuration")?;
    Ok((Server::with_config(&place, &file)?, place))
}

/// Orders codes, waits until they are made, and returns the batch's number and the seconds it took.
pub(super) fn make(
    server: &Server,
    id_type: &str,
    count: u64,
    mut meanwhile: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(String, f64)> {
    let url = format!("http://{}/api/v1/batches", server.address);
    let started = Instant::now();
    let order = json!({"tenant": "bench", "type": id_type, "count": count}).to_string();
    let answer = ureq::post(&url).send(order).context("the order was refused")?;
    let mut batch = read(answer)?;
    let id = batch["id"].as_str().context("a batch has a number")?.to_owned();
    while batch["state"] != "completed" {
        let state = batch["state"].as_str().unwrap_or_default();
        anyhow::ensure!(matches!(state, "queued" | "running"), "the batch is {state}: {batch}");
        std::thread::sleep(LOOK_EVERY);
        meanwhile()?;
        batch = read(ureq::get(format!("{url}/{id}")).call()?)?;
    }
    anyhow::ensure!(batch["made"] == count, "not all codes were made: {batch}");
    Ok((id, started.elapsed().as_secs_f64()))
}

fn read(mut answer: ureq::http::Response<ureq::Body>) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
}

/// Every so many-th code of a batch.
pub(super) fn sample(server: &Server, id: &str, every: usize) -> anyhow::Result<Vec<String>> {
    let url = format!("http://{}/api/v1/batches/{id}/codes?format=txt", server.address);
    let mut answer = ureq::get(url).call()?;
    let lines = BufReader::with_capacity(1 << 20, answer.body_mut().as_reader()).lines();
    lines.step_by(every).map(|line| line.context("the file broke off")).collect()
}
