//! The limits of whole numbers.

use super::error::Findings;
use super::tree::{Node, Value};

/// The least and the most that each whole number may be. A field that has no default may be null.
pub(crate) const LIMITS: [(&str, u32, u32); 47] = [
    ("server.request_timeout_seconds", 1, 3_600),
    ("server.header_timeout_seconds", 1, 3_600),
    ("server.stall_timeout_seconds", 1, 3_600),
    ("server.body_limit_bytes", 1_024, 1_073_741_824),
    ("server.bodies_bytes_max", 1_024, u32::MAX),
    ("server.connections_max", 1, 1_000_000),
    ("server.heartbeat_seconds", 1, 3_600),
    ("server.shutdown_seconds", 0, 3_600),
    ("postgres.connections_max", 2, 10_000),
    ("postgres.timeout_milliseconds", 50, 600_000),
    ("redis.timeout_milliseconds", 1, 60_000),
    ("redis.lock_seconds", 1, 3_600),
    ("cluster.lease_seconds", 1, 3_600),
    ("cluster.pool_check_seconds", 1, 86_400),
    ("security.requests_per_second", 1, REQUESTS_PER_SECOND_MAX),
    ("issuing.count_max", 1, 1_000_000),
    ("issuing.pool_size_min", 1, POOL_SIZE_MAX),
    ("issuing.pool_size_max", 1, POOL_SIZE_MAX),
    ("issuing.refills_at_once", 1, 1_024),
    ("issuing.wait_milliseconds_max", 0, 600_000),
    ("issuing.log_flush_milliseconds", 1, 60_000),
    ("issuing.idempotency_hours", 1, 8_760),
    ("batches.workers", 0, 64),
    ("batches.count_max", 1, 1_000_000_000),
    ("batches.chunk_codes", 100, 1_000_000),
    ("batches.active_per_tenant_max", 1, 100_000),
    ("batches.silent_seconds", 1, 86_400),
    ("batches.retries", 0, 20),
    ("batches.retry_milliseconds", 1, 3_600_000),
    ("codes.context_days", 0, 3_650),
    ("documents.body_bytes_max", 1_024, 1_073_741_824),
    ("documents.payload_bytes_max", 2, 67_108_864),
    ("documents.count_max", 1, 100_000),
    ("documents.timeout_seconds", 1, 300),
    ("documents.at_once", 1, 100_000),
    ("documents.retries", 0, 20),
    ("documents.retry_seconds", 1, 3_600),
    ("documents.reservation_seconds", 1, 86_400),
    ("documents.reconcile_seconds", 1, 86_400),
    ("webhooks.timeout_seconds", 1, 300),
    ("webhooks.at_once", 1, 1_000),
    ("webhooks.retries", 0, 20),
    ("webhooks.retry_seconds", 1, 3_600),
    ("webhooks.keep_days", 1, 3_650),
    ("public.scans_per_minute", 1, 1_000_000),
    ("public.scans_per_minute_of_network", 1, 1_000_000),
    ("public.miss_milliseconds", 1, 10_000),
];

const POOL_SIZE_MAX: u32 = 16_777_216;
pub(super) const REQUESTS_PER_SECOND_MAX: u32 = 10_000_000;

/// Checks whole numbers before they are read, so that even "many" is answered with the limits.
/// What is wrong is set back to its default.
pub(crate) fn check_limits(tree: &mut Node, defaults: &Node, findings: &mut Findings) {
    for (path, min, max) in LIMITS {
        let default = defaults.at(path);
        let Some(node) = tree.at_mut(path) else {
            continue;
        };
        let message = match &node.value {
            Value::Null if default.is_some_and(|node| matches!(node.value, Value::Null)) => {
                continue;
            }
            Value::Scalar { text, .. } => match text.parse() {
                Ok(number) if (min..=max).contains(&number) => continue,
                Ok(_) => format!("{text} is outside the limits; use {min} to {max}"),
                Err(_) => format!("{text:?} is not a whole number from {min} to {max}"),
            },
            other => format!("expected a whole number from {min} to {max}, found {}", other.kind()),
        };
        findings.error(&node.source, path, message);
        if let Some(default) = default {
            *node = default.clone();
        }
    }
}
