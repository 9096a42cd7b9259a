//! How the work on batches is shared, and what it takes.

use std::time::Instant;

use serde_json::json;

use super::{begin_to_read, home};
use crate::support::Server;
use crate::support::batches::{begins_soon, order, wait_for};

/// The most memory that a process has had, in kilobytes.
fn memory_max_kb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_large_batch_does_not_hold_up_the_small_one_of_another_tenant() {
    let server = home().with("MINTAGE__BATCHES__WORKERS", "1").start();
    let client = server.client();
    let large = order(client, "bottle", 5_000_000);
    let small = json!({"tenant": "OTHER", "type": "cap", "count": 3000});
    let small = client.post("/api/v1/batches", &small).body;
    wait_for(client, &small, "completed");
    let path = format!("/api/v1/batches/{}", large["id"].as_str().unwrap());
    let large = client.get(&path).body;
    assert!(large["made"].as_u64().unwrap() < 4_000_000, "{large}");
    assert_eq!(client.post(&format!("{path}/cancel"), &json!({})).status, 200);
}

/// The first of several orders may find a machine that is busy with something else.
#[test]
fn work_begins_within_a_tenth_of_a_second() {
    let server = home().start();
    let client = server.client();
    assert!((0..5).any(|_| begins_soon(client, "bottle")));
}

/// Waiting for somebody is no part of the time that a batch takes, but writing its codes is.
#[test]
fn the_rate_is_what_it_looks_like() {
    const CODES: u32 = 600_000;
    let server = home().with("MINTAGE__BATCHES__CHUNK_CODES", "100000").start();
    let client = server.client();
    let ordered = Instant::now();
    let batch = wait_for(client, &order(client, "bottle", CODES.into()), "completed");
    let seen = f64::from(CODES) / ordered.elapsed().as_secs_f64();
    let rate = batch["rate"].as_f64().unwrap();
    assert!(rate > 0.5 * seen && rate < 10.0 * seen, "{rate} codes/s were {seen}");
}

/// Codes, the file and its digest are worked out piece by piece.
#[test]
fn memory_does_not_grow_with_the_batch() {
    let server = home().with("MINTAGE__BATCHES__CHUNK_CODES", "100000").start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 1_500_000), "completed");
    for format in ["csv", "xlsx"] {
        let (_, mut file) =
            begin_to_read(&server, &batch, &format!("codes?format={format}&limit=1000000"));
        // What is behind the first megabytes comes from the same loop.
        let mut piece = vec![0; 8 << 20];
        std::io::Read::read_exact(&mut file, &mut piece).unwrap();
    }
    let path = format!("/api/v1/batches/{}/manifest", batch["id"].as_str().unwrap());
    crate::support::wait_until("the digest is known", || client.get(&path).status == 200);
    let used = memory_max_kb(&server);
    assert!(used < 150_000, "{used} kB");
}
