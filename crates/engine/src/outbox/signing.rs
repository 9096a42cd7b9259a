//! Signatures by the Standard Webhooks specification.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use idgen::key::TypeKey;
use jiff::Timestamp;
use sha2::Sha256;

/// What a secret begins with when it is shown.
const PREFIX: &str = "whsec_";

/// A secret as its receiver needs it.
pub(crate) fn shown(secret: &TypeKey) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret.as_bytes()))
}

/// The headers that prove where a message comes from. Each secret in force makes a signature, so that
/// a receiver can go over from one to the next at any time.
pub(crate) fn headers<'a>(
    id: &str,
    at: Timestamp,
    body: &str,
    secrets: impl Iterator<Item = &'a TypeKey>,
) -> Vec<(&'static str, String)> {
    let at = at.as_second();
    let signatures: Vec<String> = secrets.map(|secret| signature(id, at, body, secret)).collect();
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", signatures.join(" ")),
    ]
}

fn signature(id: &str, at: i64, body: &str, secret: &TypeKey) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length will do");
    for part in [id, ".", &at.to_string(), ".", body] {
        mac.update(part.as_bytes());
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}
