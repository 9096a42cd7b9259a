//! What benchmarks need beside the store: the bare way of writing the rows of codes to compare with,
//! which is one binary COPY, and a quiet database.

use std::time::{Duration, Instant};

use futures_util::SinkExt as _;
use storage::BatchId;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::codes::copy_pieces;

/// Writes so many rows into a new table and says how long that took.
pub async fn bare_copy(url: &str, rows: u64) -> Result<Duration, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "DROP TABLE IF EXISTS mintage_baseline;
             CREATE TABLE mintage_baseline (serial bigint PRIMARY KEY, id bigint NOT NULL)",
        )
        .await?;
    let started = Instant::now();
    let sink =
        client.copy_in("COPY mintage_baseline (serial, id) FROM STDIN (FORMAT binary)").await?;
    let mut sink = std::pin::pin!(sink);
    for piece in copy_pieces(BatchId(0), 0..rows, 0) {
        sink.feed(piece).await?;
    }
    sink.finish().await?;
    let took = started.elapsed();
    client.batch_execute("DROP TABLE mintage_baseline").await?;
    Ok(took)
}

/// Has the server do now what it would do sooner or later about rows that are new, so that it does not do
/// so while something else is measured.
/// False if we are not allowed to: that takes the role `pg_checkpoint`.
pub async fn write_out(url: &str) -> Result<bool, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    // Each by itself: together they would be one transaction, in which neither is possible.
    client.batch_execute("VACUUM (ANALYZE)").await?;
    match client.batch_execute("CHECKPOINT").await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
        Err(error) => Err(error),
    }
}
