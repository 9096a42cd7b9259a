//! Opening databases, and refusing to.

mod support;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use storage::{Store, Tenant, TenantLimits, TypeStore};
use storage_postgres::{OpenError, PostgresSettings, PostgresStore, ShardSettings};
use support::{Databases, Servers, connect, with_database};

async fn refusal(settings: PostgresSettings) -> OpenError {
    PostgresStore::open(settings).await.err().expect("it is refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_instances_start_together_on_empty_databases() {
    let databases = Databases::create(2).await;
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let settings = databases.settings();
            tokio::spawn(async move { PostgresStore::open(settings).await })
        })
        .collect();
    let mut stores = Vec::new();
    for task in tasks {
        stores.push(task.await.unwrap().unwrap());
    }
    let now = Timestamp::UNIX_EPOCH;
    for (number, store) in stores.iter().enumerate() {
        store.check().await.unwrap();
        let name = format!("tenant-{number}");
        store
            .put_tenant(&Tenant { name, limits: TenantLimits::default(), created_at: now })
            .await
            .unwrap();
    }
    for store in &stores {
        assert_eq!(store.list_tenants().await.unwrap().len(), 10);
        assert_eq!(store.catalogue_version().await.unwrap(), 10);
    }
}

#[tokio::test]
async fn shards_in_another_order_are_refused_and_left_alone() {
    let databases = Databases::create(3).await;
    drop(PostgresStore::open(databases.settings()).await.unwrap());
    let [first, second, third] = [0, 1, 2].map(|number| databases.urls[number].clone());
    let shard = |url: &String| ShardSettings { url: url.clone(), replica: None };
    let swapped = PostgresSettings {
        shards: vec![shard(&third), shard(&second)],
        ..PostgresSettings::new(&first)
    };
    let error = refusal(swapped).await;
    assert!(
        matches!(error, OpenError::OtherShard { configured: 1, found: 2, .. })
            || matches!(error, OpenError::OtherShard { configured: 2, found: 1, .. }),
        "{error}"
    );
    let error = refusal(PostgresSettings::new(&second)).await;
    assert!(matches!(error, OpenError::OtherShard { configured: 0, found: 1, .. }), "{error}");
    let rows = connect(&second).await.query("SELECT to_regclass('tenants')::text", &[]).await;
    assert_eq!(rows.unwrap()[0].get::<_, Option<&str>>(0), None, "it was not changed");
    let twice = PostgresSettings { shards: vec![shard(&first)], ..PostgresSettings::new(&first) };
    assert!(matches!(refusal(twice).await, OpenError::OtherShard { .. }));
    // One more at the end is fine.
    drop(PostgresStore::open(databases.settings()).await.unwrap());
}

#[tokio::test]
async fn a_database_of_another_cluster_is_refused() {
    let (ours, theirs) = (Databases::create(2).await, Databases::create(2).await);
    for databases in [&ours, &theirs] {
        drop(PostgresStore::open(databases.settings()).await.unwrap());
    }
    let mixed = PostgresSettings { shards: theirs.settings().shards, ..ours.settings() };
    let error = refusal(mixed).await;
    assert!(matches!(error, OpenError::OtherCluster { .. }), "{error}");
}

#[tokio::test]
async fn shards_that_hold_tenants_cannot_be_left_out() {
    let databases = Databases::create(2).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    for tenant in ["a", "b"] {
        let id_type = serde_json::from_str(&format!(
            r#"{{"tenant": "{tenant}", "name": "order", "sequence": {{}}}}"#
        ));
        store.create_type(&id_type.unwrap(), &[], Timestamp::UNIX_EPOCH).await.unwrap();
    }
    let error = refusal(PostgresSettings::new(&databases.urls[0])).await;
    assert!(matches!(error, OpenError::MissingShards { configured: 1, needed: 2 }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_unless_it_allows_us() {
    let databases = Databases::create(1).await;
    drop(PostgresStore::open(databases.settings()).await.unwrap());
    let client = databases.connect().await;
    let newer = "INSERT INTO mintage_migrations (series, number, name, older_may_run)
                 VALUES ('shard', 1000, 'of the future', true)";
    client.batch_execute(newer).await.unwrap();
    drop(PostgresStore::open(databases.settings()).await.unwrap());
    client.batch_execute("UPDATE mintage_migrations SET older_may_run = false").await.unwrap();
    let error = refusal(databases.settings()).await;
    assert!(
        matches!(error, OpenError::NewerSchema { series: "shard", found: 1000, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_role_that_may_not_create_tables_is_told_so() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    // Every role may create tables in a database of its own, so this one is locked out.
    client
        .batch_execute("ALTER SCHEMA public OWNER TO CURRENT_USER; REVOKE ALL ON SCHEMA public FROM CURRENT_USER, PUBLIC; GRANT USAGE ON SCHEMA public TO CURRENT_USER")
        .await
        .unwrap();
    let error = refusal(databases.settings()).await;
    assert!(matches!(error, OpenError::Forbidden { .. }), "{error}");
    assert!(error.to_string().contains("GRANT CREATE"), "{error}");
}

#[tokio::test]
async fn errors_never_show_the_password() {
    let databases = Databases::create(1).await;
    let url = &databases.urls[0];
    let (user, place) = url.split_once('@').unwrap();
    let (user, password) = user.rsplit_once(':').unwrap();
    let wrong = format!("{user}:{password}x@{place}");
    let nobody = format!("{user}:{password}@127.0.0.1:1/ids");
    for (url, kind) in [(wrong, "28P01"), (nobody, "cannot be reached")] {
        let error = refusal(PostgresSettings::new(url)).await.to_string();
        assert!(error.contains(kind), "{error}");
        assert!(!error.contains(password), "{error}");
    }
}

#[tokio::test]
async fn commits_are_made_to_wait_for_the_disk() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    let name = databases.urls[0].rsplit_once('/').unwrap().1;
    client
        .batch_execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off"))
        .await
        .unwrap();
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    store.check().await.unwrap();
    let pooled = PostgresSettings { prepared_statements: false, ..databases.settings() };
    let error = refusal(pooled).await;
    assert!(matches!(error, OpenError::WeakCommit { .. }), "{error}");
}

#[tokio::test]
async fn the_lag_of_a_replica_is_measured() {
    let databases = Databases::create(1).await;
    let (_, name) = databases.urls[0].rsplit_once('/').unwrap();
    let replica = with_database(&Servers::shared().replica, name);
    let settings = PostgresSettings { replica: Some(replica.clone()), ..databases.settings() };
    let store = PostgresStore::open(settings).await.unwrap();
    let (_, place) = replica.rsplit_once('@').unwrap();
    let began = Instant::now();
    loop {
        let readings = Store::readings(&*store);
        let lag = readings.iter().find(|reading| {
            reading.name == "replica_lag_seconds"
                && reading.labels.contains(&("replica", place.to_owned()))
        });
        if let Some(lag) = lag {
            assert!((0.0..60.0).contains(&lag.value), "{lag:?}");
            return;
        }
        // The replica may not have the new database yet; the next look is a few seconds later.
        assert!(began.elapsed() < Duration::from_secs(30), "{readings:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
