//! The HTTP API as clients see it: the real executable, real connections.

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod batches;
mod bodies;
mod codes;
mod diagnosis;
mod disk;
mod documents;
mod exhaustion;
mod faulty_sinks;
mod gaps;
mod idempotency;
mod issuances;
mod issuing;
mod keys;
mod limits;
mod openg2p;
mod operation;
mod protocol;
mod public;
mod reservations;
mod scan_contexts;
mod security;
mod shutdown;
mod sinks;
mod tenants;
mod types;
mod webhooks;
