//! Table pools on a real server.

mod support;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use idgen::spec::IdType;
use jiff::Timestamp;
use storage::{
    Items, PoolKey, SharedPools, StoreError, StoredType, TopUp, ToppedUp, TypeStore, Withdrawn,
};
use storage_postgres::PostgresStore;
use support::Databases;

fn random(tenant: &str, name: &str) -> IdType {
    let spec = format!(
        r#"{{"tenant": "{tenant}", "name": "{name}", "random": {{"alphabet": "digits", "length": 12}}}}"#
    );
    serde_json::from_str(&spec).unwrap()
}

fn key(stored: &StoredType) -> PoolKey {
    PoolKey {
        type_id: stored.id,
        tenant: stored.id_type.tenant().to_owned(),
        name: stored.id_type.name().to_owned(),
        period: String::new(),
    }
}

/// IDs that fall with their serial, so that their order is not that of the serials.
fn render(serials: Range<u64>) -> Vec<String> {
    serials.map(|serial| format!("{:012}", 999_999_999_999 - serial)).collect()
}

fn order(size: u64, bounds: (u64, u64)) -> TopUp {
    TopUp {
        size,
        serials_max: 10_000,
        bounds,
        revision: 0,
        render: Arc::new(render),
        acceptance: 1.0,
        wait: false,
        now: Timestamp::UNIX_EPOCH,
    }
}

const BOUNDS: (u64, u64) = (0, 1_000_000);

async fn open(databases: &Databases) -> Arc<PostgresStore> {
    PostgresStore::open(databases.settings()).await.unwrap()
}

async fn new_pool(store: &PostgresStore, tenant: &str, name: &str) -> PoolKey {
    let stored =
        store.create_type(&random(tenant, name), b"key", Timestamp::UNIX_EPOCH).await.unwrap();
    key(&stored)
}

fn ids(withdrawn: Withdrawn) -> Vec<String> {
    match withdrawn.items {
        Items::Ids(ids) => ids,
        Items::Serials(serials) => panic!("{serials:?}"),
    }
}

async fn tables(databases: &Databases) -> Vec<String> {
    let sql =
        "SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'id\\_pool\\_%' ORDER BY 1";
    let rows = databases.connect().await.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_new_table_has_the_layout_of_openg2p() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    assert_eq!(store.prepare(&pool).await.unwrap(), 0);
    assert_eq!(tables(&databases).await, ["id_pool_farmer"]);
    let client = databases.connect().await;
    let rows = client
        .query(
            "SELECT attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull
                    || coalesce(' ' || pg_get_expr(adbin, adrelid), '')
             FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
             WHERE attrelid = 'id_pool_farmer'::regclass AND attnum > 0 ORDER BY attnum",
            &[],
        )
        .await
        .unwrap();
    let columns: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        columns,
        [
            "id_value character varying(32) true",
            "status character varying(16) true 'AVAILABLE'::character varying",
            "created_at timestamp with time zone true now()",
            "issued_at timestamp with time zone false",
        ]
    );
    let rows = client
        .query("SELECT pg_get_indexdef('idx_farmer_available'::regclass)", &[])
        .await
        .unwrap();
    let index: String = rows[0].get(0);
    assert!(index.contains("(status) WHERE ((status)::text = 'AVAILABLE'::text)"), "{index}");
}

#[tokio::test]
async fn types_with_similar_names_never_share_a_table() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let long = "x".repeat(60);
    let mut pools = Vec::new();
    // The last one has the name that the first one would be given.
    for (tenant, name) in [
        ("default", format!("{long}1")),
        ("default", format!("{long}2")),
        ("default", "a_b".to_owned()),
        ("default", "a-b".to_owned()),
        ("default", "A_B".to_owned()),
        ("acme", "a_b".to_owned()),
    ] {
        pools.push(new_pool(&store, tenant, &name).await);
    }
    store.prepare(&pools[5]).await.unwrap();
    let taken = tables(&databases).await[0].clone();
    pools.push(new_pool(&store, "default", taken.strip_prefix("id_pool_").unwrap()).await);
    for (number, pool) in (0..).zip(&pools) {
        store.prepare(pool).await.unwrap();
        let one = order(1, (number, number + 1));
        assert!(matches!(store.top_up(pool, one).await.unwrap(), ToppedUp::Added { items: 1, .. }));
    }
    assert_eq!(tables(&databases).await.len(), pools.len());
    for (number, pool) in (0..).zip(&pools) {
        assert_eq!(ids(store.withdraw(pool, 9).await.unwrap()), render(number..number + 1));
    }
    // The names are remembered.
    let again = open(&databases).await;
    for pool in &pools {
        again.prepare(pool).await.unwrap();
    }
    assert_eq!(tables(&databases).await.len(), pools.len());
}

