//! The two systems of ISO 7064 that are used here.

use super::Automaton;

/// The hybrid system MOD r+1,r. The state is the running product P of the standard, from 1 to r.
///
/// r + 1 is odd for an even r, so doubling can be undone and no information is lost on the way:
/// that is why the alphabet must have an even size.
pub(super) fn hybrid(radix: usize) -> Automaton {
    Automaton {
        period: 1,
        states: radix + 1,
        start: radix,
        from_the_right: false,
        step: |_, product, symbol, radix| {
            let sum = match (product + symbol) % radix {
                0 => radix,
                sum => sum,
            };
            sum * 2 % (radix + 1)
        },
        // The check symbol is the one that makes the last sum congruent to 1.
        finish: |product, radix| {
            [u8::try_from((radix + 1 - product) % radix).expect("below 64"), 0]
        },
    }
}

/// The pure system MOD 97-10: the number with its two check digits leaves 1 when divided by 97.
pub(super) fn mod97_10() -> Automaton {
    Automaton {
        period: 1,
        states: 97,
        start: 0,
        from_the_right: false,
        step: |_, remainder, digit, _| (remainder * 10 + digit) % 97,
        finish: |remainder, _| {
            let check = u8::try_from(98 - remainder * 100 % 97).expect("2 to 98");
            [check / 10, check % 10]
        },
    }
}
