//! The bare way of writing the rows of codes, for benchmarks to compare with: one binary COPY.

use std::time::{Duration, Instant};

use futures_util::SinkExt as _;
use storage::BatchId;
use tokio_postgres::NoTls;

use crate::codes::copy_pieces;

/// Writes so many rows into a new table and says how long that took.
pub async fn bare_copy(url: &str, rows: u64) -> Result<Duration, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "DROP TABLE IF EXISTS mintage_baseline;
             CREATE TABLE mintage_baseline (
                 serial           bigint PRIMARY KEY,
                 id               bigint NOT NULL,
                 scans            bigint NOT NULL DEFAULT 0,
                 first_scanned_at timestamptz,
                 void_at          timestamptz,
                 void_reason      text
             )",
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
