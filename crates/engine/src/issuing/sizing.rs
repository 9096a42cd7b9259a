//! How much is taken ahead of demand.

/// How large the stock of a pool is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizing {
    pub(crate) min: usize,
    pub(crate) max: usize,
    /// A stock that lasted less than this is too small.
    pub(crate) grow_below_ms: i64,
    /// One that lasted longer than this is too large.
    pub(crate) shrink_above_ms: i64,
    /// The share of it that may be used up before more is fetched.
    pub(crate) watermark: f64,
}

impl Sizing {
    /// For a pool that is the only one of its counter.
    pub(crate) fn ahead((min, max): (usize, usize), watermark: f64) -> Self {
        Self { min, max, grow_below_ms: 1000, shrink_above_ms: 60_000, watermark }
    }

    /// For an instance among others: what it takes ahead of demand, the others cannot have, so it
    /// is a few milliseconds' worth, and nothing while demand is low.
    pub(crate) fn in_company() -> Self {
        // Fetching takes longer than drawing, so it begins when there is still half of it.
        Self { min: 0, max: 4096, grow_below_ms: 20, shrink_above_ms: 100, watermark: 0.5 }
    }

    /// A stock that has never been of any use grows from here.
    const FIRST_STEP: usize = 32;

    /// The size after a stock of the size `target` has lasted so long.
    pub(crate) fn next(self, target: usize, lasted_ms: Option<i64>) -> usize {
        let next = match lasted_ms {
            Some(ms) if ms < self.grow_below_ms => (target * 2).max(Self::FIRST_STEP),
            Some(ms) if ms > self.shrink_above_ms => target / 2,
            _ => target,
        };
        next.clamp(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_among_others_grows_with_demand_and_is_gone_without() {
        let sizing = Sizing::in_company();
        let mut target = sizing.min;
        for _ in 0..20 {
            target = sizing.next(target, Some(5));
        }
        assert_eq!(target, sizing.max);
        for _ in 0..20 {
            target = sizing.next(target, Some(5000));
        }
        assert_eq!(target, 0);
    }

    #[test]
    fn the_first_refill_tells_nothing_about_demand() {
        assert_eq!(Sizing::ahead((256, 65_536), 0.75).next(256, None), 256);
    }
}
