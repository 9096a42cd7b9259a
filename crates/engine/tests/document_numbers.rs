//! Numbers of documents on the embedded store: none is left with an instance that has no use for it.

mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::documents::{AssignOrder, HoldOrder, Place, SinkOrder};
use futures_util::FutureExt as _;
use storage::{DocumentStore as _, NewDocument, TypeStore as _};
use storage_sqlite::SqliteStore;
use support::{Fixture, OpenCarrier, open};

async fn start(fixture: &mut Fixture) -> (Arc<Engine>, Arc<SqliteStore>) {
    let store = Arc::new(open(fixture.directory.path()));
    let engine = fixture.start_with(Arc::clone(&store), Arc::new(OpenCarrier)).await;
    let order = r#"{"name": "order", "sequence": {"template": "O-{seq}"}}"#;
    engine.put_type(serde_json::from_str(order).unwrap()).await.unwrap();
    let sink = SinkOrder {
        tenant: "default".to_owned(),
        name: "archive".to_owned(),
        place: Place::Directory { path: "archive".to_owned() },
        bucket_secret: None,
        types: None,
        ordered: false,
    };
    engine.put_sink(sink).await.unwrap();
    (engine, store)
}

async fn assign(engine: &Engine, count: usize) -> Vec<String> {
    let (payload, reference, request_key) = ("1".to_owned(), None, None);
    let document = NewDocument { payload, reference, request_key, key_id: 0 };
    let documents = vec![document; count];
    let order = AssignOrder { tenant: "default", type_name: "order", documents };
    engine.documents.assign(order).await.unwrap()
}

/// Another instance changes the type while this one has numbers at hand, and needs more than these.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_go_back_when_there_are_not_enough_of_them() {
    let mut fixture = Fixture::new();
    let (engine, store) = start(&mut fixture).await;
    assert_eq!(assign(&engine, 1).await, ["O-1"]);
    // As time stands still, this counts as much demand, and more is drawn.
    assert_eq!(assign(&engine, 1).await, ["O-2"]);
    let known = store.list_types().await.unwrap().remove(0);
    let changed = (known.id, known.revision, &known.id_type, &known.sealed_key[..]);
    store.change_type(changed.0, changed.1, changed.2, changed.3, false).await.unwrap();
    let expected: Vec<String> = (3..103).map(|serial| format!("O-{serial}")).collect();
    assert_eq!(assign(&engine, 100).await, expected);
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_reserved_even_if_whoever_asked_goes_away() {
    let mut fixture = Fixture::new();
    let (engine, store) = start(&mut fixture).await;
    let (tenant, type_name) = ("default".to_owned(), "order".to_owned());
    let order = HoldOrder { tenant, type_name, key_id: 0, hold: Duration::from_secs(60) };
    // It has begun when it is dropped.
    assert!(engine.documents.reserve(order).now_or_never().is_none());
    let type_id = store.list_types().await.unwrap()[0].id;
    while store.find_reservations(type_id, None, 1).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    engine.shut_down().await;
}
