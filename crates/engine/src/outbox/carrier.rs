//! What takes deliveries to where they belong. The server has the real one.

use std::time::Duration;

use async_trait::async_trait;

/// How a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// To somebody who takes what is sent.
    Post,
    /// To the place where it is to be.
    Put,
}

/// A request to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// How.
    pub method: Method,
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

impl Reply {
    /// Whether the receiver has taken it.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Names of directories, and of the file at last. Whatever is in them, the file ends up in its
    /// place, and no two lists of names are the same file.
    pub path: Vec<String>,
    /// What is in it.
    pub content: String,
}

/// Files to be written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOrder {
    /// Whose. No tenant can write where another does.
    pub tenant: String,
    /// A directory of the tenant.
    pub directory: String,
    /// The files, below the directory.
    pub files: Vec<NewFile>,
    /// Whether nothing may be written behind one that could not be.
    pub in_order: bool,
}

/// Takes deliveries to addresses and directories that others have chosen.
#[async_trait]
pub trait Carrier: Send + Sync {
    /// Says why nothing will ever be sent to an address.
    fn check_address(&self, url: &str) -> Result<(), String>;

    /// Says why nothing can be written to a directory.
    async fn check_directory(&self, name: &str) -> Result<(), String>;

    /// Sends a letter, once, and waits for the reply. Where the address leads to is looked up and
    /// checked every time, and redirects are not followed. It takes as long as it takes: whoever
    /// calls has a limit.
    async fn post(&self, letter: Letter) -> Result<Reply, String>;

    /// Writes files, each whole or not at all, over whatever had their names. When this returns they
    /// will survive a loss of power. The results are in the order of the files; there are fewer if some
    /// were not tried.
    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>>;
}
