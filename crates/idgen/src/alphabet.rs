//! The symbols that a random ID is written with, and how typed or scanned text is read back.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Alphabets that can be asked for by name.
const NAMED: [(&str, &str); 4] = [
    ("digits", "0123456789"),
    ("hex", "0123456789ABCDEF"),
    ("crockford32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"),
    ("alnum", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
];

/// Largest number of symbols.
pub const SYMBOLS_MAX: usize = 64;

/// Marks a byte that is not a symbol in [`Alphabet::values`].
const NOT_A_SYMBOL: u8 = u8::MAX;

/// An ordered set of 2 to 64 distinct symbols.
///
/// Symbols are ASCII letters, digits, `_`, `.` and `~`: what RFC 3986 leaves unreserved, without
/// the hyphen, which separates groups. An ID can therefore stand in a URL, a file name or a CSV
/// cell as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Alphabet {
    symbols: Vec<u8>,
    /// Value of each ASCII character once case and look-alikes are taken into account.
    values: [u8; 128],
}

/// Why a list of characters is not an alphabet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlphabetError {
    /// Fewer than two or more than 64 symbols.
    #[error(
        "an alphabet has 2 to {SYMBOLS_MAX} symbols, this one has {0}; \
         give a list of distinct characters, or one of the names {names}",
        names = names()
    )]
    Size(usize),
    /// A character that may not be a symbol.
    #[error(
        "{0:?} cannot be a symbol of an alphabet; use ASCII letters, digits, '_', '.' and '~', \
         or one of the names {names}",
        names = names()
    )]
    Symbol(char),
    /// A character given twice.
    #[error("{0:?} is in the alphabet twice; every symbol must be distinct")]
    Twice(char),
}

fn names() -> String {
    NAMED.map(|(name, _)| name).join(", ")
}

impl Alphabet {
    /// An alphabet by its name, or from a list of its symbols in order of value.
    pub fn new(name_or_symbols: &str) -> Result<Self, AlphabetError> {
        let symbols = NAMED
            .iter()
            .find(|(name, _)| *name == name_or_symbols)
            .map_or(name_or_symbols, |(_, symbols)| symbols);
        let mut values = [NOT_A_SYMBOL; 128];
        for (value, symbol) in symbols.chars().enumerate() {
            if !(symbol.is_ascii_alphanumeric() || matches!(symbol, '_' | '.' | '~')) {
                return Err(AlphabetError::Symbol(symbol));
            }
            let entry = &mut values[symbol as usize];
            if *entry != NOT_A_SYMBOL {
                return Err(AlphabetError::Twice(symbol));
            }
            *entry = u8::try_from(value).map_err(|_| AlphabetError::Size(symbols.len()))?;
        }
        if !(2..=SYMBOLS_MAX).contains(&symbols.len()) {
            return Err(AlphabetError::Size(symbols.len()));
        }
        accept_other_case(&mut values);
        accept_look_alikes(&mut values);
        Ok(Self { symbols: symbols.as_bytes().to_vec(), values })
    }

    /// How many symbols there are.
    pub fn radix(&self) -> u32 {
        u32::try_from(self.symbols.len()).expect("at most 64 symbols")
    }

    /// Whether this is `digits`, the only alphabet that the digit-based check symbols and the
    /// filters know.
    pub fn is_digits(&self) -> bool {
        self.symbols == b"0123456789"
    }

    /// The symbols, in order of value.
    pub fn symbols(&self) -> &[u8] {
        &self.symbols
    }

    /// The character for a value below the radix.
    pub fn symbol(&self, value: u8) -> char {
        char::from(self.symbols[usize::from(value)])
    }

    /// The value of a character, after normalisation of case and look-alikes.
    pub fn value(&self, character: char) -> Option<u8> {
        let value = *self.values.get(character as usize)?;
        (value != NOT_A_SYMBOL).then_some(value)
    }

    /// The value of the same letter in the other case, where that is another symbol.
    pub fn other_case(&self, value: u8) -> Option<u8> {
        let symbol = self.symbol(value);
        let other = if symbol.is_ascii_uppercase() {
            symbol.to_ascii_lowercase()
        } else {
            symbol.to_ascii_uppercase()
        };
        self.value(other).filter(|other| *other != value)
    }

