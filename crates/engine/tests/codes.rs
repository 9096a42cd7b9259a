//! Codes on the embedded store: which batch they belong to.

mod support;

use std::sync::Arc;

use engine::codes::Scan;
use futures_util::future::try_join_all;
use idgen::format::Format;
use idgen::spec::SERIAL_MAX;
use storage::{Batch, BatchOrder, BatchStore as _, Ledger, Ordered};
use support::{Fixture, NoCarrier, open};

const TYPE: &str = r#"{"name": "bottle", "random": {"alphabet": "crockford32", "length": 16}}"#;

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
        let found = engine.codes.scan(&live, &code).await.unwrap();
        let Scan::Known { batch: found, .. } = found else { panic!("{found:?}") };
        assert_eq!(found, batch.id);
    }
    let end = batches.iter().map(|batch| batch.serials.end).max().unwrap();
    let beyond = engine.codes.scan(&live, &format.render(end).unwrap()).await.unwrap();
    assert!(matches!(beyond, Scan::Unknown(_)), "{beyond:?}");
    engine.shut_down().await;
}
