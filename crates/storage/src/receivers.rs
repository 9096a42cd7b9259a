//! Receivers: whom the service delivers to.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Result, Void};

/// A receiver in all other tables. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReceiverId(pub i64);

/// What a receiver is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be told what happened.
    Webhook,
    /// To be given documents.
    Sink,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Sink];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Sink => "sink",
        }
    }
}

/// A receiver to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReceiver {
    /// Whose it is.
    pub tenant: String,
    /// What it is for. The name is unique for a tenant and a purpose.
    pub purpose: Purpose,
    /// What people call it.
    pub name: String,
    /// Where it is and what it wants: JSON, as text, with secrets sealed. Nothing here reads it.
    pub settings: String,
}

/// Somebody to deliver to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its number.
    pub id: ReceiverId,
    /// What was stored.
    pub receiver: NewReceiver,
    /// Grows with every change.
    pub revision: i64,
    /// That nothing is delivered to it any more, and why.
    pub disabled: Option<Void>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Remembers receivers. Every change counts as one of the
/// [catalogue](crate::Store::catalogue_version).
#[async_trait]
pub trait ReceiverStore {
    /// Every receiver, by number.
    async fn list_receivers(&self) -> Result<Vec<Receiver>>;

    /// Stores a receiver. [`StoreError::Exists`](crate::StoreError) if the name is taken.
    async fn create_receiver(&self, receiver: &NewReceiver, now: Timestamp) -> Result<Receiver>;

    /// Changes the settings of a receiver and puts it to use again if it was disabled.
    /// [`StoreError::Stale`](crate::StoreError) if it has another revision than the caller knows,
    /// [`StoreError::NotFound`](crate::StoreError) if it is not there.
    async fn change_receiver(
        &self,
        id: ReceiverId,
        revision: i64,
        settings: &str,
    ) -> Result<Receiver>;

    /// Delivers nothing to a receiver any more. False if it is not there, or was disabled before; the
    /// first reason stays.
    async fn disable_receiver(&self, id: ReceiverId, reason: &str, now: Timestamp) -> Result<bool>;

    /// Forgets a receiver. False if it is not there. What was delivered to it stays on record.
    async fn remove_receiver(&self, id: ReceiverId) -> Result<bool>;
}
