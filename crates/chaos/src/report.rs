//! What a run has come to, as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::batches;
use crate::documents;
use crate::id_types::TYPES;
use crate::journal::Journal;
use crate::load::Memory;
use crate::verify::Findings;

/// Cases of each kind that are listed.
const LISTED: usize = 5;

/// What a run has come to.
pub(crate) struct Report {
    seed: u64,
    seconds: u64,
    faults: Vec<(&'static str, usize)>,
    requests: usize,
    ids: usize,
    failed: BTreeMap<String, usize>,
    /// Requests for sequences that failed while only Redis was broken.
    failed_without_redis: usize,
    outage: (u64, &'static str),
    p99: Duration,
    p99_without_redis: Option<Duration>,
    batches: batches::Outcome,
    documents: documents::Outcome,
    findings: Findings,
    troubles: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        (seed, seconds): (u64, u64),
        journal: &Journal,
        memory: &Memory,
        (batches, documents): (batches::Outcome, documents::Outcome),
        findings: Findings,
        troubles: Vec<String>,
    ) -> Self {
        let mut failed = BTreeMap::new();
        for reason in memory.attempts.iter().filter_map(|attempt| attempt.result.as_ref().err()) {
            *failed.entry(reason.clone()).or_insert(0) += 1;
        }
        let succeeded = memory.attempts.iter().filter(|attempt| attempt.result.is_ok());
        let pooled_in_redis =
            |id_type: usize| TYPES[id_type].kind == crate::id_types::Kind::Sequence;
        let without_redis: Vec<_> = memory
            .attempts
            .iter()
            .filter(|attempt| pooled_in_redis(attempt.id_type))
            .filter(|attempt| journal.only_redis(attempt.began_ms))
            .collect();
        Self {
            seed,
            seconds,
            faults: journal.by_kind(),
            requests: memory.attempts.len(),
            ids: memory.given.iter().map(|given| given.ids.len()).sum(),
            failed,
            failed_without_redis: without_redis.iter().filter(|a| a.result.is_err()).count(),
            outage: longest_outage(memory),
            p99: p99(succeeded.map(|attempt| attempt.took).collect()).unwrap_or_default(),
            p99_without_redis: p99(without_redis.iter().map(|attempt| attempt.took).collect()),
            batches,
            documents,
            findings,
            troubles,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.findings.are_good() && self.troubles.is_empty()
    }

    fn rows(&self) -> Vec<(&'static str, Value)> {
        let failed: usize = self.failed.values().sum();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        vec![
            ("seed", json!(self.seed)),
            ("seconds", json!(self.seconds)),
            ("faults", json!(self.faults.iter().map(|(_, count)| count).sum::<usize>())),
            ("requests", json!(self.requests)),
            ("ids_issued", json!(self.ids)),
            ("batches_ordered", json!(self.batches.batches)),
            ("batches_cancelled", json!(self.batches.cancelled)),
            ("codes_made", json!(self.batches.codes)),
            ("codes_scanned", json!(self.batches.scans)),
            ("dead_letters_retried", json!(self.batches.dead_letters)),
            ("wrong_batches", json!(self.batches.wrong.len())),
            ("documents_assigned", json!(self.documents.given)),
            ("documents_in_sinks", json!(self.documents.delivered)),
            ("document_dead_letters_retried", json!(self.documents.dead_letters)),
            ("document_gaps", json!(self.documents.gaps.values().sum::<u64>())),
            ("wrong_documents", json!(self.documents.wrong.len())),
            ("failed_requests", json!(failed)),
            ("failed_while_only_redis_was_broken", json!(self.failed_without_redis)),
            ("longest_outage_ms", json!(self.outage.0)),
            ("longest_outage_type", json!(self.outage.1)),
            ("p99_ms", json!(ms(self.p99))),
            ("p99_ms_while_only_redis_was_broken", json!(self.p99_without_redis.map(ms))),
            ("duplicates", json!(self.findings.duplicates.len())),
            ("unaccounted", json!(self.findings.unaccounted.len())),
            ("unexplained_serials", json!(self.findings.unexplained_serials)),
            ("given_but_recorded_as_discarded", json!(self.findings.denied.len())),
            ("held_by_idle_instances", json!(self.findings.held_while_idle)),
            ("small_type_ids_given", json!(self.findings.small_ids)),
            ("wrong_answers", json!(self.findings.wrong.len())),
            ("troubles", json!(self.troubles.len())),
        ]
    }

    fn lists(&self) -> [(&'static str, &Vec<String>); 6] {
        let findings = &self.findings;
        [
            ("duplicates", &findings.duplicates),
            ("unaccounted", &findings.unaccounted),
            ("unexplained", &findings.unexplained),
            ("given, but recorded as discarded", &findings.denied),
            ("wrong answers", &findings.wrong),
            ("troubles", &self.troubles),
        ]
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("Faults injected\n");
        for (kind, count) in &self.faults {
            let _ = writeln!(text, "  {kind:<40} {count:>8}");
        }
        text.push_str("Requests without IDs\n");
        for (reason, count) in &self.failed {
            let _ = writeln!(text, "  {reason:<40} {count:>8}");
        }
        text.push_str("Numbers of documents that are gaps\n");
        for (reason, count) in &self.documents.gaps {
            let _ = writeln!(text, "  {reason:<40} {count:>8}");
        }
        text.push_str("The run\n");
        for (name, value) in self.rows() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "  {:<40} {value:>8}", name.replace('_', " "));
        }
        text
    }

    /// The first few of everything that is wrong, for whoever looks into it.
    pub(crate) fn details(&self) -> String {
        let mut text = String::new();
        for (name, list) in self.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
            let _ = writeln!(text, "{name}: {}", list.len());
            for line in list.iter().take(LISTED) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }

    /// The same as an object.
    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        for (name, value) in self.rows() {
            object.insert(name.to_owned(), value);
        }
        object.insert("faults_by_kind".to_owned(), self.faults.iter().copied().collect());
        object.insert("failed_by_reason".to_owned(), json!(self.failed));
        object.insert("document_gaps_by_reason".to_owned(), json!(self.documents.gaps));
        for (name, list) in self.lists() {
            let few: Vec<&String> = list.iter().take(LISTED).collect();
            object.insert(format!("first_{}", name.replace([' ', ','], "_")), json!(few));
        }
        object.insert("good".to_owned(), json!(self.is_good()));
        Value::Object(object)
    }
}

/// The longest time in which nobody got an ID of some type although somebody tried.
fn longest_outage(memory: &Memory) -> (u64, &'static str) {
    let mut longest = (0, "none");
    for (place, id_type) in TYPES.iter().enumerate().filter(|(_, id_type)| id_type.space.is_none())
    {
        let of_type = memory.attempts.iter().filter(|attempt| attempt.id_type == place);
        let mut ends: Vec<(u64, bool)> = of_type
            .map(|attempt| {
                let took_ms = u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX);
                (attempt.began_ms + took_ms, attempt.result.is_ok())
            })
            .collect();
        ends.sort_unstable();
        let (mut last_ms, mut failed) = (ends.first().map_or(0, |(ms, _)| *ms), false);
        for (ms, succeeded) in ends {
            if failed && ms - last_ms > longest.0 {
                longest = (ms - last_ms, id_type.name);
            }
            failed = !succeeded;
            if succeeded {
                last_ms = ms;
            }
        }
    }
    longest
}

fn p99(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get((times.len() * 99 / 100).min(times.len().checked_sub(1)?)).copied()
}
