//! What can be said about a random ID without its key: length, symbols, check symbols, filters,
//! grouping.

use crate::alphabet::{Alphabet, is_separator};
use crate::check::CheckTable;
use crate::error::ParseError;
use crate::ff1;
use crate::filters::{Filters, Rule};
use crate::spec::RandomSpec;

/// Symbol values of an ID, payload first, then check symbols.
pub(crate) type Symbols = [u8; ff1::LEN_MAX];

/// Room for an ID with a separator between any two symbols.
pub(crate) const TEXT_BYTES_MAX: usize = 2 * ff1::LEN_MAX;

/// The visible form of a random ID type.
#[derive(Debug, Clone)]
pub struct Shape {
    alphabet: Alphabet,
    length: usize,
    payload: usize,
    check: CheckTable,
    filters: Filters,
    group: usize,
}

impl Shape {
    /// Compiles a specification that has been validated.
    pub(crate) fn new(spec: &RandomSpec) -> Self {
        let length = usize::from(spec.length);
        Self {
            alphabet: spec.alphabet.clone(),
            length,
            payload: length - spec.check.symbols(),
            check: CheckTable::new(spec.check, &spec.alphabet),
            filters: Filters::new(&spec.filters),
            group: spec.group.map_or(length, usize::from),
        }
    }

    /// Checks everything about a text that can be checked without the key.
    pub fn validate(&self, text: &str) -> Result<(), ParseError> {
        self.read(text).map(drop)
    }

    /// The check symbols at the end of a text that has the right length and symbols, and those
    /// that would be right.
    pub fn check_symbols(&self, text: &str) -> Option<(String, String)> {
        let symbols = self.read_symbols(text).ok()?;
        let characters = |values: &[u8]| values.iter().map(|&v| self.alphabet.symbol(v)).collect();
        let right = self.check.compute(&symbols[..self.payload]);
        let found = characters(&symbols[self.payload..self.length]);
        Some((found, characters(&right[..self.check.symbols()])))
    }

    /// The symbols that it is written with.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Symbols of an ID, check symbols included, separators not.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many of them are check symbols.
    pub(crate) fn check_len(&self) -> usize {
        self.check.symbols()
    }

    /// Every symbol value.
    pub(crate) fn values(&self) -> std::ops::Range<u8> {
        0..u8::try_from(self.radix()).expect("at most 64 symbols")
    }

    /// A payload with its check symbols; none for what is no payload.
    pub(crate) fn with_checks(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let check = (payload.len() == self.payload).then(|| self.check.compute(payload))?;
        Some([payload, &check[..self.check.symbols()]].concat())
    }

    /// Symbols that the key permutes.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload
    }

    pub(crate) fn radix(&self) -> u32 {
        self.alphabet.radix()
    }

    /// Whether some candidates are never issued.
    pub fn has_filters(&self) -> bool {
        !self.filters.is_none()
    }

    /// Numbers of users' lists that the filters look for in each ID.
    pub(crate) fn filter_entries(&self) -> u64 {
        self.filters.entries() as u64
    }

    /// Number of payloads. A validated specification keeps it below 2^128.
    pub fn space(&self) -> u128 {
        u128::from(self.radix()).pow(u32::try_from(self.payload).expect("at most 32"))
    }

    /// Adds the check symbols to payloads.
    pub(crate) fn append_checks(&self, ids: &mut [Symbols]) {
        self.check.append_to_all(ids, self.payload);
    }

    /// Lets the filters judge an ID with its check symbols.
    pub(crate) fn filter(&self, symbols: &Symbols) -> Result<(), Rule> {
        self.filters.check(&symbols[..self.length])
    }

    /// Writes an ID as text and returns how many bytes it took.
    pub(crate) fn write(&self, symbols: &Symbols, text: &mut [u8; TEXT_BYTES_MAX]) -> usize {
        let alphabet = self.alphabet.symbols();
        let mut rest = text.iter_mut();
        for (i, group) in symbols[..self.length].chunks(self.group).enumerate() {
            if i > 0 {
                *rest.next().expect("room for separators") = b'-';
            }
            for (&value, byte) in group.iter().zip(&mut rest) {
                *byte = alphabet[usize::from(value)];
            }
        }
        TEXT_BYTES_MAX - rest.len()
    }

    /// An ID of this shape that was written without separators, with them.
    pub fn grouped(&self, plain: &str) -> String {
        let mut text = String::with_capacity(TEXT_BYTES_MAX);
        for (i, character) in plain.chars().enumerate() {
            if i > 0 && i % self.group == 0 {
                text.push('-');
            }
            text.push(character);
        }
        text
    }

    /// Reads a text as symbol values and checks it against check symbols and filters.
    pub(crate) fn read(&self, text: &str) -> Result<Symbols, ParseError> {
        let symbols = self.read_symbols(text)?;
        self.judge(&symbols)?;
        Ok(symbols)
    }

    /// Whether symbol values could be an ID, as far as check symbols and filters can tell.
    pub(crate) fn judge(&self, symbols: &Symbols) -> Result<(), ParseError> {
        let (payload, check) = symbols[..self.length].split_at(self.payload);
        if self.check.compute(payload)[..check.len()] != *check {
            return Err(ParseError::Check);
        }
        self.filter(symbols).map_err(ParseError::Filter)
    }

    fn read_symbols(&self, text: &str) -> Result<Symbols, ParseError> {
        let mut symbols = [0; ff1::LEN_MAX];
        let mut found = 0;
        let mut stranger = None;
        for (i, character) in text.chars().enumerate().filter(|(_, c)| !is_separator(*c)) {
            match (self.alphabet.value(character), symbols.get_mut(found)) {
                (Some(value), Some(symbol)) => *symbol = value,
                (None, _) if stranger.is_none() => {
                    stranger = Some(ParseError::Symbol {
                        character,
                        position: i + 1,
                        expected: format!("a symbol of the alphabet {}", self.alphabet),
                    });
                }
                _ => {}
            }
            found += 1;
        }
        if found != self.length {
            return Err(ParseError::Length { expected: self.length.to_string(), found });
        }
        stranger.map_or(Ok(symbols), Err)
    }
}
