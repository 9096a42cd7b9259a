//! Following batches: asking again and again how far one is.

use std::sync::Arc;
use std::time::Duration;

use storage::Batch;

use super::{BatchError, Batches};
use crate::LiveType;

/// How long those who follow a batch share one look at it, on all instances together. Events come
/// somewhat less often.
const SHARED_FOR: Duration = Duration::from_millis(250);

impl Batches {
    /// A batch as it was a moment ago, for somebody who has seen it before. What was made and given up never
    /// becomes less, and an end is an end.
    pub async fn look_again(
        &self,
        seen: &Batch,
        tenant: Option<&str>,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        let board = self.board.as_ref().filter(|board| board.is_up() && !seen.state.is_final());
        let Some(board) = board else { return self.find(seen.id, tenant).await };
        if let Ok(Some(progress)) = board.progress(seen.id).await {
            let live = self.type_of(seen.type_id, tenant).ok_or(BatchError::NotFound)?;
            // Of two instances that look at the same time, the one that saw less may note it last.
            let is_older = progress.made < seen.made || progress.abandoned < seen.abandoned;
            let batch = seen.clone();
            return Ok((if is_older { batch } else { batch.with_progress(progress) }, live));
        }
        let (batch, live) = self.find(seen.id, tenant).await?;
        // What cannot be noted is looked up again by the next one.
        let _ = board.show_progress(batch.id, &batch.progress(), SHARED_FOR).await;
        Ok((batch, live))
    }
}
