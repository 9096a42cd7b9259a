//! Opening a data directory: the lock, the file and its schema.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::checkpoints::LOG_PAGES_MAX;
use crate::codes;
use crate::error::OpenError;

const DATABASE: &str = "mintage.db";
const LOCK: &str = "mintage.lock";

/// One step of the schema.
type Migration = fn(&Connection) -> rusqlite::Result<()>;

/// Each migration in its place: the first makes version 1 of an empty file.
const MIGRATIONS: [Migration; 14] = [
    |file| file.execute_batch(include_str!("../migrations/0001_first_tables.sql")),
    |file| file.execute_batch(include_str!("../migrations/0002_revisions_and_holders.sql")),
    |file| file.execute_batch(include_str!("../migrations/0003_batches.sql")),
    |file| file.execute_batch(include_str!("../migrations/0004_outbox.sql")),
    codes::move_marks,
    |file| file.execute_batch(include_str!("../migrations/0006_documents.sql")),
    |file| file.execute_batch(include_str!("../migrations/0007_losses.sql")),
    |file| file.execute_batch(include_str!("../migrations/0008_manifests.sql")),
    |file| file.execute_batch(include_str!("../migrations/0009_idle_batches.sql")),
    |file| file.execute_batch(include_str!("../migrations/0010_failures.sql")),
    |file| file.execute_batch(include_str!("../migrations/0011_scan_keys.sql")),
    |file| file.execute_batch(include_str!("../migrations/0012_events_and_pace.sql")),
    |file| file.execute_batch(include_str!("../migrations/0013_tenant_limits.sql")),
    |file| file.execute_batch(include_str!("../migrations/0014_scan_contexts.sql")),
];

/// As in the first migration. Zero in a file that nobody has claimed.
const APPLICATION_ID: i64 = 0x4d4e_5447;

/// Nothing of ours keeps the file locked for long. This is for a person who looks at it with
/// another tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More distinct statements than the store has, with those for a few dozen tables of codes.
const STATEMENTS_MAX: usize = 256;

/// A write-ahead log that has grown beyond this in a burst is cut back to it.
const LOG_BYTES_MAX: i64 = 64 << 20;

/// An open data directory.
pub(crate) struct Opened {
    pub(crate) file: PathBuf,
    pub(crate) writer: Connection,
    /// Held as long as this exists. The system lets go of it when the process ends, however it
    /// ends.
    pub(crate) lock: File,
    /// When whoever had it open before has last written.
    pub(crate) last_written: Option<Timestamp>,
}

/// Opens a data directory for this process alone, and makes what is missing.
pub(crate) fn open(directory: &Path) -> Result<Opened, OpenError> {
    let not_writable = |source| OpenError::NotWritable { directory: directory.to_owned(), source };
    make_directory(directory).map_err(not_writable)?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(LOCK))
        .map_err(not_writable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(OpenError::InUse { directory: directory.to_owned() });
        }
        Err(TryLockError::Error(source)) => return Err(not_writable(source)),
    }
    let file = directory.join(DATABASE);
    let last_written = last_written(&file);
    let mut writer = open_writer(&file).map_err(|error| explain(&file, error))?;
    migrate(&mut writer, &file)?;
    Ok(Opened { file, writer, lock, last_written })
}

/// When a database was last written to, which is when its log was, where it was not closed.
fn last_written(file: &Path) -> Option<Timestamp> {
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let times = [modified(&file.with_extension("db-wal")), modified(file)];
    let since_1970 = times.into_iter().flatten().max()?.duration_since(UNIX_EPOCH).ok()?;
    Timestamp::from_millisecond(i64::try_from(since_1970.as_millis()).ok()?).ok()
}

/// Opens one more connection, which only reads.
pub(crate) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    // Without this a power failure could take the whole directory, and the counters would start
    // again.
    #[cfg(unix)]
    if let Some(parent) = directory.canonicalize()?.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn open_writer(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "foreign_keys", true)?;
    // FULL: a commit is on the disk before it returns, also in a power failure.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES_MAX, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX, |_| Ok(()))?;
    Ok(connection)
}

/// Brings the schema up to date, one transaction for each step. Never goes back.
fn migrate(connection: &mut Connection, file: &Path) -> Result<(), OpenError> {
    let found = version(connection, file)?;
    let known = i64::try_from(MIGRATIONS.len()).expect("there are few migrations");
    if found > known {
        return Err(OpenError::NewerSchema { file: file.to_owned(), found, known });
    }
    let done =
        usize::try_from(found).map_err(|_| OpenError::NotADatabase { file: file.to_owned() })?;
    for (number, migration) in (1_i64..).zip(MIGRATIONS).skip(done) {
        apply(connection, number, migration).map_err(|error| explain(file, error))?;
    }
    Ok(())
}

/// The schema version of a file of ours, 0 for an empty one.
fn version(connection: &Connection, file: &Path) -> Result<i64, OpenError> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let found = || {
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((read("application_id")?, read("user_version")?, tables))
    };
    match found().map_err(|error| explain(file, error))? {
        (APPLICATION_ID, version, _) => Ok(version),
        (0, 0, 0) => Ok(0),
        _ => Err(OpenError::NotADatabase { file: file.to_owned() }),
    }
}

fn apply(connection: &mut Connection, number: i64, migration: Migration) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migration(&transaction)?;
    transaction.pragma_update(None, "user_version", number)?;
    transaction.commit()
}

fn explain(file: &Path, source: rusqlite::Error) -> OpenError {
    let file = file.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { file },
        _ => OpenError::Database { file, source },
    }
}
