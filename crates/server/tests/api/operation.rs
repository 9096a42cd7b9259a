//! Pools, health, metrics, the OpenAPI document and the reference page.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::support::{Deployment, Home};

#[test]
fn pools_tell_how_long_they_last() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    for id_type in ["invoice", "farmer", "bottle"] {
        client.issue(id_type, 100);
    }
    let reply = client.get("/api/v1/pools");
    assert_eq!((reply.status, &reply.body["next"]), (200, &Value::Null));
    let pools = reply.body["pools"].as_array().unwrap();
    let names: Vec<&str> = pools.iter().map(|pool| pool["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["bottle", "farmer", "invoice"], "a snowflake has no pool");
    for pool in pools {
        let number =
            |field: &str| pool[field].as_f64().unwrap_or_else(|| panic!("{field}: {pool}"));
        assert_eq!(pool["tenant"], "default");
        let yearly = pool["type"] == "invoice";
        // PostgreSQL alone gives sequences out straight from the counter, nothing ahead of demand.
        if yearly && Deployment::of_this_run() == Deployment::Postgres {
            assert_eq!((&pool["size"], &pool["level"]), (&json!(0), &json!(0)), "{pool}");
        } else {
            assert!(number("size") >= 256.0 && number("watermark") < number("size"), "{pool}");
        }
        assert!(number("valid_left") >= number("level"), "{pool}");
        assert!((0.0..1.0).contains(&number("used_ratio")) && number("used_ratio") > 0.0, "{pool}");
        assert!(number("burn_rate") >= 0.0, "{pool}");
        assert!(pool["days_left"].is_null() || number("days_left") > 0.0, "{pool}");
        assert_eq!((pool["exhausted"].as_bool(), pool["exact"].is_boolean()), (Some(false), true));
        assert_eq!(
            pool["period"].as_str().is_some_and(|period| period.len() == 4),
            yearly,
            "{pool}"
        );
    }
    let page = client.get("/api/v1/pools?limit=1&after=default/bottle").body;
    assert_eq!(
        (&page["pools"][0]["type"], &page["next"]),
        (&json!("farmer"), &json!("default/farmer"))
    );
    assert_eq!(client.get("/api/v1/pools?tenant=nobody").body["pools"], json!([]));
}

#[test]
fn alive_and_ready() {
    let home = Home::new();
    let server = home.start();
    // It lives before its pools are filled.
    assert_eq!(server.client().get("/livez").status, 200);
    let server = server.ready();
    for path in ["/livez", "/readyz"] {
        let reply = server.client().get(path);
        assert_eq!((reply.status, reply.body), (200, json!({"status": "ok"})), "{path}");
    }
}

/// The name, the labels and the value of a line, which must have the form that OpenMetrics asks
/// for.
fn sample(line: &str) -> (&str, HashMap<&str, &str>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, labels)) => {
            (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))
        }
    };
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    assert!(is_name(name), "{line}");
    let labels = labels.split_terminator("\",").map(|label| {
        let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        let value = value.strip_suffix('"').unwrap_or(value);
        assert!(is_name(name) && !value.contains('"'), "{line}");
        (name, value)
    });
    (name, labels.collect(), value)
}

