//! `keys`: API keys whose tokens come with the deployment.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use storage::Scope;

use super::secret::MASK;

/// An entry of `keys`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyConfig {
    /// What people call it.
    pub(crate) name: String,
    /// The whole key.
    pub(crate) token: Token,
    /// Whose it is; none is for every tenant.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// What it may do.
    pub(crate) scopes: Vec<Scope>,
    /// Requests per second; none is `security.requests_per_second`.
    #[serde(default)]
    pub(crate) requests_per_second: Option<u32>,
}

/// A token that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// The text, to be hashed.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if engine::keys::is_token(&text) {
            return Ok(Self(text));
        }
        // The message never repeats the text: it may be a key with a typing error.
        Err(de::Error::custom(
            "not an API key; use mtg_<short>_<secret> with 4 to 32 and at least 24 letters and \
             digits, or leave the key out and make one with mintage keys create",
        ))
    }
}
