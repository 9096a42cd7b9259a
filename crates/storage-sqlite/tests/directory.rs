//! Opening data directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use idgen::spec::{IdType, Kind, SequenceSpec};
use jiff::Timestamp;
use storage::{
    AnswerClaim, AnswerKey, AnswerStore, BatchId, BatchState, BatchStore, ClaimTerms, Claimant,
    CounterStore, Draw, IssueStore, OutboxStore, TypeId, TypeStore, WorkerName, always,
};
use storage_sqlite::{OpenError, SqliteStore};
use storage_tests::check_marks;
use tempfile::TempDir;

fn temporary() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deep").join("data");
    (parent, directory)
}

fn refusal(directory: &Path) -> OpenError {
    SqliteStore::open(directory).err().expect("it is refused")
}

fn with_file(directory: &Path, change: impl FnOnce(&rusqlite::Connection)) {
    change(&rusqlite::Connection::open(directory.join("mintage.db")).unwrap());
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let (_parent, directory) = temporary();
    drop(SqliteStore::open(&directory).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
    drop(SqliteStore::open(&directory).unwrap());
}

#[tokio::test]
async fn a_second_store_is_refused_while_the_first_lives() {
    let (_parent, directory) = temporary();
    let first = SqliteStore::open(&directory).unwrap();
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let expected =
        format!("the data directory {} is in use by another mintage process", directory.display());
    assert_eq!(error.to_string(), expected);
    drop(first);
    let second = SqliteStore::open(&directory).unwrap();
    storage::Store::close(&second).await.unwrap();
    drop(SqliteStore::open(&directory).unwrap());
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let (parent, _) = temporary();
    let file = parent.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for directory in [file.clone(), file.join("data")] {
        let error = refusal(&directory);
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (_parent, directory) = temporary();
    drop(SqliteStore::open(&directory).unwrap());
    with_file(&directory, |connection| {
        connection.pragma_update(None, "user_version", 1000).unwrap();
    });
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NewerSchema { found: 1000, .. }), "{error:?}");
    with_file(&directory, |connection| {
        let version: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 1000);
    });
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let (_parent, directory) = temporary();
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("mintage.db"), "a letter to my landlord\n".repeat(100)).unwrap();
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let (_parent, directory) = temporary();
    fs::create_dir_all(&directory).unwrap();
    with_file(&directory, |connection| {
        connection.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    });
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
}

/// A file as the first release has left it after a crash: a type, a draw, a node and a claim.
fn write_first_release(directory: &Path) {
    let id_type = IdType::new("acme", "order", Kind::Sequence(SequenceSpec::default())).unwrap();
    let spec = serde_json::to_string(&id_type).unwrap();
    fs::create_dir_all(directory).unwrap();
    with_file(directory, |connection| {
        connection.execute_batch(include_str!("../migrations/0001_first_tables.sql")).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        connection.execute("INSERT INTO tenants VALUES ('acme', NULL, 0)", []).unwrap();
        connection
            .execute("INSERT INTO id_types VALUES (7, 'acme', 'order', ?1, x'', 0, 1, 0)", [spec])
            .unwrap();
        connection
            .execute_batch(
                "INSERT INTO counters VALUES (7, '', 30);
                 INSERT INTO draws VALUES (7, '', 30, 10, 'old run', 0);
                 INSERT INTO nodes VALUES (0, 'old run', 5000);
                 INSERT INTO answers (scope, key, body_hash, claimed_at)
                 VALUES ('scope', 'key', zeroblob(32), 0);",
            )
            .unwrap();
    });
}

#[tokio::test]
async fn a_file_of_the_first_release_goes_on() {
    let (_parent, directory) = temporary();
    write_first_release(&directory);
    let now = Timestamp::UNIX_EPOCH;
    let store = SqliteStore::open(&directory).unwrap();
    let types = store.list_types().await.unwrap();
    assert_eq!((types.len(), types[0].id, types[0].revision), (1, TypeId(7), 0));

    let lost = store.close_lost_draws("new run", Duration::ZERO, now).await.unwrap();
    assert_eq!(lost.gone, ["old run"]);
    assert_eq!(lost.gaps[0].span.serials, 10..30);
    let (bounds, holder) = ((0, 1000), "new run");
    let order = Draw { type_id: TypeId(7), period: "", count: 5, bounds, holder, revision: 0, now };
    assert_eq!(store.draw(order).await.unwrap(), 30..35);
    // What the log of that release does not tell is not taken for lost.
    let looked = store.reconcile(TypeId(7), 1000, now).await.unwrap();
    assert_eq!((looked.serials, looked.found), (5, vec![]));

    // Nobody can release the claim any more, so it must not wait until it is stale.
    let key = AnswerKey { scope: "scope".to_owned(), key: "key".to_owned() };
    let claimant = Claimant { instance: "new run".to_owned(), number: 0 };
    let claim = store.claim_answer(&key, &[0; 32], &claimant, now, now).await.unwrap();
    assert_eq!(claim, AnswerClaim::New);
}

