//! What a mistyped or badly scanned ID may have been meant to be.
//!
//! A repair is a serial, not a text: whether an ID of that serial is out there is known elsewhere, and
//! only one that is may be shown to anybody.

mod look_alikes;

use look_alikes::symbols_like;

use crate::alphabet::is_separator;
use crate::ff1;
use crate::random::RandomFormat;

/// Repairs of one mistake. There are more only where no check symbol tells right from wrong.
const REPAIRS_MAX: usize = 32;

/// Letters whose case is tried in every combination.
const LETTERS_MAX: usize = 10;

/// A text with more characters than this has nothing to do with an ID.
const CHARACTERS_MAX: usize = 4 * ff1::LEN_MAX;

/// What went wrong on the way from the label to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// Small letters for capitals or the other way round, where the alphabet has both.
    Case,
    /// Characters that look like the right ones.
    LookAlike,
    /// Two neighbours in the wrong order.
    Swapped,
    /// Symbols are missing.
    CutOff,
    /// There are too many symbols.
    TooLong,
    /// One symbol is another.
    Mistyped,
}

impl Mistake {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Case => "case",
            Self::LookAlike => "look_alike",
            Self::Swapped => "swapped",
            Self::CutOff => "cut_off",
            Self::TooLong => "too_long",
            Self::Mistyped => "mistyped",
        }
    }
}

/// An ID that a text may have been meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// What would then have gone wrong.
    pub mistake: Mistake,
    /// The serial of the ID.
    pub serial: u64,
}

impl RandomFormat {
    /// The IDs that are one mistake away from a text, the likeliest mistakes first. All of them pass
    /// the check symbol and the filters. Their number has a limit, and so has the work.
    pub fn repairs(&self, text: &str) -> Vec<Repair> {
        let typed: Vec<char> = text.chars().filter(|c| !is_separator(*c)).collect();
        if typed.is_empty() || typed.len() > CHARACTERS_MAX {
            return Vec::new();
        }
        let mut search = Search { format: self, own: self.parse(text).ok(), found: Vec::new() };
        let length = self.shape().length();
        let values: Vec<Option<u8>> =
            typed.iter().map(|&c| self.shape().alphabet().value(c)).collect();
        let known: Option<Vec<u8>> = values.iter().copied().collect();
        match known {
            Some(symbols) if symbols.len() < length => search.missing_symbols(&symbols),
            Some(symbols) if symbols.len() > length => search.surplus_symbols(&symbols),
            Some(symbols) => {
                search.other_case(&symbols);
                search.look_alikes(&typed, &symbols);
                search.swapped_neighbours(&symbols);
                search.mistyped_symbol(&symbols, 0..length);
            }
            None if values.len() == length => search.strangers(&typed, &values),
            None => {}
        }
        search.found
    }
}

struct Search<'a> {
    format: &'a RandomFormat,
    /// What the text is if nothing is wrong with it.
    own: Option<u64>,
    found: Vec<Repair>,
}

