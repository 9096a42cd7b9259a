//! Issuing IDs: pools over drawn ranges, refills, the issue log.

mod burn;
mod issuer;
mod log;
mod maker;
mod pool;
mod refill;
mod report;
mod sizing;
mod snowflakes;
mod stock;
mod supply;
mod upkeep;

pub use issuer::{IssueRequest, Issuer, IssuingSettings};
pub use maker::SharedPoolSet;
pub use report::PoolReport;
pub use stock::IdList;

pub(crate) use log::LogWriter;
pub(crate) use maker::PoolMaker;
pub(crate) use pool::{Pool, Renderer};
pub(crate) use sizing::Sizing;
pub(crate) use snowflakes::{SnowflakeLine, SnowflakeParts, node_period};
pub(crate) use supply::Supply;
