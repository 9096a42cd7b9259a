//! The secret that decides in which order a random type's IDs come.

use std::fmt;

use zeroize::Zeroize;

/// A 256-bit key. Wiped from memory when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TypeKey([u8; Self::BYTES]);

impl TypeKey {
    /// Length of a key.
    pub const BYTES: usize = 32;

    /// A key from its bytes.
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a cipher or for safe keeping.
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl Drop for TypeKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for TypeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypeKey(secret)")
    }
}
