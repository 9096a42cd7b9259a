//! `kill -9` under load, twenty times in a row: no ID comes twice, and every serial is accounted
//! for.

mod support;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use support::{Client, Deployment, Home, Ledger, assert_new};
use ureq::http::Method;

const LIVES: usize = 20;
const CLIENTS: u64 = 4;
const TYPES: [&str; 3] = ["order", "card", "event"];
const CONFIG: &str = r#"
id_types:
  - { name: order, sequence: { template: "ORD-{seq:08}" } }
  - { name: card, random: { alphabet: crockford32, length: 12, check: iso7064 } }
  - { name: event, snowflake: {} }
"#;

/// Chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What one client was given: the type and the IDs of each answer.
type Given = Vec<(usize, Vec<String>)>;

/// Orders IDs until the server is gone. Whatever the server answers before is an answer with IDs.
fn order_until_killed(client: &Client, seed: u64, answered: impl Fn()) -> Given {
    let mut chance = Chance(seed);
    let mut given = Given::new();
    loop {
        let id_type = [0, 0, 1, 1, 2][usize::try_from(chance.below(5)).unwrap()];
        let count = 1 + chance.below(50);
        let body = format!(r#"{{"type":"{}","count":{count}}}"#, TYPES[id_type]);
        let reply = client.try_call(Method::POST, "/api/v1/ids", &[], Some(body.as_bytes()));
        let Ok(reply) = reply else { return given };
        assert_eq!(reply.status, 200, "{reply:?}");
        let ids = reply.ids();
        assert_eq!(ids.len() as u64, count);
        given.push((id_type, ids));
        answered();
    }
}

/// One life: load from several clients, then `kill -9` after a number of answers.
fn live_and_die(home: &Home, chance: &mut Chance) -> Vec<Given> {
    let server = home.start();
    let target = 50 + usize::try_from(chance.below(1000)).unwrap();
    let answers = AtomicUsize::new(0);
    let (reached, target_reached) = channel();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (client, answers, reached) = (server.new_client(), &answers, reached.clone());
                let seed = 1 + chance.below(u64::MAX - 1);
                scope.spawn(move || {
                    order_until_killed(&client, seed, || {
                        if answers.fetch_add(1, Ordering::Relaxed) + 1 == target {
                            reached.send(()).unwrap();
                        }
                    })
                })
            })
            .collect();
        target_reached.recv_timeout(Duration::from_secs(120)).expect("the server answers");
        server.kill_now();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// That the log or a gap knows an ID, exactly once.
fn assert_accounted_for(client: &Client, id_type: &str, id: &str) {
    let history = client.history(id_type, &format!("id={id}"));
    let entries = |field: &str| history[field].as_array().unwrap().len();
    assert_eq!(entries("issuances") + entries("gaps"), 1, "{id_type} {id}: {history}");
}

#[test]
fn nothing_is_issued_twice_and_everything_is_accounted_for() {
    // Often enough that a life, however fast, leaves entries as well as gaps.
    let home =
        Home::new().with_config(CONFIG).with("MINTAGE__ISSUING__LOG_FLUSH_MILLISECONDS", "20");
    let mut chance = Chance(0x4d49_4e54_4147_4531);
    let mut seen: [HashSet<String>; 3] = Default::default();
    let mut samples: [Vec<String>; 2] = Default::default();
    for _ in 0..LIVES {
        for given in live_and_die(&home, &mut chance) {
            // The last that a client was told is the most likely to be lost.
            for (id_type, sample) in samples.iter_mut().enumerate() {
                let last = given.iter().rev().find(|(given_type, _)| *given_type == id_type);
                sample.extend(last.and_then(|(_, ids)| ids.last().cloned()));
            }
            for (number, (id_type, ids)) in given.into_iter().enumerate() {
                if id_type < 2 && number % 8 == 0 {
                    samples[id_type].push(ids[0].clone());
                }
                assert_new(&mut seen[id_type], &ids);
            }
        }
    }

    let server = home.start();
    let client = server.client();
    // Every serial up to the last that anybody was told is accounted for…
    let serial = |id: &String| id.strip_prefix("ORD-").unwrap().parse::<u64>().unwrap();
    let last = seen[0].iter().map(serial).max().unwrap();
    let (orders, asked_for) = Ledger::settle(client, "order", 1, last);
    assert_new(&mut seen[0], &asked_for);
    let card_serial = |id: &String| {
        let history = client.history("card", &format!("id={id}"));
        history["serial"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let last = samples[1].iter().map(card_serial).max().unwrap();
    // A pool that instances share knows each of those that were not logged by itself, and has to be
    // asked for each.
    let first = match Deployment::of_this_run() {
        Deployment::Embedded => 0,
        Deployment::Postgres | Deployment::PostgresAndRedis => last.saturating_sub(2000),
    };
    let (cards, asked_for) = Ledger::settle(client, "card", first, last);
    assert_new(&mut seen[1], &asked_for);
    for ledger in [&orders, &cards] {
        let (issued, gaps) = (ledger.issued.len(), ledger.gaps.len());
        assert!(issued > LIVES && gaps <= LIVES * 64, "{issued} {gaps}");
    }
    assert!(!orders.gaps.is_empty(), "what was not logged is a gap");

    // …also as the IDs that clients were given…
    let sampled: usize = samples.iter().map(Vec::len).sum();
    assert!(sampled >= 500, "{sampled}");
    for (id_type, ids) in TYPES.iter().zip(&samples) {
        for id in ids {
            assert_accounted_for(client, id_type, id);
        }
    }

    // …and the next ones are new.
    for (id_type, seen) in TYPES.iter().zip(&mut seen) {
        assert_new(seen, &client.issue(id_type, 100));
    }
    server.stop();
}
