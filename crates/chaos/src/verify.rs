//! What must hold at the end, whatever was broken before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

use crate::account::{Account, Counter, CounterName, is};
use crate::id_types::{IdType, Kind, TYPES, node_period, serial_in};
use crate::journal::Journal;
use crate::load::{Given, Memory};
use crate::serials::Serials;

/// What was found. Each list has a line for each case.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// IDs that were given twice.
    pub(crate) duplicates: Vec<String>,
    /// IDs that were given and that no record knows.
    pub(crate) unaccounted: Vec<String>,
    /// Serials below a counter that nothing explains, by runs of neighbours.
    pub(crate) unexplained: Vec<String>,
    /// How many serials that are.
    pub(crate) unexplained_serials: u64,
    /// IDs that were given, and that the record has as never handed out.
    pub(crate) denied: Vec<String>,
    /// Serials that were with idle instances on record.
    pub(crate) held_while_idle: u64,
    /// IDs of the small type that clients have.
    pub(crate) small_ids: usize,
    /// Anything else that must not be.
    pub(crate) wrong: Vec<String>,
}

impl Findings {
    pub(crate) fn are_good(&self) -> bool {
        self.duplicates.is_empty()
            && self.unaccounted.is_empty()
            && self.unexplained.is_empty()
            && self.wrong.is_empty()
    }

    /// Compares what clients were told with what is on record.
    pub(crate) fn collect(memory: &Memory, account: &Account, journal: &Journal) -> Self {
        let mut findings = Self { wrong: memory.wrong.clone(), ..Self::default() };
        findings.find_duplicates(memory, journal);
        let serials = findings.explain_serials(account);
        for given in &memory.given {
            for id in &given.ids {
                findings.look_up(given, id, account, &serials, journal);
            }
        }
        findings.check_spaces(memory, account);
        findings
    }

    fn find_duplicates(&mut self, memory: &Memory, journal: &Journal) {
        let mut seen: HashMap<(usize, &str), &Given> = HashMap::new();
        for given in &memory.given {
            for id in &given.ids {
                if let Some(before) = seen.insert((given.id_type, id), given) {
                    self.duplicates.push(format!(
                        "{}\n    first {}\n    then {}",
                        name(&TYPES[given.id_type], id),
                        describe(before, journal),
                        describe(given, journal),
                    ));
                }
            }
        }
    }

