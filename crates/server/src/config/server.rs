//! `server`: how the server listens, and what it allows a connection to do.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de};

/// Settings under `server`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerConfig {
    /// Address and port.
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    /// After which a request is given up.
    pub(crate) request_timeout_seconds: u32,
    /// Within which a client must have sent its headers, and for which it may send nothing of a body.
    pub(crate) header_timeout_seconds: u32,
    /// For which a client may take nothing of its answer.
    pub(crate) stall_timeout_seconds: u32,
    /// Of a request.
    pub(crate) body_limit_bytes: u32,
    /// Of all requests at the same time.
    pub(crate) bodies_bytes_max: u32,
    /// Open at the same time.
    pub(crate) connections_max: u32,
    /// Between two signs of life to those who follow a batch.
    pub(crate) heartbeat_seconds: u32,
    /// That running requests are given to finish.
    pub(crate) shutdown_seconds: u32,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.trim().parse().map_err(|_| {
        de::Error::custom(format_args!(
            "{text:?} is not an address with a port; use one such as 127.0.0.1:8080, \
             0.0.0.0:8080 or [::1]:8080"
        ))
    })
}