#[tokio::test]
async fn ids_come_out_in_order_of_their_serials() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    for size in [100, 250, 300] {
        store.top_up(&pool, order(size, BOUNDS)).await.unwrap();
    }
    assert_eq!(store.prepare(&pool).await.unwrap(), 300);
    let mut withdrawn = Vec::new();
    for (count, left) in [(7, 293), (93, 200), (150, 50), (100, 0)] {
        let taken = store.withdraw(&pool, count).await.unwrap();
        assert_eq!(taken.left, left);
        withdrawn.extend(ids(taken));
    }
    assert_eq!(withdrawn, render(0..300));
}

#[tokio::test]
async fn many_withdrawals_at_once_take_every_id_once() {
    const IDS: u64 = 3000;
    let databases = Databases::create(1).await;
    let instances = [open(&databases).await, open(&databases).await];
    let pool = new_pool(&instances[0], "default", "farmer").await;
    instances[0].top_up(&pool, order(IDS, (0, IDS))).await.unwrap();
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (store, pool) = (Arc::clone(&instances[task % 2]), pool.clone());
            tokio::spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let some = ids(store.withdraw(&pool, 1 + task * 3).await.unwrap());
                    if some.is_empty() {
                        return taken;
                    }
                    taken.extend(some);
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    let distinct: HashSet<_> = all.iter().cloned().collect();
    assert_eq!(distinct.len(), all.len(), "an ID came twice");
    assert_eq!(distinct, render(0..IDS).into_iter().collect());
    for store in &instances {
        let more = store.top_up(&pool, order(IDS, (0, IDS))).await.unwrap();
        assert_eq!(more, ToppedUp::Exhausted);
        let nothing = store.withdraw(&pool, 1).await.unwrap();
        assert_eq!((nothing.items.len(), nothing.left), (0, 0));
    }
}

#[tokio::test]
async fn a_table_of_openg2p_is_adopted_as_it_is() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    client
        .batch_execute(
            "CREATE TABLE id_pool_farmer (
                 id_value   VARCHAR(32) PRIMARY KEY,
                 status     VARCHAR(16) NOT NULL DEFAULT 'AVAILABLE',
                 created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
                 issued_at  TIMESTAMPTZ NULL
             );
             CREATE INDEX idx_farmer_available ON id_pool_farmer (status)
                 WHERE status = 'AVAILABLE';
             INSERT INTO id_pool_farmer (id_value) VALUES ('5738201964'), ('999999999997');
             INSERT INTO id_pool_farmer (id_value, status, issued_at)
                 VALUES ('999999999998', 'TAKEN', now())",
        )
        .await
        .unwrap();
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    assert_eq!(store.prepare(&pool).await.unwrap(), 2);
    assert!(store.list_types().await.unwrap()[0].used, "its IDs are out there");
    let topped_up = store.top_up(&pool, order(6, (0, 4))).await.unwrap();
    assert_eq!(topped_up, ToppedUp::Added { drawn: 0..4, items: 2, level: 4 });
    // Serials 1 and 2 are in the table already, one of them taken.
    let taken = store.withdraw(&pool, 10).await.unwrap();
    let taken: HashSet<_> = ids(taken).into_iter().collect();
    let expected = ["5738201964", "999999999999", "999999999997", "999999999996"];
    assert_eq!(taken, expected.map(str::to_owned).into());
    let found = store.find(&pool, "999999999998").await.unwrap().unwrap();
    assert!(found.taken_at.is_some());
    assert_eq!(store.find(&pool, "1").await.unwrap(), None);
}

