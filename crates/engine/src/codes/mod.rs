//! Codes after they were made: scanned, made void.

mod desk;
mod diagnosis;
mod hot;
mod ranges;
mod single_flight;

use std::sync::Arc;
use std::time::Duration;

use idgen::error::ParseError;
use idgen::format::Format;
use jiff::SignedDuration;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use storage::{
    BatchId, BatchRange, CodeKey, CodeStatus, KeptContext, ScanContext, ScanKey, Store, StoreError,
    TypeId,
};

pub use self::diagnosis::Diagnosis;

pub(crate) use self::hot::Company;

use self::desk::Desk;
use self::hot::Hot;
use self::ranges::Ranges;
use crate::LiveType;
use crate::audit::{Audit, Doing};
use crate::error::IssueError;
use crate::metrics::EngineMetrics;
use crate::surroundings::{Clock, Common};

/// Serials are below 2^63, so this one is in no batch.
const NO_SERIAL: u64 = u64::MAX;

/// Contexts that are forgotten in one step: they are larger than most of what is kept, and others wait for
/// the step.
const FORGET_AT_ONCE: u32 = 1000;

/// Steps of one sweep. What is left waits for the next one, so that a stop does not wait for all of it where
/// somebody has made the time shorter.
const FORGET_STEPS_MAX: u32 = 500;

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scan {
    /// A code that was made.
    Known {
        /// Its batch.
        batch: BatchId,
        /// Its serial.
        serial: u64,
        /// Its ID.
        id: i64,
        /// How it stands.
        status: CodeStatus,
    },
    /// Not a code of ours, or not one that was made.
    Unknown(Unknown),
}

/// Why a code is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// It cannot be one: the rule that it breaks.
    Malformed(ParseError),
    /// It could be one, but none was ever made like this.
    NeverMade,
}

/// Verifies codes.
pub struct Codes {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<EngineMetrics>,
    audit: Audit,
    ranges: Ranges,
    desk: Desk,
    hot: Hot,
    /// How long what comes along with scans is kept; not at all where it is zero.
    keep_contexts: Duration,
}

impl Codes {
    pub(crate) fn new(common: &Common, company: Company, keep_contexts: Duration) -> Arc<Self> {
        let (desk, audit) = (Desk::new(common.clone()), Audit::new(common));
        let Common { store, clock, metrics, .. } = common.clone();
        let ranges = Ranges::new(Arc::clone(&store), matches!(company, Company::None));
        let hot = Hot::new(company, Arc::clone(&metrics));
        Arc::new(Self { store, clock, metrics, audit, ranges, desk, hot, keep_contexts })
    }

    /// Notes that a batch of a type was ordered here.
    pub(crate) fn note_order(&self, type_id: TypeId) {
        self.ranges.note_order(type_id);
    }

    /// Whether what comes along with scans is kept.
    pub fn keeps_contexts(&self) -> bool {
        !self.keep_contexts.is_zero()
    }

    /// Verifies a code and counts the scan. What comes along is kept in the same step.
    pub async fn scan(
        &self,
        live: &LiveType,
        code: &str,
        context: Option<ScanContext>,
    ) -> Result<Scan, IssueError> {
        let context = context.filter(|_| self.keeps_contexts());
        let scan = match self.key(live, code).await? {
            Ok((key, batch)) => {
                let status = self.desk.scan(key, context).await?;
                self.hot.changed(&key);
                found(key, &batch, status)
            }
            Err(unknown) => Scan::Unknown(unknown),
        };
        Ok(self.noted(scan))
    }

    /// The same, once for each key of a caller: also where the answer to the first try got lost, or the
    /// process ended before it could be kept.
    pub async fn scan_once(
        &self,
        live: &LiveType,
        code: &str,
        caller: &str,
        once: &str,
        context: Option<ScanContext>,
    ) -> Result<Scan, IssueError> {
        let context = context.filter(|_| self.keeps_contexts());
        let scan = match self.key(live, code).await? {
            Ok((key, batch)) => {
                let once = scan_key(&key, caller, once);
                let (context, now) = (context.as_ref(), self.clock.now());
                let status = self.store.scan_once(&key, &once, context, now).await?;
                self.hot.changed(&key);
                found(key, &batch, status)
            }
            Err(unknown) => Scan::Unknown(unknown),
        };
        Ok(self.noted(scan))
    }

    fn noted(&self, scan: Scan) -> Scan {
        match &scan {
            Scan::Known { .. } => self.metrics.scans_known.inc(),
            Scan::Unknown(_) => self.metrics.scans_unknown.inc(),
        };
        scan
    }

    /// Tells how a code stands, without counting. It knows of everything that was answered before.
    pub async fn look(&self, live: &LiveType, code: &str) -> Result<Scan, IssueError> {
        match self.key(live, code).await? {
            Ok((key, batch)) => Ok(found(key, &batch, self.store.code(&key).await?)),
            Err(unknown) => Ok(Scan::Unknown(unknown)),
        }
    }

