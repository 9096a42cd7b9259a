//! Clients that order IDs from several places all the time, and remember what they were told.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::Method;

use crate::support::{Client, Reply, Server, assert_new, wait_until};

/// A client's pause between two orders. Full load is for measuring; here others need the cores.
const PACE: Duration = Duration::from_millis(2);

/// Where clients find an instance, like an entry of a load balancer.
pub(crate) struct Place {
    url: Mutex<String>,
    /// Grows before an instance goes and after another one has come: odd while there is none.
    changes: AtomicUsize,
}

/// What a client was told.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) place: usize,
    pub(crate) id_type: &'static str,
    pub(crate) started: Instant,
    pub(crate) took: Duration,
    /// None where there was no answer because the instance was going.
    pub(crate) reply: Option<Reply>,
}

impl Place {
    pub(crate) fn new(server: &Server) -> Self {
        Self { url: Mutex::new(server.url.clone()), changes: AtomicUsize::new(0) }
    }

    pub(crate) fn at(servers: &[Server]) -> Vec<Self> {
        servers.iter().map(Self::new).collect()
    }

    /// Says that the instance is about to go.
    pub(crate) fn leave(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Says that there is an instance again.
    pub(crate) fn come(&self, server: &Server) {
        self.url().clone_from(&server.url);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn url(&self) -> MutexGuard<'_, String> {
        self.url.lock().unwrap()
    }
}

/// Orders IDs of these types from every place while something happens.
pub(crate) fn during<T>(
    places: &[Place],
    types: &[&'static str],
    what_happens: impl FnOnce(&AtomicUsize) -> T,
) -> (Vec<Record>, T) {
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2 * places.len())
            .map(|number| {
                let (over, answers) = (&over, &answers);
                scope.spawn(move || order_until(over, answers, places, types, number))
            })
            .collect();
        let over = EndOfLoad(&over);
        let result = what_happens(&answers);
        drop(over);
        let records = clients.into_iter().flat_map(|client| client.join().unwrap());
        (records.collect(), result)
    })
}

/// Ends the load also when what happens is a failure, so that it is reported.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn order_until(
    over: &AtomicBool,
    answers: &AtomicUsize,
    places: &[Place],
    types: &[&'static str],
    number: usize,
) -> Vec<Record> {
    let index = number % places.len();
    let place = &places[index];
    let mut records = Vec::new();
    let mut known = (0, Client::new(&place.url()));
    for round in number.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let changes = place.changes.load(Ordering::SeqCst);
        if changes.is_multiple_of(2) && changes != known.0 {
            known = (changes, Client::new(&place.url()));
        }
        let (id_type, count) = (types[round % types.len()], 1 + round * 7 % 20);
        let body = format!(r#"{{"type":"{id_type}","count":{count}}}"#);
        let started = Instant::now();
        let reply = known.1.try_call(Method::POST, "/api/v1/ids", &[], Some(body.as_bytes()));
        let took = started.elapsed();
        let changed = !changes.is_multiple_of(2) || place.changes.load(Ordering::SeqCst) != changes;
        let reply = match reply {
            Ok(reply) => Some(reply),
            Err(_) if changed => None,
            Err(error) => panic!("no answer from an instance that was up: {error}"),
        };
        if reply.as_ref().is_some_and(|reply| reply.status == 200) {
            answers.fetch_add(1, Ordering::Relaxed);
        }
        records.push(Record { place: index, id_type, started, took, reply });
        thread::sleep(PACE);
    }
    records
}

/// Waits until clients were given something so many times more.
pub(crate) fn some_more(answers: &AtomicUsize, count: usize) {
    let before = answers.load(Ordering::Relaxed);
    wait_until("orders are answered", || answers.load(Ordering::Relaxed) > before + count);
}

/// Checks that every answer was a success and that no ID came twice. Returns the IDs of one type.
pub(crate) fn assert_all_served(records: &[Record], id_type: &str) -> HashSet<String> {
    for record in records {
        let failed = record.reply.as_ref().filter(|reply| reply.status != 200);
        assert!(failed.is_none(), "{record:?}");
    }
    assert_no_duplicates(records, id_type)
}

/// Checks that no ID came twice. Returns the IDs of one type.
pub(crate) fn assert_no_duplicates(records: &[Record], id_type: &str) -> HashSet<String> {
    let (mut all, mut of_type) = (HashSet::new(), HashSet::new());
    for record in records {
        let Some(reply) = record.reply.as_ref().filter(|reply| reply.status == 200) else {
            continue;
        };
        let ids = reply.ids();
        assert_new(&mut all, &ids);
        if record.id_type == id_type {
            of_type.extend(ids);
        }
    }
    assert!(!of_type.is_empty(), "nobody was given anything");
    of_type
}

/// The time within which 99 of 100 orders were answered.
pub(crate) fn p99<'a>(records: impl Iterator<Item = &'a Record>) -> Duration {
    let mut times: Vec<Duration> = records.map(|record| record.took).collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
