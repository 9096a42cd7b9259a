//! Codes on the embedded store: which batch they belong to, and how long contexts are kept.

mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::codes::Scan;
use engine::{Engine, EngineSettings, LiveType};
use futures_util::future::try_join_all;
use idgen::format::Format;
use idgen::spec::SERIAL_MAX;
use storage::{Batch, BatchOrder, BatchStore as _, Ledger, Ordered, ScanContext};
use support::{Fixture, NoCarrier, one_code, open, settings};

const TYPE: &str = r#"{"name": "bottle", "random": {"alphabet": "crockford32", "length": 16}}"#;

const HOUR_MS: i64 = 3_600_000;

/// More than are read at a time.
const BATCHES: usize = 4100;

/// Batches of one code each, with as much metadata as there may be in each of them. They are written
/// behind the back of the engine, as another instance would.
async fn order_many(
    store: &storage_sqlite::SqliteStore,
    live: &engine::LiveType,
    fixture: &Fixture,
) -> Vec<Batch> {
    let order = BatchOrder {
        type_id: live.stored().id,
        revision: live.stored().revision,
        count: 1,
        bounds: (0, SERIAL_MAX),
        chunk_serials: 1,
        ledger: Ledger::Derived,
        name: None,
        metadata: Some(format!("{{\"note\": \"{}\"}}", "x".repeat(16_000))),
        key_id: 7,
        notify: None,
        order_key: None,
        active_max: u64::MAX,
        codes_max: u64::MAX,
        now: engine::surroundings::Clock::now(&fixture.clock),
    };
    let orders = try_join_all((0..BATCHES).map(|_| store.order_batch(&order))).await.unwrap();
    let batches = orders.into_iter().map(|ordered| match ordered {
        Ordered::Done(batch) => batch,
        refused => panic!("{refused:?}"),
    });
    batches.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_batch_of_a_code_is_found_among_thousands() {
    let mut fixture = Fixture::new();
    let store = Arc::new(open(fixture.directory.path()));
    let engine = fixture.start_with(Arc::clone(&store), Arc::new(NoCarrier)).await;
    engine.put_type(serde_json::from_str(TYPE).unwrap()).await.unwrap();
    let live = engine.catalogue.find("default", "bottle").unwrap();
    let Format::Random(format) = live.format() else { panic!("it is a random type") };
    let batches = order_many(&store, &live, &fixture).await;
    for batch in batches.iter().step_by(300).chain(batches.last()) {
        let code = format.render(batch.serials.start).unwrap();
        let found = engine.codes.scan(&live, &code, None).await.unwrap();
        let Scan::Known { batch: found, .. } = found else { panic!("{found:?}") };
        assert_eq!(found, batch.id);
    }
    let end = batches.iter().map(|batch| batch.serials.end).max().unwrap();
    let beyond = engine.codes.scan(&live, &format.render(end).unwrap(), None).await.unwrap();
    assert!(matches!(beyond, Scan::Unknown(_)), "{beyond:?}");
    engine.shut_down().await;
}

/// Orders one code and scans it with a context, and again an hour later.
async fn scan_twice(fixture: &Fixture, engine: &Arc<Engine>) -> (Arc<LiveType>, String) {
    let derived = r#"{"name": "bottle",
        "random": {"alphabet": "crockford32", "length": 16, "ledger": "derived"}}"#;
    engine.put_type(serde_json::from_str(derived).unwrap()).await.unwrap();
    let (batch, live) = engine.batches.order(one_code("bottle")).await.unwrap();
    let Format::Random(format) = live.format() else { panic!("it is a random type") };
    let code = format.render(batch.serials.start).unwrap();
    for hour in 0..2 {
        let context = ScanContext { key_id: 7, json: format!("{{\"hour\":{hour}}}") };
        engine.codes.scan(&live, &code, Some(context)).await.unwrap();
        fixture.clock.advance(HOUR_MS);
    }
    (live, code)
}

async fn numbers(engine: &Engine, live: &LiveType, code: &str) -> Vec<u64> {
    let kept = engine.codes.contexts(live, code, u64::MAX, 10).await.unwrap().unwrap();
    kept.into_iter().map(|kept| kept.number).collect()
}

/// Lets a day pass at most until these are left.
async fn wait_for(engine: &Engine, live: &LiveType, code: &str, left: &[u64]) {
    for _ in 0..24 * 60 {
        if numbers(engine, live, code).await == left {
            return;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    panic!("{:?} are left and not {left:?}", numbers(engine, live, code).await);
}

/// Time is not waited for: it passes whenever nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn contexts_are_forgotten_when_their_time_is_over() {
    let mut fixture = Fixture::new();
    let hours = |hours: u64| EngineSettings {
        keep_contexts: Duration::from_secs(3600 * hours),
        ..settings()
    };
    let store = Arc::new(open(fixture.directory.path()));
    let engine = fixture.start_set(store, Arc::new(NoCarrier), &hours(2)).await;
    let (live, code) = scan_twice(&fixture, &engine).await;
    assert_eq!(numbers(&engine, &live, &code).await, [2, 1]);
    fixture.clock.advance(1);
    wait_for(&engine, &live, &code, &[2]).await;
    // The other one is still within its time, however often the duty is done.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(numbers(&engine, &live, &code).await, [2]);
    engine.shut_down().await;
    drop((live, engine));

    let store = Arc::new(open(fixture.directory.path()));
    let engine = fixture.start_set(store, Arc::new(NoCarrier), &hours(0)).await;
    let live = engine.catalogue.find("default", "bottle").unwrap();
    let context = ScanContext { key_id: 7, json: "{}".to_owned() };
    engine.codes.scan(&live, &code, Some(context)).await.unwrap();
    assert_eq!(numbers(&engine, &live, &code).await, [2], "nothing is kept any more");
    wait_for(&engine, &live, &code, &[]).await;
    engine.shut_down().await;
}
