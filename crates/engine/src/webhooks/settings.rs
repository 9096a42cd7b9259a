//! What is stored of a webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idgen::key::TypeKey;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use storage::BatchState;

use crate::sealing::{MasterKey, WrongMasterKey};
use crate::surroundings::Entropy;

/// Secrets of a webhook that can be in force together. The oldest gives way.
const SECRETS_MAX: usize = 3;

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
    /// The latest first.
    pub(crate) secrets: Vec<SealedSecret>,
}

/// A secret, sealed with the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedSecret {
    sealed: String,
    /// When it stops being used; never for the latest.
    expires_at: Option<Timestamp>,
}

/// A secret at work.
#[derive(Debug, Clone)]
pub(crate) struct Secret {
    pub(crate) key: TypeKey,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Secret {
    pub(crate) fn is_in_force(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

impl StoredWebhook {
    /// Adds a new secret. Those before stay in force for a while.
    pub(super) fn add_secret(
        &mut self,
        label: &str,
        keep_old: SignedDuration,
        master_key: &MasterKey,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> TypeKey {
        let key = MasterKey::new_type_key(entropy);
        let sealed = STANDARD.encode(master_key.seal(&key, label, entropy));
        let ends = now + keep_old;
        for old in &mut self.secrets {
            old.expires_at = Some(old.expires_at.map_or(ends, |end| end.min(ends)));
        }
        self.secrets.retain(|old| old.expires_at.is_none_or(|end| now < end));
        self.secrets.insert(0, SealedSecret { sealed, expires_at: None });
        self.secrets.truncate(SECRETS_MAX);
        key
    }

    pub(crate) fn open_secrets(
        &self,
        label: &str,
        master_key: &MasterKey,
    ) -> Result<Vec<Secret>, WrongMasterKey> {
        let open = |secret: &SealedSecret| {
            let sealed = STANDARD.decode(&secret.sealed).map_err(|_| WrongMasterKey)?;
            let key = master_key.open(&sealed, label)?;
            Ok(Secret { key, expires_at: secret.expires_at })
        };
        self.secrets.iter().map(open).collect()
    }
}
