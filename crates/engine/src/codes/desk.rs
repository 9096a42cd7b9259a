//! Counting scans in groups: those that wait at the same moment for codes of one type are written by
//! one step.

use async_trait::async_trait;
use storage::{CODES_PER_TABLE, CodeKey, CodeStatus, StoreError, TypeId};

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

    /// Counts a scan. It is counted even if whoever waits for it goes away.
    pub(super) async fn scan(&self, key: CodeKey) -> Answer {
        let interrupted = || IssueError::Unavailable("the scan was interrupted".to_owned());
        self.0.ask((key.type_id, lane(&key)), key).await.ok_or_else(interrupted)?
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
    type Request = CodeKey;
    type Answer = Answer;
    const SIZE_MAX: usize = 512;

    async fn serve(&self, _: (TypeId, u64), group: Vec<CodeKey>) -> Vec<Answer> {
        let counts = count(&group);
        let result = self.0.store.scan(&counts, &[], self.0.now()).await;
        answers(&group, &counts, result)
    }
}

/// How often each code is in a group, in order of serials.
fn count(group: &[CodeKey]) -> Vec<(CodeKey, u64)> {
    let mut keys = group.to_vec();
    keys.sort_unstable_by_key(|key| key.serial);
    let same = keys.chunk_by(|one, other| one.serial == other.serial);
    same.map(|keys| (keys[0], keys.len() as u64)).collect()
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
        let at = counts.binary_search_by_key(&key.serial, |(key, _)| key.serial);
        let status = at.ok().and_then(|at| statuses.get_mut(at)).and_then(Option::as_mut);
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

    #[test]
    fn scans_of_one_code_in_a_group_are_numbered() {
        let key = |serial| CodeKey {
            type_id: TypeId(1),
            batch: BatchId(1),
            ledger: Ledger::Stored,
            serial,
        };
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
}
