//! Types with a pool table on a real server: serials that nobody accounts for are found, and no others.

mod support;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use storage::{
    CounterStore, DocumentStore, Draw, GapReason, Issue, IssueGroup, IssueStore, Items, PoolKey,
    ReservationOrder, SharedPools, Span, TopUp, ToppedUp, TypeId, TypeStore,
};
use storage_postgres::PostgresStore;
use support::Databases;
use tokio_postgres::Client;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const HOLDER: &str = "somebody";
const BOUNDS: (u64, u64) = (0, 1_000_000);

/// A table of another program. It has the ID of serial 2 already.
const ADOPTED: &str = "
    CREATE TABLE id_pool_farmer (
        id_value   VARCHAR(32) PRIMARY KEY,
        status     VARCHAR(16) NOT NULL DEFAULT 'AVAILABLE',
        created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        issued_at  TIMESTAMPTZ NULL
    );
    INSERT INTO id_pool_farmer (id_value) VALUES ('000000000002')";

async fn new_pool(store: &PostgresStore) -> PoolKey {
    let spec = r#"{"tenant": "default", "name": "farmer",
                   "random": {"alphabet": "digits", "length": 12}}"#;
    let stored = store.create_type(&serde_json::from_str(spec).unwrap(), b"", NOW).await.unwrap();
    let (tenant, name, period) = ("default".to_owned(), "farmer".to_owned(), String::new());
    PoolKey { type_id: stored.id, tenant, name, period }
}

/// IDs of serials. A filter rejects every fifth.
fn render(serials: Range<u64>) -> Vec<String> {
    serials.filter(|serial| serial % 5 != 0).map(|serial| format!("{serial:012}")).collect()
}

async fn top_up(store: &PostgresStore, pool: &PoolKey, size: u64) -> Range<u64> {
    let order = TopUp {
        size,
        serials_max: 10_000,
        bounds: BOUNDS,
        revision: 0,
        render: Arc::new(render),
        acceptance: 0.8,
        wait: true,
        now: NOW,
    };
    match store.top_up(pool, order).await.unwrap() {
        ToppedUp::Added { drawn, .. } => drawn,
        other => panic!("{other:?}"),
    }
}

async fn draw(store: &PostgresStore, type_id: TypeId, count: u64) -> Range<u64> {
    let (period, holder, bounds) = ("", HOLDER, BOUNDS);
    let draw = Draw { type_id, period, count, bounds, holder, revision: 0, now: NOW };
    store.draw(draw).await.unwrap()
}

/// What documents and reservations do with serials: two are issued, two rejected, one is held for somebody,
/// one given up, and the rest stays with its holder.
async fn use_some(store: &PostgresStore, type_id: TypeId, drawn: Range<u64>) {
    let first = drawn.start;
    let span = |serials| Span { type_id, period: String::new(), serials };
    let issue = Issue { first, last: first + 1, key_id: 0, at_ms: 0 };
    let groups = [
        IssueGroup { span: span(first..first + 2), issues: vec![issue] },
        IssueGroup { span: span(first + 2..first + 4), issues: vec![] },
    ];
    store.record_issues(&groups).await.unwrap();
    let order = ReservationOrder {
        type_id,
        revision: 0,
        period: String::new(),
        holder: HOLDER.to_owned(),
        id: (first + 4, "held".to_owned()),
        key_id: 0,
        expires_at: NOW,
        now: NOW,
    };
    store.reserve(&order).await.unwrap();
    let given_up = [span(first + 5..first + 6)];
    store.close_draws(HOLDER, &given_up, GapReason::Crash, NOW).await.unwrap();
}

async fn is_noted(client: &Client) -> bool {
    let sql = "SELECT NOT isempty(filled) FROM pool_tables";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_lost_serial_of_a_type_with_a_pool_table_is_found() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    client.batch_execute(ADOPTED).await.unwrap();
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let pool = new_pool(&store).await;
    let type_id = pool.type_id;

    top_up(&store, &pool, 20).await;
    use_some(&store, type_id, draw(&store, type_id, 8).await).await;
    top_up(&store, &pool, 40).await;
    let Items::Ids(taken) = store.withdraw(&pool, 15).await.unwrap().items else { panic!() };
    assert_eq!(taken.len(), 15);
    assert!(is_noted(&client).await);
    let counters = store.counters(type_id).await.unwrap();
    let all_is_well = store.reconcile(type_id, 1 << 20, NOW).await.unwrap();
    assert_eq!((all_is_well.serials, all_is_well.found), (counters[0].1, vec![]));
    assert!(!is_noted(&client).await, "what was looked at is not kept");

    top_up(&store, &pool, 100).await;
    let lost = draw(&store, type_id, 3).await;
    top_up(&store, &pool, 200).await;
    client.batch_execute("DELETE FROM draws").await.unwrap();
    // In pieces, so that what is noted is not forgotten too soon.
    let mut found = Vec::new();
    loop {
        let step = store.reconcile(type_id, 7, NOW).await.unwrap();
        found.extend(step.found);
        if step.done {
            break;
        }
    }
    assert!(found.iter().all(|gap| gap.reason == GapReason::UntrackedLoss), "{found:?}");
    let found: Vec<u64> = found.into_iter().flat_map(|gap| gap.span.serials).collect();
    assert_eq!(found, lost.collect::<Vec<u64>>());
    assert!(!is_noted(&client).await);
}

/// Applies what an earlier release had of a part of the schema.
async fn migrate_up_to(client: &Client, series: &str, last: i32) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(series);
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for (number, file) in (1..=last).zip(files) {
        client.batch_execute(&std::fs::read_to_string(&file).unwrap()).await.unwrap();
        let sql = "INSERT INTO mintage_migrations VALUES ($1, $2, $3, false)";
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        client.execute(sql, &[&series, &number, &name]).await.unwrap();
    }
}

#[tokio::test]
async fn what_went_into_a_pool_table_under_an_earlier_release_is_not_lost() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    let record = "CREATE TABLE mintage_migrations (
                      series text NOT NULL, number integer NOT NULL, name text NOT NULL,
                      older_may_run boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
                      PRIMARY KEY (series, number))";
    client.batch_execute(record).await.unwrap();
    migrate_up_to(&client, "shard", 18).await;
    migrate_up_to(&client, "catalogue", 4).await;
    let used = r#"
        INSERT INTO id_types (id, tenant, name, spec, sealed_key, used, created_at)
        VALUES (256, 'default', 'farmer', '{"tenant": "default", "name": "farmer",
                "random": {"alphabet": "digits", "length": 12}}', '', true, now());
        INSERT INTO counters (type_id, period, next) VALUES (256, '', 500);
        INSERT INTO reconciled (type_id, period, stands_at) VALUES (256, '', 0);
        INSERT INTO pool_tables (type_id, period, table_name) VALUES (256, '', 'id_pool_farmer')"#;
    client.batch_execute(used).await.unwrap();

    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let (tenant, name, period) = ("default".to_owned(), "farmer".to_owned(), String::new());
    let pool = PoolKey { type_id: TypeId(256), tenant, name, period };
    let added = top_up(&store, &pool, 50).await;
    assert_eq!(added.start, 500);
    let reconciled = store.reconcile(pool.type_id, 1 << 20, NOW).await.unwrap();
    assert_eq!((reconciled.serials, reconciled.found), (added.end - 500, vec![]));
}
