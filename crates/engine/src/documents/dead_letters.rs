//! Documents that automatic retries gave up on. A person has them tried again, or gives them up.

use std::sync::Arc;

use serde_json::json;
use storage::{
    Deed, DeliveryId, DeliveryState, DocumentRecord, ReceiverId, StoreError, TypeId, Verdict,
};

use super::Documents;
use crate::LiveType;

/// Documents that are decided about between two looks at the list.
const PAGE: usize = 500;

/// Which dead letters.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeadDocuments<'a> {
    /// Only of this tenant.
    pub tenant: Option<&'a str>,
    /// Only of this type.
    pub type_name: Option<&'a str>,
    /// Only the one with this ID.
    pub id: Option<&'a str>,
}

/// What somebody has decided about dead letters.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// What.
    pub verdict: Verdict,
    /// Who: the number of the API key, or 0.
    pub key_id: i64,
    /// Why, if they say so.
    pub reason: Option<&'a str>,
}

/// What the audit log calls a document.
pub fn subject(live: &LiveType, id: &str) -> String {
    format!("{}/{id}", live.label())
}

/// A place in the list of dead letters: behind a document of a type.
pub type DeadPlace = (TypeId, DeliveryId);

impl Documents {
    /// Dead letters with their types, so many at most, by type and the latest first.
    pub async fn dead_letters(
        &self,
        wanted: DeadDocuments<'_>,
        after: Option<DeadPlace>,
        limit: usize,
    ) -> Result<Vec<(DocumentRecord, Arc<LiveType>)>, StoreError> {
        let mut types = self.types_with_documents(wanted);
        types.retain(|live| after.is_none_or(|(behind, _)| live.stored().id >= behind));
        if let Some(id) = wanted.id {
            return self.dead_with_id(&types, id, after, limit).await;
        }
        let ids: Vec<TypeId> = types.iter().map(|live| live.stored().id).collect();
        let dead = self.common.store.dead_documents(&ids, after, limit).await?;
        let with_type = |record: DocumentRecord| {
            let place = ids.binary_search(&record.key.type_id).ok()?;
            Some((record, Arc::clone(&types[place])))
        };
        Ok(dead.into_iter().filter_map(with_type).collect())
    }

    /// Those with an ID, of which each type has one at most.
    async fn dead_with_id(
        &self,
        types: &[Arc<LiveType>],
        id: &str,
        after: Option<DeadPlace>,
        limit: usize,
    ) -> Result<Vec<(DocumentRecord, Arc<LiveType>)>, StoreError> {
        let mut found = Vec::new();
        for live in types {
            let before = after.filter(|(behind, _)| *behind == live.stored().id).map(|(_, id)| id);
            let is_wanted = |record: &DocumentRecord| {
                record.delivery.state == DeliveryState::Dead
                    && before.is_none_or(|before| record.delivery.id < before)
            };
            let record = self.find_of_type(live, id).await?.filter(is_wanted);
            found.extend(record.map(|record| (record, Arc::clone(live))));
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// The types that may have such documents.
    fn types_with_documents(&self, wanted: DeadDocuments<'_>) -> Vec<Arc<LiveType>> {
        let mut types: Vec<_> = self.catalogue.all();
        types.retain(|live| {
            let id_type = &live.stored().id_type;
            wanted.tenant.is_none_or(|tenant| tenant == id_type.tenant())
                && wanted.type_name.is_none_or(|name| name == id_type.name())
        });
        types.sort_by_key(|live| live.stored().id);
        types
    }

    /// Decides about every dead letter that matches, page by page, and says how many these were. What was
    /// decided stays decided when a later page fails. That somebody wants it is in the audit log first.
    pub async fn settle(
        &self,
        wanted: DeadDocuments<'_>,
        decision: Decision<'_>,
    ) -> Result<u64, StoreError> {
        let (mut after, mut settled) = (None, 0);
        loop {
            let dead = self.dead_letters(wanted, after, PAGE).await?;
            for of_type in dead.chunk_by(|(one, _), (next, _)| one.key.type_id == next.key.type_id)
            {
                settled += self.settle_of_type(of_type, decision).await?;
            }
            match dead.last() {
                Some((last, _)) if dead.len() == PAGE => {
                    after = Some((last.key.type_id, last.delivery.id));
                }
                _ => return Ok(settled),
            }
        }
    }

    /// Decides about dead letters of one type. One whose sink was deleted is tried again at the sink that
    /// the type has now; without one, nobody would ever get it.
    async fn settle_of_type(
        &self,
        dead: &[(DocumentRecord, Arc<LiveType>)],
        decision: Decision<'_>,
    ) -> Result<u64, StoreError> {
        let Some((_, live)) = dead.first() else { return Ok(0) };
        let is_stranded = |record: &DocumentRecord| {
            decision.verdict == Verdict::Retry
                && self.sinks.receivers.by_id(record.delivery.content.receiver).is_none()
        };
        let records = dead.iter().map(|(record, _)| record);
        let (stranded, others) = records.partition(|record| is_stranded(record));
        let id_type = &live.stored().id_type;
        let settled = self.decide(live, others, decision, None).await?;
        match self.sinks.of_type(id_type.tenant(), id_type.name()) {
            Some(sink) => {
                Ok(settled + self.decide(live, stranded, decision, Some(sink.id())).await?)
            }
            None => Ok(settled),
        }
    }

    async fn decide(
        &self,
        live: &LiveType,
        dead: Vec<&DocumentRecord>,
        decision: Decision<'_>,
        moved_to: Option<ReceiverId>,
    ) -> Result<u64, StoreError> {
        if dead.is_empty() {
            return Ok(0);
        }
        let deeds: Vec<_> = dead.iter().map(|record| self.deed(record, live, decision)).collect();
        let ids: Vec<_> = dead.iter().map(|record| record.delivery.id).collect();
        let (store, type_id, now) = (&self.common.store, live.stored().id, self.common.now());
        store.record_deeds(&deeds).await?;
        let decided = match moved_to {
            Some(sink) => store.move_documents(type_id, &ids, sink, now).await?,
            None => store.decide_documents(type_id, &ids, decision.verdict, now).await?,
        };
        self.outbox.wake();
        Ok(decided.len() as u64)
    }

    fn deed(&self, record: &DocumentRecord, live: &LiveType, decision: Decision<'_>) -> Deed {
        let action = match decision.verdict {
            Verdict::Retry => "document.retried",
            Verdict::Abandon => "document.abandoned",
        };
        Deed {
            at: self.common.now(),
            key_id: decision.key_id,
            tenant: live.stored().id_type.tenant().to_owned(),
            action: action.to_owned(),
            subject: subject(live, &record.delivery.content.key),
            detail: json!({"reason": decision.reason}).to_string(),
        }
    }
}
