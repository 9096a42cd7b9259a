//! Batches and chunks as rows.

use std::time::Duration;

use jiff::Timestamp;
use storage::{Batch, BatchId, BatchState, Chunk, DeadChunk, Ledger, Result, TypeId, Void};
use tokio_postgres::Row;

use crate::error::corrupt;
use crate::spans::{read_serial, read_serials};
use crate::time::Time;

/// Every column that is read of a batch. They are named, because a later release may add some while
/// this one has its statements prepared.
const COLUMNS: [&str; 22] = [
    "id",
    "type_id",
    "start",
    "stop",
    "chunk_serials",
    "ledger",
    "state",
    "made",
    "abandoned",
    "dead_chunks",
    "error",
    "name",
    "metadata",
    "notify",
    "key_id",
    "created_at",
    "started_at",
    "finished_at",
    "idle_since",
    "idle_ms",
    "recalled_at",
    "recall_reason",
];

/// The columns of a batch for a statement.
pub(crate) fn columns() -> String {
    COLUMNS.join(", ")
}

pub(super) fn ledger_name(ledger: Ledger) -> &'static str {
    match ledger {
        Ledger::Stored => "stored",
        Ledger::Derived => "derived",
    }
}

/// How the codes of the batch in a row are remembered.
pub(crate) fn read_ledger(row: &Row) -> Result<Ledger> {
    let name: &str = row.get("ledger");
    [Ledger::Stored, Ledger::Derived]
        .into_iter()
        .find(|known| ledger_name(*known) == name)
        .ok_or_else(|| corrupt(format!("a batch has the unknown ledger {name:?}")))
}

fn read_time(row: &Row, column: &str) -> Option<Timestamp> {
    row.get::<_, Option<Time>>(column).map(|time| time.0)
}

/// Something that became void, if it did.
pub(crate) fn read_void(row: &Row, at: &str, reason: &str) -> Option<Void> {
    let reason: Option<String> = row.get(reason);
    read_time(row, at).map(|at| Void { at, reason: reason.unwrap_or_default() })
}

pub(crate) fn read_batch(row: &Row) -> Result<Batch> {
    let id = BatchId(row.get("id"));
    let state: &str = row.get("state");
    Ok(Batch {
        id,
        type_id: TypeId(row.get("type_id")),
        serials: read_serials(row)?,
        chunk_serials: read_serial(row.get("chunk_serials"))?,
        ledger: read_ledger(row)?,
        state: BatchState::ALL
            .into_iter()
            .find(|known| known.name() == state)
            .ok_or_else(|| corrupt(format!("batch {} is in the state {state:?}", id.0)))?,
        made: read_serial(row.get("made"))?,
        abandoned: read_serial(row.get("abandoned"))?,
        dead_chunks: read_serial(row.get("dead_chunks"))?,
        error: row.get("error"),
        name: row.get("name"),
        metadata: row.get("metadata"),
        notify: row.get("notify"),
        key_id: row.get("key_id"),
        created_at: row.get::<_, Time>("created_at").0,
        started_at: read_time(row, "started_at"),
        finished_at: read_time(row, "finished_at"),
        idle_since: read_time(row, "idle_since"),
        idle: Duration::from_millis(read_serial(row.get("idle_ms"))?),
        recalled: read_void(row, "recalled_at", "recall_reason"),
    })
}

fn read_attempts(row: &Row) -> Result<u32> {
    let attempts: i32 = row.get("attempts");
    u32::try_from(attempts).map_err(|_| corrupt("a chunk has negative attempts"))
}

pub(super) fn read_chunk(row: &Row) -> Result<Chunk> {
    Ok(Chunk {
        batch: BatchId(row.get("batch_id")),
        type_id: TypeId(row.get("type_id")),
        number: read_serial(row.get("number"))?,
        serials: read_serials(row)?,
        position: read_serial(row.get("position"))?,
        attempt: read_attempts(row)?,
        token: row.get("token"),
    })
}

pub(super) fn read_dead(row: &Row) -> Result<DeadChunk> {
    Ok(DeadChunk {
        batch: BatchId(row.get("batch_id")),
        type_id: TypeId(row.get("type_id")),
        number: read_serial(row.get("number"))?,
        serials: read_serials(row)?,
        attempts: read_attempts(row)?,
        error: row.get::<_, Option<String>>("error").unwrap_or_default(),
        died_at: row.get::<_, Time>("died_at").0,
    })
}
