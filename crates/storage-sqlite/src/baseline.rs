//! The bare way of writing the rows of codes, for benchmarks to compare with: prepared inserts, with
//! the durability and in transactions of the size that the store uses.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Rows of a transaction.
const TRANSACTION_ROWS: u64 = 100_000;

/// Writes so many rows into a new file and says how long that took.
pub fn bare_inserts(directory: &Path, rows: u64) -> rusqlite::Result<Duration> {
    let connection = Connection::open(directory.join("baseline.db"))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS codes;
         CREATE TABLE codes (serial INTEGER PRIMARY KEY, id INTEGER NOT NULL) STRICT",
    )?;
    let started = Instant::now();
    let mut first = 0;
    while first < rows {
        let end = rows.min(first + TRANSACTION_ROWS);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert =
            connection.prepare_cached("INSERT INTO codes (serial, id) VALUES (?1, ?2)")?;
        for serial in first..end {
            insert.execute([serial, serial])?;
        }
        connection.execute_batch("COMMIT")?;
        first = end;
    }
    Ok(started.elapsed())
}
