//! Chunks that automatic retries gave up on. A person has them tried again, or gives them up.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use storage::{DeadChunk, DeadFilter, Verdict};

use super::{BatchError, Batches};
use crate::LiveType;
use crate::audit::Doing;
use crate::documents::Decision;

/// Chunks that are decided about between two looks at the list.
const PAGE: usize = 500;

impl Batches {
    /// Dead letters with their types.
    pub async fn dead_letters(
        &self,
        tenant: Option<&str>,
        type_name: Option<&str>,
        mut filter: DeadFilter,
    ) -> Result<Vec<(DeadChunk, Arc<LiveType>)>, BatchError> {
        filter.types = self.types(tenant, type_name);
        let dead = self.store.dead_chunks(&filter).await?;
        let with_type = |dead: DeadChunk| Some((self.type_of(dead.type_id, tenant)?, dead));
        Ok(dead.into_iter().filter_map(with_type).map(|(live, dead)| (dead, live)).collect())
    }

    /// Decides about every dead letter that matches, and says how many these were. A page of them is a
    /// step by itself, and what was decided stays decided when a later one fails. That somebody wants it is
    /// in the audit log first.
    pub async fn settle(
        &self,
        tenant: Option<&str>,
        type_name: Option<&str>,
        mut filter: DeadFilter,
        decision: Decision<'_>,
    ) -> Result<u64, BatchError> {
        filter.types = self.types(tenant, type_name);
        filter.limit = PAGE;
        let mut settled = 0;
        let mut tenants = BTreeSet::new();
        loop {
            let dead = self.store.dead_chunks(&filter).await?;
            settled += self.settle_page(&dead, tenant, decision, &mut tenants).await?;
            let Some(last) = dead.last().filter(|_| dead.len() == PAGE) else { break };
            filter.after = Some((last.batch, last.number));
        }
        if settled > 0 {
            let tenants: Vec<&str> = tenants.iter().map(String::as_str).collect();
            self.call_workers(&tenants).await;
            self.news.notify_one();
        }
        Ok(settled)
    }

    /// Decides about a page, and notes whose chunks these are.
    async fn settle_page(
        &self,
        page: &[DeadChunk],
        tenant: Option<&str>,
        decision: Decision<'_>,
        tenants: &mut BTreeSet<String>,
    ) -> Result<u64, BatchError> {
        let action = match decision.verdict {
            Verdict::Retry => "chunk.retried",
            Verdict::Abandon => "chunk.abandoned",
        };
        let (mut chunks, mut doings) = (Vec::new(), Vec::new());
        for dead in page {
            // What no list shows, nobody has meant.
            let Some(live) = self.type_of(dead.type_id, tenant) else { continue };
            let detail = json!({"chunk": dead.number, "reason": decision.reason});
            tenants.insert(live.stored().id_type.tenant().to_owned());
            chunks.push((dead.batch, dead.number));
            doings.push((live, dead.batch.0.to_string(), detail.to_string()));
        }
        let doings = doings.iter().map(|(live, subject, detail)| {
            let tenant = live.stored().id_type.tenant();
            (Doing { key_id: decision.key_id, tenant, action, subject }, detail.clone())
        });
        self.audit.record_all(doings).await?;
        Ok(self.store.settle_chunks(&chunks, decision.verdict, self.now()).await?)
    }
}
