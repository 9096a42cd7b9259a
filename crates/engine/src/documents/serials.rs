//! Serials that are at hand, in order.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges of serials that do not touch, the lowest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Serials(VecDeque<Range<u64>>);

impl Serials {
    /// Adds serials that are not in here.
    pub(super) fn add(&mut self, mut serials: Range<u64>) {
        if serials.is_empty() {
            return;
        }
        let mut place = self.0.partition_point(|range| range.end < serials.start);
        // Those that it touches become one with it.
        while let Some(next) = self.0.get(place).filter(|next| next.start <= serials.end) {
            serials = serials.start.min(next.start)..serials.end.max(next.end);
            self.0.remove(place);
        }
        place = place.min(self.0.len());
        self.0.insert(place, serials);
    }

    /// Takes the lowest ones, so many at most, as far as they are consecutive.
    pub(super) fn take(&mut self, count: usize) -> Option<Range<u64>> {
        let Range { start, end } = self.0.pop_front()?;
        let cut = end.min(start.saturating_add(count as u64));
        if cut < end {
            self.0.push_front(cut..end);
        }
        Some(start..cut)
    }

    /// All of them, the highest first: so each in turn can be the end of what a counter has drawn.
    pub(super) fn highest_first(self) -> impl Iterator<Item = Range<u64>> {
        self.0.into_iter().rev()
    }
}

/// Serials in order as ranges.
pub(super) fn runs(serials: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for serial in serials {
        match runs.last_mut() {
            Some(run) if run.end == serial => run.end += 1,
            _ => runs.push(serial..serial + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serials(ranges: &[Range<u64>]) -> Serials {
        let mut serials = Serials::default();
        for range in ranges {
            serials.add(range.clone());
        }
        serials
    }

    #[test]
    fn they_are_in_order_however_they_come() {
        let sorted = Serials(VecDeque::from([1..3, 5..9, 12..20]));
        assert_eq!(serials(&[5..9, 12..20, 1..3]), sorted);
        assert_eq!(serials(&[12..20, 1..2, 6..9, 2..3, 5..6, 7..7]), sorted);
        assert_eq!(serials(&[1..3, 5..7, 8..9, 7..8, 12..20]), sorted);
    }

    #[test]
    fn the_lowest_go_first() {
        let mut serials = serials(&[5..9, 1..3]);
        let taken: Vec<_> = std::iter::from_fn(|| serials.take(3)).collect();
        assert_eq!(taken, [1..3, 5..8, 8..9]);
        assert_eq!(serials, Serials::default());
    }

    #[test]
    fn the_highest_go_back_first() {
        let back: Vec<_> = serials(&[5..9, 1..3]).highest_first().collect();
        assert_eq!(back, [5..9, 1..3]);
        assert_eq!(runs([1, 2, 5, 7, 8].into_iter()), [1..3, 5..6, 7..9]);
    }
}
