//! What takes a letter to an address. The server has the real one.

use std::time::Duration;

use async_trait::async_trait;

/// A request to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Where to.
    pub url: String,
    /// Headers beside those that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long the receiver wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// Makes HTTP requests to addresses that others have chosen.
#[async_trait]
pub trait Carrier: Send + Sync {
    /// Says why nothing will ever be sent to an address.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Sends a letter, once, and waits for the reply. Where the address leads to is looked up and
    /// checked every time, and redirects are not followed. It takes as long as it takes: whoever
    /// calls has a limit.
    async fn post(&self, letter: Letter) -> Result<Reply, String>;
}
