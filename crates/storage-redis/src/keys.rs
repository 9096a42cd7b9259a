//! The names of all keys, and what they tell.

use storage::PoolKey;

/// The serials of a pool as decimal text, the lowest at the head: a list.
///
/// `<namespace>:{<type>:<period>}:<epoch>:serials`. The braces are a hash tag, by which all keys of
/// one pool are in one slot of a cluster. Nobody reads a key of an epoch that has ended.
const SERIALS: &str = "serials";

/// Who refills a pool: a string that holds the owner's token and expires.
///
/// `<namespace>:{<type>:<period>}:<epoch>:refill`.
const REFILL: &str = "refill";

/// Never exists: taking something off it shows that withdrawals work, even when the server has no
/// memory left.
///
/// `<namespace>:{<number>}:probe`, where the number makes it a key of the node in question.
const PROBE: &str = "probe";

/// The keys of one pool in one epoch.
#[derive(Debug, Clone)]
pub(crate) struct PoolKeys {
    pub(crate) serials: String,
    pub(crate) refill: String,
}

impl PoolKeys {
    pub(crate) fn new(namespace: &str, pool: &PoolKey, epoch: u64) -> Self {
        let front = format!("{namespace}:{{{}}}:{epoch}", tag(pool));
        Self { serials: format!("{front}:{SERIALS}"), refill: format!("{front}:{REFILL}") }
    }
}

/// What decides on the slot of a pool's keys.
pub(crate) fn tag(pool: &PoolKey) -> String {
    format!("{}:{}", pool.type_id.0, pool.period)
}

/// A key that is in the slot of a tag.
pub(crate) fn probe(namespace: &str, tag: u32) -> String {
    format!("{namespace}:{{{tag}}}:{PROBE}")
}

/// The lists of all pools in all epochs, as a pattern for `SCAN`.
pub(crate) fn all_serials(namespace: &str) -> String {
    format!("{namespace}:{{*}}:*:{SERIALS}")
}

/// The epoch that a list belongs to, or none if the key is not one of ours.
pub(crate) fn epoch_of(namespace: &str, key: &str) -> Option<u64> {
    let rest = key.strip_prefix(namespace)?.strip_prefix(":{")?;
    let (_tag, rest) = rest.rsplit_once("}:")?;
    rest.strip_suffix(SERIALS)?.strip_suffix(':')?.parse().ok()
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
        assert_eq!(epoch_of("mintage", &keys.serials), Some(12));
    }

    #[test]
    fn keys_of_others_have_no_epoch() {
        for key in [
            "mintage:{7:2026-11}:12:refill",
            "mintage:{7:2026-11}:x:serials",
            "other:{7:2026-11}:12:serials",
            "mintage:7:12:serials",
            "mintage:{7:}:12:1:serials",
            "serials",
        ] {
            assert_eq!(epoch_of("mintage", key), None, "{key}");
        }
    }
}
