//! Codes that are asked for again and again: how they stood a moment ago, in this process, and where
//! instances tell each other, on the board.
//!
//! Scans are counted in the store and never come from here. Only codes to which something happened are
//! held: what changes about them is how often they were scanned, and that they are void. A look is
//! believed for [`FRESH`] from the moment when it began, by whoever hears of it. So whoever makes a code
//! void has to wait no longer than that until nobody believes otherwise, and where nobody noted the code,
//! not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use storage::{BoardTime, CodeKey, CodeStatus, HotCode, Noticeboard, Store, StoreError};
use tokio::time::Instant;

use crate::metrics::EngineMetrics;

/// How long a look is believed. Shorter than anybody is patient who makes something void.
const FRESH: Duration = Duration::from_millis(FRESH_MS);
const FRESH_MS: u64 = 500;

/// How long nothing is noted of a code that was changed: any look that began before is older by then.
const QUIET: Duration = Duration::from_millis(1500);

/// Codes in memory, of some hundred bytes each.
const HELD_MAX: usize = 10_000;

/// Changes are counted for so many groups of codes, by the last byte of their serials, so that one seldom
/// disturbs a look at another code.
const GROUPS: usize = 256;

/// Who else there is.
#[derive(Clone)]
pub(crate) enum Company {
    /// Nobody.
    None,
    /// Others, who tell each other what they see.
    Telling(Arc<dyn Noticeboard>),
    /// Others, of whom nothing is known. Nothing is held then.
    Silent,
}

/// What is held.
pub(super) struct Hot {
    company: Company,
    metrics: Arc<EngineMetrics>,
    held: Cache<Place, Held>,
    /// Grows with every change that is made here, so that a look which began before it holds nothing.
    changes: [AtomicU64; GROUPS],
}

/// Type and serial.
type Place = (i64, u64);

fn place(key: &CodeKey) -> Place {
    (key.type_id.0, key.serial)
}

/// What is known of a code, until when.
#[derive(Clone)]
enum Held {
    /// How it stands.
    Stands(CodeStatus, Instant),
    /// It was changed here, and whatever others have noted may be older than that.
    Changed(Instant),
}

/// When a look began, in time and in changes.
struct Beginning(Instant, u64);

impl Hot {
    pub(super) fn new(company: Company, metrics: Arc<EngineMetrics>) -> Self {
        let changes = std::array::from_fn(|_| AtomicU64::new(0));
        Self { company, metrics, held: Cache::new(HELD_MAX), changes }
    }

    /// How a code stands: as it is held here, noted by others, or in a copy of the store.
    pub(super) async fn look(
        &self,
        store: &dyn Store,
        key: &CodeKey,
    ) -> Result<Option<CodeStatus>, StoreError> {
        let began = Beginning(Instant::now(), self.changes(key).load(Ordering::SeqCst));
        match self.held.get(&place(key)) {
            Some(Held::Stands(status, until)) if until > began.0 => {
                self.metrics.looks_held.inc();
                return Ok(Some(status));
            }
            Some(Held::Changed(until)) if until > began.0 => {
                return store.code_from_copy(key).await;
            }
            _ => {}
        }
        let board = match &self.company {
            Company::Telling(board) => board.hot_code(key).await.ok().map(|hot| (board, hot)),
            Company::None | Company::Silent => None,
        };
        if let Some((_, HotCode { noted: Some((status, left)), .. })) = board {
            self.hold(key, &status, &began, left.min(FRESH));
            return Ok(Some(status));
        }
        let found = store.code_from_copy(key).await?;
        if let Some(status) = found.as_ref().filter(|status| something_happened(status)) {
            let may_hold = match (&self.company, board) {
                (Company::None, _) => true,
                // Whoever makes it void has to find it there.
                (_, Some((board, HotCode { at, .. }))) => {
                    let until = BoardTime(at.0 + FRESH_MS);
                    matches!(board.note_hot_code(key, status, until).await, Ok(true))
                }
                (_, None) => false,
            };
            if may_hold {
                self.hold(key, status, &began, FRESH);
            }
        }
        Ok(found)
    }

    fn hold(&self, key: &CodeKey, status: &CodeStatus, began: &Beginning, keep: Duration) {
        let Beginning(at, changes) = began;
        self.held.insert(place(key), Held::Stands(status.clone(), *at + keep));
        // In this order: a change that comes later replaces it.
        if self.changes(key).load(Ordering::SeqCst) != *changes {
            self.held.insert(place(key), Held::Changed(Instant::now() + FRESH));
        }
    }

    /// Notes that a code was changed here, so that the next look here sees it. Elsewhere the change may be
    /// missing for a moment.
    pub(super) fn changed(&self, key: &CodeKey) {
        if !matches!(self.company, Company::Silent) {
            self.changes(key).fetch_add(1, Ordering::SeqCst);
            self.held.insert(place(key), Held::Changed(Instant::now() + FRESH));
        }
    }

    /// Waits until nobody believes any more that a code is not void.
    pub(super) async fn made_void(&self, key: &CodeKey) {
        self.changed(key);
        if let Company::Telling(board) = &self.company {
            let wait = board.spoil_hot_code(key, QUIET).await.unwrap_or(FRESH).min(FRESH);
            tokio::time::sleep(wait).await;
        }
    }

    /// The same for all codes of a batch. Nobody knows which of them are held.
    pub(super) async fn recalled(&self) {
        for changes in &self.changes {
            changes.fetch_add(1, Ordering::SeqCst);
        }
        self.held.clear();
        if let Company::Telling(_) = &self.company {
            tokio::time::sleep(FRESH).await;
        }
    }

    fn changes(&self, key: &CodeKey) -> &AtomicU64 {
        &self.changes[usize::from(key.serial.to_le_bytes()[0])]
    }
}

/// Any other code would have to be looked up again after its first scan, which may come at any moment.
fn something_happened(status: &CodeStatus) -> bool {
    status.scans > 0 || status.void.is_some()
}
