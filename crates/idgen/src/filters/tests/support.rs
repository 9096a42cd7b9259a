//! What the tests need and the module does not have: random IDs and a check digit.

use super::{Behaviour, FilterSettings};

/// The values of the digits in a text.
pub(super) fn digits_of(id: &str) -> Vec<u8> {
    id.bytes().map(|byte| byte - b'0').collect()
}

/// The Verhoeff check digit, from the group it is defined by rather than from tables.
pub(super) fn verhoeff_check_digit(payload: &[u8]) -> u8 {
    const PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let mut sum = 0;
    for (index, &digit) in payload.iter().rev().enumerate() {
        let times = (index + 1) % 8;
        let permuted = (0..times).fold(digit, |d, _| PERMUTATION[usize::from(d)]);
        sum = dihedral_product(sum, permuted);
    }
    (0..10)
        .find(|&check| dihedral_product(sum, check) == 0)
        .expect("every element of a group has an inverse")
}

/// Multiplies in the symmetry group of the pentagon: 0 to 4 are rotations, 5 to 9 reflections.
fn dihedral_product(left: u8, right: u8) -> u8 {
    let turned = if left < 5 { left + right % 5 } else { left - right % 5 };
    turned % 5 + 5 * u8::from((left < 5) != (right < 5))
}

/// A tiny random source, so that a failing test fails again.
pub(super) struct Xorshift(u64);

impl Xorshift {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits fit") % bound
    }

    fn digit(&mut self) -> char {
        char::from(b'0' + u8::try_from(self.below(10)).expect("below 10"))
    }

    /// An ID in which every digit is as likely as any other.
    pub(super) fn uniform(&mut self, len: usize) -> String {
        (0..len).map(|_| self.digit()).collect()
    }

    /// An ID of 1 to 32 digits. Uniform IDs seldom break the rarer rules, so most are made to.
    pub(super) fn id(&mut self) -> String {
        let len = 1 + self.below(32);
        let uniform = self.uniform(len);
        let half = &uniform[..len.div_ceil(2)];
        match self.below(6) {
            0 => self.walk(len),
            1 => format!("{half}{half}")[..len].to_owned(),
            2 => {
                let back: String = half.chars().rev().collect();
                format!("{half}{}", &back[half.len() - len / 2..])
            }
            3 => self.with_cyclic(&uniform),
            4 => uniform.replace(['2', '4', '6', '8'], "7"),
            _ => uniform,
        }
    }

    /// Neighbouring digits that often differ by one, across 9 and 0 as well.
    fn walk(&mut self, len: usize) -> String {
        let mut value = self.below(10);
        let mut walk = String::new();
        for _ in 0..len {
            walk.push(char::from(b'0' + u8::try_from(value).expect("below 10")));
            value = (value + [1, 1, 9, 9, 3, 6][self.below(6)]) % 10;
        }
        walk
    }

    /// Overwrites part of the ID with a cyclic number, if there is room for it.
    fn with_cyclic(&mut self, id: &str) -> String {
        let number = super::reference::CYCLIC_NUMBERS[self.below(5)];
        if id.len() < number.len() {
            return id.to_owned();
        }
        let at = self.below(id.len() - number.len() + 1);
        format!("{}{number}{}", &id[..at], &id[at + number.len()..])
    }

    /// A limit that is as often off as on.
    fn limit(&mut self, max: usize) -> u32 {
        let limit = self.below(2 * max + 1).saturating_sub(max);
        u32::try_from(limit).expect("limits are small")
    }

    /// Valid settings, most rules off so that each gets its turn.
    pub(super) fn settings(&mut self) -> FilterSettings {
        let behaviour = [Behaviour::Openg2p, Behaviour::Mosip][self.below(2)];
        let prefix_len = match behaviour {
            Behaviour::Openg2p => 1,
            Behaviour::Mosip => 1 + self.below(3),
        };
        let prefix = self.uniform(prefix_len);
        let number_len = 2 + self.below(19);
        let number: String = self.id().chars().cycle().take(number_len).collect();
        let sequence_limit = match self.limit(8) {
            0 | 1 => 0,
            limit => limit,
        };
        FilterSettings {
            sequence_limit,
            repeating_limit: self.limit(4),
            repeating_block_limit: self.limit(8),
            conjugative_even_digits_limit: self.limit(8),
            digits_group_limit: self.limit(16),
            reverse_digits_group_limit: self.limit(16),
            not_start_with: vec![prefix; self.below(2)],
            restricted_numbers: vec![number; self.below(2)],
            behaviour,
        }
    }
}
