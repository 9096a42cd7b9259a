//! Chance that is the same in every run with the same seed.

use std::time::Duration;

/// A source of chance: splitmix64, which is small and good enough to shuffle faults.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another source, so that what one part draws does not change what another one gets.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From the first number to the last.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub(crate) fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    /// A place in a list that has so many.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a length")
    }

    /// A time between two in milliseconds.
    pub(crate) fn millis(&mut self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.between(first, last))
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.place(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let shuffled = |seed| {
            let mut list: Vec<u32> = (0..20).collect();
            Chance::new(seed).shuffle(&mut list);
            list
        };
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut sorted = shuffled(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
