//! Counting scans in groups: those that wait at the same moment for codes of one type are written by
//! one step.

use async_trait::async_trait;
use storage::{
    CODES_PER_TABLE, CodeKey, CodeStatus, PlacedContext, ScanContext, StoreError, TypeId,
};

use crate::error::IssueError;
use crate::groups::{GroupStep, Groups};
use crate::surroundings::Common;

type Answer = Result<Option<CodeStatus>, IssueError>;

pub(super) struct Desk(Groups<CountScans>);

struct CountScans(Common);

impl Desk {
    pub(super) fn new(common: Common) -> Self {
        Self(Groups::new(CountScans(common)))
    }

    /// Counts a scan, and keeps what came along with it. It is counted even if whoever waits for it goes
    /// away.
    pub(super) async fn scan(&self, key: CodeKey, context: Option<ScanContext>) -> Answer {
        let interrupted = || IssueError::Unavailable("the scan was interrupted".to_owned());
        let lane = (key.type_id, lane(&key));
        self.0.ask(lane, (key, context)).await.ok_or_else(interrupted)?
    }
}

/// Codes of a type are counted in several lanes, by table: while one waits for the disk, the store works on
/// another, and none ever waits for a row that another has locked. Where there are few tables, each has its
/// own lane, and a step is one statement.
const LANES: u64 = 4;

fn lane(key: &CodeKey) -> u64 {
    key.serial / CODES_PER_TABLE % LANES
}

#[async_trait]
impl GroupStep for CountScans {
    type Key = (TypeId, u64);
    type Request = (CodeKey, Option<ScanContext>);
    type Answer = Answer;
    const SIZE_MAX: usize = 512;

    async fn serve(&self, _: (TypeId, u64), group: Vec<Self::Request>) -> Vec<Answer> {
        let (keys, contexts): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let counts = count(&keys);
        let contexts = place(&keys, &counts, contexts);
        let result = self.0.store.scan(&counts, &contexts, self.0.now()).await;
        answers(&keys, &counts, result)
    }
}

/// How often each code is in a group, in order of serials.
fn count(group: &[CodeKey]) -> Vec<(CodeKey, u64)> {
    let mut keys = group.to_vec();
    keys.sort_unstable_by_key(|key| key.serial);
    let same = keys.chunk_by(|one, other| one.serial == other.serial);
    same.map(|keys| (keys[0], keys.len() as u64)).collect()
}

/// Where a code is among those that are counted.
fn find(counts: &[(CodeKey, u64)], key: &CodeKey) -> Option<usize> {
    counts.binary_search_by_key(&key.serial, |(key, _)| key.serial).ok()
}

/// Which scan each context came with. Scans of one code are numbered in the order of the group, as their
/// [answers] are.
fn place(
    group: &[CodeKey],
    counts: &[(CodeKey, u64)],
    contexts: Vec<Option<ScanContext>>,
) -> Vec<PlacedContext> {
    if contexts.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut scans = vec![0; counts.len()];
    let mut placed = Vec::new();
    for (key, context) in group.iter().zip(contexts) {
        let Some(code) = find(counts, key) else { continue };
        scans[code] += 1;
        placed.extend(context.map(|context| PlacedContext { code, nth: scans[code], context }));
    }
    placed
}

/// How each code stands. Of several scans of one code, each gets its own number.
fn answers(
    group: &[CodeKey],
    counts: &[(CodeKey, u64)],
    result: Result<Vec<Option<CodeStatus>>, StoreError>,
) -> Vec<Answer> {
    let mut statuses = match result {
        Ok(statuses) => statuses,
        Err(problem) => return vec![Err(problem.into()); group.len()],
    };
    for (status, (_, count)) in statuses.iter_mut().zip(counts) {
        if let Some(status) = status {
            status.scans = status.scans.saturating_sub(*count);
        }
    }
    let mut answer = |key: &CodeKey| {
        let at = find(counts, key);
        let status = at.and_then(|at| statuses.get_mut(at)).and_then(Option::as_mut);
        Ok(status.map(|status| {
            status.scans += 1;
            status.clone()
        }))
    };
    group.iter().map(&mut answer).collect()
}

#[cfg(test)]
mod tests {
    use storage::{BatchId, Ledger};

    use super::*;

    fn key(serial: u64) -> CodeKey {
        CodeKey { type_id: TypeId(1), batch: BatchId(1), ledger: Ledger::Stored, serial }
    }

    #[test]
    fn scans_of_one_code_in_a_group_are_numbered() {
        let group = [7, 3, 7].map(key);
        let counts = count(&group);
        assert_eq!(
            counts.iter().map(|(key, n)| (key.serial, *n)).collect::<Vec<_>>(),
            [(3, 1), (7, 2)]
        );
        let status = |scans| CodeStatus { scans, first_scanned_at: None, void: None };
        let answers = answers(&group, &counts, Ok(vec![None, Some(status(2))]));
        let scans: Vec<_> =
            answers.into_iter().map(|answer| answer.unwrap().map(|status| status.scans)).collect();
        assert_eq!(scans, [Some(1), None, Some(2)]);
    }

    #[test]
    fn a_context_has_the_number_that_its_caller_is_told() {
        let group = [7, 3, 7, 7, 3].map(key);
        let context = |key_id| Some(ScanContext { key_id, json: "{}".to_owned() });
        let sent = vec![context(10), None, None, context(13), context(14)];
        let counts = count(&group);
        let placed = place(&group, &counts, sent.clone());
        // So many scans had been counted when the step was over.
        let after = [5, 9];
        let status = |scans| Some(CodeStatus { scans, first_scanned_at: None, void: None });
        let told = answers(&group, &counts, Ok(after.map(status).to_vec()));
        let told: Vec<_> = sent
            .iter()
            .zip(told)
            .filter_map(|(sent, told)| Some((sent.as_ref()?.key_id, told.unwrap().unwrap().scans)))
            .collect();
        let kept: Vec<_> = placed
            .iter()
            .map(|placed| {
                let number = after[placed.code] - counts[placed.code].1 + placed.nth;
                (placed.context.key_id, number)
            })
            .collect();
        assert_eq!(kept, [(10, 7), (13, 9), (14, 5)]);
        assert_eq!(kept, told);
    }

    #[test]
    fn a_group_without_contexts_places_none() {
        let group = [7, 3].map(key);
        assert_eq!(place(&group, &count(&group), vec![None, None]), []);
    }
}
