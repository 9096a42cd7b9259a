//! What the engine counts. The server registers these and publishes them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counters of the issuing engine.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    pub(crate) ids_issued: Counter,
    pub(crate) refills: Counter,
    pub(crate) draws: Counter,
    pub(crate) fallback_draws: Counter,
    pub(crate) top_ups: Counter,
    pub(crate) draw_failures: Counter,
    pub(crate) serials_drawn: Counter,
    pub(crate) requests_waited: Counter,
    pub(crate) log_failures: Counter,
    pub(crate) codes_made: Counter,
    pub(crate) chunks_failed: Counter,
    pub(crate) scans_known: Counter,
    pub(crate) scans_unknown: Counter,
    pub(crate) looks_held: Counter,
    pub(crate) documents_assigned: Counter,
    pub(crate) serials_unexplained: Counter,
    pub(crate) deliveries_made: Counter,
    pub(crate) deliveries_failed: Counter,
    pub(crate) deliveries_dead: Counter,
}

impl EngineMetrics {
    /// Makes the counters visible.
    pub fn register(&self, registry: &mut Registry) {
        let counters = [
            ("ids_issued", "IDs handed out", &self.ids_issued),
            ("refills", "Refills of pools", &self.refills),
            ("draws", "Ranges of serials drawn from counters by this instance", &self.draws),
            (
                "fallback_draws",
                "Draws from the database because the shared pools could not be reached",
                &self.fallback_draws,
            ),
            ("top_ups", "Steps of filling shared pools", &self.top_ups),
            ("draw_failures", "Draws that the store refused", &self.draw_failures),
            ("serials_drawn", "Serials drawn from counters", &self.serials_drawn),
            ("requests_waited", "Requests that found their pool empty", &self.requests_waited),
            ("log_failures", "Writes of the issue log that failed", &self.log_failures),
            (
                "codes_made",
                "Codes of stored batches that this instance has written",
                &self.codes_made,
            ),
            (
                "chunks_failed",
                "Attempts to write a chunk of a batch that failed",
                &self.chunks_failed,
            ),
            ("scans_known", "Scans of codes that were made", &self.scans_known),
            ("scans_unknown", "Scans of what is no code that was made", &self.scans_unknown),
            ("code_looks_held", "Looks at codes that were answered from memory", &self.looks_held),
            ("documents_assigned", "Documents that were given a number", &self.documents_assigned),
            (
                "serials_unexplained",
                "Serials that the reconciliation found without an explanation",
                &self.serials_unexplained,
            ),
            ("deliveries_made", "Deliveries that have arrived", &self.deliveries_made),
            ("deliveries_failed", "Attempts at deliveries that failed", &self.deliveries_failed),
            (
                "deliveries_dead",
                "Deliveries that automatic retries gave up on",
                &self.deliveries_dead,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }
}
