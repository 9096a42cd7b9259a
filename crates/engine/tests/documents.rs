//! Documents on the embedded store: what becomes of them when things change under way.

mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::documents::{AssignOrder, DeadDocuments, Decision, DocumentError, Place, SinkOrder};
use engine::outbox::{Carrier, Letter, Reply, WriteOrder};
use storage::{
    Attempt, DeliveryState, DocumentRecord, IssueStore as _, NewDocument, Next, OutboxStore as _,
    Outcome, ReceiverStore as _, Verdict, Wanted,
};
use storage_sqlite::SqliteStore;
use support::{Fixture, open};
use tokio::sync::Semaphore;

/// Writes nothing before it is opened.
struct Gate(Semaphore);

#[async_trait::async_trait]
impl Carrier for Gate {
    fn check_address(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn check_directory(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, _: Letter) -> Result<Reply, String> {
        Err("there are no addresses here".to_owned())
    }

    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>> {
        let _permit = self.0.acquire().await.unwrap();
        vec![Ok(()); order.files.len()]
    }
}

/// Makes a sink for some types, or for all.
async fn put_sink(engine: &Arc<Engine>, name: &str, types: &[&str]) -> storage::ReceiverId {
    let types = types.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let order = SinkOrder {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        place: Place::Directory { path: name.to_owned() },
        bucket_secret: None,
        types: (!types.is_empty()).then_some(types),
        ordered: false,
    };
    engine.put_sink(order).await.unwrap().sink.id()
}

async fn assign(engine: &Engine, payload: &str) -> String {
    try_assign(engine, payload).await.unwrap().remove(0)
}

async fn try_assign(engine: &Engine, payload: &str) -> Result<Vec<String>, DocumentError> {
    let (reference, request_key) = (None, None);
    let document = NewDocument { payload: payload.to_owned(), reference, request_key, key_id: 0 };
    let order = AssignOrder { tenant: "default", type_name: "order", documents: vec![document] };
    engine.documents.assign(order).await
}

async fn find(engine: &Engine, id: &str) -> DocumentRecord {
    engine.documents.find("default", None, id).await.unwrap().0
}

/// Waits until a document is in a state.
async fn wait_for(engine: &Engine, id: &str, state: DeliveryState) -> DocumentRecord {
    loop {
        let found = find(engine, id).await;
        if found.delivery.state == state {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

async fn start(fixture: &mut Fixture, gate: &Arc<Gate>) -> (Arc<Engine>, Arc<SqliteStore>) {
    let store = Arc::new(open(fixture.directory.path()));
    let carrier = Arc::clone(gate) as Arc<dyn Carrier>;
    let engine = fixture.start_with(Arc::clone(&store), carrier).await;
    let order = r#"{"name": "order", "sequence": {"template": "O-{seq}"}}"#;
    engine.put_type(serde_json::from_str(order).unwrap()).await.unwrap();
    (engine, store)
}

/// Another instance deletes a sink while this one still puts documents on record for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_too_late_for_a_deleted_sink_is_a_dead_letter() {
    let (mut fixture, gate) = (Fixture::new(), Arc::new(Gate(Semaphore::new(0))));
    let (engine, store) = start(&mut fixture, &gate).await;
    let sink = put_sink(&engine, "archive", &["order"]).await;
    // One at a time is under way, so the second one waits.
    assign(&engine, "1").await;
    let late = assign(&engine, "2").await;
    store.remove_receiver(sink).await.unwrap();
    // A change of its own makes this instance notice those of others.
    put_sink(&engine, "other", &["invoice"]).await;
    assert_eq!(find(&engine, &late).await.delivery.state, DeliveryState::Pending);
    gate.0.add_permits(10);
    let dead = wait_for(&engine, &late, DeliveryState::Dead).await;
    let error = dead.delivery.last.unwrap().error.unwrap();
    assert_eq!(error, "archive was deleted");
    // Trying again would lead nowhere.
    let decide = async |verdict| {
        let decision = Decision { verdict, key_id: 0, reason: Some("test") };
        engine.documents.settle(DeadDocuments::default(), decision).await.unwrap()
    };
    assert_eq!(decide(Verdict::Retry).await, 0);
    // It goes to the sink that the type has now.
    let other = put_sink(&engine, "other", &["invoice", "order"]).await;
    assert_eq!(decide(Verdict::Retry).await, 1);
    let moved = wait_for(&engine, &late, DeliveryState::Delivered).await;
    assert_eq!(moved.delivery.content.receiver, other);
    engine.shut_down().await;
}

/// What was begun for the sink as it was ends after the change.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_changed_while_documents_are_under_way_goes_on() {
    let (mut fixture, gate) = (Fixture::new(), Arc::new(Gate(Semaphore::new(0))));
    let (engine, _) = start(&mut fixture, &gate).await;
    put_sink(&engine, "archive", &["order"]).await;
    let mut ids = vec![assign(&engine, "1").await, assign(&engine, "2").await];
    put_sink(&engine, "archive", &["order", "invoice"]).await;
    gate.0.add_permits(10);
    for id in &ids {
        wait_for(&engine, id, DeliveryState::Delivered).await;
    }
    for payload in ["3", "4"] {
        ids.push(assign(&engine, payload).await);
        wait_for(&engine, ids.last().unwrap(), DeliveryState::Delivered).await;
    }
    engine.shut_down().await;
}

/// As if another release, or somebody with another master key, had written it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_makes_no_sense_holds_up_no_other() {
    let (mut fixture, gate) = (Fixture::new(), Arc::new(Gate(Semaphore::new(10))));
    let (engine, store) = start(&mut fixture, &gate).await;
    let sink = put_sink(&engine, "archive", &["order"]).await;
    store.change_receiver(sink, 0, r#"{"place": {"moon": {}}}"#).await.unwrap();
    let other = put_sink(&engine, "other", &[]).await;
    // It is used as it was.
    let id = assign(&engine, "1").await;
    wait_for(&engine, &id, DeliveryState::Delivered).await;
    engine.shut_down().await;
    drop((engine, store));
    let (engine, _) = start(&mut fixture, &gate).await;
    let found: Vec<_> = engine.documents.sinks.list(None).iter().map(|sink| sink.id()).collect();
    assert_eq!(found, [other]);
    // It may be for this type, so the documents do not go to the one for all types.
    assert!(matches!(try_assign(&engine, "2").await, Err(DocumentError::NoSink)));
    engine.shut_down().await;
}

/// Another instance took this one's claim for over, tried for itself, and gave up.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_arrived_is_noted_whatever_others_made_of_it() {
    let (mut fixture, gate) = (Fixture::new(), Arc::new(Gate(Semaphore::new(0))));
    let (engine, store) = start(&mut fixture, &gate).await;
    let receiver = put_sink(&engine, "archive", &["order"]).await;
    let id = assign(&engine, "1").await;
    let later = jiff::Timestamp::from_millisecond(support::NOON_MS + support::DAY_MS).unwrap();
    let (tenant, limit, ordered) = ("default".to_owned(), 1, false);
    let wanted = [Wanted { receiver, tenant, limit, ordered }];
    let claimed = store.claim_deliveries(&wanted, later, later).await.unwrap().remove(0);
    let attempt = Attempt {
        number: claimed.attempt,
        at: later,
        duration: Duration::ZERO,
        status: None,
        error: Some("no room".to_owned()),
    };
    let (delivery, token, next) = (claimed.id, claimed.token, Next::Dead);
    let outcome = Outcome { delivery, token, attempt, next };
    assert_eq!(store.settle_deliveries(&[outcome], later).await.unwrap(), [true]);
    assert_eq!(find(&engine, &id).await.delivery.state, DeliveryState::Dead);
    gate.0.add_permits(1);
    let key = wait_for(&engine, &id, DeliveryState::Delivered).await.key;
    let gaps = store.find_gaps(key.type_id, None, key.serial).await.unwrap();
    assert!(gaps.len() == 1 && gaps[0].closed_at.is_some(), "{gaps:?}");
    engine.shut_down().await;
}
