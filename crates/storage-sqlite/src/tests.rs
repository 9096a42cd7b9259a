//! What is special to this store: the group commit, a full disk, unreadable rows.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use rusqlite::StatementStatus;
use storage::{
    CounterStore, Draw, Issue, IssueGroup, IssueStore, Result, Span, Store, StoreError, TypeId,
    TypeStore,
};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::{self, JoinHandle};

use crate::error::{StepResult, corrupt};
use crate::{SqliteStore, gap_lists, issues, reconciling};

pub(crate) fn open() -> (TempDir, Arc<SqliteStore>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
    (directory, store)
}

pub(crate) async fn new_type(store: &SqliteStore) -> TypeId {
    let kind = Kind::Sequence(SequenceSpec::default());
    let id_type = IdType::new("acme", "order", kind).unwrap();
    store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await.unwrap().id
}

fn order(type_id: TypeId, period: &str) -> Draw<'_> {
    let now = Timestamp::UNIX_EPOCH;
    Draw { type_id, period, count: 10, bounds: (0, SERIAL_MAX), holder: "me", revision: 0, now }
}

/// Runs a step in a task of its own.
fn spawn<T: Send + 'static>(
    store: &Arc<SqliteStore>,
    step: impl FnOnce(&rusqlite::Connection) -> StepResult<T> + Send + 'static,
) -> JoinHandle<Result<T>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.writer.run(step).await })
}

fn spawn_draw(store: &Arc<SqliteStore>, id: TypeId) -> JoinHandle<Result<std::ops::Range<u64>>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.draw(order(id, "")).await })
}

/// A step that keeps the writer busy, so that the steps behind it form one group.
struct Gate(mpsc::Sender<()>, JoinHandle<Result<()>>);

impl Gate {
    async fn shut(store: &Arc<SqliteStore>) -> Self {
        let (open, opened) = mpsc::channel();
        let (arrived, arrival) = oneshot::channel();
        let busy = spawn(store, move |_| {
            arrived.send(()).unwrap();
            opened.recv().unwrap();
            Ok(())
        });
        arrival.await.unwrap();
        Self(open, busy)
    }

    /// Opens when so many steps wait.
    async fn open(self, store: &SqliteStore, steps: usize) {
        while store.writer.waiting() < steps {
            task::yield_now().await;
        }
        self.0.send(()).unwrap();
        self.1.await.unwrap().unwrap();
    }
}

fn write_probe(connection: &rusqlite::Connection) -> StepResult<()> {
    connection.execute("UPDATE meta SET value = 99 WHERE name = 'probe'", [])?;
    Ok(())
}

async fn probe(store: &SqliteStore) -> i64 {
    let sql = "SELECT value FROM meta WHERE name = 'probe'";
    let read =
        |connection: &rusqlite::Connection| Ok(connection.query_row(sql, [], |row| row.get(0))?);
    store.readers.run(read).await.unwrap()
}

#[tokio::test]
async fn a_step_that_fails_is_undone_alone() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    let gate = Gate::shut(&store).await;
    let first = spawn_draw(&store, id);
    let failing = spawn(&store, |connection| {
        write_probe(connection)?;
        Err::<(), _>(corrupt("on purpose"))
    });
    let panicking = spawn(&store, |connection| {
        write_probe(connection)?;
        if connection.is_autocommit() { Ok(()) } else { panic!("on purpose") }
    });
    let last = spawn_draw(&store, id);
    gate.open(&store, 4).await;
    assert_eq!(first.await.unwrap().unwrap(), 0..10);
    assert!(matches!(failing.await.unwrap(), Err(StoreError::Corrupt(_))));
    let panicked = panicking.await.unwrap().unwrap_err();
    assert!(panicked.is_unavailable() && panicked.to_string().contains("on purpose"));
    assert_eq!(last.await.unwrap().unwrap(), 10..20);
    assert_eq!(probe(&store).await, 0);
}

/// A reference to nothing that is only noticed by the commit.
fn doom_commit(connection: &rusqlite::Connection) -> StepResult<()> {
    connection.execute_batch(
        "PRAGMA defer_foreign_keys = 1;
         INSERT INTO counters (type_id, period, next) VALUES (999, '', 0);",
    )?;
    Ok(())
}

