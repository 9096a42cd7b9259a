//! What a pool's table is called, and what locks it.

use idgen::spec::DEFAULT_TENANT;
use sha2::{Digest, Sha256};
use storage::PoolKey;

/// Names in PostgreSQL are cut off behind so many bytes.
const NAME_BYTES_MAX: usize = 63;

const PREFIX: &str = "id_pool_";

/// Hexadecimal digits of the hash in a name.
const HASH_DIGITS: usize = 16;

/// What the table may be called, best first. The first one that no other pool has is taken. Only
/// the plain name, which is `OpenG2P`'s, could be another pool's by its looks.
pub(crate) fn candidates(pool: &PoolKey) -> Vec<String> {
    let identity = format!("{}\0{}\0{}", pool.tenant, pool.name, pool.period);
    let number = format!("{identity}\0{}", pool.type_id.0);
    plain(pool).into_iter().chain([hashed(pool, &identity), hashed(pool, &number)]).collect()
}

/// The name that `OpenG2P` would give it.
fn plain(pool: &PoolKey) -> Option<String> {
    let fits = pool.tenant == DEFAULT_TENANT
        && pool.period.is_empty()
        && PREFIX.len() + pool.name.len() <= NAME_BYTES_MAX
        && pool.name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    fits.then(|| format!("{PREFIX}{}", pool.name))
}

/// As much of the name as a person can read, and a hash that makes it its own.
fn hashed(pool: &PoolKey, identity: &str) -> String {
    let parts = [pool.tenant.as_str(), pool.name.as_str(), pool.period.as_str()];
    let readable = parts.map(str::to_ascii_lowercase).join("_").replace(['-', '.'], "_");
    let room = NAME_BYTES_MAX - PREFIX.len() - 1 - HASH_DIGITS;
    // Names of tenants and types are ASCII, but a cut in the middle of a letter must not matter.
    let readable: String = readable.chars().filter(char::is_ascii).take(room).collect();
    let hash = u64::from_be_bytes(first_bytes(identity));
    format!("{PREFIX}{}_{hash:016x}", readable.trim_end_matches('_'))
}

fn first_bytes(text: &str) -> [u8; 8] {
    let hash = Sha256::digest(text.as_bytes());
    std::array::from_fn(|place| hash[place])
}

/// What an instance holds while it fills the pool. For types that `OpenG2P` may be filling, too, it
/// is what that uses.
pub(crate) fn lock_key(pool: &PoolKey, table: &str) -> i64 {
    if pool.tenant == DEFAULT_TENANT && pool.period.is_empty() {
        i64::from(crc32fast::hash(pool.name.as_bytes()) & 0x7fff_ffff)
    } else {
        // Negative, so that it is never one of the others.
        i64::from_be_bytes(first_bytes(table)) | i64::MIN
    }
}

/// The index that `OpenG2P` makes, if its name fits.
pub(crate) fn status_index(table: &str) -> Option<String> {
    let name = format!("idx_{}_available", table.strip_prefix(PREFIX)?);
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// A name as a statement needs it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use storage::TypeId;

    use super::*;

    fn pool(tenant: &str, name: &str) -> PoolKey {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        PoolKey { type_id: TypeId(256), tenant, name, period: String::new() }
    }

    #[test]
    fn lock_keys_are_those_of_openg2p() {
        for (name, key) in [
            ("farmer", 1_820_699_791),
            ("household", 1_422_077_888),
            ("farmer_id", 323_493_163),
            ("household_id", 1_738_537_027),
        ] {
            assert_eq!(lock_key(&pool("default", name), "any"), key);
        }
        assert!(lock_key(&pool("acme", "farmer"), "id_pool_acme_farmer_0") < 0);
    }

    #[test]
    fn plain_names_are_those_of_openg2p() {
        assert_eq!(candidates(&pool("default", "farmer"))[0], "id_pool_farmer");
        let longest = "x".repeat(55);
        let table = &candidates(&pool("default", &longest))[0];
        assert_eq!((table.as_str(), table.len()), (format!("id_pool_{longest}").as_str(), 63));
        for (tenant, name) in [("acme", "farmer"), ("default", "Farmer"), ("default", "a-b")] {
            assert!(!candidates(&pool(tenant, name))[0].ends_with(name), "{tenant} {name}");
        }
    }

    #[test]
    fn no_two_pools_share_a_name() {
        let long = "x".repeat(60);
        let names = [long.clone(), format!("{long}1"), format!("{long}2"), "a-b".to_owned()];
        let mut all = Vec::new();
        for tenant in ["default", "acme", "Acme", &long] {
            for name in names.iter().map(String::as_str).chain(["a.b", "a_b", "A_b"]) {
                all.extend(candidates(&pool(tenant, name)));
            }
        }
        assert!(all.iter().all(|name| name.len() <= NAME_BYTES_MAX));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
