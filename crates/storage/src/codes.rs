//! Codes: what happens to a single one after it was made.

use std::ops::Range;

use async_trait::async_trait;
use idgen::spec::Ledger;
use jiff::Timestamp;

use crate::batch_id::BatchId;
use crate::batches::Void;
use crate::{Result, TypeId};

/// Most codes in one table. A serial is in the table of its number divided by this.
pub const CODES_PER_TABLE: u64 = 5_000_000;

/// Where a batch is among the serials of its type. None of it ever changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRange {
    /// The batch.
    pub id: BatchId,
    /// The serials of its codes.
    pub serials: Range<u64>,
    /// How its codes are remembered.
    pub ledger: Ledger,
}

/// One code of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeKey {
    /// The type.
    pub type_id: TypeId,
    /// The batch that it was ordered with.
    pub batch: BatchId,
    /// How the batch remembers its codes.
    pub ledger: Ledger,
    /// Its serial.
    pub serial: u64,
}

/// A code as it is after something happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeStatus {
    /// How often it was scanned.
    pub scans: u64,
    /// When it was first scanned.
    pub first_scanned_at: Option<Timestamp>,
    /// That it is void by itself, or else that its batch was recalled.
    pub void: Option<Void>,
}

/// What makes a repeated scan the same one: a digest, so that it has one length whatever it stands for.
pub type ScanKey = [u8; 32];

/// What came along with a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanContext {
    /// The API key of the caller; 0 where the server ran open.
    pub key_id: i64,
    /// An object in JSON. Text, because databases do not keep all that JSON can say in their own form.
    pub json: String,
}

/// What came along with one of the scans that are counted in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedContext {
    /// The place of its code among those of the step.
    pub code: usize,
    /// Which of the step's scans of that code it came with, from 1.
    pub nth: u64,
    /// What came along.
    pub context: ScanContext,
}

/// What came along with a scan that was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContext {
    /// Which scan of its code it was, from 1.
    pub number: u64,
    /// When.
    pub scanned_at: Timestamp,
    /// What came along.
    pub context: ScanContext,
}

/// Remembers what happened to codes.
#[async_trait]
pub trait CodeStore {
    /// The first so many batches of a type whose serials begin at `from` or behind, in order of serials,
    /// for those who look for the batch of a code. Orders of one type are put on record in that order.
    async fn batch_ranges(
        &self,
        type_id: TypeId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<BatchRange>>;

    /// Counts scans, so many for each code, and tells how each code stands afterwards. None for a
    /// code of a stored batch that was not made (yet), and for any whose batch is not there. Whether
    /// a batch was recalled is looked up in the same step. All keys are of the same type, and no code
    /// is in there twice.
    ///
    /// What came along with some of these scans is kept in the same step, each under the number that its
    /// scan has. Nothing is kept for a code that is none.
    async fn scan(
        &self,
        scans: &[(CodeKey, u64)],
        contexts: &[PlacedContext],
        now: Timestamp,
    ) -> Result<Vec<Option<CodeStatus>>>;

    /// Counts a scan under a key, in one step. Where one is on record under it, nothing is counted, and the
    /// code comes back as it stands now, with the number that that scan had. None like above; nothing is on
    /// record then. What came along is kept with the scan that counts.
    async fn scan_once(
        &self,
        key: &CodeKey,
        once: &ScanKey,
        context: Option<&ScanContext>,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>>;

    /// Forgets keys of scans that were counted before a time, at most so many on each shard, and says how
    /// many these were. The scans still count.
    async fn forget_scan_keys(&self, before: Timestamp, limit: u32) -> Result<u64>;

    /// What came along with scans of a code, of those before a number, the latest first.
    async fn scan_contexts(
        &self,
        key: &CodeKey,
        before: u64,
        limit: usize,
    ) -> Result<Vec<KeptContext>>;

    /// Forgets what came along with scans before a time, the oldest first and at most so many on each
    /// shard, and says how many these were. The scans still count.
    async fn forget_scan_contexts(&self, before: Timestamp, limit: u32) -> Result<u64>;

    /// How a code stands, without counting. None like above.
    async fn code(&self, key: &CodeKey) -> Result<Option<CodeStatus>>;

    /// The same from a copy of the store, where there is one that knows of the code. What happened in the
    /// last few seconds may be missing.
    async fn code_from_copy(&self, key: &CodeKey) -> Result<Option<CodeStatus>> {
        self.code(key).await
    }

    /// Makes a code void. Returns how it stands; the first reason stays.
    async fn void_code(
        &self,
        key: &CodeKey,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>>;
}
