//! What a stranger is told about a code.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};
use storage::CodeStatus;
use utoipa::ToSchema;

use crate::http::scans::{Seen, verdict_on};

/// What a code is, as far as it concerns a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PublicVerdict {
    /// `genuine`: real, and not verified before; `repeated`: real, and verified before; `void`: real
    /// once; `unknown`: anything else.
    #[schema(value_type = String)]
    verdict: Cow<'static, str>,
    /// How often it was verified, this time included if this counts.
    pub(super) scans: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    first_scanned_at: Option<Timestamp>,
    /// Why it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    void: Option<PublicVoid>,
}

/// Why a code is void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
struct PublicVoid {
    reason: String,
}

impl PublicVerdict {
    pub(super) fn new(status: CodeStatus, seen: Seen) -> Self {
        let verdict = Cow::Borrowed(verdict_on(&status, seen));
        let CodeStatus { scans, first_scanned_at, void } = status;
        let void = void.map(|void| PublicVoid { reason: void.reason });
        Self { verdict, scans, first_scanned_at, void }
    }

    /// The one answer for everything that is not known.
    pub(super) fn unknown() -> Self {
        Self { verdict: Cow::Borrowed("unknown"), scans: 0, first_scanned_at: None, void: None }
    }

    /// The stable name.
    pub(super) fn name(&self) -> &str {
        &self.verdict
    }

    /// The first time, for people.
    pub(super) fn first_time(&self) -> Option<String> {
        let time = Offset::UTC.to_datetime(self.first_scanned_at?);
        Some(time.strftime("%-d %B %Y, %H:%M UTC").to_string())
    }

    pub(super) fn reason(&self) -> Option<&str> {
        Some(&self.void.as_ref()?.reason)
    }
}
