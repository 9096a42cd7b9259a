//! What one receiver, or all of them together, may take of what a process has.

use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::sinks::{self, address, assign, directory, wait_for_state};
use crate::support::{Client, Home};

fn home() -> Home {
    sinks::home()
}

/// What a process may have open: now, and at most.
fn open_files(pid: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(ToOwned::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn as_many_files_may_be_open_as_the_system_allows() {
    let server = home().with_prelude("ulimit -Sn 500; ulimit -Hn 4000").start();
    assert_eq!(open_files(server.pid()), ("4000".to_owned(), "4000".to_owned()));
}

/// The IDs of so many documents of one call.
fn assign_many(client: &Client, type_name: &str, count: usize) -> Vec<String> {
    let body = json!({"type": type_name, "documents": vec![json!({"payload": 1}); count]});
    let reply = client.post("/api/v1/documents", &body);
    assert_eq!(reply.status, 202, "{reply:?}");
    reply.ids()
}

/// With a thousand files a sixteenth of them is for one host.
#[test]
fn a_sink_that_is_slow_does_not_take_all_connections() {
    let (slow, other) = (Receiver::new(), Receiver::new());
    let server = home().with_prelude("ulimit -n 1024").start();
    let client = server.client();
    address(client, "slow", &slow, &json!({"types": ["order"]}));
    // The same machine by another name is another host.
    let url = other.url().replace("127.0.0.1", "localhost");
    let put = client.put("/api/v1/sinks/other", &json!({"url": url, "types": ["bill"]}));
    assert_eq!(put.status, 201, "{put:?}");
    directory(client, "archive", &json!({"types": ["invoice"]}));
    slow.hold();
    let ids = assign_many(client, "order", 200);
    slow.wait_for(64);
    for type_name in ["bill", "invoice"] {
        wait_for_state(client, &assign(client, type_name, &json!(1)), "COMMITTED");
    }
    assert_eq!((slow.messages().len(), other.messages().len()), (64, 1));
    slow.release();
    for id in ids {
        wait_for_state(client, &id, "COMMITTED");
    }
}
