#![doc = include_str!("../README.md")]

mod asking;
mod breaker;
mod cluster;
mod connect;
mod error;
mod figures;
mod hot_codes;
mod keeper;
mod keys;
mod link;
mod lock;
mod origins;
mod pools;
mod progress;
mod refill;
mod server;
mod settings;
mod shared_redis;
mod slots;
mod strays;
mod sweep;
mod target;
mod tls;
mod turns;
mod waiting;
mod wire;
mod withdraw;

pub use error::SettingsError;
pub use settings::{Clock, Settings, TokenSource};
pub use shared_redis::SharedRedis;
