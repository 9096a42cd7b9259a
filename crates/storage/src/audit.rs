//! The audit log: who has done what that others may ask about later.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::Result;

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// When.
    pub at: Timestamp,
    /// The API key's number, or 0 where the server runs open.
    pub key_id: i64,
    /// The tenant that it concerns.
    pub tenant: String,
    /// What, such as `batch.downloaded`.
    pub action: String,
    /// What it was done to, such as the number of a batch.
    pub subject: String,
    /// Everything else worth knowing: JSON, as text.
    pub detail: String,
}

/// Which deeds to list.
#[derive(Debug, Clone, Default)]
pub struct DeedFilter {
    /// Only of this tenant.
    pub tenant: Option<String>,
    /// Only this action.
    pub action: Option<String>,
    /// Only what was done to this.
    pub subject: Option<String>,
    /// Only those before the one with this number.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: usize,
}

/// Remembers deeds. There is no way to change or remove one.
#[async_trait]
pub trait AuditStore {
    /// Takes deeds on record, all or none, durably, before it returns.
    async fn record_deeds(&self, deeds: &[Deed]) -> Result<()>;

    /// Deeds with their numbers, the latest first.
    async fn deeds(&self, filter: &DeedFilter) -> Result<Vec<(i64, Deed)>>;
}
