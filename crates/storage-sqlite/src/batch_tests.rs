//! What batches cost in this store.

use std::time::Duration;

use idgen::spec::SERIAL_MAX;
use jiff::Timestamp;
use rusqlite::{Connection, StatementStatus};
use storage::{BatchOrder, BatchStore, ClaimTerms, Ledger, Ordered};

use crate::claims;
use crate::tests::{new_type, open};

fn terms(seconds: i64) -> ClaimTerms {
    let now = Timestamp::from_second(seconds).unwrap();
    ClaimTerms { silent: Duration::from_secs(1800), attempts_max: 3, now }
}

/// A claim costs the same among few chunks and among many, whatever became of those before.
#[tokio::test]
async fn claiming_a_chunk_scans_nothing() {
    const CHUNKS: u64 = 5_000;
    let (_directory, store) = open();
    let order = BatchOrder {
        type_id: new_type(&store).await,
        revision: 0,
        count: CHUNKS,
        bounds: (0, SERIAL_MAX),
        chunk_serials: 1,
        ledger: Ledger::Stored,
        name: None,
        metadata: None,
        key_id: 0,
        order_key: None,
        active_max: u64::MAX,
        codes_max: u64::MAX,
        now: Timestamp::UNIX_EPOCH,
    };
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
        let claim = |connection: &Connection| {
            connection.prepare_cached(claims::NEXT)?.reset_status(StatementStatus::VmStep);
            let chunk = claims::claim(connection, "me", terms(10_000))?;
            let steps =
                connection.prepare_cached(claims::NEXT)?.reset_status(StatementStatus::VmStep);
            Ok((chunk.map(|chunk| chunk.number), steps))
        };
        let (number, steps) = store.writer.run(claim).await.unwrap();
        assert_eq!(number, Some([0, 4990][round]));
        assert!(steps < 100, "{steps} instructions");
        store.writer.run(work).await.unwrap();
    }
}
