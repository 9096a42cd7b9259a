//! How many IDs a random type has, and how hard they are to guess.

use serde::Serialize;

use crate::error::SpecErrors;
use crate::ff1;
use crate::key::TypeKey;
use crate::random::RandomFormat;
use crate::shape::Shape;
use crate::spec::RandomSpec;

/// Spaces up to this size are walked from end to end, which takes a few seconds at most.
const WALK_MAX: u128 = 100_000_000;

/// Candidates looked at where the space is too large to walk.
const SAMPLE: u32 = 1_000_000;

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
    /// Counts or estimates the IDs of a type.
    pub fn of(spec: &RandomSpec) -> Result<Self, SpecErrors> {
        spec.check()?;
        let shape = Shape::new(spec);
        let space = shape.space();
        Ok(if !shape.has_filters() {
            Self::exactly(space, space)
        } else if space <= WALK_MAX {
            Self::exactly(space, walk(&shape))
        } else {
            Self::estimated(space, spec)
        })
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
    /// without repetition, and the same on every run. The interval is Wilson's.
    fn estimated(space: u128, spec: &RandomSpec) -> Self {
        let format = RandomFormat::new(spec, &TypeKey::new(*b"a fixed key, to sample the space"));
        let mut accepted = 0u32;
        format.for_each(0..u64::from(SAMPLE), |_, _| accepted += 1);

        let n = f64::from(SAMPLE);
        let p = f64::from(accepted) / n;
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

/// Counts the payloads that the filters accept.
fn walk(shape: &Shape) -> u128 {
    let last = u8::try_from(shape.radix() - 1).expect("at most 64 symbols");
    let payload = shape.payload_len();
    let mut symbols = [0; ff1::LEN_MAX];
    let mut valid = 0;
    loop {
        shape.append_checks(std::slice::from_mut(&mut symbols));
        valid += u128::from(shape.filter(&symbols).is_ok());
        let Some(place) = symbols[..payload].iter().rposition(|&symbol| symbol != last) else {
            return valid;
        };
        symbols[place] += 1;
        symbols[place + 1..payload].fill(0);
    }
}
