//! The names of all keys, and what they tell.
//!
//! `<namespace>:{<tag>}:<epoch>:<what>`. The braces are a hash tag, by which keys that belong together
//! are in one slot of a cluster. Nobody reads a key of an epoch that has ended, and all of them are
//! deleted then.

use storage::{BatchId, CodeKey, PoolKey, WorkerName};

/// The serials of a pool as decimal text, the lowest at the head: a list. Tag: `<type>:<period>`.
const SERIALS: &str = "serials";

/// Who refills a pool: a string that holds the owner's token and expires. Tag: `<type>:<period>`.
const REFILL: &str = "refill";

/// The tenants that have chunks to be done, the one whose turn is next at the head: a list. Tag:
/// [`DISPATCH`].
const QUEUE: &str = "queue";

/// The tenants whose turn is with a worker, usually one at most: a list. Tag: [`DISPATCH`], and behind
/// it `:<instance>:<number>`.
const PROCESSING: &str = "processing";

/// The workers that may have a turn, by when they were seen, in milliseconds: a sorted set. Tag:
/// [`DISPATCH`].
const WORKERS: &str = "workers";

/// How far a batch is: a hash with a field for everything that changes, which expires. Tag:
/// `batch-<number>`.
const PROGRESS: &str = "progress";

/// How a code stands: a string, which expires. Empty means that nobody may note anything. Tag:
/// `<type>:<serial>`.
const CODE: &str = "code";

/// All that a key can be.
const ALL: [&str; 7] = [SERIALS, REFILL, QUEUE, PROCESSING, WORKERS, PROGRESS, CODE];

/// Never exists: taking something off it shows that withdrawals work, even when the server has no
/// memory left.
///
/// `<namespace>:{<number>}:probe`, where the number makes it a key of the node in question.
const PROBE: &str = "probe";

/// The tag of everything about turns.
pub(crate) const DISPATCH: &str = "dispatch";

/// The keys of one pool in one epoch.
#[derive(Debug, Clone)]
pub(crate) struct PoolKeys {
    pub(crate) serials: String,
    pub(crate) refill: String,
}

impl PoolKeys {
    pub(crate) fn new(namespace: &str, pool: &PoolKey, epoch: u64) -> Self {
        let key = |what| key(namespace, &tag(pool), epoch, what);
        Self { serials: key(SERIALS), refill: key(REFILL) }
    }
}

/// The keys that a worker needs to take turns.
#[derive(Debug, Clone)]
pub(crate) struct TurnKeys {
    pub(crate) queue: String,
    pub(crate) processing: String,
    pub(crate) workers: String,
    /// The worker among the workers.
    pub(crate) worker: String,
}

impl TurnKeys {
    pub(crate) fn of(namespace: &str, epoch: u64, worker: &WorkerName) -> Self {
        Self::named(namespace, epoch, format!("{}:{}", worker.instance, worker.number))
    }

    /// By the name that the worker has among the workers.
    pub(crate) fn named(namespace: &str, epoch: u64, worker: String) -> Self {
        let key = |what| key(namespace, DISPATCH, epoch, what);
        let processing = format!("{}:{worker}", key(PROCESSING));
        Self { queue: key(QUEUE), processing, workers: key(WORKERS), worker }
    }
}

fn key(namespace: &str, tag: &str, epoch: u64, what: &str) -> String {
    format!("{namespace}:{{{tag}}}:{epoch}:{what}")
}

/// Where turns wait to be taken.
pub(crate) fn queue(namespace: &str, epoch: u64) -> String {
    key(namespace, DISPATCH, epoch, QUEUE)
}

/// What decides on the slot of a pool's keys.
pub(crate) fn tag(pool: &PoolKey) -> String {
    format!("{}:{}", pool.type_id.0, pool.period)
}

/// How far a batch is, with its tag.
pub(crate) fn progress(namespace: &str, epoch: u64, batch: BatchId) -> (String, String) {
    let tag = format!("batch-{}", batch.0);
    (key(namespace, &tag, epoch, PROGRESS), tag)
}

/// How a code stands, with its tag.
pub(crate) fn code(namespace: &str, epoch: u64, code: &CodeKey) -> (String, String) {
    let tag = format!("{}:{}", code.type_id.0, code.serial);
    (key(namespace, &tag, epoch, CODE), tag)
}

/// A key that is in the slot of a tag.
pub(crate) fn probe(namespace: &str, tag: u32) -> String {
    format!("{namespace}:{{{tag}}}:{PROBE}")
}

/// All keys in all epochs, as a pattern for `SCAN`.
pub(crate) fn all(namespace: &str) -> String {
    format!("{namespace}:{{*}}:*")
}

/// The epoch that a key belongs to, or none if it is not one of ours.
pub(crate) fn epoch_of(namespace: &str, key: &str) -> Option<u64> {
    let rest = key.strip_prefix(namespace)?.strip_prefix(":{")?;
    let (_tag, rest) = rest.split_once("}:")?;
    let (epoch, what) = rest.split_once(':')?;
    let what = what.split_once(':').map_or(what, |(what, _worker)| what);
    ALL.contains(&what).then(|| epoch.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use storage::TypeId;

    use super::*;

    fn pool() -> PoolKey {
        PoolKey {
            type_id: TypeId(7),
            tenant: "acme".to_owned(),
            name: "order".to_owned(),
            period: "2026-11".to_owned(),
        }
    }

    #[test]
    fn the_epoch_can_be_read_from_a_key() {
        let keys = PoolKeys::new("mintage", &pool(), 12);
        assert_eq!(keys.serials, "mintage:{7:2026-11}:12:serials");
        assert_eq!(keys.refill, "mintage:{7:2026-11}:12:refill");
        let worker = WorkerName { instance: "f00".to_owned(), number: 3 };
        let turns = TurnKeys::of("mintage", 12, &worker);
        assert_eq!(turns.processing, "mintage:{dispatch}:12:processing:f00:3");
        for key in [keys.serials, keys.refill, turns.queue, turns.processing, turns.workers] {
            assert_eq!(epoch_of("mintage", &key), Some(12), "{key}");
        }
    }

    #[test]
    fn keys_of_others_have_no_epoch() {
        for key in [
            "mintage:{7:2026-11}:12:others",
            "mintage:{7:2026-11}:x:serials",
            "other:{7:2026-11}:12:serials",
            "mintage:7:12:serials",
            "mintage:{7:}:12:1:serials",
            "mintage:{0}:probe",
            "serials",
        ] {
            assert_eq!(epoch_of("mintage", key), None, "{key}");
        }
    }
}
