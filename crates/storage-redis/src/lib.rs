#![doc = include_str!("../README.md")]

mod breaker;
mod cluster;
mod connect;
mod error;
mod figures;
mod keeper;
mod keys;
mod link;
mod lists;
mod lock;
mod origins;
mod pools;
mod refill;
mod server;
mod settings;
mod slots;
mod strays;
mod sweep;
mod target;
mod tls;
mod wire;
mod withdraw;

pub use error::SettingsError;
pub use pools::RedisPools;
pub use settings::{Clock, Settings, TokenSource};
