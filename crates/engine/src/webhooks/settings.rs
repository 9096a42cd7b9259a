//! What is stored of a webhook.

use serde::{Deserialize, Serialize};
use storage::BatchState;

use crate::outbox::secrets::SealedSecrets;

/// What a webhook can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// All codes of a batch are made, or given up.
    #[serde(rename = "batch.completed")]
    BatchCompleted,
    /// A person has to decide about parts of a batch.
    #[serde(rename = "batch.needs_attention")]
    BatchNeedsAttention,
    /// Somebody stopped a batch.
    #[serde(rename = "batch.cancelled")]
    BatchCancelled,
    /// Somebody wants to see whether the webhook works. Sent to the one webhook that is tried,
    /// whatever it has chosen.
    #[serde(rename = "webhook.test")]
    Test,
}

impl EventKind {
    /// All that a webhook can choose from.
    pub const ALL: [Self; 3] =
        [Self::BatchCompleted, Self::BatchNeedsAttention, Self::BatchCancelled];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchCompleted => "batch.completed",
            Self::BatchNeedsAttention => "batch.needs_attention",
            Self::BatchCancelled => "batch.cancelled",
            Self::Test => "webhook.test",
        }
    }

    /// The event of a batch that came to a state.
    pub(super) fn of(state: BatchState) -> Option<Self> {
        match state {
            BatchState::Completed => Some(Self::BatchCompleted),
            BatchState::NeedsAttention => Some(Self::BatchNeedsAttention),
            BatchState::Cancelled => Some(Self::BatchCancelled),
            BatchState::Queued | BatchState::Running => None,
        }
    }
}

/// A webhook as it is stored, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredWebhook {
    pub(crate) url: String,
    pub(crate) events: Vec<EventKind>,
    pub(crate) secrets: SealedSecrets,
}
