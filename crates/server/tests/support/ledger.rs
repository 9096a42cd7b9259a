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

/// What became of the serials of a counter.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// First and last serial of each entry of the log.
    pub(crate) issued: Vec<(u64, u64)>,
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Serials that the service knows nothing about.
    pub(crate) open: Vec<u64>,
}

impl Ledger {
    /// Reads what is known about every serial of a range. Two entries for one serial are a failure.
    pub(crate) fn read(client: &Client, id_type: &str, first: u64, last: u64) -> Self {
        let (mut ledger, mut serial) = (Self::default(), first);
        while serial <= last {
            let history = client.history(id_type, &format!("serial={serial}"));
            let only_one = history["issuances"][1].is_null() && history["gaps"][1].is_null();
            assert!(only_one, "{id_type} {serial} has two entries: {history}");
            let (entry, entries) = match (&history["issuances"][0], &history["gaps"][0]) {
                (Value::Null, Value::Null) => {
                    ledger.open.push(serial);
                    serial += 1;
                    continue;
                }
                (issue, Value::Null) => (issue, &mut ledger.issued),
                (Value::Null, gap) => {
                    assert!(matches!(gap["reason"].as_str(), Some("crash" | "pool_discarded")));
                    (gap, &mut ledger.gaps)
                }
                _ => panic!("{id_type} {serial} was issued and is a gap: {history}"),
            };
            let number = |field: &str| entry[field].as_str().unwrap().parse::<u64>().unwrap();
            assert!((number("first")..=number("last")).contains(&serial), "{history}");
            entries.push((serial, number("last").min(last)));
            serial = number("last") + 1;
        }
        ledger
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
        let mut ledger = Self::read(client, id_type, first, last);
        while !ledger.open.is_empty() {
            let open = &ledger.open[..ledger.open.len().min(10)];
            assert!(start.elapsed() < DEADLINE / 4, "{id_type} {open:?}… are not explained");
            if start.elapsed() > ON_THEIR_WAY {
                // As many as are open: reading what became of each of them takes a while.
                let count = ledger.open.len().min(ORDER_MAX);
                asked_for.extend(client.issue(id_type, count as u64));
            } else {
                std::thread::sleep(Duration::from_millis(100));
            }
            ledger.look_again(client, id_type);
        }
        (ledger, asked_for)
    }

    /// Reads what has become of the serials that were open.
    fn look_again(&mut self, client: &Client, id_type: &str) {
        for run in std::mem::take(&mut self.open).chunk_by(|a, b| a + 1 == *b) {
            let ledger = Self::read(client, id_type, run[0], run[run.len() - 1]);
            self.issued.extend(ledger.issued);
            self.gaps.extend(ledger.gaps);
            self.open.extend(ledger.open);
        }
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
