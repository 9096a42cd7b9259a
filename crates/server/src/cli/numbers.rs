//! Numbers on the command line.

use std::ops::RangeInclusive;

/// Reads a whole number, and names the limits where it is none or outside of them.
pub(super) fn whole<T: TryFrom<u64>>(
    limits: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            format!("use a whole number from {} to {}", limits.start(), limits.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_named() {
        let parse = whole::<u8>(2..=32);
        assert_eq!((parse("2"), parse("32")), (Ok(2), Ok(32)));
        for text in ["1", "33", "-1", "", "two", "1.5", "99999999999999999999999"] {
            assert_eq!(parse(text), Err("use a whole number from 2 to 32".to_owned()), "{text}");
        }
    }
}
