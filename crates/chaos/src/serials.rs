//! What became of every serial of a counter.

use std::ops::Range;

use crate::account::{Account, Counter};

/// The first serial of a sequence.
const START: u64 = 1;

const ISSUED: u8 = 1;
const GAP: u8 = 2;
/// With an instance that is alive.
const HELD: u8 = 4;
/// Drawn for the pool in force.
const DRAWN_FOR_POOL: u8 = 8;
/// In the list of that pool.
const LISTED: u8 = 16;
const ISSUED_TWICE: u8 = 32;
/// With somebody who is gone.
const HELD_BY_NOBODY: u8 = 64;
/// Lost with a pool, by the record never handed out.
const DISCARDED: u8 = 128;

/// Every serial of a counter, and what is known about it.
pub(crate) struct Serials {
    marks: Vec<u8>,
    next: u64,
}

/// Serials next to each other with the same fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) serials: Range<u64>,
    pub(crate) fate: &'static str,
}

impl Serials {
    pub(crate) fn of(counter: &Counter, account: &Account) -> Self {
        let ends = [
            counter.next,
            counter.issues.iter().map(|issue| issue.last + 1).max().unwrap_or(0),
            counter.gaps.iter().map(|gap| gap.serials.end).max().unwrap_or(0),
            counter.held.iter().map(|held| held.serials.end).max().unwrap_or(0),
            counter.listed.iter().map(|serial| serial + 1).max().unwrap_or(0),
        ];
        let end = ends.into_iter().max().unwrap_or(0);
        let length = usize::try_from(end).expect("a run of minutes draws few serials");
        let mut serials = Self { marks: vec![0; length], next: counter.next };
        for issue in &counter.issues {
            serials.mark(issue.first..issue.last + 1, ISSUED);
        }
        // The same issue can be in two rows; issues of different moments are different ones.
        for pair in counter.issues.windows(2) {
            if pair[1].first <= pair[0].last && pair[0].unix_ms != pair[1].unix_ms {
                let last = pair[0].last.min(pair[1].last);
                serials.mark(pair[1].first..last + 1, ISSUED_TWICE);
            }
        }
        for gap in &counter.gaps {
            let discarded = if gap.reason == "crash" { 0 } else { DISCARDED };
            serials.mark(gap.serials.clone(), GAP | discarded);
        }
        for held in &counter.held {
            let alive = account.instances.get(&held.holder).copied().unwrap_or(false);
            let mark = match (held.holder == account.pool, alive) {
                (true, _) => DRAWN_FOR_POOL,
                (false, true) => HELD,
                (false, false) => HELD_BY_NOBODY,
            };
            serials.mark(held.serials.clone(), mark);
        }
        for serial in &counter.listed {
            serials.mark(*serial..serial + 1, LISTED);
        }
        serials
    }

    fn mark(&mut self, serials: Range<u64>, mark: u8) {
        let place = |serial: u64| usize::try_from(serial).expect("it is below the length");
        for marks in &mut self.marks[place(serials.start)..place(serials.end)] {
            *marks |= mark;
        }
    }

    fn marks_of(&self, serial: u64) -> u8 {
        let marks = usize::try_from(serial).ok().and_then(|place| self.marks.get(place));
        marks.copied().unwrap_or(0)
    }

    /// Whether a serial that a client was given is known as issued, or as lost in a crash.
    pub(crate) fn accounts_for(&self, serial: u64) -> bool {
        self.marks_of(serial) & (ISSUED | GAP) != 0
    }

    /// Whether the record has a serial as never handed out.
    pub(crate) fn denies(&self, serial: u64) -> bool {
        self.marks_of(serial) & (ISSUED | DISCARDED) == DISCARDED
    }

    /// Serials that nothing explains, or that two things explain which exclude each other.
    pub(crate) fn unexplained(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for serial in START..self.marks.len() as u64 {
            let Some(fate) = trouble(self.marks_of(serial), serial < self.next) else { continue };
            match runs.last_mut() {
                Some(run) if run.serials.end == serial && run.fate == fate => {
                    run.serials.end += 1;
                }
                _ => runs.push(Run { serials: serial..serial + 1, fate }),
            }
        }
        runs
    }
}

/// What is wrong with a serial, if anything.
fn trouble(marks: u8, below_counter: bool) -> Option<&'static str> {
    let has = |mark: u8| marks & mark != 0;
    if !below_counter {
        return (marks != 0).then_some("beyond the counter, and yet somebody has it");
    }
    if has(ISSUED_TWICE) {
        return Some("issued twice, by the log");
    }
    if has(ISSUED) && has(LISTED) {
        return Some("issued, and in the pool all the same");
    }
    if has(ISSUED) && has(GAP) {
        return Some("issued, and a gap all the same");
    }
    if has(ISSUED | GAP | HELD) || (has(DRAWN_FOR_POOL) && has(LISTED)) {
        return None;
    }
    Some(if has(HELD_BY_NOBODY) {
        "held by an instance that is gone, or by a pool that was given up"
    } else if has(DRAWN_FOR_POOL) {
        "drawn for the pool in force, and not in its list"
    } else if has(LISTED) {
        "in the list of the pool, and drawn by nobody"
    } else {
        "nowhere"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Gap, Held, Issued};

    fn counter() -> Counter {
        let held = |holder: &str, serials| Held { holder: holder.to_owned(), serials };
        let gap = |serials, reason: &str| {
            let (reason, instance) = (reason.to_owned(), "a".to_owned());
            Gap { serials, reason, instance }
        };
        Counter {
            next: 14,
            issues: vec![Issued { first: 1, last: 4, unix_ms: 5 }],
            gaps: vec![gap(5..6, "crash"), gap(6..7, "pool_discarded")],
            held: vec![held("alive", 7..8), held("pool-2", 8..10), held("dead", 10..11)],
            listed: vec![8, 3],
        }
    }

    #[test]
    fn every_serial_has_one_fate() {
        let mut account = Account { pool: "pool-2".to_owned(), ..Account::default() };
        account.instances.insert("alive".to_owned(), true);
        let serials = Serials::of(&counter(), &account);
        let fates: Vec<_> =
            serials.unexplained().into_iter().map(|run| (run.serials, run.fate)).collect();
        assert_eq!(
            fates,
            [
                (3..4, "issued, and in the pool all the same"),
                (9..10, "drawn for the pool in force, and not in its list"),
                (10..11, "held by an instance that is gone, or by a pool that was given up"),
                (11..14, "nowhere"),
            ]
        );
        assert!(serials.accounts_for(4) && serials.accounts_for(5) && !serials.accounts_for(8));
        assert!(serials.denies(6) && !serials.denies(5) && !serials.denies(99));
    }

    #[test]
    fn two_issues_of_one_serial_are_seen() {
        let issue = |first, last, unix_ms| Issued { first, last, unix_ms };
        let issues = vec![issue(1, 3, 5), issue(1, 4, 5), issue(4, 5, 6)];
        let counter = Counter { next: 6, issues, ..Counter::default() };
        let serials = Serials::of(&counter, &Account::default());
        let twice = Run { serials: 4..5, fate: "issued twice, by the log" };
        assert_eq!(serials.unexplained(), [twice]);
    }
}
