//! What became of the serials of a counter, as the service tells it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Client, DEADLINE};

/// How long serials may be on their way, from a killed instance to a gap, before it is assumed that
/// they wait in a pool.
const ON_THEIR_WAY: Duration = Duration::from_secs(5);

/// Most IDs to ask a pool for at a time.
const ORDER_MAX: usize = 10_000;

/// Open serials to look at. Each costs a request, and a pool may have been filled with tens of thousands.
const OPEN_AT_ONCE: usize = 500;

/// What became of the serials of a counter.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// First and last serial of each entry of the log.
    pub(crate) issued: Vec<(u64, u64)>,
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Serials that the service knows nothing about.
    pub(crate) open: Vec<u64>,
    /// The first serial that was not looked at.
    unread: u64,
}

impl Ledger {
    /// Reads what is known about serials, up to the last one or to so many that are open. Two entries
    /// for one serial are a failure.
    fn read_on(&mut self, client: &Client, id_type: &str, last: u64) {
        while self.unread <= last && self.open.len() < OPEN_AT_ONCE {
            let serial = self.unread;
            let history = client.history(id_type, &format!("serial={serial}"));
            let only_one = history["issuances"][1].is_null() && history["gaps"][1].is_null();
            assert!(only_one, "{id_type} {serial} has two entries: {history}");
            let (entry, entries) = match (&history["issuances"][0], &history["gaps"][0]) {
                (Value::Null, Value::Null) => {
                    self.open.push(serial);
                    self.unread += 1;
                    continue;
                }
                (issue, Value::Null) => (issue, &mut self.issued),
                (Value::Null, gap) => {
                    assert!(matches!(gap["reason"].as_str(), Some("crash" | "pool_discarded")));
                    (gap, &mut self.gaps)
                }
                _ => panic!("{id_type} {serial} was issued and is a gap: {history}"),
            };
            let number = |field: &str| entry[field].as_str().unwrap().parse::<u64>().unwrap();
            assert!((number("first")..=number("last")).contains(&serial), "{history}");
            entries.push((serial, number("last").min(last)));
            self.unread = number("last") + 1;
        }
    }

    /// Reads what is known about a range until nothing is open. What is neither issued nor a gap
    /// after a while has to be in a pool, so it must come when it is asked for. Returns the ledger
    /// and what was issued on the way.
    pub(crate) fn settle(
        client: &Client,
        id_type: &str,
        first: u64,
        last: u64,
    ) -> (Self, Vec<String>) {
        let (start, mut asked_for) = (Instant::now(), Vec::new());
        let mut ledger = Self { unread: first, ..Self::default() };
        ledger.read_on(client, id_type, last);
        while !ledger.open.is_empty() {
            let open = &ledger.open[..ledger.open.len().min(10)];
            assert!(start.elapsed() < DEADLINE / 4, "{id_type} {open:?}… are not explained");
            if start.elapsed() > ON_THEIR_WAY {
                // There may be many more behind those that were looked at.
                let more = if ledger.unread <= last { ORDER_MAX } else { ledger.open.len() };
                asked_for.extend(client.issue(id_type, more as u64));
            } else {
                std::thread::sleep(Duration::from_millis(100));
            }
            ledger.look_again(client, id_type);
            ledger.read_on(client, id_type, last);
        }
        (ledger, asked_for)
    }

    /// Reads what has become of the serials that were open.
    fn look_again(&mut self, client: &Client, id_type: &str) {
        let unread = self.unread;
        for run in std::mem::take(&mut self.open).chunk_by(|a, b| a + 1 == *b) {
            self.unread = run[0];
            self.read_on(client, id_type, run[run.len() - 1]);
        }
        self.unread = unread;
    }

    /// Whether the log says that a serial was issued.
    pub(crate) fn is_issued(&self, serial: u64) -> bool {
        self.issued.iter().any(|(first, last)| (*first..=*last).contains(&serial))
    }
}

/// Adds IDs to those that were seen. None may come twice.
pub(crate) fn assert_new<'a>(
    seen: &mut HashSet<String>,
    ids: impl IntoIterator<Item = &'a String>,
) {
    for id in ids {
        assert!(seen.insert(id.clone()), "{id} came twice");
    }
}
