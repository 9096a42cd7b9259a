//! Epochs of shared pools.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StepResult;
use crate::time::Millis;

/// The epoch that is in force, and its server.
pub(crate) fn current(connection: &Connection) -> StepResult<Option<(u64, String)>> {
    let current = connection
        .prepare_cached("SELECT epoch, server FROM pool_epochs ORDER BY epoch DESC LIMIT 1")?
        .query_one([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(current)
}

/// The epoch of a server, which begins with this if it is not the current one.
pub(crate) fn of_server(connection: &Connection, server: &str, now: Timestamp) -> StepResult<u64> {
    match current(connection)? {
        Some((epoch, of)) if of == server => Ok(epoch),
        _ => {
            let epoch = connection
                .prepare_cached(
                    "INSERT INTO pool_epochs (server, began_at) VALUES (?1, ?2) RETURNING epoch",
                )?
                .query_one(params![server, Millis(now)], |row| row.get(0))?;
            Ok(epoch)
        }
    }
}
