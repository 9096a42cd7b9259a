//! Verhoeff's algorithm: multiplication in the dihedral group of a pentagon, after a permutation
//! that depends on the position.

use super::Automaton;

/// Powers of the permutation (1 5 8 9 4 2 7 0)(3 6), which has order 8.
const PERMUTED: [[usize; 10]; 8] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
    [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
    [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
    [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
    [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
    [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
    [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
];

/// The product in the dihedral group of order 10: 0 to 4 turn the pentagon, 5 to 9 also flip it.
fn product(a: usize, b: usize) -> usize {
    let turn = if a < 5 { a + b % 5 } else { a + 5 - b % 5 } % 5;
    if (a < 5) == (b < 5) { turn } else { turn + 5 }
}

/// Turns are undone by the opposite turn, flips by themselves.
fn inverse(a: usize) -> usize {
    if a < 5 { (5 - a) % 5 } else { a }
}

pub(super) fn automaton() -> Automaton {
    Automaton {
        period: PERMUTED.len(),
        states: 10,
        start: 0,
        from_the_right: true,
        // The check digit itself stands at position 0, so the payload starts at 1.
        step: |position, state, digit, _| product(state, PERMUTED[(position + 1) % 8][digit]),
        finish: |state, _| [u8::try_from(inverse(state)).expect("a digit"), 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_powers_of_the_first() {
        for i in 1..8 {
            for digit in 0..10 {
                assert_eq!(PERMUTED[i][digit], PERMUTED[1][PERMUTED[i - 1][digit]]);
            }
        }
    }

    #[test]
    fn the_product_is_a_group_that_does_not_commute() {
        for a in 0..10 {
            assert_eq!(product(a, inverse(a)), 0);
            assert_eq!(product(a, 0), a);
            for b in 0..10 {
                for c in 0..10 {
                    assert_eq!(product(product(a, b), c), product(a, product(b, c)));
                }
            }
        }
        assert_ne!(product(1, 5), product(5, 1));
    }
}