#[test]
fn metrics_are_openmetrics() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    client.issue("bottle", 30);
    client.issue("invoice", 12);
    client.order("{").problem(400, "malformed_json");
    client.get("/no/such/path").problem(404, "not_found");
    let reply = client.get("/metrics");
    assert_eq!(reply.status, 200);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(kind));
    let text = reply.text.strip_suffix("# EOF\n").expect("it has an end");
    let (mut types, mut helped, mut series) = (HashMap::new(), HashSet::new(), HashMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => {
                assert!(help.len() > 5 && helped.insert(name), "{line}");
            }
            ["#", "TYPE", name, kind @ ("counter" | "gauge" | "histogram")] => {
                assert!(name.starts_with("mintage_"), "{line}");
                assert!(types.insert(name, kind).is_none(), "{line}");
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(unit), "{line}"),
            _ => {
                let (name, labels, value) = sample(line);
                let suffixes = ["_total", "_bucket", "_count", "_sum", ""];
                let family = suffixes
                    .iter()
                    .find_map(|suffix| types.get_key_value(name.strip_suffix(suffix)?));
                let (_, kind) = family.unwrap_or_else(|| panic!("no type for {line}"));
                assert_eq!(*kind == "counter", name.ends_with("_total"), "{line}");
                assert!(value >= 0.0, "{line}");
                let mut labels: Vec<_> = labels.into_iter().collect();
                labels.sort_unstable();
                assert!(series.insert((name, labels), value).is_none(), "twice: {line}");
            }
        }
    }
    assert!(types.keys().all(|name| helped.contains(name)), "{types:?} {helped:?}");
    for (name, kind) in [
        ("mintage_ids_issued", "counter"),
        ("mintage_refills", "counter"),
        ("mintage_draws", "counter"),
        ("mintage_draw_failures", "counter"),
        ("mintage_serials_drawn", "counter"),
        ("mintage_requests_waited", "counter"),
        ("mintage_http_requests", "counter"),
        ("mintage_issue_duration_seconds", "histogram"),
        ("mintage_pool_level", "gauge"),
        ("mintage_pool_size", "gauge"),
        ("mintage_pool_used_ratio", "gauge"),
        ("mintage_pool_valid_left", "gauge"),
    ] {
        assert_eq!(types.get(name), Some(&kind), "{name}");
    }
    let value = |name: &str, labels: &[(&'static str, &'static str)]| {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        let found = series.iter().find(|((n, l), _)| *n == name && *l == labels);
        *found.unwrap_or_else(|| panic!("{name} {labels:?} in {text}")).1
    };
    let same = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    same(value("mintage_ids_issued_total", &[]), 42.0);
    let requests = |route, status, problem| {
        let method = if route == "/api/v1/ids" { "POST" } else { "GET" };
        let labels =
            [("method", method), ("route", route), ("status", status), ("problem", problem)];
        value("mintage_http_requests_total", &labels)
    };
    same(requests("/api/v1/ids", "200", ""), 2.0);
    same(requests("/api/v1/ids", "400", "malformed_json"), 1.0);
    same(requests("none", "404", "not_found"), 1.0);
    same(value("mintage_issue_duration_seconds_count", &[]), 3.0);
    same(value("mintage_issue_duration_seconds_bucket", &[("le", "+Inf")]), 3.0);
    assert!(
        value("mintage_pool_level", &[("tenant", "default"), ("type", "bottle"), ("period", "")])
            > 0.0
    );
}

const OPENAPI: &str = include_str!("../../../../openapi.json");

/// All but those that change nothing, that answer with a secret, or that have a token instead.
#[test]
fn every_post_says_that_it_takes_an_idempotency_key() {
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut without = Vec::new();
    for (path, calls) in openapi["paths"].as_object().unwrap() {
        let Some(post) = calls.get("post") else { continue };
        let mut parameters = post["parameters"].as_array().into_iter().flatten();
        if !parameters.any(|parameter| parameter["name"] == "Idempotency-Key") {
            without.push(path.as_str());
        }
    }
    assert_eq!(
        without,
        [
            "/api/v1/ids/validate",
            "/api/v1/keys",
            "/api/v1/webhooks/{name}/rotate",
            "/v/{tenant}/{type}/{code}",
            "/v/{type}/{code}",
        ]
    );
}

#[test]
fn the_openapi_document_is_the_committed_one() {
    let home = Home::new();
    let server = home.start();
    let reply = server.client().get("/openapi.json");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let message =
        "the committed openapi.json is not up to date; run: cargo run -- openapi > openapi.json";
    assert!(reply.text == OPENAPI, "{message}");
    assert_eq!(home.ok(&["openapi"]), OPENAPI);
    assert_eq!(reply.body["openapi"], "3.1.0");
    // Every reference leads somewhere.
    for part in OPENAPI.split("\"$ref\": \"#").skip(1) {
        let pointer = part.split('"').next().unwrap();
        assert!(reply.body.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn the_reference_page_is_complete_and_needs_no_internet() {
    let home = Home::new();
    let server = home.start();
    let reply = server.client().get("/docs");
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    for path in openapi["paths"].as_object().unwrap().keys() {
        assert!(reply.text.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for outside in ["http:", "https:", "src=", "@import", "url(", "href=\"//", "href=//"] {
        assert!(!reply.text.contains(outside), "{outside}");
    }
    // The links in problem documents lead to this page.
    for code in [
        "malformed_json",
        "body_cut_off",
        "invalid_idempotency_key",
        "unauthorized",
        "missing_scope",
        "wrong_tenant",
        "not_found",
        "unknown_type",
        "method_not_allowed",
        "request_in_flight",
        "settings_are_fixed",
        "exists",
        "in_use",
        "retired",
        "exhausted",
        "gapless",
        "payload_too_large",
        "no_sink",
        "reference_taken",
        "not_held",
        "body_too_large",
        "body_too_slow",
        "too_many_bodies",
        "cross_site",
        "invalid_request",
        "idempotency_key_reused",
        "idempotency_key_refused",
        "too_many_requests",
        "page_expired",
        "pool_empty",
        "unknown_code",
        "not_a_code_type",
        "no_room",
        "too_dense",
        "too_many_batches",
        "over_quota",
        "batch_not_ready",
        "too_many_downloads",
        "batch_ended",
        "delivery_ended",
        "unavailable",
        "timeout",
    ] {
        assert!(reply.text.contains(&format!("id=\"problem-{code}\"")), "{code}");
    }
}
