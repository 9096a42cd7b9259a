#![doc = include_str!("../README.md")]

pub mod answers;
pub mod batches;
pub mod catalogue;
pub mod codes;
mod duties;
mod engine;
pub mod error;
pub mod issuing;
pub mod keys;
mod live_type;
mod membership;
pub mod metrics;
mod rate;
mod sealing;
pub mod surroundings;

pub use engine::{Engine, EngineParts, EngineSettings, Issuance, SerialHistory};
pub use live_type::LiveType;
pub use rate::RateState;
pub use sealing::MasterKey;
