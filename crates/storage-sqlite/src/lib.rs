#![doc = include_str!("../README.md")]

mod answers;
mod assigning;
mod audit;
pub mod baseline;
#[cfg(test)]
mod batch_tests;
mod batches;
mod checkpoints;
mod chunks;
mod claims;
mod codes;
mod counters;
mod dead_letters;
mod deliveries;
mod delivery_records;
mod documents;
mod draws;
mod epochs;
mod error;
mod events;
mod gap_lists;
mod gaps;
mod instances;
mod issues;
mod keys;
mod manifests;
mod open;
mod orders;
mod outbox;
#[cfg(test)]
mod outbox_tests;
mod ranges;
mod readers;
mod receivers;
mod reconciling;
mod reservations;
mod scan_contexts;
mod scan_keys;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod writer;

use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use storage::{Result, Store};

pub use error::OpenError;

use checkpoints::Checkpoints;
use error::StepResult;
use instances::Joined;
use open::Opened;
use readers::Readers;
use writer::Writer;

/// The embedded store: a directory that one process uses.
pub struct SqliteStore {
    // Dropped in this order: the last connection that closes tidies the files up, and only the
    // writer may.
    readers: Readers,
    writer: Writer,
    joined: Joined,
    /// When the process before this one has last written.
    last_written: Option<Timestamp>,
}

impl SqliteStore {
    /// Opens a directory and makes it if it is missing. It is locked until the store is closed or
    /// dropped.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let Opened { file, writer, lock, last_written } = open::open(directory)?;
        let checkpoints = Checkpoints::start(&file)
            .map_err(|source| OpenError::Database { file: file.clone(), source })?;
        let writer = Writer::start(writer, checkpoints, lock)
            .map_err(|source| OpenError::NotWritable { directory: directory.to_owned(), source })?;
        Ok(Self { readers: Readers::new(file), writer, joined: Joined::default(), last_written })
    }
}

/// Counts a change of types, tenants, keys or receivers, in the transaction that makes it.
fn bump_catalogue(connection: &Connection) -> StepResult<()> {
    connection
        .prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'catalogue_version'")?
        .execute([])?;
    Ok(())
}

#[async_trait]
impl Store for SqliteStore {
    async fn check(&self) -> Result<()> {
        // Only a real write notices that the disk is full.
        self.writer
            .run(|connection| {
                connection
                    .prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'probe'")?
                    .execute([])?;
                Ok(())
            })
            .await
    }

    async fn catalogue_version(&self) -> Result<u64> {
        self.readers
            .run(|connection| {
                let version = connection
                    .prepare_cached("SELECT value FROM meta WHERE name = 'catalogue_version'")?
                    .query_one([], |row| row.get(0))?;
                Ok(version)
            })
            .await
    }

    async fn close(&self) -> Result<()> {
        self.readers.close();
        self.writer.close().await;
        Ok(())
    }
}
