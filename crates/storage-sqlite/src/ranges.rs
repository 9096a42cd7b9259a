//! Ranges of serials.

use std::ops::Range;

/// What is left of serials without some parts. The parts are in order of their starts; they may
/// overlap, and reach beyond the serials.
pub(crate) fn without(
    serials: &Range<u64>,
    parts: impl IntoIterator<Item = Range<u64>>,
) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut start = serials.start;
    for part in parts {
        let before = start..part.start.min(serials.end);
        if !before.is_empty() {
            rest.push(before);
        }
        start = start.max(part.end);
    }
    if start < serials.end {
        rest.push(start..serials.end);
    }
    rest
}

/// What two ranges have in common.
pub(crate) fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_left_out() {
        let rest = |parts: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let parts = parts.iter().map(|&(start, end)| start..end);
            without(&(10..20), parts).into_iter().map(|left| (left.start, left.end)).collect()
        };
        assert_eq!(rest(&[]), [(10, 20)]);
        assert_eq!(rest(&[(0, 5), (25, 30)]), [(10, 20)]);
        assert_eq!(rest(&[(5, 12), (15, 16), (19, 22)]), [(12, 15), (16, 19)]);
        assert_eq!(rest(&[(11, 18), (12, 13), (18, 19)]), [(10, 11), (19, 20)]);
        assert_eq!(rest(&[(10, 20)]), []);
        assert_eq!(rest(&[(0, 30)]), []);
    }
}
