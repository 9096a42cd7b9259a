#![doc = include_str!("../README.md")]

mod admin;
pub mod answers;
pub mod audit;
pub mod backoff;
pub mod batches;
pub mod catalogue;
pub mod codes;
pub mod documents;
mod duties;
mod engine;
pub mod error;
pub mod gaps;
mod groups;
mod history;
pub mod issuing;
pub mod keys;
mod live_type;
mod membership;
pub mod metrics;
pub mod outbox;
mod rate;
mod sealing;
mod start;
pub mod surroundings;
pub mod webhooks;

pub use engine::{Engine, EngineParts, EngineSettings};
pub use history::{DocumentHistory, Issuance, SerialHistory};
pub use live_type::LiveType;
pub use rate::RateState;
pub use sealing::MasterKey;
