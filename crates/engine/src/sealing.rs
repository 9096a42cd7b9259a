//! Keys of ID types and secrets of webhooks, encrypted under the master key before they are stored.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hmac::{Hmac, Mac as _};
use idgen::key::TypeKey;
use sha2::Sha256;

use crate::surroundings::Entropy;

const NONCE_BYTES: usize = 12;

/// Seals and opens keys with AES-256-GCM. The full name of what a key belongs to is authenticated
/// along with it, so that nobody can swap the keys of two types in the store.
pub struct MasterKey {
    cipher: Aes256Gcm,
    /// Makes keys for other purposes.
    derivation: Hmac<Sha256>,
}

/// A sealed key that does not open: the master key is another one, or somebody changed the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongMasterKey;

impl MasterKey {
    /// The master key from its bytes.
    pub fn new(key: &TypeKey) -> Self {
        let derivation = Hmac::new_from_slice(key.as_bytes()).expect("a key may have any length");
        Self { cipher: Aes256Gcm::new(key.as_bytes().into()), derivation }
    }

    /// A key for a purpose. Every instance with the same master key gets the same one.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.derivation.clone().chain_update(purpose).finalize().into_bytes().into()
    }

    /// A new random key.
    pub(crate) fn new_type_key(entropy: &dyn Entropy) -> TypeKey {
        let mut bytes = [0; TypeKey::BYTES];
        entropy.fill(&mut bytes);
        TypeKey::new(bytes)
    }

    pub(crate) fn seal(&self, key: &TypeKey, label: &str, entropy: &dyn Entropy) -> Vec<u8> {
        self.seal_bytes(key.as_bytes(), label, entropy)
    }

    pub(crate) fn open(&self, sealed: &[u8], label: &str) -> Result<TypeKey, WrongMasterKey> {
        self.open_bytes(sealed, label)?.try_into().map(TypeKey::new).map_err(|_| WrongMasterKey)
    }

    /// Seals a secret that others have made.
    pub(crate) fn seal_bytes(&self, secret: &[u8], label: &str, entropy: &dyn Entropy) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        entropy.fill(&mut nonce);
        let payload = Payload { msg: secret, aad: label.as_bytes() };
        let sealed = self
            .cipher
            .encrypt(&Nonce::from(nonce), payload)
            .expect("secrets are within the limits of the cipher");
        [&nonce[..], &sealed].concat()
    }

    pub(crate) fn open_bytes(&self, sealed: &[u8], label: &str) -> Result<Vec<u8>, WrongMasterKey> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(WrongMasterKey)?;
        let payload = Payload { msg: sealed, aad: label.as_bytes() };
        self.cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| WrongMasterKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sevens;

    impl Entropy for Sevens {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn a_sealed_key_opens_with_the_same_master_key_and_name_only() {
        let master = MasterKey::new(&TypeKey::new([1; 32]));
        let key = TypeKey::new([9; 32]);
        let sealed = master.seal(&key, "default/bottle", &Sevens);
        assert_eq!(master.open(&sealed, "default/bottle"), Ok(key));
        assert_eq!(master.open(&sealed, "default/farmer"), Err(WrongMasterKey));
        let other = MasterKey::new(&TypeKey::new([2; 32]));
        assert_eq!(other.open(&sealed, "default/bottle"), Err(WrongMasterKey));
        assert_eq!(master.open(&sealed[..20], "default/bottle"), Err(WrongMasterKey));
        assert_eq!(master.open(&[], "default/bottle"), Err(WrongMasterKey));
    }

    #[test]
    fn keys_for_other_purposes_depend_on_the_master_key_and_the_purpose() {
        let key = |byte: u8, purpose| MasterKey::new(&TypeKey::new([byte; 32])).derive(purpose);
        assert_eq!(key(1, "a"), key(1, "a"));
        assert_ne!(key(1, "a"), key(1, "b"));
        assert_ne!(key(1, "a"), key(2, "a"));
    }
}
