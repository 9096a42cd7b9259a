//! Luhn's algorithm (ISO/IEC 7812-1): every second digit, from the right, counts double.

use super::Automaton;

pub(super) fn automaton() -> Automaton {
    Automaton {
        period: 2,
        states: 10,
        start: 0,
        from_the_right: true,
        step: |position, sum, digit, _| {
            let weighted = if position == 0 { digit * 2 / 10 + digit * 2 % 10 } else { digit };
            (sum + weighted) % 10
        },
        finish: |sum, _| [u8::try_from((10 - sum) % 10).expect("a digit"), 0],
    }
}
