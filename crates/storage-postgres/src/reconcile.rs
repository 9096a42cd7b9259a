//! Looking for serials that nothing explains.

use storage::{Reconciled, Result, TypeId};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::Repeat;
use crate::error::{self, corrupt};
use crate::spans::read_serial;
use crate::time::Time;

const LOOK: &str = "SELECT looked_at, is_done, new_gaps FROM reconcile_slice($1, $2, $3)";

impl PostgresStore {
    /// Slice by slice, each a transaction that remembers how far it came. After an error the slices
    /// before it have been looked at.
    ///
    /// A slice is never repeated without knowing: what it had found would not be told.
    pub(crate) async fn look_for_losses(
        &self,
        type_id: TypeId,
        serials_max: u64,
        now: Time,
    ) -> Result<Reconciled> {
        let mut reconciled = Reconciled { done: true, ..Reconciled::default() };
        let Some(shard) = self.shard_of(type_id) else { return Ok(reconciled) };
        loop {
            let most = write_count(serials_max - reconciled.serials);
            let rows = shard
                .query(
                    Repeat::Undone,
                    LOOK,
                    &[(&type_id.0, Type::INT8), (&most, Type::INT8), (&now, Type::TIMESTAMPTZ)],
                )
                .await
                .map_err(error::heard_of)?;
            let row = rows.first().ok_or_else(|| corrupt("a look at serials came to nothing"))?;
            reconciled.serials += read_serial(row.get("looked_at"))?;
            reconciled.done = row.get("is_done");
            let new_gaps: Vec<i64> = row.get("new_gaps");
            if !new_gaps.is_empty() {
                let found = Self::gaps_numbered(shard, &new_gaps).await;
                reconciled.found.extend(found.map_err(error::heard_of)?);
            }
            if reconciled.done || reconciled.serials >= serials_max {
                return Ok(reconciled);
            }
        }
    }
}
