//! What became of a serial.

use std::sync::Arc;

use idgen::format::{Format, Parsed};
use storage::{Attempt, BatchId, DocumentRecord, Gap, Issue, IssueRecord, Reservation};

use crate::engine::Engine;
use crate::error::IssueError;
use crate::issuing::{Supply, node_period};
use crate::keys::LiveKey;
use crate::live_type::LiveType;

/// What became of a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialHistory {
    /// Issues that contain it; more than one only if the type starts again.
    pub issuances: Vec<Issuance>,
    /// Gaps that contain it, closed ones included.
    pub gaps: Vec<Gap>,
    /// The batch that it was ordered with.
    pub batch: Option<BatchId>,
}

/// The documents and reservations of a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHistory {
    /// The documents with their failed attempts; more than one only if the type starts again.
    pub documents: Vec<(DocumentRecord, Vec<Attempt>)>,
    /// Who it was held for.
    pub reservations: Vec<Reservation>,
}

/// An issue, with the name of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuance {
    /// The record.
    pub record: IssueRecord,
    /// The public part of the key, if it was one.
    pub key: Option<String>,
    /// What people call the key.
    pub key_name: Option<String>,
}

impl Engine {
    /// What became of a serial.
    pub async fn history(
        &self,
        live: &LiveType,
        period: Option<&str>,
        serial: u64,
    ) -> Result<SerialHistory, IssueError> {
        self.issuer.flush_log().await?;
        let type_id = live.stored().id;
        // The snowflakes of several nodes interleave: a gap of one spans those of the others.
        let node = match live.format().parse(&serial.to_string()) {
            Ok(Parsed::Snowflake(parts)) => Some(node_period(parts.node)),
            _ => None,
        };
        let period = period.or(node.as_deref());
        let records = self.store.find_issues(type_id, period, serial).await?;
        let gaps = self.store.find_gaps(type_id, period, serial).await?;
        let issuances = records.into_iter().map(|record| {
            let key = self.key_by_number(record.issue.key_id);
            Issuance {
                record,
                key: key.as_ref().map(|key| key.stored().key.short.clone()),
                key_name: key.map(|key| key.stored().key.name.clone()),
            }
        });
        let mut issuances: Vec<_> = issuances.collect();
        if issuances.is_empty() {
            issuances.extend(self.unlogged(live, serial).await?);
        }
        let batch = self.codes.batch_of(live, serial).await?;
        Ok(SerialHistory { issuances, gaps, batch })
    }

    /// The documents and reservations of a serial.
    pub async fn document_history(
        &self,
        live: &LiveType,
        period: Option<&str>,
        serial: u64,
    ) -> Result<DocumentHistory, IssueError> {
        let type_id = live.stored().id;
        let mut documents = Vec::new();
        for record in self.store.find_documents(type_id, period, serial).await? {
            let delivery = self.store.delivery(record.delivery.id).await?;
            documents.push((record, delivery.map(|(_, attempts)| attempts).unwrap_or_default()));
        }
        let reservations = self.store.find_reservations(type_id, period, serial).await?;
        Ok(DocumentHistory { documents, reservations })
    }

    /// An API key by its number in the store.
    pub fn key_by_number(&self, id: i64) -> Option<Arc<LiveKey>> {
        self.keys.all().iter().find(|key| key.stored().id == id).cloned()
    }

    /// An issue that was never logged, because the instance was gone before: a shared pool that
    /// remembers what was taken still knows when, but not who asked.
    async fn unlogged(&self, live: &LiveType, serial: u64) -> Result<Option<Issuance>, IssueError> {
        let (Some(pool), Format::Random(format)) = (live.pool(), live.format()) else {
            return Ok(None);
        };
        let Supply::Shared(shared) = &pool.supply else { return Ok(None) };
        let Ok(id) = format.render(serial) else { return Ok(None) };
        Ok(shared.taken_at(&id).await?.map(|taken_at| {
            let at_ms = taken_at.as_millisecond();
            let issue = Issue { first: serial, last: serial, key_id: 0, at_ms };
            let record = IssueRecord { period: String::new(), issue };
            Issuance { record, key: None, key_name: None }
        }))
    }
}
