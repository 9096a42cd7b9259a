//! A database of an earlier release goes on with what it has.

mod support;

use storage::{BatchId, TypeId};
use storage_postgres::PostgresStore;
use storage_tests::check_marks;
use support::Databases;
use tokio_postgres::Client;

/// What the release had that counted scans in the rows of the codes.
const SHARD: [(&str, &str); 5] = [
    ("0001_first_tables", include_str!("../migrations/shard/0001_first_tables.sql")),
    ("0002_functions", include_str!("../migrations/shard/0002_functions.sql")),
    ("0003_batches", include_str!("../migrations/shard/0003_batches.sql")),
    ("0004_batch_events", include_str!("../migrations/shard/0004_batch_events.sql")),
    ("0005_deliveries", include_str!("../migrations/shard/0005_deliveries.sql")),
];

const CATALOGUE: [(&str, &str); 3] = [
    ("0001_first_tables", include_str!("../migrations/catalogue/0001_first_tables.sql")),
    ("0002_functions", include_str!("../migrations/catalogue/0002_functions.sql")),
    (
        "0003_receivers_and_deeds",
        include_str!("../migrations/catalogue/0003_receivers_and_deeds.sql"),
    ),
];

const RECORD: &str = "
    CREATE TABLE mintage_migrations (
        series        text NOT NULL,
        number        integer NOT NULL,
        name          text NOT NULL,
        older_may_run boolean NOT NULL,
        applied_at    timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (series, number)
    )";

/// A batch of four codes: one was scanned, one is void and was scanned, one is void.
const MARKS: &str = "
    INSERT INTO batches (id, type_id, tenant, start, stop, chunk_serials, ledger, state, made, key_id,
                         created_at)
    VALUES (2000, 256, 'acme', 40, 44, 4, 'stored', 'completed', 4, 0, to_timestamp(0));
    SELECT make_code_table('codes_256_0', 256, 0, 5000000);
    INSERT INTO codes_256_0 VALUES
        (40, 1, 0, NULL, NULL, NULL),
        (41, 2, 3, to_timestamp(1), NULL, NULL),
        (42, 3, 1, to_timestamp(2), to_timestamp(3), 'stolen'),
        (43, 4, 0, NULL, to_timestamp(4), 'lost')";

async fn write_earlier_release(client: &Client) {
    client.batch_execute(RECORD).await.unwrap();
    for (series, steps) in [("shard", &SHARD[..]), ("catalogue", &CATALOGUE[..])] {
        for (number, (name, sql)) in (1..).zip(steps) {
            client.batch_execute(sql).await.unwrap();
            client
                .execute(
                    "INSERT INTO mintage_migrations VALUES ($1, $2, $3, false)",
                    &[&series, &number, name],
                )
                .await
                .unwrap();
        }
    }
    client.batch_execute(MARKS).await.unwrap();
}

#[tokio::test]
async fn what_happened_to_codes_under_an_earlier_release_is_kept() {
    let databases = Databases::create(1).await;
    let client = databases.connect().await;
    write_earlier_release(&client).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    check_marks(&*store, TypeId(256), BatchId(2000)).await;
    let rows: i64 = client.query_one("SELECT count(*) FROM marks_256_0", &[]).await.unwrap().get(0);
    assert_eq!(rows, 4, "there is a row only of what something happened to");
}
