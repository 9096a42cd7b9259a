//! What batches cost in this store.

use std::time::Duration;

use idgen::spec::SERIAL_MAX;
use jiff::Timestamp;
use rusqlite::{Connection, StatementStatus};
use storage::{
    BatchOrder, BatchStore, CODES_PER_TABLE, ClaimTerms, Ledger, Ordered, TypeId, WorkerName,
};

use crate::tests::{new_type, open};
use crate::{SqliteStore, claims};

fn terms(seconds: i64) -> ClaimTerms {
    let now = Timestamp::from_second(seconds).unwrap();
    ClaimTerms { silent: Duration::from_secs(1800), attempts_max: 3, now }
}

fn order(type_id: TypeId, count: u64, chunk_serials: u64) -> BatchOrder {
    BatchOrder {
        type_id,
        revision: 0,
        count,
        bounds: (0, SERIAL_MAX),
        chunk_serials,
        ledger: Ledger::Stored,
        name: None,
        metadata: None,
        key_id: 0,
        notify: None,
        order_key: None,
        active_max: u64::MAX,
        codes_max: u64::MAX,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn worker(number: u32) -> WorkerName {
    WorkerName { instance: "me".to_owned(), number }
}

/// A claim costs the same among few chunks and among many, whatever became of those before.
#[tokio::test]
async fn claiming_a_chunk_scans_nothing() {
    const CHUNKS: u64 = 5_000;
    let (_directory, store) = open();
    let order = order(new_type(&store).await, CHUNKS, 1);
    assert!(matches!(store.order_batch(&order).await.unwrap(), Ordered::Done(_)));
    // A third is done, a third is dead and a third is with somebody, but for the last few.
    let work = |connection: &Connection| {
        connection.execute_batch(
            "DELETE FROM chunks WHERE number < 4990 AND number % 3 = 0;
             UPDATE chunks SET state = 'dead' WHERE number < 4990 AND number % 3 = 1;
             UPDATE chunks SET state = 'claimed', since = 10000000
             WHERE number < 4990 AND number % 3 = 2;",
        )?;
        Ok(())
    };
    for round in 0..2 {
        let worker = worker(round);
        let claim = move |connection: &Connection| {
            connection.prepare_cached(claims::NEXT)?.reset_status(StatementStatus::VmStep);
            let chunk = claims::claim(connection, &worker, None, terms(10_000))?;
            let steps =
                connection.prepare_cached(claims::NEXT)?.reset_status(StatementStatus::VmStep);
            Ok((chunk.map(|chunk| chunk.number), steps))
        };
        let (number, steps) = store.writer.run(claim).await.unwrap();
        assert_eq!(number, Some([0, 4990][round as usize]));
        assert!(steps < 100, "{steps} instructions");
        store.writer.run(work).await.unwrap();
    }
}

/// The tables of codes that there are, by number.
async fn tables(store: &SqliteStore) -> Vec<u64> {
    let read = |connection: &Connection| {
        let numbers = connection
            .prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'codes_%' ORDER BY name")?
            .query_map([], |row| row.get::<_, String>(0))?
            .map(|name| Ok(name?.rsplit('_').next().unwrap().parse().unwrap()))
            .collect::<rusqlite::Result<_>>()?;
        Ok(numbers)
    };
    store.readers.run(read).await.unwrap()
}

/// Whoever writes the rows of a chunk finds its table there.
#[tokio::test]
async fn tables_are_made_before_they_are_needed() {
    let (_directory, store) = open();
    let type_id = new_type(&store).await;
    let order = order(type_id, 3 * CODES_PER_TABLE, CODES_PER_TABLE);
    assert!(matches!(store.order_batch(&order).await.unwrap(), Ordered::Done(_)));
    assert_eq!(tables(&store).await, [] as [u64; 0]);
    for (number, made) in [(0, vec![0, 1]), (1, vec![0, 1, 2]), (2, vec![0, 1, 2])] {
        let chunk = store.claim_chunk(&worker(number), None, terms(10)).await.unwrap().unwrap();
        assert_eq!(chunk.number, u64::from(number));
        assert_eq!(tables(&store).await, made);
    }
}