    /// Goes through every serial of every sequence.
    fn explain_serials<'a>(&mut self, account: &'a Account) -> BTreeMap<&'a CounterName, Serials> {
        let mut all = BTreeMap::new();
        for (counter_name, counter) in &account.counters {
            if !is(Kind::Sequence, counter_name) {
                continue;
            }
            let serials = Serials::of(counter, account);
            for run in serials.unexplained() {
                self.unexplained_serials += run.serials.end - run.serials.start;
                self.unexplained.push(format!(
                    "{} {}, {}: {}{}",
                    counter_name.0,
                    counter_name.1,
                    words(&run.serials),
                    run.fate,
                    surroundings(counter, &run.serials),
                ));
            }
            all.insert(counter_name, serials);
        }
        all
    }

    /// Looks for one ID where its type keeps account.
    fn look_up(
        &mut self,
        given: &Given,
        id: &str,
        account: &Account,
        serials: &BTreeMap<&CounterName, Serials>,
        journal: &Journal,
    ) {
        let id_type = &TYPES[given.id_type];
        let of_type = id_type.full_name();
        let known = match (id_type.kind, serial_in(id)) {
            (Kind::Sequence, Some(serial)) => {
                // There is one counter, unless the year has just ended.
                let counters = serials.iter().filter(|(counter, _)| counter.0 == of_type);
                let counters: Vec<&Serials> = counters.map(|(_, serials)| serials).collect();
                if counters.iter().any(|serials| serials.denies(serial)) {
                    let line = format!("{} {}", name(id_type, id), describe(given, journal));
                    self.denied.push(line);
                }
                counters.iter().any(|serials| serials.accounts_for(serial))
            }
            (Kind::Random, _) => {
                let table = account.tables.get(&of_type);
                table.is_some_and(|table| table.get(id) == Some(&true))
            }
            (Kind::Snowflake, Some(id)) => knows_snowflake(account, &of_type, id),
            (_, None) => false,
        };
        if !known {
            let what = match id_type.kind {
                Kind::Random => format!(
                    "the table says {:?}",
                    account.tables.get(&of_type).and_then(|table| table.get(id))
                ),
                _ => "neither in the log nor in a gap".to_owned(),
            };
            let line = format!("{}: {what}; {}", name(id_type, id), describe(given, journal));
            self.unaccounted.push(line);
        }
    }

    /// A random type has as many rows as serials were drawn, and never more IDs than there can be.
    fn check_spaces(&mut self, memory: &Memory, account: &Account) {
        for (place, id_type) in TYPES.iter().enumerate() {
            if id_type.kind != Kind::Random {
                continue;
            }
            let of_type = id_type.full_name();
            let rows = account.tables.get(&of_type).map_or(0, HashMap::len) as u64;
            let drawn = account.counters.get(&(of_type.clone(), String::new()));
            let drawn = drawn.map_or(0, |counter| counter.next);
            if rows != drawn {
                self.unexplained_serials += drawn.abs_diff(rows);
                self.unexplained.push(format!(
                    "{of_type}: {drawn} serials were drawn, and its table has {rows} rows"
                ));
            }
            let Some(space) = id_type.space else { continue };
            let given = memory.given.iter().filter(|given| given.id_type == place);
            let distinct: HashSet<&String> = given.flat_map(|given| &given.ids).collect();
            self.small_ids = distinct.len();
            if self.small_ids > space {
                let count = self.small_ids;
                self.wrong.push(format!("{of_type}: {count} IDs are more than there can be"));
            }
            let table = account.tables.get(&of_type);
            let left = table.map_or(0, |table| table.values().filter(|taken| !**taken).count());
            if left > 0 {
                self.wrong.push(format!("{of_type}: {left} are left, and all said there are none"));
            }
        }
    }

    /// Once every instance has signed off, nothing may be with any of them.
    pub(crate) fn nothing_is_held(&mut self, account: &Account) {
        for (counter_name, counter) in &account.counters {
            for held in &counter.held {
                if held.holder != account.pool {
                    self.wrong.push(format!(
                        "{} {}: {} is with {} after all have stopped",
                        counter_name.0,
                        counter_name.1,
                        words(&held.serials),
                        held.holder
                    ));
                }
            }
        }
        for instance in account.instances.keys() {
            self.wrong.push(format!("instance {instance} is known after all have stopped"));
        }
    }
}

fn knows_snowflake(account: &Account, of_type: &str, id: u64) -> bool {
    let Some(counter) = account.counters.get(&(of_type.to_owned(), node_period(id))) else {
        return false;
    };
    let behind = counter.issues.partition_point(|issue| issue.first <= id);
    let issued = behind.checked_sub(1).is_some_and(|place| counter.issues[place].last >= id);
    issued || counter.gaps.iter().any(|gap| gap.serials.contains(&id))
}

fn name(id_type: &IdType, id: &str) -> String {
    format!("{} {id}", id_type.full_name())
}

fn words(serials: &Range<u64>) -> String {
    format!("serials {} to {}", serials.start, serials.end - 1)
}

/// Who holds serials, and the gaps that they touch.
fn surroundings(counter: &Counter, serials: &Range<u64>) -> String {
    let touches = |other: &Range<u64>| other.start <= serials.end && serials.start <= other.end;
    let mut text = String::new();
    for held in counter.held.iter().filter(|held| touches(&held.serials)) {
        let _ = write!(text, "; {} with {}", words(&held.serials), held.holder);
    }
    for gap in counter.gaps.iter().filter(|gap| touches(&gap.serials)) {
        let (reason, instance) = (&gap.reason, &gap.instance);
        let _ = write!(text, "; {} are a gap, {reason}, by {instance}", words(&gap.serials));
    }
    text
}

fn describe(given: &Given, journal: &Journal) -> String {
    format!(
        "given by instance {} at {} ms ({}); around that time: {}",
        given.instance,
        given.at_ms,
        given.order,
        journal.around(given.at_ms)
    )
}