#[tokio::test]
async fn a_failed_commit_fails_its_group_and_the_writer_goes_on() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    for _ in 0..3 {
        let gate = Gate::shut(&store).await;
        let first = spawn_draw(&store, id);
        let doomed = spawn(&store, doom_commit);
        let last = spawn_draw(&store, id);
        gate.open(&store, 3).await;
        assert!(first.await.unwrap().unwrap_err().is_unavailable());
        assert!(doomed.await.unwrap().unwrap_err().is_unavailable());
        assert!(last.await.unwrap().unwrap_err().is_unavailable());
        assert_eq!(store.counters(id).await.unwrap(), []);
    }
    assert_eq!(store.draw(order(id, "")).await.unwrap(), 0..10);
}

/// Some errors end the whole transaction in the middle of a group.
#[tokio::test]
async fn a_transaction_that_ends_early_fails_its_group_and_the_writer_goes_on() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    let gate = Gate::shut(&store).await;
    let first = spawn_draw(&store, id);
    let ending = spawn(&store, |connection| {
        connection.execute_batch("ROLLBACK")?;
        Ok(())
    });
    let last = spawn_draw(&store, id);
    gate.open(&store, 3).await;
    let error = first.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("another step"), "{error}");
    assert!(ending.await.unwrap().unwrap_err().is_unavailable());
    assert!(last.await.unwrap().unwrap_err().is_unavailable());
    assert_eq!(store.draw(order(id, "")).await.unwrap(), 0..10);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_its_step_whole() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    let gate = Gate::shut(&store).await;
    let abandoned = spawn_draw(&store, id);
    while store.writer.waiting() < 1 {
        task::yield_now().await;
    }
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    gate.open(&store, 1).await;
    assert_eq!(store.draw(order(id, "")).await.unwrap(), 10..20);
    let now = Timestamp::UNIX_EPOCH;
    let lost = store.close_lost_draws("another", Duration::ZERO, now).await.unwrap();
    assert_eq!(lost.gaps[0].span.serials, 0..10, "it was drawn, and nobody has accounted for it");
}

#[tokio::test]
async fn what_waits_is_done_before_the_store_closes() {
    let (directory, store) = open();
    let id = new_type(&store).await;
    let gate = Gate::shut(&store).await;
    let drawn = spawn_draw(&store, id);
    while store.writer.waiting() < 1 {
        task::yield_now().await;
    }
    let closing = Arc::clone(&store);
    let closed = tokio::spawn(async move { closing.close().await });
    gate.open(&store, 2).await;
    closed.await.unwrap().unwrap();
    assert_eq!(drawn.await.unwrap().unwrap(), 0..10);
    let again = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(again.counters(id).await.unwrap(), [(String::new(), 10)]);
}

