//! Damm's algorithm: one walk through a totally anti-symmetric quasigroup of order 10.

use super::Automaton;

/// The quasigroup from Damm's thesis. Its diagonal is zero, so the last state is the check digit.
const NEXT: [[usize; 10]; 10] = [
    [0, 3, 1, 7, 5, 9, 8, 6, 4, 2],
    [7, 0, 9, 2, 1, 5, 4, 8, 6, 3],
    [4, 2, 0, 6, 8, 7, 1, 3, 5, 9],
    [1, 7, 5, 0, 9, 8, 3, 4, 2, 6],
    [6, 1, 2, 3, 0, 4, 5, 9, 7, 8],
    [3, 6, 7, 4, 2, 0, 9, 5, 8, 1],
    [5, 8, 6, 9, 7, 2, 0, 1, 3, 4],
    [8, 9, 4, 5, 3, 6, 2, 0, 1, 7],
    [9, 4, 3, 8, 6, 1, 7, 2, 0, 5],
    [2, 5, 8, 1, 4, 3, 6, 7, 9, 0],
];

pub(super) fn automaton() -> Automaton {
    Automaton {
        period: 1,
        states: 10,
        start: 0,
        from_the_right: false,
        step: |_, state, digit, _| NEXT[state][digit],
        finish: |state, _| [u8::try_from(state).expect("a digit"), 0],
    }
}
