//! `Range`: a part of a file (RFC 9110, section 14).

use std::ops::Range;

use axum::http::{HeaderMap, Method, header};

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    Part(Range<u64>),
    /// Something beyond the end.
    Beyond,
}

/// What a request wants of a file of so many bytes. Everything that is not one plain range of bytes of
/// this very file is answered with the whole file, as the standard has it.
pub(super) fn wanted(method: &Method, headers: &HeaderMap, etag: &str, bytes: u64) -> Wanted {
    let mut ranges = headers.get_all(header::RANGE).iter();
    let (Some(range), None, &Method::GET) = (ranges.next(), ranges.next(), method) else {
        return Wanted::Whole;
    };
    // A date never fits: files have none.
    if headers.get(header::IF_RANGE).is_some_and(|condition| condition != etag) {
        return Wanted::Whole;
    }
    range.to_str().ok().and_then(|range| read(range, bytes)).unwrap_or(Wanted::Whole)
}

/// Reads `bytes=a-b`, `bytes=a-` and `bytes=-n`.
fn read(range: &str, bytes: u64) -> Option<Wanted> {
    let (unit, spec) = range.split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let part = match (first, last) {
        ("", count) => {
            let count = number(count)?;
            // The end of an empty file is not beyond it, but no part either.
            if count > 0 && bytes == 0 {
                return None;
            }
            bytes.saturating_sub(count)..bytes
        }
        (first, "") => number(first)?..bytes,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..bytes.min(last.saturating_add(1))
        }
    };
    Some(if part.is_empty() { Wanted::Beyond } else { Wanted::Part(part) })
}

/// A number of any size; those that are too large are beyond every file.
fn number(digits: &str) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(range: &'static str, bytes: u64) -> Wanted {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static(range));
        wanted(&Method::GET, &headers, "\"a\"", bytes)
    }

    #[test]
    fn single_ranges_are_understood() {
        for (range, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-99", 0..100),
            ("bytes=0-100", 0..100),
            ("bytes=10-19", 10..20),
            ("bytes=99-", 99..100),
            ("bytes=-1", 99..100),
            ("bytes=-200", 0..100),
            ("Bytes= 10-19", 10..20),
            ("bytes=10-99999999999999999999999", 10..100),
        ] {
            assert_eq!(of(range, 100), Wanted::Part(part), "{range}");
        }
    }

    #[test]
    fn what_is_beyond_the_end_is_told_apart_from_what_is_ignored() {
        for range in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(range, 100), Wanted::Beyond, "{range}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Beyond);
        assert_eq!(of("bytes=-1", 0), Wanted::Whole);
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5",
            "bytes=7-6",
            "bytes=0-1,5-6",
            "bytes=+1-2",
            "bytes=1 -2",
            "lines=0-1",
            "0-1",
        ] {
            assert_eq!(of(range, 100), Wanted::Whole, "{range}");
        }
    }

    #[test]
    fn a_part_of_another_file_is_not_wanted() {
        let with = |method: &Method, tags: &[&'static str], ranges: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for tag in tags {
                headers.append(header::IF_RANGE, HeaderValue::from_static(tag));
            }
            for range in ranges {
                headers.append(header::RANGE, HeaderValue::from_static(range));
            }
            wanted(method, &headers, "\"a\"", 100)
        };
        assert_eq!(with(&Method::GET, &["\"a\""], &["bytes=5-"]), Wanted::Part(5..100));
        for tag in ["\"b\"", "W/\"a\"", "a", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(with(&Method::GET, &[tag], &["bytes=5-"]), Wanted::Whole, "{tag}");
        }
        assert_eq!(with(&Method::GET, &["\"a\""], &[]), Wanted::Whole);
        assert_eq!(with(&Method::GET, &[], &["bytes=0-1", "bytes=5-6"]), Wanted::Whole);
        assert_eq!(with(&Method::HEAD, &[], &["bytes=5-"]), Wanted::Whole);
    }
}
