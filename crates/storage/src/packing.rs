//! The issues of a group, packed into a few bytes each.
//!
//! Issues follow one another closely in serials and in time, and mostly have the same key. So each
//! number is written as the difference to what the issue before would suggest, in as few bytes as
//! it needs (seven bits in each, the highest bit says that more follow):
//!
//! | field | written as |
//! | --- | --- |
//! | version | one byte |
//! | number of issues | number |
//! | first | difference to the serial behind the issue before, or to the start of the group |
//! | last | difference to first |
//! | key | signed difference to the issue before, or to 0 |
//! | time | signed difference to the issue before, or to 0 |
//!
//! Differences wrap around, so every list of issues can be written and comes back as it was.

use crate::Issue;

/// The first byte. Another layout gets another one.
const VERSION: u8 = 1;

/// An issue in which every number takes one byte. No list has more issues than fit in that.
const ISSUE_BYTES_MIN: usize = 4;

/// Packs the issues of a group that starts with `start`.
pub fn encode(start: u64, issues: &[Issue]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + 6 * issues.len());
    bytes.push(VERSION);
    put(&mut bytes, issues.len() as u64);
    let mut before = Before::new(start);
    for issue in issues {
        put(&mut bytes, issue.first.wrapping_sub(before.next));
        put(&mut bytes, issue.last.wrapping_sub(issue.first));
        put(&mut bytes, zigzag(issue.key_id.wrapping_sub(before.key_id)));
        put(&mut bytes, zigzag(issue.at_ms.wrapping_sub(before.at_ms)));
        before.follow(issue);
    }
    bytes
}

/// Unpacks what [`encode`] has packed, with the same `start`. None if it is anything else.
pub fn decode(start: u64, bytes: &[u8]) -> Option<Vec<Issue>> {
    let (&version, mut rest) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    let count = usize::try_from(take(&mut rest)?).ok()?;
    if count > rest.len() / ISSUE_BYTES_MIN {
        return None;
    }
    let mut issues = Vec::with_capacity(count);
    let mut before = Before::new(start);
    for _ in 0..count {
        let first = before.next.wrapping_add(take(&mut rest)?);
        let last = first.wrapping_add(take(&mut rest)?);
        let key_id = before.key_id.wrapping_add(unzigzag(take(&mut rest)?));
        let at_ms = before.at_ms.wrapping_add(unzigzag(take(&mut rest)?));
        let issue = Issue { first, last, key_id, at_ms };
        before.follow(&issue);
        issues.push(issue);
    }
    rest.is_empty().then_some(issues)
}

/// What the next issue is compared with.
struct Before {
    next: u64,
    key_id: i64,
    at_ms: i64,
}

impl Before {
    fn new(start: u64) -> Self {
        Self { next: start, key_id: 0, at_ms: 0 }
    }

    fn follow(&mut self, issue: &Issue) {
        *self = Self { next: issue.last.wrapping_add(1), key_id: issue.key_id, at_ms: issue.at_ms };
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Small numbers of either sign as small numbers: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn any_issue()(first: u64, last: u64, key_id: i64, at_ms: i64) -> Issue {
            Issue { first, last, key_id, at_ms }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(
            start: u64,
            issues in prop::collection::vec(any_issue(), 0..50),
        ) {
            prop_assert_eq!(decode(start, &encode(start, &issues)), Some(issues));
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(
            start: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Some(issues) = decode(start, &bytes) {
                prop_assert_eq!(decode(start, &encode(start, &issues)), Some(issues));
            }
        }

        #[test]
        fn a_list_that_is_cut_short_or_too_long_is_refused(
            issues in prop::collection::vec(any_issue(), 1..10),
            cut: prop::sample::Index,
        ) {
            let mut bytes = encode(0, &issues);
            prop_assert_eq!(decode(0, &bytes[..cut.index(bytes.len())]), None);
            bytes.push(0);
            prop_assert_eq!(decode(0, &bytes), None);
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = encode(0, &[]);
        assert_eq!(decode(0, &bytes), Some(vec![]));
        bytes[0] = VERSION + 1;
        assert_eq!(decode(0, &bytes), None);
    }

    /// What the layout is for: one ID after the other, a few milliseconds apart.
    #[test]
    fn a_usual_issue_takes_four_bytes() {
        let issues: Vec<_> = (0..100)
            .map(|i| Issue {
                first: 5_000_000_000 + i,
                last: 5_000_000_000 + i,
                key_id: 3,
                at_ms: 1_790_000_000_000 + i.cast_signed() * 7,
            })
            .collect();
        let bytes = encode(5_000_000_000, &issues);
        assert!(bytes.len() <= 400 + 8, "{} bytes", bytes.len());
    }
}