    /// The name, if it has one.
    fn name(&self) -> Option<&'static str> {
        NAMED.iter().find(|(_, symbols)| symbols.as_bytes() == self.symbols).map(|(name, _)| *name)
    }
}

/// Where an alphabet has a letter in one case only, the other case means the same.
fn accept_other_case(values: &mut [u8; 128]) {
    for upper in b'A'..=b'Z' {
        let (upper, lower) = (usize::from(upper), usize::from(upper.to_ascii_lowercase()));
        match (values[upper], values[lower]) {
            (NOT_A_SYMBOL, value) => values[upper] = value,
            (value, NOT_A_SYMBOL) => values[lower] = value,
            _ => {}
        }
    }
}

/// In an alphabet of letters and digits that leaves out `O`, `I` or `L`, people still type them
/// for the digits that they resemble. An alphabet without letters has no such convention: there a
/// letter is a mistake.
fn accept_look_alikes(values: &mut [u8; 128]) {
    if (b'A'..=b'Z').all(|letter| values[usize::from(letter)] == NOT_A_SYMBOL) {
        return;
    }
    for (letter, digit) in [(b'O', b'0'), (b'I', b'1'), (b'L', b'1')] {
        let value = values[usize::from(digit)];
        for letter in [letter, letter.to_ascii_lowercase()] {
            let entry = &mut values[usize::from(letter)];
            if *entry == NOT_A_SYMBOL {
                *entry = value;
            }
        }
    }
}

/// Whether a character only separates groups and is dropped before parsing: any white space,
/// hyphens and dashes as word processors make them, and the invisible characters that come along
/// when text is copied.
pub fn is_separator(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.symbols.iter().try_for_each(|&s| write!(f, "{}", char::from(s))),
        }
    }
}

impl fmt::Debug for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alphabet({self})")
    }
}

impl std::str::FromStr for Alphabet {
    type Err = AlphabetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl Serialize for Alphabet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Alphabet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_alphabets_have_their_sizes() {
        let sizes = NAMED.map(|(name, _)| Alphabet::new(name).unwrap().radix());
        assert_eq!(sizes, [10, 16, 32, 36]);
        assert!(Alphabet::new("digits").unwrap().is_digits());
    }

    #[test]
    fn crockford_reads_case_and_look_alikes() {
        let alphabet = Alphabet::new("crockford32").unwrap();
        for (typed, meant) in [('o', '0'), ('O', '0'), ('i', '1'), ('L', '1'), ('z', 'Z')] {
            assert_eq!(alphabet.value(typed), alphabet.value(meant), "{typed}");
        }
        assert_eq!(alphabet.value('U'), None);
        assert_eq!(alphabet.value('٣'), None);
    }

    #[test]
    fn letters_are_never_digits_where_there_are_no_letters() {
        let digits = Alphabet::new("digits").unwrap();
        assert_eq!(digits.value('O'), None);
        assert_eq!(digits.value('l'), None);
    }

    #[test]
    fn both_cases_stay_apart_where_the_alphabet_has_both() {
        let alphabet = Alphabet::new("abAB").unwrap();
        assert_ne!(alphabet.value('a'), alphabet.value('A'));
        let lower = Alphabet::new("abc").unwrap();
        assert_eq!(lower.value('A'), lower.value('a'));
    }

    #[test]
    fn bad_alphabets_are_refused() {
        assert_eq!(Alphabet::new("a"), Err(AlphabetError::Size(1)));
        assert_eq!(Alphabet::new(""), Err(AlphabetError::Size(0)));
        assert_eq!(Alphabet::new("abca"), Err(AlphabetError::Twice('a')));
        assert_eq!(Alphabet::new("ab-c"), Err(AlphabetError::Symbol('-')));
        assert_eq!(Alphabet::new("abé"), Err(AlphabetError::Symbol('é')));
        let all: String =
            ('0'..='9').chain('a'..='z').chain('A'..='Z').chain("_.~".chars()).collect();
        assert_eq!(Alphabet::new(&all), Err(AlphabetError::Size(65)));
    }
}
