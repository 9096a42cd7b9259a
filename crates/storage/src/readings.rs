//! Figures about a store for whoever operates it.

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Its name, with the unit last, without the service's prefix: `replica_lag_seconds`.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// Whether it only ever grows.
    pub counter: bool,
    /// What tells readings of one name apart.
    pub labels: Vec<(&'static str, String)>,
    /// The figure.
    pub value: f64,
}
