//! Tokens that prove that a page was loaded: whoever counts a scan has to bring one.

use std::sync::Arc;

use engine::surroundings::{Clock, Entropy};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How long a page may take from being sent to running.
const LIFETIME_MS: i64 = 10 * 60 * 1000;

/// How far the clocks of two instances may be apart.
const CLOCKS_APART_MS: i64 = 60 * 1000;

const TIME_BYTES: usize = 8;
const NONCE_BYTES: usize = 8;
const HEAD_BYTES: usize = TIME_BYTES + NONCE_BYTES;
/// 128 bits are enough for something that lives for ten minutes.
const MAC_BYTES: usize = 16;

/// Makes and checks tokens. A token is the time, a number that makes it unique, and a MAC over both
/// and the address of the page, so nothing has to be remembered to know it again.
pub(super) struct Tokens {
    mac: Hmac<Sha256>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Tokens {
    pub(super) fn new(key: &[u8; 32], clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let mac = Hmac::new_from_slice(key).expect("a key may have any length");
        Self { mac, clock, entropy }
    }

    /// A new token for a page.
    pub(super) fn issue(&self, page: &str) -> String {
        let mut head = [0; HEAD_BYTES];
        head[..TIME_BYTES].copy_from_slice(&self.clock.now_ms().to_be_bytes());
        self.entropy.fill(&mut head[TIME_BYTES..]);
        let mac = self.mac_of(&head, page).finalize().into_bytes();
        hex::encode([&head[..], &mac[..MAC_BYTES]].concat())
    }

    /// Whether a token was issued for this page, and not too long ago.
    pub(super) fn accepts(&self, page: &str, token: &str) -> bool {
        let mut bytes = [0; HEAD_BYTES + MAC_BYTES];
        // In one form only, because the text is what counts once.
        if token.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return false;
        }
        if hex::decode_to_slice(token, &mut bytes).is_err() {
            return false;
        }
        let (head, mac) = bytes.split_at(HEAD_BYTES);
        if self.mac_of(head, page).verify_truncated_left(mac).is_err() {
            return false;
        }
        let time = head.first_chunk().map_or(i64::MIN, |time| i64::from_be_bytes(*time));
        let age = self.clock.now_ms().saturating_sub(time);
        (-CLOCKS_APART_MS..=LIFETIME_MS).contains(&age)
    }

    fn mac_of(&self, head: &[u8], page: &str) -> Hmac<Sha256> {
        self.mac.clone().chain_update(head).chain_update(page)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    struct Hands(AtomicI64);

    impl Clock for Hands {
        fn now_ms(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    struct Count(AtomicI64);

    impl Entropy for Count {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        }
    }

    fn tokens(key: u8) -> (Tokens, Arc<Hands>) {
        let clock = Arc::new(Hands(AtomicI64::new(1_800_000_000_000)));
        let entropy = Arc::new(Count(AtomicI64::new(0)));
        (Tokens::new(&[key; 32], Arc::clone(&clock) as _, entropy), clock)
    }

    #[test]
    fn a_token_is_good_for_its_page_and_for_ten_minutes() {
        let (tokens, clock) = tokens(1);
        let token = tokens.issue("default/bottle/A");
        assert_ne!(token, tokens.issue("default/bottle/A"));
        assert!(tokens.accepts("default/bottle/A", &token));
        assert!(!tokens.accepts("default/bottle/B", &token));
        for wrong in ["", "00", &token[2..], &format!("{token}00"), &"0".repeat(64), "%%"] {
            assert!(!tokens.accepts("default/bottle/A", wrong), "{wrong}");
        }
        let changed = format!("{}{}", if token.starts_with('0') { "1" } else { "0" }, &token[1..]);
        assert!(!tokens.accepts("default/bottle/A", &changed));
        clock.0.fetch_add(LIFETIME_MS, Ordering::Relaxed);
        assert!(tokens.accepts("default/bottle/A", &token));
        clock.0.fetch_add(1, Ordering::Relaxed);
        assert!(!tokens.accepts("default/bottle/A", &token));
    }

    #[test]
    fn instances_with_the_same_key_take_each_others_tokens() {
        let ((one, _), (same, clock), (other, _)) = (tokens(1), tokens(1), tokens(2));
        let token = one.issue("default/bottle/A");
        // Its clock is a little behind.
        clock.0.fetch_sub(5_000, Ordering::Relaxed);
        assert!(same.accepts("default/bottle/A", &token));
        assert!(!other.accepts("default/bottle/A", &token));
    }
}
