//! How fast a pool is used up.

/// The rate forgets the past with this half-life.
const HALF_LIFE_MS: f64 = 30_000.0;

/// A moving average of IDs per second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Burn {
    per_second: f64,
    counted: u32,
    since_ms: i64,
}

impl Burn {
    /// Takes note of IDs that were handed out.
    pub(crate) fn count(&mut self, ids: usize, now_ms: i64) {
        self.counted = self.counted.saturating_add(u32::try_from(ids).unwrap_or(u32::MAX));
        if self.since_ms == 0 {
            self.since_ms = now_ms;
        }
        // Averaging once a second is enough, and costs a hot pool nothing.
        if now_ms - self.since_ms >= 1000 {
            self.per_second = self.per_second(now_ms);
            self.counted = 0;
            self.since_ms = now_ms;
        }
    }

    /// The rate as of now.
    pub(crate) fn per_second(&self, now_ms: i64) -> f64 {
        let elapsed_ms =
            f64::from(u32::try_from(now_ms - self.since_ms).unwrap_or(u32::MAX)).max(1.0);
        let recent = f64::from(self.counted) * 1000.0 / elapsed_ms.max(1000.0);
        let weight = 0.5f64.powf(elapsed_ms / HALF_LIFE_MS);
        self.per_second * weight + recent * (1.0 - weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_an_idle_pool_cools_down() {
        let mut burn = Burn::default();
        for second in 1..=300 {
            burn.count(500, second * 1000);
        }
        let rate = burn.per_second(300_000);
        assert!((450.0..550.0).contains(&rate), "{rate}");
        assert!(burn.per_second(600_000) < 1.0);
    }
}