impl Search<'_> {
    /// Keeps a candidate if it could be an ID and no likelier mistake leads to it.
    fn consider(&mut self, mistake: Mistake, symbols: &[u8]) {
        let mut padded = [0; ff1::LEN_MAX];
        let Some(room) = padded.get_mut(..symbols.len()) else { return };
        room.copy_from_slice(symbols);
        let shape = self.format.shape();
        if symbols.len() != shape.length() || shape.judge(&padded).is_err() {
            return;
        }
        let Some(serial) = self.format.serial_of(&padded) else { return };
        let is_new = self.own != Some(serial) && self.found.iter().all(|r| r.serial != serial);
        let of_this = self.found.iter().filter(|repair| repair.mistake == mistake).count();
        if is_new && of_this < REPAIRS_MAX {
            self.found.push(Repair { mistake, serial });
        }
    }

    /// Without a check symbol every change of a symbol gives another ID, which says nothing.
    fn has_check(&self) -> bool {
        self.format.shape().check_len() > 0
    }

    /// One letter in the wrong case, all of them (caps lock), or the case of all letters lost.
    fn other_case(&mut self, symbols: &[u8]) {
        let alphabet = self.format.shape().alphabet();
        let letters: Vec<(usize, u8)> = (symbols.iter().enumerate())
            .filter_map(|(at, &value)| Some((at, alphabet.other_case(value)?)))
            .collect();
        if letters.is_empty() {
            return;
        }
        let is_capital = |at: usize| alphabet.symbol(symbols[at]).is_ascii_uppercase();
        let capitals = letters.iter().filter(|(at, _)| is_capital(*at)).count();
        let mut turn = |which: &dyn Fn(usize) -> bool| {
            let mut turned = symbols.to_vec();
            for (_, &(at, other)) in letters.iter().enumerate().filter(|(i, _)| which(*i)) {
                turned[at] = other;
            }
            self.consider(Mistake::Case, &turned);
        };
        turn(&|_| true);
        for one in 0..letters.len() {
            turn(&|i| i == one);
        }
        let lost = capitals == 0 || capitals == letters.len();
        if lost && letters.len() <= LETTERS_MAX && self.has_check() {
            let mut turned = symbols.to_vec();
            for mask in 1_u32..1 << letters.len() {
                for (i, &(at, other)) in letters.iter().enumerate() {
                    turned[at] = if mask >> i & 1 == 1 { other } else { symbols[at] };
                }
                self.consider(Mistake::Case, &turned);
            }
        }
    }

    /// One symbol for another that looks like it, or every time that it occurs.
    fn look_alikes(&mut self, typed: &[char], symbols: &[u8]) {
        for (at, &character) in typed.iter().enumerate() {
            for like in symbols_like(character, self.format.shape().alphabet()) {
                let mut changed = symbols.to_vec();
                changed[at] = like;
                self.consider(Mistake::LookAlike, &changed);
                for (place, symbol) in changed.iter_mut().enumerate() {
                    if symbols[place] == symbols[at] {
                        *symbol = like;
                    }
                }
                self.consider(Mistake::LookAlike, &changed);
            }
        }
    }

    fn swapped_neighbours(&mut self, symbols: &[u8]) {
        let mut swapped = symbols.to_vec();
        for at in 1..symbols.len() {
            swapped.swap(at - 1, at);
            self.consider(Mistake::Swapped, &swapped);
            swapped.swap(at - 1, at);
        }
    }

    /// Tries every symbol at some of the places.
    fn mistyped_symbol(&mut self, symbols: &[u8], places: std::ops::Range<usize>) {
        if !self.has_check() {
            return;
        }
        let mut changed = symbols.to_vec();
        for at in places {
            for value in self.format.shape().values() {
                changed[at] = value;
                self.consider(Mistake::Mistyped, &changed);
            }
            changed[at] = symbols[at];
        }
    }

    /// Characters that are no symbols: each must be taken for one that it looks like. A single one
    /// may also be a slip of the finger.
    fn strangers(&mut self, typed: &[char], values: &[Option<u8>]) {
        let mut readings = vec![Vec::with_capacity(values.len())];
        for (&character, &value) in typed.iter().zip(values) {
            let choices = match value {
                Some(value) => vec![value],
                None => symbols_like(character, self.format.shape().alphabet()),
            };
            readings = (readings.iter())
                .flat_map(|reading: &Vec<u8>| {
                    choices.iter().map(move |&choice| [&reading[..], &[choice]].concat())
                })
                .take(REPAIRS_MAX)
                .collect();
        }
        for reading in readings {
            self.consider(Mistake::LookAlike, &reading);
        }
        let mut unknown = (0..values.len()).filter(|&at| values[at].is_none());
        if let (Some(at), None) = (unknown.next(), unknown.next()) {
            let symbols: Vec<u8> = values.iter().map(|value| value.unwrap_or(0)).collect();
            self.mistyped_symbol(&symbols, at..at + 1);
        }
    }

    /// The check symbols are missing, or one symbol anywhere.
    fn missing_symbols(&mut self, symbols: &[u8]) {
        if !self.has_check() {
            return;
        }
        let shape = self.format.shape();
        if let Some(whole) = shape.with_checks(symbols) {
            self.consider(Mistake::CutOff, &whole);
        }
        if symbols.len() + 1 < shape.length() {
            return;
        }
        for at in (0..=symbols.len()).rev() {
            for value in self.format.shape().values() {
                let whole = [&symbols[..at], &[value], &symbols[at..]].concat();
                self.consider(Mistake::CutOff, &whole);
            }
        }
    }

    /// Something stands before or behind it, or one symbol came twice.
    fn surplus_symbols(&mut self, symbols: &[u8]) {
        let length = self.format.shape().length();
        self.consider(Mistake::TooLong, &symbols[..length]);
        self.consider(Mistake::TooLong, &symbols[symbols.len() - length..]);
        if symbols.len() == length + 1 {
            for at in 0..symbols.len() {
                let whole = [&symbols[..at], &symbols[at + 1..]].concat();
                self.consider(Mistake::TooLong, &whole);
            }
        }
    }
}
