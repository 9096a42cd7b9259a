//! `/v/{type}/{code}`: what somebody without an API key is told, and what is not counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::batches::{codes, wait_for};
use crate::support::{Client, Home, Reply, Server};

const MISS: Duration = Duration::from_millis(50);

/// The tests are behind a trusted proxy, so that they can come from anywhere.
const CONFIG: &str = "
public:
  types: [bottle, label, 'PROJ/*', invoice]
  scans_per_minute: 1000
  scans_per_minute_of_network: 1000
  trusted_proxies: [127.0.0.0/8]
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { name: secret, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { name: invoice, sequence: {} }
  - { tenant: PROJ, name: pill, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { tenant: SHY, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

fn home() -> Home {
    Home::new().with_config(CONFIG)
}

fn make(client: &Client, tenant: &str, id_type: &str) -> String {
    let order = json!({"tenant": tenant, "type": id_type, "count": 1});
    let batch = client.post("/api/v1/batches", &order).body;
    codes(client, &wait_for(client, &batch, "completed"), "").remove(0)
}

fn page(client: &Client, path: &str) -> Reply {
    let reply = client.call(Method::GET, path, &[("accept", "text/html,*/*;q=0.8")], None);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

fn look(client: &Client, path: &str) -> Reply {
    client.call(Method::GET, path, &[("accept", "application/json")], None)
}

/// The token that a page gives to its script.
fn token(page: &Reply) -> String {
    let (_, rest) = page.text.split_once("data-token=\"").expect("it has a token");
    rest.split('"').next().unwrap().to_owned()
}

/// What the page's script does.
fn run(client: &Client, path: &str, token: &str) -> Reply {
    client.post(path, &json!({ "token": token }))
}

/// Loads the page and runs it.
fn visit(client: &Client, path: &str) -> Value {
    let reply = run(client, path, &token(&page(client, path)));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

fn press_button(client: &Client, path: &str, token: &str) -> Reply {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    client.call(Method::POST, path, &headers, Some(format!("token={token}").as_bytes()))
}

#[test]
fn without_public_types_there_is_nothing() {
    let server = Home::new().start();
    let client = server.client();
    for path in ["/v/bottle/ABC", "/v/default/bottle/ABC", "/v/"] {
        page_is_missing(&client.get(path));
        page_is_missing(&look(client, path));
    }
    run(client, "/v/bottle/ABC", "00").problem(404, "not_found");
}

fn page_is_missing(reply: &Reply) {
    reply.problem(404, "not_found");
    assert_eq!(reply.header("content-security-policy"), None);
}

#[test]
fn a_page_view_counts_once_the_page_has_run() {
    let home = home();
    let mut server = home.start();
    for (tenant, id_type) in [("default", "bottle"), ("default", "label"), ("PROJ", "pill")] {
        let client = server.client();
        let code = make(client, tenant, id_type);
        let path = match tenant {
            "default" => format!("/v/{id_type}/{code}"),
            tenant => format!("/v/{tenant}/{id_type}/{code}"),
        };
        // Link previews, crawlers, and programs that are only curious.
        for _ in 0..3 {
            page(client, &path);
            assert_eq!(client.call(Method::HEAD, &path, &[], None).status, 200);
            let json = [("accept", "application/json")];
            assert_eq!(client.call(Method::HEAD, &path, &json, None).status, 200);
            let looked = look(client, &path).body;
            let nothing = json!({"verdict": "genuine", "scans": 0, "first_scanned_at": null});
            assert_eq!(looked, nothing, "a stranger sees no more than this");
        }
        let loaded = token(&page(client, &path));
        let first = run(client, &path, &loaded).body;
        assert_eq!((&first["verdict"], &first["scans"]), (&json!("genuine"), &json!(1)), "{first}");
        // A reply that got lost, or a finger that slipped.
        assert_eq!(run(client, &path, &loaded).body, first);
        let looked = look(client, &path).body;
        assert_eq!((&looked["verdict"], &looked["scans"]), (&json!("repeated"), &json!(1)));
        let second = visit(client, &path);
        assert_eq!((&second["verdict"], &second["scans"]), (&json!("repeated"), &json!(2)));
        assert_eq!(second["first_scanned_at"], first["first_scanned_at"]);
        // Not even after the server was started again.
        server.stop();
        server = home.start();
        assert_eq!(run(server.client(), &path, &loaded).body, first);
        assert_eq!(look(server.client(), &path).body["scans"], 2);
    }
}

#[test]
fn requests_with_one_token_at_once_are_one_scan_and_get_one_answer() {
    let server = home().start();
    let client = server.client();
    let path = format!("/v/bottle/{}", make(client, "default", "bottle"));
    assert_eq!(visit(client, &path)["verdict"], "genuine");
    // From now on the code was scanned before, whichever of them is the first.
    for scans in 2..12 {
        let loaded = token(&page(client, &path));
        let (clients, path, loaded) = ([(); 6], &*path, &*loaded);
        let clients = clients.map(|()| server.new_client());
        let verdicts = std::thread::scope(|scope| {
            let ask = |client| scope.spawn(move || run(client, path, loaded));
            clients.each_ref().map(ask).map(|asking| asking.join().unwrap())
        });
        for reply in verdicts {
            let verdict = (&reply.body["verdict"], &reply.body["scans"]);
            assert_eq!(verdict, (&json!("repeated"), &json!(scans)), "{reply:?}");
        }
    }
}

#[test]
fn only_the_token_of_the_page_counts() {
    let server = home().start();
    let client = server.client();
    let (code, other) = (make(client, "default", "bottle"), make(client, "default", "bottle"));
    let path = format!("/v/bottle/{code}");
    let elsewhere = token(&page(client, &format!("/v/bottle/{other}")));
    for wrong in ["", "00", &"0".repeat(64), &elsewhere] {
        run(client, &path, wrong).problem(403, "page_expired");
        let reply = press_button(client, &path, wrong);
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(reply.text.contains("<section id=\"failed\">"), "{reply:?}");
    }
    client.post(&path, &json!({})).problem(422, "invalid_request");
    client.post_text(&path, "{").problem(400, "malformed_json");
    client.post_text(&path, &" ".repeat(2000)).problem(413, "body_too_large");
    assert_eq!(look(client, &path).body["scans"], 0);
}

#[test]
fn the_page_needs_nothing_else_and_is_kept_by_nobody() {
    let server = home().start();
    let client = server.client();
    let code = make(client, "default", "bottle");
    let path = format!("/v/bottle/{code}");
    let reply = page(client, &path);
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    for reply in [&reply, &look(client, &path), &run(client, &path, "00")] {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
        assert!(reply.header("x-robots-tag").unwrap().starts_with("noindex"), "{reply:?}");
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{reply:?}");
        assert_eq!(reply.header("vary"), Some("accept"), "{reply:?}");
    }
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    for outside in ["http:", "https:", "src=", "@import", "url(", "href=\"//", "href=//"] {
        assert!(!reply.text.contains(outside), "{outside}");
    }
    assert!(
        !reply.text.contains(&code),
        "an address can say anything; the page does not repeat it"
    );
    assert!(client.get("/robots.txt").text.contains("Disallow: /"));

    // Without a script, a button.
    let (_, form) = reply.text.split_once("<noscript>").unwrap();
    assert!(form.contains("<form method=\"post\">") && form.contains(&token(&reply)), "{form}");
    let answer = press_button(client, &path, &token(&reply));
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    assert!(answer.text.contains("<section id=\"genuine\" class=\"good\">"), "{answer:?}");
    let void = format!("/api/v1/codes/bottle/{code}/void");
    assert_eq!(client.post(&void, &json!({"reason": "<i>stolen</i>"})).status, 200);
    let answer = press_button(client, &path, &token(&page(client, &path)));
    assert!(answer.text.contains("<section id=\"void\" class=\"bad\">"), "{answer:?}");
    assert!(answer.text.contains("&lt;i&gt;stolen&lt;/i&gt;"), "{answer:?}");
    let verdict = look(client, &path).body;
    assert_eq!(
        (&verdict["verdict"], &verdict["void"]),
        (&json!("void"), &json!({"reason": "<i>stolen</i>"}))
    );
}

/// Everything of an answer but what is different every time.
fn shape(reply: &Reply) -> (u16, BTreeMap<String, String>, String) {
    let headers =
        reply.headers.iter().filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()));
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (reply.status, headers.collect(), reply.text.clone())
}

#[test]
fn everything_unknown_has_one_answer_in_shape_and_in_time() {
    let server = home().start();
    let client = server.client();
    let real = make(client, "default", "bottle");
    let never_made = client.issue("bottle", 1).remove(0);
    let mut mistyped: Vec<char> = real.chars().collect();
    mistyped[0] = if mistyped[0] == '7' { '8' } else { '7' };
    let mistyped: String = mistyped.into_iter().collect();
    let invoice = client.issue("invoice", 1).remove(0);
    let paths = [
        "/v/bottle/x".to_owned(),
        "/v/bottle/%ff%fe".to_owned(),
        format!("/v/bottle/{}", "7".repeat(3000)),
        format!("/v/bottle/{mistyped}"),
        format!("/v/bottle/{never_made}"),
        format!("/v/bottle/{}", make(client, "default", "label")),
        format!("/v/bottle/{}", make(client, "SHY", "bottle")),
        format!("/v/SHY/bottle/{}", make(client, "SHY", "bottle")),
        format!("/v/secret/{}", make(client, "default", "secret")),
        format!("/v/pill/{}", make(client, "PROJ", "pill")),
        format!("/v/nothing/{real}"),
        format!("/v/NOBODY/bottle/{real}"),
        format!("/v/invoice/{invoice}"),
    ];
    let expected = shape(&look(client, &paths[0]));
    assert_eq!(
        (expected.0, &*expected.2),
        (200, r#"{"verdict":"unknown","scans":0,"first_scanned_at":null}"#)
    );
    let mut fastest = vec![Duration::MAX; paths.len()];
    for round in 0..6 {
        for (path, fastest) in paths.iter().zip(&mut fastest) {
            // Both ways to ask.
            let token = (round % 2 == 1).then(|| token(&page(client, path)));
            let start = Instant::now();
            let reply = match token {
                Some(token) => run(client, path, &token),
                None => look(client, path),
            };
            *fastest = start.elapsed().min(*fastest);
            assert_eq!(shape(&reply), expected, "{path}");
        }
    }
    // The fastest of some is what a patient stranger would compare; a busy machine only adds to it.
    let (least, most) = (fastest.iter().min().unwrap(), fastest.iter().max().unwrap());
    assert!(*least >= MISS, "{fastest:?}");
    assert!(*most < *least + MISS / 2, "{paths:?} {fastest:?}");
    let start = Instant::now();
    assert_eq!(look(client, &format!("/v/bottle/{real}")).body["verdict"], "genuine");
    assert!(start.elapsed() < Duration::from_secs(5));
}

fn from(client: &Client, address: &str, path: &str) -> Reply {
    let headers = [("accept", "application/json"), ("x-forwarded-for", address)];
    client.call(Method::GET, path, &headers, None)
}

#[test]
fn addresses_and_networks_have_limits() {
    let home = home()
        .with("MINTAGE__PUBLIC__SCANS_PER_MINUTE", "3")
        .with("MINTAGE__PUBLIC__SCANS_PER_MINUTE_OF_NETWORK", "5");
    let server = home.start();
    let client = server.client();
    let path = format!("/v/bottle/{}", make(client, "default", "bottle"));
    let asks = |address: &str, path: &str| from(client, address, path).status;
    for _ in 0..3 {
        assert_eq!(asks("192.0.2.1", &path), 200);
    }
    let refused = from(client, "192.0.2.1", &path);
    refused.problem(429, "too_many_requests");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{refused:?}");
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    // Neighbours share what is left for their network, and what is unknown counts as well.
    let statuses = [2, 3, 4].map(|i| asks(&format!("192.0.2.{i}"), "/v/nothing/x"));
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(asks("192.0.3.1", &path), 200);
    // An IPv6 address is 64 bits.
    let statuses = [1, 2, 3, 4].map(|i| asks(&format!("2001:db8::{i}"), &path));
    assert_eq!(statuses, [200, 200, 200, 429]);

    // The page itself asks for nothing, and tells people that they have to wait.
    let loaded = token(&page(client, &path));
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("x-forwarded-for", "2001:db8::9")];
    let body = format!("token={loaded}");
    let reply = client.call(Method::POST, &path, &headers, Some(body.as_bytes()));
    assert_eq!(reply.status, 429, "{reply:?}");
    assert!(reply.text.contains("<section id=\"limited\">"), "{reply:?}");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(look(client, &path).body["scans"], 0);
}

#[test]
fn only_a_trusted_proxy_speaks_for_others() {
    let home = home()
        .with("MINTAGE__PUBLIC__SCANS_PER_MINUTE", "2")
        .with("MINTAGE__PUBLIC__TRUSTED_PROXIES", "[10.0.0.0/8]");
    let server = home.start();
    let asks = |address| from(server.client(), address, "/v/bottle/x").status;
    assert_eq!([asks("192.0.2.1"), asks("192.0.2.2"), asks("198.51.100.3")], [200, 200, 429]);
}

fn public_scans(server: &Server) -> BTreeMap<String, u64> {
    let text = server.client().get("/metrics").text;
    let lines = text.lines().filter_map(|line| {
        let (result, count) =
            line.strip_prefix("mintage_public_scans_total{result=\"")?.split_once("\"} ")?;
        Some((result.to_owned(), count.parse().unwrap()))
    });
    lines.collect()
}

#[test]
fn verdicts_are_counted_by_result() {
    let server = home().with("MINTAGE__PUBLIC__SCANS_PER_MINUTE", "9").start();
    let client = server.client();
    let path = format!("/v/bottle/{}", make(client, "default", "bottle"));
    visit(client, &path);
    visit(client, &path);
    look(client, &path);
    look(client, "/v/bottle/x");
    visit(client, "/v/nothing/x");
    run(client, &path, "00").problem(403, "page_expired");
    let asks = |times: usize| {
        (0..times).filter(|_| from(client, "192.0.2.1", "/v/bottle/x").status == 429).count()
    };
    assert_eq!(asks(11), 2);
    let expected = [("known", 3), ("unknown", 11), ("expired", 1), ("limited", 2)];
    let expected = expected.map(|(result, count)| (result.to_owned(), count));
    assert_eq!(public_scans(&server), BTreeMap::from(expected));
}

#[test]
fn no_key_is_needed_where_the_rest_needs_one() {
    let home = home();
    let key = home.create_key(&["--name", "all", "--scope", "admin"]);
    let server = home.start();
    let code = make(&server.client_with(&key), "default", "bottle");
    let path = format!("/v/bottle/{code}");
    let client = server.client();
    client.get(&format!("/api/v1/codes/bottle/{code}")).problem(401, "unauthorized");
    assert_eq!(visit(client, &path)["verdict"], "genuine");
    // Those with a key see that somebody has scanned it, and more.
    let known = server.client_with(&key).get(&format!("/api/v1/codes/bottle/{code}")).body;
    assert_eq!((&known["scans"], known["batch"].is_string()), (&json!(1), true), "{known}");
    client.call(Method::PUT, &path, &[], None).problem(405, "method_not_allowed");
}