/// A file as the release with the first batches has left it after a crash: of three chunks one is
/// with a worker, one waits after a failure, and one was not begun.
fn write_third_release(directory: &Path) {
    write_first_release(directory);
    with_file(directory, |connection| {
        let migrations = [
            include_str!("../migrations/0002_revisions_and_holders.sql"),
            include_str!("../migrations/0003_batches.sql"),
        ];
        for migration in migrations {
            connection.execute_batch(migration).unwrap();
        }
        connection.pragma_update(None, "user_version", 3).unwrap();
        connection
            .execute_batch(
                "INSERT INTO batch_tenants VALUES ('acme', 3, 0);
                 INSERT INTO batches (id, tenant, type_id, start, stop, chunk_serials, derived,
                     state, key_id, created_at, started_at)
                 VALUES (1000, 'acme', 7, 30, 33, 1, 0, 'running', 0, 0, 0);
                 INSERT INTO chunks (batch, number, state, attempts, token, since, worker)
                 VALUES (1000, 0, 'claimed', 2, 2, 0, 'old run'),
                        (1000, 1, 'waiting', 1, 2, 0, 'old run'),
                        (1000, 2, 'ready', 0, 0, NULL, NULL);",
            )
            .unwrap();
    });
}

/// The same with codes that something has happened to: of four, one was scanned, one is void and was
/// scanned, one is void.
fn write_marks_of_third_release(directory: &Path) {
    with_file(directory, |connection| {
        connection
            .execute_batch(
                "INSERT INTO batches (id, tenant, type_id, start, stop, chunk_serials, derived,
                     state, made, key_id, created_at, started_at)
                 VALUES (2000, 'acme', 7, 40, 44, 4, 0, 'completed', 4, 0, 0, 0);
                 CREATE TABLE codes_7_0 (
                     serial           INTEGER PRIMARY KEY,
                     id               INTEGER NOT NULL,
                     scans            INTEGER NOT NULL DEFAULT 0,
                     first_scanned_at INTEGER,
                     void_at          INTEGER,
                     void_reason      TEXT
                 ) STRICT;
                 INSERT INTO codes_7_0 VALUES
                     (40, 1, 0, NULL, NULL, NULL), (41, 2, 3, 1000, NULL, NULL),
                     (42, 3, 1, 2000, 3000, 'stolen'), (43, 4, 0, NULL, 4000, 'lost');",
            )
            .unwrap();
    });
}

#[tokio::test]
async fn what_happened_to_codes_under_an_earlier_release_is_kept() {
    let (_parent, directory) = temporary();
    write_third_release(&directory);
    write_marks_of_third_release(&directory);
    let store = SqliteStore::open(&directory).unwrap();
    check_marks(&store, TypeId(7), BatchId(2000)).await;
}

#[tokio::test]
async fn the_batches_of_an_earlier_release_go_on() {
    let (_parent, directory) = temporary();
    write_third_release(&directory);
    let store = SqliteStore::open(&directory).unwrap();
    assert_eq!(store.batch(BatchId(1000)).await.unwrap().unwrap().notify, None);
    assert_eq!(store.release_lost_chunks("new run").await.unwrap(), 1);
    let now = Timestamp::UNIX_EPOCH;
    let terms = ClaimTerms { silent: Duration::from_secs(1800), attempts_max: 3, now };
    for (number, attempt) in [(0, 3), (1, 2), (2, 1)] {
        let worker = WorkerName { instance: "new run".to_owned(), number: 0 };
        let chunk = store.claim_chunk(&worker, None, terms).await.unwrap().unwrap();
        assert_eq!((chunk.number, chunk.attempt), (number, attempt));
        assert!(store.finish_chunk(&chunk, always(now)).await.unwrap());
    }
    let events = store.events(10).await.unwrap();
    assert_eq!((events.len(), events[0].state), (1, BatchState::Completed));
}