    /// The same as it was a moment ago, or from a copy of the store where there is one: for those who can
    /// do without what happened in the last few seconds elsewhere.
    pub async fn glance(&self, live: &LiveType, code: &str) -> Result<Scan, IssueError> {
        match self.key(live, code).await? {
            Ok((key, batch)) => Ok(found(key, &batch, self.hot.look(&*self.store, &key).await?)),
            Err(unknown) => Ok(Scan::Unknown(unknown)),
        }
    }

    /// What came along with scans of a code, of those before a number, the latest first. None if there is
    /// no such code.
    pub async fn contexts(
        &self,
        live: &LiveType,
        code: &str,
        before: u64,
        limit: usize,
    ) -> Result<Option<Vec<KeptContext>>, IssueError> {
        let Ok((key, _)) = self.key(live, code).await? else { return Ok(None) };
        if self.store.code(&key).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.store.scan_contexts(&key, before, limit).await?))
    }

    /// Forgets what came along with scans long ago, a few at a time. All of it where nothing is kept any more.
    pub(crate) async fn forget_contexts(&self) -> Result<(), StoreError> {
        let keep = SignedDuration::try_from(self.keep_contexts).unwrap_or(SignedDuration::MAX);
        let Ok(before) = self.clock.now().checked_sub(keep) else { return Ok(()) };
        for _ in 0..FORGET_STEPS_MAX {
            if self.store.forget_scan_contexts(before, FORGET_AT_ONCE).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Whether a code is one of a batch. For one that is not, the store is asked in the same way
    /// whatever is wrong with it, so that a slow store or none at all does not tell what it is.
    pub async fn is_ordered(&self, live: &LiveType, code: &str) -> Result<bool, IssueError> {
        match self.key(live, code).await? {
            Ok(_) => Ok(true),
            Err(Unknown::NeverMade) => Ok(false),
            Err(Unknown::Malformed(_)) => {
                self.ranges.find(live.stored().id, NO_SERIAL).await?;
                Ok(false)
            }
        }
    }

    /// The batch that a serial was ordered with.
    pub(crate) async fn batch_of(
        &self,
        live: &LiveType,
        serial: u64,
    ) -> Result<Option<BatchId>, IssueError> {
        let Format::Random(_) = live.format() else { return Ok(None) };
        Ok(self.ranges.find(live.stored().id, serial).await?.map(|batch| batch.id))
    }

    /// Makes a code void. Who and why is in the audit log first, under its serial: a code is a secret.
    pub async fn void(
        &self,
        live: &LiveType,
        code: &str,
        key_id: i64,
        reason: &str,
    ) -> Result<Scan, IssueError> {
        let (key, range) = match self.key(live, code).await? {
            Ok(known) => known,
            Err(unknown) => return Ok(Scan::Unknown(unknown)),
        };
        // What was never made is not worth an entry.
        if self.store.code(&key).await?.is_none() {
            return Ok(Scan::Unknown(Unknown::NeverMade));
        }
        let tenant = live.stored().id_type.tenant();
        let subject = &key.batch.0.to_string();
        let doing = Doing { key_id, tenant, action: "code.voided", subject };
        let detail = json!({"serial": key.serial.to_string(), "reason": reason});
        self.audit.record(doing, detail.to_string()).await?;
        let status = self.store.void_code(&key, reason, self.clock.now()).await?;
        self.hot.made_void(&key).await;
        Ok(found(key, &range, status))
    }

    /// Waits until nobody believes any more that codes of a batch which was recalled are not void.
    pub(crate) async fn recalled(&self) {
        self.hot.recalled().await;
    }

    /// Reads a code back to its serial and finds the batch of that. Asks the store only about a
    /// serial that is in no batch that is known here.
    async fn key(
        &self,
        live: &LiveType,
        code: &str,
    ) -> Result<Result<(CodeKey, BatchRange), Unknown>, IssueError> {
        let Format::Random(format) = live.format() else {
            return Ok(Err(Unknown::NeverMade));
        };
        let serial = match format.parse(code) {
            Ok(serial) => serial,
            Err(error) => return Ok(Err(Unknown::Malformed(error))),
        };
        let type_id = live.stored().id;
        let Some(batch) = self.ranges.find(type_id, serial).await? else {
            return Ok(Err(Unknown::NeverMade));
        };
        Ok(Ok((code_key(live, serial, &batch), batch)))
    }
}

/// A code of a batch by its serial.
fn code_key(live: &LiveType, serial: u64, batch: &BatchRange) -> CodeKey {
    CodeKey { type_id: live.stored().id, batch: batch.id, ledger: batch.ledger, serial }
}

/// With the code in it: a key that comes with another code after a failure is another scan.
fn scan_key(key: &CodeKey, caller: &str, once: &str) -> ScanKey {
    let mut digest = Sha256::new();
    for text in [caller, once] {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }
    digest.update(key.type_id.0.to_le_bytes());
    digest.update(key.serial.to_le_bytes());
    digest.finalize().into()
}

fn found(key: CodeKey, range: &BatchRange, status: Option<CodeStatus>) -> Scan {
    let CodeKey { batch, serial, .. } = key;
    let id = batch.code_id(serial - range.serials.start);
    status.map_or(Scan::Unknown(Unknown::NeverMade), |status| Scan::Known {
        batch,
        serial,
        id,
        status,
    })
}
