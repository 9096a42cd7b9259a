//! What is counted about requests, and everything that `/metrics` shows.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::Method;
use engine::issuing::PoolReport;
use engine::metrics::EngineMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use storage::Reading;

use super::readings::Readings;

/// From a twentieth of a millisecond to the request limit.
const BUCKETS_SECONDS: [f64; 12] =
    [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

/// The route that has a histogram of its own.
const ISSUE_ROUTE: &str = super::ids::PATH;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
    /// The problem's code, empty for a success.
    problem: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    tenant: String,
    r#type: String,
    period: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PublicLabels {
    result: &'static str,
}

/// What became of a request by somebody without a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PublicResult {
    Known,
    Unknown,
    Limited,
    /// Its page was too old, or there was none.
    Expired,
}

type PoolGauge = Family<PoolLabels, Gauge<f64, AtomicU64>>;

/// Counters of the server.
pub(crate) struct ServerMetrics {
    registry: Registry,
    /// The routes that exist, so that a label costs no allocation.
    routes: HashSet<&'static str>,
    requests: Family<RequestLabels, Counter>,
    /// The counter of issuing that went well, which would otherwise be looked up every time.
    issued: Counter,
    issue_seconds: Histogram,
    public_scans: Family<PublicLabels, Counter>,
    pool_level: PoolGauge,
    pool_size: PoolGauge,
    pool_used_ratio: PoolGauge,
    pool_valid_left: PoolGauge,
    readings: Readings,
}

impl ServerMetrics {
    pub(crate) fn new(engine: &EngineMetrics, routes: Vec<String>) -> Self {
        let mut registry = Registry::with_prefix("mintage");
        engine.register(&mut registry);
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "Requests by route and outcome", requests.clone());
        let ok = RequestLabels { method: "POST", route: ISSUE_ROUTE, status: 200, problem: "" };
        let issued = requests.get_or_create(&ok).clone();
        let issue_seconds = Histogram::new(BUCKETS_SECONDS);
        registry.register_with_unit(
            "issue_duration",
            "Time to answer a request for IDs",
            Unit::Seconds,
            issue_seconds.clone(),
        );
        let public_scans = Family::<PublicLabels, Counter>::default();
        registry.register(
            "public_scans",
            "Verdicts that somebody without a key has asked for, by result",
            public_scans.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = PoolGauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let pool_level = gauge("pool_level", "IDs that are ready");
        let pool_size = gauge("pool_size", "IDs that a refill aims for");
        let pool_used_ratio =
            gauge("pool_used_ratio", "Share of the ID type's space that is drawn");
        let pool_valid_left = gauge("pool_valid_left", "IDs of the ID type that are left");
        let readings = Readings::default();
        registry.register_collector(Box::new(readings.clone()));
        // There is a fixed number of routes, and they live as long as the process.
        let routes = routes.into_iter().map(|route| &*route.leak()).collect();
        Self {
            registry,
            routes,
            requests,
            issued,
            issue_seconds,
            public_scans,
            pool_level,
            pool_size,
            pool_used_ratio,
            pool_valid_left,
            readings,
        }
    }

    /// Counts a request.
    pub(crate) fn count(
        &self,
        method: &Method,
        route: &str,
        status: u16,
        problem: &'static str,
        elapsed: Duration,
    ) {
        if route == ISSUE_ROUTE {
            self.issue_seconds.observe(elapsed.as_secs_f64());
            if status == 200 {
                self.issued.inc();
                return;
            }
        }
        let route = self.routes.get(route).copied().unwrap_or("none");
        let labels = RequestLabels { method: method_name(method), route, status, problem };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a verdict that somebody without a key has asked for.
    pub(crate) fn count_public(&self, result: PublicResult) {
        let result = match result {
            PublicResult::Known => "known",
            PublicResult::Unknown => "unknown",
            PublicResult::Limited => "limited",
            PublicResult::Expired => "expired",
        };
        self.public_scans.get_or_create(&PublicLabels { result }).inc();
    }

    /// Everything, in the text format of OpenMetrics.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
    pub(crate) fn encode(&self, pools: Vec<PoolReport>, readings: Vec<Reading>) -> String {
        self.readings.set(readings);
        for family in
            [&self.pool_level, &self.pool_size, &self.pool_used_ratio, &self.pool_valid_left]
        {
            family.clear();
        }
        for pool in pools {
            let labels =
                PoolLabels { tenant: pool.tenant, r#type: pool.type_name, period: pool.period };
            self.pool_level.get_or_create(&labels).set(pool.level as f64);
            self.pool_size.get_or_create(&labels).set(pool.size as f64);
            self.pool_used_ratio.get_or_create(&labels).set(pool.used_ratio);
            self.pool_valid_left.get_or_create(&labels).set(pool.valid_left as f64);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to memory does not fail");
        text
    }
}

/// Clients can invent methods; labels must not grow with them.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}
