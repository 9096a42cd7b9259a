//! How fast the store is: `cargo run --release -p storage-sqlite --example measure_sqlite [DIRECTORY]`.
//!
//! The directory decides which disk is measured. A bare loop of write and `fsync` in the same run
//! is the scale to read the other figures by.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use storage::{
    Attempt, CounterStore, Delivery, DocumentOrder, DocumentStore, Draw, Issue, IssueGroup,
    IssueStore, NewDocument, Next, Numbers, OutboxStore, Outcome, ReceiverId, Render, Span, TypeId,
    TypeStore, Wanted,
};
use storage_sqlite::SqliteStore;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent)?;
    tokio::runtime::Builder::new_multi_thread().build()?.block_on(measure(directory.path()))
}

async fn measure(directory: &Path) -> Result<()> {
    println!("write and fsync 4 KiB     {:>12.1?}", fsync(&directory.join("file"))?);
    let mut opened: Vec<Duration> = Vec::new();
    for number in 0..20 {
        let started = Instant::now();
        let store = SqliteStore::open(&directory.join(number.to_string()))?;
        opened.push(started.elapsed());
        drop(store);
    }
    opened.sort();
    println!("open an empty directory   {:>12.1?} (worst {:.1?})", opened[10], opened[19]);

    let store = Arc::new(SqliteStore::open(&directory.join("store"))?);
    let id_type = IdType::new("acme", "order", Kind::Sequence(SequenceSpec::default()))?;
    let id = store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await?.id;
    for tasks in [1, 64, 512] {
        let (rate, worst) = draws(&store, id, tasks, 20_000).await?;
        println!("draws, {tasks:>3} at a time     {rate:>12.0} /s (slowest {worst:.1?})");
    }
    record(&store, id).await?;
    reconcile(&store, id).await?;
    documents(&store).await
}

fn fsync(path: &Path) -> Result<Duration> {
    let mut file = File::create(path)?;
    let started = Instant::now();
    for _ in 0..500 {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
    }
    Ok(started.elapsed() / 500)
}

async fn draws(
    store: &Arc<SqliteStore>,
    type_id: TypeId,
    tasks: u32,
    total: u32,
) -> Result<(f64, Duration)> {
    let started = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let (bounds, now) = ((0, SERIAL_MAX), Timestamp::UNIX_EPOCH);
                let (holder, revision) = ("me", 0);
                let order = Draw { type_id, period: "", count: 100, bounds, holder, revision, now };
                let mut worst = Duration::ZERO;
                for _ in 0..total / tasks {
                    let started = Instant::now();
                    store.draw(order).await?;
                    worst = worst.max(started.elapsed());
                }
                Ok::<_, storage::StoreError>(worst)
            })
        })
        .collect();
    let mut worst = Duration::ZERO;
    for task in running {
        worst = worst.max(task.await??);
    }
    Ok((f64::from(total / tasks * tasks) / started.elapsed().as_secs_f64(), worst))
}

fn group(type_id: TypeId, start: u64) -> IssueGroup {
    let issue = |first: u64| Issue {
        first,
        last: first,
        key_id: 7,
        at_ms: 1_790_000_000_000 + first.cast_signed(),
    };
    let serials = start..start + 100;
    let issues = serials.clone().map(issue).collect();
    IssueGroup { span: Span { type_id, period: String::new(), serials }, issues }
}

/// The draws above are a hundred serials each, and so are the groups. The first thousand are the
/// figure; the rest is there to make the log long before a serial is looked for.
async fn record(store: &SqliteStore, id: TypeId) -> Result<()> {
    const CALLS: u64 = 1000;
    let mut took = Duration::ZERO;
    for call in 0..CALLS {
        let groups: Vec<_> = (0..1000).map(|n| group(id, (call * 1000 + n) * 100)).collect();
        let started = Instant::now();
        store.record_issues(&groups).await?;
        if call < 10 {
            println!("record 1,000 groups       {:>12.1?}", started.elapsed());
        }
        took += started.elapsed();
    }
    let mean = took / u32::try_from(CALLS)?;
    println!("the same, mean of {CALLS}    {mean:>12.1?}");
    let started = Instant::now();
    for number in 0..1000 {
        let serial = number * 7_919_177 % (CALLS * 100_000);
        assert_eq!(store.find_issues(id, None, serial).await?.len(), 1);
    }
    println!("find among 1,000,000      {:>12.1?}", started.elapsed() / 1000);
    Ok(())
}

