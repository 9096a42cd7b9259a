//! Characters that people and cameras take for one another.

use crate::alphabet::Alphabet;

/// Characters of one line resemble each other. The escapes are the Cyrillic and Greek capitals that
/// cannot be told from Latin ones: who has such a keyboard types them.
const GROUPS: [&str; 22] = [
    "0OoQD\u{41e}\u{39f}",
    "1IiLl|!\u{406}\u{399}",
    "17",
    "2Zz\u{396}",
    "4A",
    "5Ss$",
    "6Gb",
    "8B\u{412}\u{392}",
    "9gq",
    "UuVv",
    "VvYy",
    "CG\u{421}",
    "EF\u{415}\u{395}",
    "PR\u{420}\u{3a1}",
    "MN\u{41c}\u{39c}",
    "N\u{39d}",
    "A\u{410}\u{391}",
    "H\u{41d}\u{397}",
    "K\u{41a}\u{39a}",
    "T\u{422}\u{3a4}",
    "X\u{425}\u{3a7}",
    "Y\u{423}\u{3a5}",
];

/// The symbols that a character may have been meant to be, apart from what it is read as.
pub(super) fn symbols_like(typed: char, alphabet: &Alphabet) -> Vec<u8> {
    let own = alphabet.value(typed);
    // Capitals are in the table; a foreign small letter looks like the same Latin one as they do.
    let typed = if typed.is_ascii() { typed } else { typed.to_uppercase().next().unwrap_or(typed) };
    let mut values: Vec<u8> = Vec::new();
    for group in GROUPS.iter().filter(|group| group.contains(typed)) {
        for value in group.chars().filter_map(|other| alphabet.value(other)) {
            if Some(value) != own && !values.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}
