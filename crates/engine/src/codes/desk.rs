//! Counting scans in groups: those that wait at the same moment for codes of one type are written by
//! one step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage::{CodeKey, CodeStatus, Store, StoreError, TypeId};
use tokio::sync::oneshot;

use crate::error::IssueError;
use crate::surroundings::Clock;

/// Scans that are written together at most.
const GROUP_MAX: usize = 512;

/// Groups of one type that are written at once: while one waits for the disk, the store can work on
/// the next.
const GROUPS_AT_ONCE: usize = 2;

type Answer = Result<Option<CodeStatus>, IssueError>;

/// A scan that waits.
struct Waiting {
    key: CodeKey,
    answer: oneshot::Sender<Answer>,
}

/// Scans of one type.
#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// How many write groups of it.
    workers: usize,
}

/// A type that is in here is being worked on.
type Queues = HashMap<TypeId, Queue>;

pub(super) struct Desk {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    queues: Mutex<Queues>,
}

impl Desk {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { store, clock, queues: Mutex::default() }) }
    }

    /// Counts a scan. It is counted even if whoever waits for it goes away.
    pub(super) async fn scan(&self, key: CodeKey) -> Result<Option<CodeStatus>, IssueError> {
        let (answer, receiver) = oneshot::channel();
        if self.shared.enqueue(Waiting { key, answer }) {
            tokio::spawn(Arc::clone(&self.shared).work(key.type_id));
        }
        let interrupted = |_| IssueError::Unavailable("the scan was interrupted".to_owned());
        receiver.await.map_err(interrupted)?
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a scan wait, and says whether one more worker is wanted.
    fn enqueue(&self, waiting: Waiting) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(waiting.key.type_id).or_default();
        queue.waiting.push(waiting);
        let wanted = queue.workers < GROUPS_AT_ONCE;
        queue.workers += usize::from(wanted);
        wanted
    }

    /// Writes what waits for a type, until nothing does.
    async fn work(self: Arc<Self>, type_id: TypeId) {
        while let Some(group) = self.next_group(type_id) {
            let counts = count(&group);
            // In a task of its own: a panic in there must not leave the queue without a worker.
            let scan = {
                let (this, counts) = (Arc::clone(&self), counts.clone());
                async move { this.store.scan(&counts, this.clock.now()).await }
            };
            let result = tokio::spawn(scan).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable("the scan was interrupted".to_owned()))
            });
            answer(group, &counts, result);
        }
    }

    fn next_group(&self, type_id: TypeId) -> Option<Vec<Waiting>> {
        let mut queues = self.lock();
        let queue = queues.get_mut(&type_id)?;
        if queue.waiting.is_empty() {
            queue.workers -= 1;
            if queue.workers == 0 {
                queues.remove(&type_id);
            }
            return None;
        }
        let rest = queue.waiting.split_off(queue.waiting.len().min(GROUP_MAX));
        Some(std::mem::replace(&mut queue.waiting, rest))
    }
}

/// How often each code is in a group, in order of serials.
fn count(group: &[Waiting]) -> Vec<(CodeKey, u64)> {
    let mut keys: Vec<CodeKey> = group.iter().map(|waiting| waiting.key).collect();
    keys.sort_unstable_by_key(|key| key.serial);
    let same = keys.chunk_by(|one, other| one.serial == other.serial);
    same.map(|keys| (keys[0], keys.len() as u64)).collect()
}

/// Tells everybody how their code stands. Of several scans of one code, each gets its own number.
fn answer(
    group: Vec<Waiting>,
    counts: &[(CodeKey, u64)],
    result: Result<Vec<Option<CodeStatus>>, StoreError>,
) {
    let mut statuses = match result {
        Ok(statuses) => statuses,
        Err(problem) => {
            let problem = IssueError::from(problem);
            for waiting in group {
                let _ = waiting.answer.send(Err(problem.clone()));
            }
            return;
        }
    };
    for (status, (_, count)) in statuses.iter_mut().zip(counts) {
        if let Some(status) = status {
            status.scans = status.scans.saturating_sub(*count);
        }
    }
    for waiting in group {
        let at = counts.binary_search_by_key(&waiting.key.serial, |(key, _)| key.serial);
        let status = at.ok().and_then(|at| statuses.get_mut(at)).and_then(Option::as_mut);
        let status = status.map(|status| {
            status.scans += 1;
            status.clone()
        });
        let _ = waiting.answer.send(Ok(status));
    }
}

#[cfg(test)]
mod tests {
    use storage::{BatchId, Ledger};

    use super::*;

    fn waiting(serial: u64) -> (Waiting, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        let (type_id, batch) = (TypeId(1), BatchId(1));
        let key = CodeKey { type_id, batch, ledger: Ledger::Stored, serial };
        (Waiting { key, answer }, receiver)
    }

    #[test]
    fn scans_of_one_code_in_a_group_are_numbered() {
        let (group, mut receivers): (Vec<_>, Vec<_>) = [7, 3, 7].map(waiting).into_iter().unzip();
        let counts = count(&group);
        assert_eq!(
            counts.iter().map(|(key, n)| (key.serial, *n)).collect::<Vec<_>>(),
            [(3, 1), (7, 2)]
        );
        let status = |scans| CodeStatus { scans, first_scanned_at: None, void: None };
        answer(group, &counts, Ok(vec![None, Some(status(2))]));
        let mut scans = |at: usize| {
            let answer = receivers[at].try_recv().unwrap().unwrap();
            answer.map(|status| status.scans)
        };
        assert_eq!((scans(0), scans(1), scans(2)), (Some(1), None, Some(2)));
    }
}