/// Ten million serials more, issued in groups of ten, and all that was drawn before.
async fn reconcile(store: &SqliteStore, type_id: TypeId) -> Result<()> {
    let (bounds, now) = ((0, SERIAL_MAX), Timestamp::UNIX_EPOCH);
    let (holder, revision, count) = ("me", 0, 10_000_000);
    let order = Draw { type_id, period: "", count, bounds, holder, revision, now };
    let drawn = store.draw(order).await?;
    for start in drawn.clone().step_by(10_000) {
        let groups: Vec<_> = (start..start + 10_000)
            .step_by(10)
            .map(|first| {
                let issues = vec![Issue { first, last: first + 9, key_id: 7, at_ms: 0 }];
                let span = Span { type_id, period: String::new(), serials: first..first + 10 };
                IssueGroup { span, issues }
            })
            .collect();
        store.record_issues(&groups).await?;
    }
    let (mut worst, mut serials, started) = (Duration::ZERO, 0, Instant::now());
    loop {
        let step = Instant::now();
        let looked = store.reconcile(type_id, 1_000_000, now).await?;
        worst = worst.max(step.elapsed());
        serials += looked.serials;
        assert_eq!(looked.found, []);
        if looked.done {
            break;
        }
    }
    let took = started.elapsed();
    println!("reconcile {serials} serials {took:>12.1?} (slowest million {worst:.1?})");
    Ok(())
}

/// A thousand documents in each step, with numbers of the counter.
async fn documents(store: &SqliteStore) -> Result<()> {
    const CALLS: u32 = 200;
    let id_type = IdType::new("acme", "document", Kind::Sequence(SequenceSpec::default()))?;
    let type_id = store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await?.id;
    let started = Instant::now();
    for call in 0..CALLS {
        let document = |number: u32| NewDocument {
            payload: format!(r#"{{"amount": {number}, "currency": "EUR"}}"#),
            reference: Some(format!("{call}-{number}")),
            request_key: None,
            key_id: 7,
        };
        let render: Render = Arc::new(|serials| serials.map(|serial| serial.to_string()).collect());
        let order = DocumentOrder {
            type_id,
            revision: 0,
            period: String::new(),
            numbers: Numbers::Counter { bounds: (0, SERIAL_MAX), render },
            sink: ReceiverId(1),
            requests: vec![(0..1000).map(document).collect()],
            in_order: false,
            claimed_until: None,
            now: Timestamp::UNIX_EPOCH,
        };
        store.assign_documents(&Arc::new(order)).await?;
    }
    let mean = started.elapsed() / CALLS;
    println!("assign 1,000 documents    {mean:>12.1?}");
    let (started, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
    for _ in 0..CALLS {
        let (receiver, tenant) = (ReceiverId(1), "acme".to_owned());
        let wanted = Wanted { receiver, tenant, limit: 1000, ordered: false };
        let claimed = store.claim_deliveries(&[wanted], now, Timestamp::MAX).await?;
        let outcomes: Vec<_> = claimed.iter().map(delivered).collect();
        store.settle_deliveries(&outcomes, now).await?;
    }
    println!("claim and settle 1,000    {:>12.1?}", started.elapsed() / CALLS);
    Ok(())
}

fn delivered(delivery: &Delivery) -> Outcome {
    let (at, duration) = (Timestamp::UNIX_EPOCH, Duration::ZERO);
    let attempt = Attempt { number: delivery.attempt, at, duration, status: None, error: None };
    Outcome { delivery: delivery.id, token: delivery.token, attempt, next: Next::Delivered }
}