#[tokio::test]
async fn a_step_in_which_every_id_is_there_already_adds_nothing_and_goes_on() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    store.prepare(&pool).await.unwrap();
    let client = databases.connect().await;
    let sql = "INSERT INTO id_pool_farmer (id_value, status)
               SELECT (999999999999 - serial)::text, 'TAKEN' FROM generate_series(0, 9) AS serial";
    client.batch_execute(sql).await.unwrap();
    let mut some = order(5, BOUNDS);
    some.serials_max = 5;
    for (drawn, items) in [(0..5, 0), (5..10, 0), (10..15, 5)] {
        let expected = ToppedUp::Added { drawn, items, level: items };
        assert_eq!(store.top_up(&pool, some.clone()).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn one_instance_at_a_time_fills_a_pool() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    store.prepare(&pool).await.unwrap();
    // As OpenG2P would do it.
    let mut other = databases.connect().await;
    let filling = other.transaction().await.unwrap();
    filling.execute("SELECT pg_advisory_xact_lock(1820699791)", &[]).await.unwrap();
    assert_eq!(store.top_up(&pool, order(10, BOUNDS)).await.unwrap(), ToppedUp::Busy);
    let busy = SharedPools::readings(&*store);
    assert!(busy.iter().any(|reading| reading.name == "pool_fills_busy" && reading.value >= 1.0));
    let waiting = tokio::spawn({
        let (store, pool) = (Arc::clone(&store), pool.clone());
        async move { store.top_up(&pool, TopUp { wait: true, ..order(10, BOUNDS) }).await.unwrap() }
    });
    filling.commit().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), ToppedUp::Added { items: 10, level: 10, .. }));
    let full = store.top_up(&pool, order(10, BOUNDS)).await.unwrap();
    assert_eq!(full, ToppedUp::Full { level: 10 });
}

#[tokio::test]
async fn a_pool_is_not_filled_for_another_revision() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let pool = new_pool(&store, "default", "farmer").await;
    let stale = store.top_up(&pool, TopUp { revision: 7, ..order(10, BOUNDS) }).await;
    assert!(matches!(stale, Err(StoreError::Stale)), "{stale:?}");
    assert_eq!(store.prepare(&pool).await.unwrap(), 0);
    store.top_up(&pool, order(10, BOUNDS)).await.unwrap();
    store.remove_type(pool.type_id).await.unwrap();
    let retired = store.top_up(&pool, order(20, BOUNDS)).await;
    assert!(matches!(retired, Err(StoreError::NotFound("type"))), "{retired:?}");
}

#[tokio::test]
async fn what_is_put_back_is_served_again() {
    let databases = Databases::create(1).await;
    let stores = [open(&databases).await, open(&databases).await];
    let pool = new_pool(&stores[0], "default", "farmer").await;
    stores[0].top_up(&pool, order(20, (0, 20))).await.unwrap();
    let taken = stores[0].withdraw(&pool, 10).await.unwrap();
    ids(stores[1].withdraw(&pool, 5).await.unwrap());
    assert!(stores[0].put_back(&pool, &taken.items).await.unwrap());
    let mut served = ids(stores[0].withdraw(&pool, 3).await.unwrap());
    assert_eq!(served, render(0..3), "they come first");
    // The other one runs short and then looks at the whole table.
    served.extend(ids(stores[1].withdraw(&pool, 100).await.unwrap()));
    served.sort();
    let mut expected = render(0..10);
    expected.extend(render(15..20));
    expected.sort();
    assert_eq!(served, expected);
}

#[tokio::test]
async fn long_ids_get_a_wider_column() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let long: IdType = serde_json::from_str(
        r#"{"tenant": "default", "name": "bottle",
            "random": {"alphabet": "crockford32", "length": 25, "group": 2}}"#,
    )
    .unwrap();
    let stored = store.create_type(&long, b"key", Timestamp::UNIX_EPOCH).await.unwrap();
    let id = format!("{}Z", "AB-".repeat(12));
    assert_eq!(id.len(), 37);
    let rendered = id.clone();
    let one = TopUp {
        render: Arc::new(move |_| vec![rendered.clone()]),
        serials_max: 1,
        ..order(1, BOUNDS)
    };
    store.top_up(&key(&stored), one).await.unwrap();
    assert_eq!(ids(store.withdraw(&key(&stored), 1).await.unwrap()), [id]);
}

#[tokio::test]
async fn the_pools_of_all_shards_work() {
    let databases = Databases::create(2).await;
    let store = open(&databases).await;
    let mut shards = HashSet::new();
    for tenant in ["default", "acme", "farms", "other"] {
        let pool = new_pool(&store, tenant, "farmer").await;
        shards.insert(pool.type_id.0 % 256);
        store.top_up(&pool, order(10, BOUNDS)).await.unwrap();
        assert_eq!(ids(store.withdraw(&pool, 10).await.unwrap()), render(0..10));
    }
    assert_eq!(shards, [0, 1].into());
}
