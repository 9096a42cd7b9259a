//! Taking an order.

use std::sync::Arc;

use idgen::format::Format;
use idgen::random::RandomFormat;
use idgen::spec::{Kind, Ledger, RandomSpec};
use storage::{Batch, BatchOrder, Ordered, StoreError};
use tracing::info;

use super::{BatchError, Batches};
use crate::LiveType;
use crate::error::IssueError;
use crate::live_type::Line;

/// One in so many possible codes may be a real one: the limit for medicines in the EU.
const GUESSES: u128 = 10_000;

/// Chunks of one batch. They are put on record with the order, which has to be answered soon.
const CHUNKS_MAX: u64 = 10_000;

/// An order for codes.
#[derive(Debug, Clone)]
pub struct BatchRequest<'a> {
    /// Whose ID type.
    pub tenant: &'a str,
    /// The ID type.
    pub type_name: &'a str,
    /// How many codes.
    pub count: u64,
    /// A name for people.
    pub name: Option<String>,
    /// What the client wants to keep with it, as JSON.
    pub metadata: Option<String>,
    /// The names of the webhooks to tell when it comes to an end; all of the tenant's if none.
    pub notify: Option<Vec<String>>,
    /// Who orders.
    pub key_id: i64,
    /// What makes a repeated order the same one, across all callers.
    pub order_key: Option<String>,
}

impl Batches {
    /// Takes an order: its serials are drawn, and it is on record, before this returns.
    pub async fn order(
        &self,
        request: BatchRequest<'_>,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        match self.try_order(&request).await {
            // The type was changed by another instance; look it up again.
            Err(BatchError::Issue(IssueError::Closed)) => {
                self.catalogue.refresh().await.map_err(IssueError::from)?;
                self.try_order(&request).await
            }
            result => result,
        }
    }

    async fn try_order(
        &self,
        request: &BatchRequest<'_>,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        let live = self.catalogue.find(request.tenant, request.type_name)?;
        let (spec, format) = code_type(&live)?;
        let (count, settings) = (request.count, &self.settings);
        if !(1..=settings.count_max).contains(&count) {
            return Err(BatchError::Count { count, max: settings.count_max });
        }
        let limits = self.catalogue.tenant(request.tenant).map(|tenant| tenant.limits);
        let limits = limits.unwrap_or_default();
        let active_max = limits.active_batches_max.map_or(settings.active_max, u64::from);
        let codes_max = limits.codes_max.unwrap_or(settings.codes_max);
        let space = format.serials();
        let end = if spec.allow_dense { space } else { space.min(guessable(format)) };
        let order = BatchOrder {
            type_id: live.stored().id,
            revision: live.stored().revision,
            count,
            bounds: (0, end),
            chunk_serials: settings.chunk_codes.max(count.div_ceil(CHUNKS_MAX)),
            ledger: spec.ledger,
            name: request.name.clone(),
            metadata: request.metadata.clone(),
            notify: request.notify.as_ref().map(|names| serde_json::json!(names).to_string()),
            key_id: request.key_id,
            order_key: request.order_key.clone(),
            active_max,
            codes_max,
            now: self.clock.now(),
        };
        let ordered = self.store.order_batch(&order).await.map_err(|error| match error {
            StoreError::Stale | StoreError::NotFound(_) => IssueError::Closed,
            other => other.into(),
        })?;
        match ordered {
            Ordered::Done(batch) => {
                self.codes.note_order(live.stored().id);
                let (id, label) = (batch.id.0, live.label());
                info!(batch = id, count, "batch {id}: {count} codes of {label} were ordered");
                match batch.ledger {
                    Ledger::Stored => self.call_workers(&[request.tenant]).await,
                    Ledger::Derived => self.news.notify_one(),
                }
                Ok((batch, live))
            }
            Ordered::OtherOrder => Err(BatchError::OtherOrder),
            Ordered::NoRoom { drawn } if drawn.saturating_add(count) > space => {
                Err(BatchError::NoRoom { count, left: space - drawn.min(space), space })
            }
            Ordered::NoRoom { drawn } => {
                let (left, space) = (end - drawn.min(end), format.shape().space());
                Err(BatchError::TooDense { count, left, space })
            }
            Ordered::TooManyActive { active } => {
                Err(BatchError::TooManyActive { active, max: active_max })
            }
            Ordered::OverQuota { ordered } => {
                Err(BatchError::OverQuota { count, ordered, max: codes_max })
            }
        }
    }
}

/// How many codes may be real ones.
fn guessable(format: &RandomFormat) -> u64 {
    u64::try_from(format.shape().space() / GUESSES).unwrap_or(u64::MAX)
}

/// The settings of a type whose IDs can be made in batches.
fn code_type(live: &LiveType) -> Result<(&RandomSpec, &RandomFormat), BatchError> {
    if let Line::Closed(reason) = &live.line {
        return Err(reason.clone().into());
    }
    let (Kind::Random(spec), Format::Random(format)) =
        (live.stored().id_type.kind(), live.format())
    else {
        let reason = "only random ID types have codes: the IDs of others can be guessed";
        return Err(BatchError::NotACodeType(reason));
    };
    if format.shape().has_filters() {
        let reason = "the ID type has filters, so a range of serials does not have a known number \
                      of codes; use a type without filters";
        return Err(BatchError::NotACodeType(reason));
    }
    Ok((spec, format))
}
