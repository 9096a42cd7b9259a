//! Documents over HTTP, assigned and delivered, against a bare axum handler that formats a counter.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::Measurement;
use super::child::Server;
use super::load::{self, Load};
use super::place::{Place, StoreKind};
use crate::failure::Failure;

/// How often is looked whether everything has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store the server uses
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,

    /// Where the documents go
    #[arg(long, value_enum, default_value = "directory")]
    sink: SinkKind,

    /// Connections at once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,

    /// Documents in all
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    documents: u32,

    /// Documents of each call; may be given several times
    #[arg(long = "per-call", default_values_t = [1, 1000], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_call: Vec<u32>,

    /// Take the numbers in the step that puts the documents on record
    #[arg(long)]
    gapless: bool,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SinkKind {
    /// Files
    Directory,
    /// Requests to this process, one for each document
    Http,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        // Kept until the end: where many files were just deleted, some file systems take long to make new
        // ones, and that would be measured.
        let mut places = Vec::new();
        for per_call in &args.per_call {
            places.push(args.store.place()?);
            measure(args, *per_call as usize, &places[places.len() - 1]).await?;
        }
        anyhow::Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Everything assigned, then everything delivered, each as documents a second.
async fn measure(args: &Args, per_call: usize, place: &Place) -> anyhow::Result<()> {
    let (documents, connections) = (args.documents as usize, usize::from(args.connections));
    let sink = Sink::start().await?;
    let server = start(args, place)?;
    let api = Api { agent: ureq::agent(), server: format!("http://{}", server.address) };
    api.call("PUT", "/api/v1/sinks/bench", Some(&sink.settings(args.sink)))?;
    let baseline = Server::baseline()?;
    // One document a call in any case: the bare handler reads no bodies, and a large one would end the
    // connection.
    let small = [request(1)].into();
    let bare = load::run_count(baseline.address, &small, connections, documents).await?;
    let (requests, calls) = ([request(per_call)].into(), documents.div_ceil(per_call));
    let started = Instant::now();
    let ours = load::run_count(server.address, &requests, connections, calls).await?;
    while api.any("PENDING")? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    // What is not pending any more has arrived, or was given up.
    let all = api.any("COMMITTED")? && !api.any("DEAD_LETTER")?;
    anyhow::ensure!(all, "some documents could not be delivered; standard error says why");
    let arrived = sink.arrived.load(Ordering::Relaxed);
    let expected = if args.sink == SinkKind::Http { calls * per_call } else { 0 };
    anyhow::ensure!(arrived >= expected, "{arrived} of {expected} documents have arrived");
    report(args, per_call, &ours, &bare, seconds, &api.delivery_ns()?)
}

#[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits")]
fn report(
    args: &Args,
    per_call: usize,
    ours: &Load,
    bare: &Load,
    seconds: f64,
    delivery_ns: &[u64],
) -> anyhow::Result<()> {
    let per_call = per_call as f64;
    let (assigned, delivered) = if per_call > 1.0 {
        ("assign_many", "deliver_many")
    } else {
        ("assign_one", "deliver_one")
    };
    let baseline = bare.requests_per_second;
    let assigning = Measurement {
        connections: Some(args.connections.into()),
        p50_ms: Some(ours.p50_ms),
        p99_ms: Some(ours.p99_ms),
        baseline_p99_ms: Some(bare.p99_ms),
        ..Measurement::new(assigned, "documents/s", ours.requests_per_second * per_call, baseline)
    };
    assigning.print(args.json)?;
    let rate = f64::from(args.documents) / seconds;
    // From the answer of the store that has put them on record to that which knows that they arrived.
    let delivering = Measurement {
        p50_ms: Some(load::quantile_ms(delivery_ns, 0.50)),
        p99_ms: Some(load::quantile_ms(delivery_ns, 0.99)),
        ..Measurement::new(delivered, "documents/s", rate, baseline)
    };
    Ok(delivering.print(args.json)?)
}

fn start(args: &Args, place: &Place) -> anyhow::Result<Server> {
    let config = place.file("bench.yaml");
    let config_text = json!({
        "id_types": [{
            "name": "invoice",
            "sequence": {"template": "INV-{seq:06}", "gapless": args.gapless},
        }],
        "outbound": {"directory": place.file("sinks"), "private_addresses": true},
    });
    std::fs::write(&config, config_text.to_string())?;
    Server::with_config(place, &config)
}

/// A call with so many documents of about two hundred bytes.
fn request(per_call: usize) -> String {
    let payload = json!({
        "customer": "C-4711",
        "currency": "EUR",
        "lines": [{"article": "A-1", "count": 3, "price": "12.90"}, {"article": "B-7", "count": 1, "price": "7.25"}],
        "total": "45.95",
        "note": "as agreed on the phone",
    });
    let body = if per_call == 1 {
        json!({"type": "invoice", "payload": payload})
    } else {
        json!({"type": "invoice", "documents": vec![json!({"payload": payload}); per_call]})
    };
    load::post("/api/v1/documents", "", &body.to_string())
}

/// Whoever takes documents in this process.
struct Sink {
    address: SocketAddr,
    arrived: Arc<AtomicUsize>,
}

impl Sink {
    async fn start() -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let (address, arrived) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let router = Router::new().fallback(take).with_state(Arc::clone(&arrived));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, arrived })
    }

    fn settings(&self, kind: SinkKind) -> Value {
        match kind {
            SinkKind::Directory => json!({"directory": "bench"}),
            SinkKind::Http => json!({"url": format!("http://{}/", self.address)}),
        }
    }
}

async fn take(State(arrived): State<Arc<AtomicUsize>>) -> StatusCode {
    arrived.fetch_add(1, Ordering::Relaxed);
    StatusCode::NO_CONTENT
}

/// The few other calls.
struct Api {
    agent: ureq::Agent,
    server: String,
}

impl Api {
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .body(body.map_or_else(String::new, Value::to_string))?;
        let mut response = self.agent.run(request).with_context(|| format!("{method} {path}"))?;
        Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?)
    }

    /// Whether some documents are in a state.
    fn any(&self, state: &str) -> anyhow::Result<bool> {
        let path = format!("/api/v1/documents?type=invoice&state={state}&limit=1");
        let page = self.call("GET", &path, None)?;
        let documents = page["documents"].as_array().context("a list of documents")?;
        Ok(!documents.is_empty())
    }

    /// How long the latest documents took from the assignment to the delivery, in order.
    fn delivery_ns(&self) -> anyhow::Result<Vec<u64>> {
        const PAGES: usize = 20;
        let (mut times, mut after) = (Vec::new(), String::new());
        for _ in 0..PAGES {
            let path = format!("/api/v1/documents?type=invoice&state=COMMITTED&limit=1000{after}");
            let page = self.call("GET", &path, None)?;
            for document in page["documents"].as_array().into_iter().flatten() {
                let time = |field: &str| -> anyhow::Result<jiff::Timestamp> {
                    Ok(document[field].as_str().unwrap_or_default().parse()?)
                };
                let took = time("settled_at")?.duration_since(time("created_at")?);
                times.push(u64::try_from(took.as_nanos()).unwrap_or_default());
            }
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={}", crate::percent::escape(next));
        }
        times.sort_unstable();
        Ok(times)
    }
}
