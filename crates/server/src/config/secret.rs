//! A secret that cannot be printed by accident.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroize as _;

/// What is shown in place of a secret.
pub(crate) const MASK: &str = "***";

/// The key that other keys are encrypted under: 256 bits, written as 64 hexadecimal digits. Wiped
/// from memory when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MasterKey([u8; Self::BYTES]);

impl MasterKey {
    /// Length of a key.
    pub(crate) const BYTES: usize = 32;

    /// The bytes, for a cipher.
    pub(crate) fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for MasterKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for MasterKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; Self::BYTES];
        // The message tells the length, never the text: it may be a key with a typing error.
        hex::decode_to_slice(text.trim(), &mut bytes).map_err(|_| {
            de::Error::custom(format_args!(
                "{} characters that are not a key; use {} hexadecimal digits",
                text.chars().count(),
                2 * Self::BYTES
            ))
        })?;
        Ok(Self(bytes))
    }
}

/// Text that may hold a password, such as a URL. Never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(String);

impl SecretText {
    /// The text, for whoever connects with it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
