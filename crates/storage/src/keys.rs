//! API keys. The secret itself is never stored.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Issue and validate IDs.
    Issue,
    /// Order and fetch batches.
    Batch,
    /// Verify codes.
    Scan,
    /// Everything, and administration.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Issue, Self::Batch, Self::Scan, Self::Admin];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::Batch => "batch",
            Self::Scan => "scan",
            Self::Admin => "admin",
        }
    }
}

/// A key to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// The public part, by which the key is found.
    pub short: String,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
    /// What people call it.
    pub name: String,
    /// Whose it is. None is for every tenant.
    pub tenant: Option<String>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Requests per second; none is no limit.
    pub requests_per_second: Option<u32>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working by itself.
    pub expires_at: Option<Timestamp>,
}

/// A stored key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its number in the issue log; from 1.
    pub id: i64,
    /// What was stored.
    pub key: NewApiKey,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Remembers API keys.
#[async_trait]
pub trait KeyStore {
    /// Every key, revoked ones included, oldest first.
    async fn list_keys(&self) -> Result<Vec<ApiKey>>;

    /// Stores a key. [`StoreError::Exists`](crate::StoreError) if the public part is taken.
    async fn create_key(&self, key: &NewApiKey) -> Result<ApiKey>;

    /// Revokes a key by its public part; once revoked, it stays so. False if it was revoked before.
    async fn revoke_key(&self, short: &str, now: Timestamp) -> Result<bool>;
}
