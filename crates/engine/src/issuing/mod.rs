//! Issuing IDs: pools over drawn ranges, refills, the issue log.

mod burn;
mod issuer;
mod log;
mod pool;
mod refill;
mod snowflakes;
mod stock;

pub use issuer::{IssueRequest, Issuer, IssuingSettings, PoolReport};
pub use stock::IdList;

pub(crate) use log::LogWriter;
pub(crate) use pool::{Pool, Renderer};

pub(crate) use snowflakes::{SnowflakeLine, SnowflakeParts};
