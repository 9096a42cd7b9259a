//! What messages are signed with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idgen::key::TypeKey;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::sealing::{MasterKey, WrongMasterKey};
use crate::surroundings::Common;

/// Secrets of a receiver that can be in force together. The oldest gives way.
const SECRETS_MAX: usize = 3;

/// The secrets of a receiver as they are stored, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SealedSecrets(Vec<SealedSecret>);

/// A secret, sealed with the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SealedSecret {
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

impl SealedSecrets {
    /// Adds a new secret. Those before stay in force for a while.
    pub(crate) fn add(
        &mut self,
        label: &str,
        keep_old: SignedDuration,
        master_key: &MasterKey,
        common: &Common,
    ) -> TypeKey {
        let (now, entropy) = (common.now(), &*common.entropy);
        let key = MasterKey::new_type_key(entropy);
        let sealed = STANDARD.encode(master_key.seal(&key, label, entropy));
        let ends = now + keep_old;
        for old in &mut self.0 {
            old.expires_at = Some(old.expires_at.map_or(ends, |end| end.min(ends)));
        }
        self.0.retain(|old| old.expires_at.is_none_or(|end| now < end));
        self.0.insert(0, SealedSecret { sealed, expires_at: None });
        self.0.truncate(SECRETS_MAX);
        key
    }

    pub(crate) fn open(
        &self,
        label: &str,
        master_key: &MasterKey,
    ) -> Result<Vec<Secret>, WrongMasterKey> {
        let open = |secret: &SealedSecret| {
            let sealed = STANDARD.decode(&secret.sealed).map_err(|_| WrongMasterKey)?;
            let key = master_key.open(&sealed, label)?;
            Ok(Secret { key, expires_at: secret.expires_at })
        };
        self.0.iter().map(open).collect()
    }
}
