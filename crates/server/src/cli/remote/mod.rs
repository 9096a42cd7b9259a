//! Commands that talk to a running server.

mod audit;
mod batches;
mod client;
mod documents;
mod download;
mod gaps;
mod issue;
mod keys;
mod pools;
mod reservations;
mod sinks;
mod table;
mod tenants;
mod types;
mod webhooks;

pub(super) use audit::{Args as AuditArgs, run as audit};
pub(super) use batches::{Args as BatchesArgs, run as batches};
pub(super) use documents::{Args as DocumentsArgs, run as documents};
pub(super) use gaps::{Args as GapsArgs, run as gaps};
pub(super) use issue::{Args as IssueArgs, run as issue};
pub(super) use keys::{Args as KeysArgs, run as keys};
pub(super) use pools::{Args as PoolsArgs, run as pools};
pub(super) use reservations::{Args as ReservationsArgs, run as reservations};
pub(super) use sinks::{Args as SinksArgs, run as sinks};
pub(super) use tenants::{Args as TenantsArgs, run as tenants};
pub(super) use types::{Args as TypesArgs, run as types};
pub(super) use webhooks::{Args as WebhooksArgs, run as webhooks};
