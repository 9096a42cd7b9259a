//! How many IDs a random type has, and how hard they are to guess.

use serde::Serialize;

use crate::error::SpecErrors;
use crate::key::TypeKey;
use crate::random::RandomFormat;
use crate::shape::{Shape, Symbols};
use crate::spec::{RandomSpec, SERIAL_MAX};

/// Candidates that can be looked at in a few seconds. There is no clock here, so work is counted.
const WORK_MAX: u64 = 100_000_000;

/// Looking for a number in an ID takes this part of the time for a candidate, times the square of
/// the ID's length: longer IDs have more places to look at, and each look takes longer.
const ENTRY_SHARE: u64 = 1024;

/// Candidates looked at in one go where the space is too large to walk.
const SAMPLE_STEP: u64 = 1_000_000;

/// Candidates looked at in all. Each takes longer than one of a walk, as it is encrypted.
const SAMPLE_MAX: u64 = 8 * SAMPLE_STEP;

/// With so many accepted ones the interval is narrow enough: 6 % to either side.
const ACCEPTED_ENOUGH: u64 = 1_000;

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// How many IDs of a type there are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Capacity {
    /// Candidates: every payload the alphabet and length allow.
    pub space: u128,
    /// Candidates that no filter rejects.
    pub valid: u128,
    /// Whether `valid` was counted, not estimated.
    pub exact: bool,
    /// Lower end of the 95 % interval of `valid`.
    pub valid_low: u128,
    /// Upper end of the 95 % interval of `valid`.
    pub valid_high: u128,
}

impl Capacity {
    /// Counts or estimates the IDs of a type, in a few seconds at most.
    pub fn of(spec: &RandomSpec) -> Result<Self, SpecErrors> {
        Self::within(spec, WORK_MAX)
    }

    /// Counts or estimates the IDs of a type by looking at no more than about `work_max`
    /// candidates, or fewer where the filters have long lists.
    pub fn within(spec: &RandomSpec, work_max: u64) -> Result<Self, SpecErrors> {
        spec.check()?;
        let shape = Shape::new(spec);
        let space = shape.space();
        let length = u64::from(spec.length);
        let shares = ENTRY_SHARE + shape.filter_entries() * length * length;
        let affordable = work_max.saturating_mul(ENTRY_SHARE) / shares;
        Ok(if !shape.has_filters() {
            Self::exactly(space, space)
        } else if space <= u128::from(affordable) {
            Self::exactly(space, walk(&shape))
        } else {
            Self::estimated(space, spec, affordable.clamp(1, SAMPLE_MAX))
        })
    }

    /// How many IDs can be issued. Serials end below 2^63, so of a larger space only that part is
    /// ever used.
    pub fn issuable(&self) -> u128 {
        self.of_the_serials(self.valid)
    }

    /// Upper end of the 95 % interval of [`issuable`](Self::issuable).
    pub fn issuable_high(&self) -> u128 {
        self.of_the_serials(self.valid_high)
    }

    /// Lower end of the 95 % interval of [`issuable`](Self::issuable).
    pub fn issuable_low(&self) -> u128 {
        self.of_the_serials(self.valid_low)
    }

    /// The share of `ids` that serials lead to.
    fn of_the_serials(&self, ids: u128) -> u128 {
        let serials = u128::from(SERIAL_MAX);
        if self.space <= serials {
            ids
        } else if ids == self.space {
            serials
        } else {
            share_of(serials, as_f64(ids) / as_f64(self.space))
        }
    }

    /// The probability that somebody who knows the format, but not the key, hits one of `issued`
    /// IDs with one guess.
    pub fn guess_probability(&self, issued: u128) -> f64 {
        if self.valid == 0 { 0.0 } else { (as_f64(issued) / as_f64(self.valid)).min(1.0) }
    }

    fn exactly(space: u128, valid: u128) -> Self {
        Self { space, valid, exact: true, valid_low: valid, valid_high: valid }
    }

    /// Any key shuffles the space, so the first serials under a fixed one are a fair sample
    /// without repetition, and the same on every run. The sample grows until enough of it was
    /// accepted to tell something. The interval is Wilson's.
    fn estimated(space: u128, spec: &RandomSpec, sample_max: u64) -> Self {
        let format = RandomFormat::new(spec, &TypeKey::new(*b"a fixed key, to sample the space"));
        let (mut sample, mut accepted) = (0, 0);
        while sample < sample_max && accepted < ACCEPTED_ENOUGH {
            let step = SAMPLE_STEP.min(sample_max - sample);
            format.for_each(sample..sample + step, |_, _| accepted += 1);
            sample += step;
        }

        let n = as_f64(sample.into());
        let p = as_f64(accepted.into()) / n;
        let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let margin = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let of_space = |share: f64| share_of(space, share);
        Self {
            space,
            valid: of_space(p),
            exact: false,
            valid_low: of_space((centre - margin).max(0.0)),
            valid_high: of_space((centre + margin).min(1.0)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a probability does not need 128 bits")]
fn as_f64(number: u128) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the space is not negative and not larger than the space"
)]
fn share_of(space: u128, share: f64) -> u128 {
    (as_f64(space) * share).round() as u128
}

/// Counts the payloads that the filters accept. Those that differ in their last symbol only are
/// looked at together, because check symbols are worked out several at a time.
fn walk(shape: &Shape) -> u128 {
    let radix = u8::try_from(shape.radix()).expect("at most 64 symbols");
    let last = shape.payload_len() - 1;
    let mut prefix: Symbols = [0; _];
    let mut ids = vec![prefix; usize::from(radix)];
    let mut valid = 0;
    loop {
        for (symbol, id) in (0..radix).zip(&mut ids) {
            *id = prefix;
            id[last] = symbol;
        }
        shape.append_checks(&mut ids);
        let accepted = ids.iter().filter(|id| shape.filter(id).is_ok()).count();
        valid += accepted as u128;
        let Some(place) = prefix[..last].iter().rposition(|&symbol| symbol != radix - 1) else {
            return valid;
        };
        prefix[place] += 1;
        prefix[place + 1..last].fill(0);
    }
}
