//! What the outbox costs in this store, and what the audit log refuses.

use jiff::Timestamp;
use rusqlite::{Connection, StatementStatus};
use storage::{AuditStore, Deed, DeedFilter, ReceiverId, StoreError, Wanted};

use crate::deliveries;
use crate::tests::open;

fn wanted(receiver: i64, limit: usize) -> Wanted {
    Wanted { receiver: ReceiverId(receiver), tenant: "acme".to_owned(), limit, ordered: false }
}

/// A claim costs the same however much was delivered, waits, or is for others.
#[tokio::test]
async fn claiming_a_delivery_scans_nothing() {
    let (_directory, store) = open();
    // Receiver 1 has one that is due among many that are not; receiver 2 has a thousand.
    let fill = |connection: &Connection| {
        connection.execute_batch(
            "WITH RECURSIVE place (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM place LIMIT 9000)
             INSERT INTO deliveries (number, tenant, receiver, state, due_at, created_at)
             SELECT n, 'acme', CASE WHEN n % 9 = 0 THEN 2 ELSE 1 END,
                    CASE WHEN n % 9 < 5 AND n % 9 > 0 THEN 'delivered' ELSE 'pending' END,
                    CASE WHEN n % 9 = 0 OR n = 8 THEN 5000 WHEN n % 9 > 4 THEN 500000 END, 0
             FROM place;
             INSERT INTO contents SELECT number, 'key', 'subject', 'body' FROM deliveries;",
        )?;
        Ok(())
    };
    store.writer.run(fill).await.unwrap();
    for (wanted, count) in [(wanted(1, 100), 1), (wanted(2, 5), 5), (wanted(3, 100), 0)] {
        let [now, until] = [10, 20].map(|seconds| Timestamp::from_second(seconds).unwrap());
        let claim = move |connection: &Connection| {
            connection.prepare_cached(deliveries::DUE)?.reset_status(StatementStatus::VmStep);
            let claimed = deliveries::claim(connection, &[wanted], now, until)?.len();
            let due = connection.prepare_cached(deliveries::DUE)?;
            Ok((claimed, due.reset_status(StatementStatus::VmStep)))
        };
        let (claimed, steps) = store.writer.run(claim).await.unwrap();
        assert_eq!(claimed, count);
        assert!(steps < 300, "{steps} instructions for {count}");
    }
}

/// What holds up a type costs the same however much it holds up.
#[tokio::test]
async fn claiming_in_order_scans_nothing() {
    let (_directory, store) = open();
    // Type 1 waits for its first one; types 2 and 3 have three each that are due, and 1000 that are not.
    let fill = |connection: &Connection| {
        connection.execute_batch(
            "WITH RECURSIVE place (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM place LIMIT 9000)
             INSERT INTO deliveries (number, tenant, receiver, type_id, due_at, created_at)
             SELECT n, 'acme', 1, CASE WHEN n <= 7000 THEN 1 WHEN n <= 8000 THEN 2 ELSE 3 END,
                    CASE WHEN n = 1 OR n BETWEEN 7004 AND 8000 OR n > 8003 THEN 500000 ELSE 0 END,
                    0
             FROM place;
             INSERT INTO contents SELECT number, 'key', 'subject', 'body' FROM deliveries;
             INSERT INTO documents (delivery, type_id, period, serial, key_id)
             SELECT number, type_id, '', number, 0 FROM deliveries;",
        )?;
        Ok(())
    };
    store.writer.run(fill).await.unwrap();
    let claim = |connection: &Connection| {
        let [now, until] = [10, 20].map(|seconds| Timestamp::from_second(seconds).unwrap());
        let steps = || {
            let mut sum = 0;
            for sql in [deliveries::NEXT_TYPE, deliveries::IN_ORDER] {
                sum += connection.prepare_cached(sql)?.reset_status(StatementStatus::VmStep);
            }
            Ok::<_, rusqlite::Error>(sum)
        };
        steps()?;
        let wanted = Wanted { ordered: true, ..wanted(1, 100) };
        let claimed = deliveries::claim(connection, &[wanted], now, until)?;
        let numbers: Vec<i64> = claimed.iter().map(|delivery| delivery.id.number()).collect();
        Ok((numbers, steps()?))
    };
    let (numbers, steps) = store.writer.run(claim).await.unwrap();
    assert_eq!(numbers, [7001, 7002, 7003, 8001, 8002, 8003]);
    assert!(steps < 600, "{steps} instructions");
}

/// Whoever has the file can do anything, but no statement of ours changes a deed.
#[tokio::test]
async fn the_audit_log_refuses_changes() {
    let (_directory, store) = open();
    let deed = Deed {
        at: Timestamp::UNIX_EPOCH,
        key_id: 1,
        tenant: "acme".to_owned(),
        action: "batch.downloaded".to_owned(),
        subject: "17".to_owned(),
        detail: "{}".to_owned(),
    };
    store.record_deeds(std::slice::from_ref(&deed)).await.unwrap();
    for sql in ["UPDATE deeds SET key_id = 2", "DELETE FROM deeds"] {
        let refused = store.writer.run(|connection| Ok(connection.execute(sql, [])?)).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    }
    let filter = DeedFilter { limit: 10, ..DeedFilter::default() };
    assert_eq!(store.deeds(&filter).await.unwrap(), [(1, deed)]);
}