/// Limits the pages of the file. When they are used up, the errors are those of a full disk.
async fn limit_pages(store: &SqliteStore, more: Option<i64>) {
    store
        .writer
        .run(move |connection| {
            let pages = |pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
            let limit = more
                .map_or(Ok(1_i64 << 30), |more| pages("page_count").map(|now: i64| now + more))?;
            connection.pragma_update_and_check(None, "max_page_count", limit, |_| Ok(()))?;
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_disk_is_unavailable_until_there_is_room() {
    let (directory, store) = open();
    let id = new_type(&store).await;
    limit_pages(&store, Some(3)).await;
    let mut drawn = Vec::new();
    let error = loop {
        // Every period is a row of its own, so the file has to grow before long.
        let period = format!("{:0100}", drawn.len());
        match store.draw(order(id, &period)).await {
            Ok(range) => drawn.push((period, range.end)),
            Err(error) => break error,
        }
        assert!(drawn.len() < 10_000);
    };
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert!(!drawn.is_empty());
    assert_eq!(store.counters(id).await.unwrap(), drawn, "reading goes on");
    let next = format!("{:0100}", drawn.len());
    assert!(store.draw(order(id, &next)).await.unwrap_err().is_unavailable());

    limit_pages(&store, None).await;
    assert_eq!(store.draw(order(id, &next)).await.unwrap(), 0..10);
    drawn.push((next, 10));
    drop(store);
    let store = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(store.counters(id).await.unwrap(), drawn);
}

#[tokio::test]
async fn unreadable_rows_are_reported() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    store.draw(order(id, "")).await.unwrap();
    let issues = vec![Issue { first: 0, last: 9, key_id: 0, at_ms: 0 }];
    let span = Span { type_id: id, period: String::new(), serials: 0..10 };
    store.record_issues(&[IssueGroup { span, issues }]).await.unwrap();
    store
        .writer
        .run(|connection| {
            connection.execute_batch(
                "UPDATE issue_log SET entries = x'ff00'; UPDATE id_types SET spec = 'nonsense';",
            )?;
            Ok(())
        })
        .await
        .unwrap();
    let found = store.find_issues(id, None, 5).await;
    assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
    let listed = store.list_types().await;
    assert!(matches!(listed, Err(StoreError::Corrupt(_))), "{listed:?}");
    store.draw(order(id, "")).await.unwrap();
}

/// Instructions that were executed for the statements that look for a serial.
fn instructions(connection: &rusqlite::Connection) -> StepResult<i32> {
    let mut sum = 0;
    for sql in [issues::NEXT_WIDTH, issues::NEXT_PERIOD, issues::FIND_IN_CLASS, gap_lists::FIND] {
        sum += connection.prepare_cached(sql)?.reset_status(StatementStatus::VmStep);
    }
    Ok(sum)
}

/// Looking for a serial costs the same in a short log and in a long one.
#[tokio::test]
async fn looking_for_a_serial_scans_nothing() {
    const GROUPS: u64 = 5_000;
    let (_directory, store) = open();
    let id = new_type(&store).await;
    store.draw(Draw { count: 20 * GROUPS, ..order(id, "") }).await.unwrap();
    // Ten serials are issued and the next ten are lost, over and over.
    let groups: Vec<_> = (0..GROUPS)
        .map(|number| {
            let first = number * 20;
            let issues = vec![Issue { first, last: first + 9, key_id: 0, at_ms: 0 }];
            let serials = first..first + 10;
            IssueGroup { span: Span { type_id: id, period: String::new(), serials }, issues }
        })
        .collect();
    store.record_issues(&groups).await.unwrap();
    store.close_lost_draws("another", Duration::ZERO, Timestamp::UNIX_EPOCH).await.unwrap();
    for number in [0, 1, GROUPS / 2, GROUPS - 1, GROUPS] {
        for (serial, period) in [(number * 20 + 5, None), (number * 20 + 15, Some(""))] {
            let look = move |connection: &rusqlite::Connection| {
                instructions(connection)?;
                let issues = issues::find(connection, id, period, serial)?.len();
                let gaps = gap_lists::find(connection, id, period, serial)?.len();
                Ok((issues + gaps, instructions(connection)?))
            };
            let (found, instructions) = store.readers.run(look).await.unwrap();
            assert_eq!(found, usize::from(number < GROUPS));
            assert!(instructions < 300, "{instructions} instructions for serial {serial}");
        }
    }
}

/// Looking at serials costs the same at the beginning of a long log and at its end.
#[tokio::test]
async fn reconciling_reads_only_what_it_looks_at() {
    let (_directory, store) = open();
    let id = new_type(&store).await;
    // Of every fifty serials, ten each are issued, rejected, lost, made by a batch, and held.
    let fill = |connection: &rusqlite::Connection| {
        connection.execute_batch(
            "WITH RECURSIVE place (n) AS (SELECT 0 UNION ALL SELECT n + 50 FROM place LIMIT 5000)
             INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
             SELECT 1, '', n, n + 10, 'crash', 0, '' FROM place;
             INSERT INTO issue_log SELECT 1, '', 3, start + 10, start + 20, x'' FROM gaps;
             INSERT INTO rejected SELECT 1, '', start + 20, start + 30 FROM gaps;
             INSERT INTO draws SELECT 1, '', start + 40, start + 30, 'me', 0 FROM gaps;
             INSERT INTO batches (id, tenant, type_id, start, stop, chunk_serials, derived, state,
                 key_id, created_at)
             SELECT id, 'acme', 1, start + 40, start + 50, 10, 0, 'completed', 0, 0 FROM gaps;",
        )?;
        Ok(())
    };
    store.writer.run(fill).await.unwrap();
    for start in [0, 5, 120_000, 249_900] {
        let look = move |connection: &rusqlite::Connection| {
            let steps = || {
                let mut sum = 0;
                for sql in [
                    reconciling::LOG,
                    reconciling::DRAWS,
                    reconciling::GAPS,
                    reconciling::REJECTED,
                    reconciling::BATCHES,
                ] {
                    sum += connection.prepare_cached(sql)?.reset_status(StatementStatus::VmStep);
                }
                Ok::<_, rusqlite::Error>(sum)
            };
            steps()?;
            let span = Span { type_id: id, period: String::new(), serials: start..start + 100 };
            Ok((reconciling::unexplained(connection, &span)?, steps()?))
        };
        let (missing, steps) = store.readers.run(look).await.unwrap();
        assert_eq!(missing, []);
        assert!(steps < 600, "{steps} instructions from {start} on");
    }
}
