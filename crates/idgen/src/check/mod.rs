//! Check symbols: what lets a mistyped ID be told from a real one without asking anybody.
//!
//! Every algorithm here is a small automaton that reads the payload symbol by symbol and whose
//! last state names the check symbols, so all of them run as one table-driven loop,
//! [`CheckTable::compute`].
//!
//! # How to add one
//!
//! 1. Add a variant to [`Check`] and to [`Check::ALL`], with its name in [`Check::name`] (and the
//!    same name for serde), its symbol count in [`Check::symbols`] and the alphabets that it does
//!    not accept in [`Check::refusal`]. ID types and the command line then know it.
//! 2. Write a file here with a function that returns the [`Automaton`], and name it in
//!    [`CheckTable::new`].
//! 3. In `tests/check_symbols.rs`, add published numbers to `known_examples`, and the algorithm to
//!    the test that states what it promises, which then searches for errors that get past it.

mod damm;
mod iso7064;
mod luhn;
mod verhoeff;

use serde::{Deserialize, Serialize};

use crate::alphabet::Alphabet;

/// Which check symbols an ID ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// No check symbol.
    #[default]
    None,
    /// One digit; every single error and every swap of neighbours is caught.
    Verhoeff,
    /// One digit; misses the swap of 0 and 9.
    Luhn,
    /// One digit; every single error and every swap of neighbours is caught.
    Damm,
    /// ISO 7064 hybrid system MOD r+1,r: one symbol for an alphabet of r symbols. Every single
    /// error is caught, and all swaps of neighbours but 1 in r(r-1)/2.
    Iso7064,
    /// ISO 7064 pure system MOD 97-10: two digits.
    #[serde(rename = "iso7064_mod97_10")]
    Iso7064Mod97_10,
}

impl Check {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Verhoeff, Self::Luhn, Self::Damm, Self::Iso7064, Self::Iso7064Mod97_10];

    /// The name used in ID types and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Verhoeff => "verhoeff",
            Self::Luhn => "luhn",
            Self::Damm => "damm",
            Self::Iso7064 => "iso7064",
            Self::Iso7064Mod97_10 => "iso7064_mod97_10",
        }
    }

    /// How many symbols it adds.
    pub fn symbols(self) -> usize {
        match self {
            Self::None => 0,
            Self::Verhoeff | Self::Luhn | Self::Damm | Self::Iso7064 => 1,
            Self::Iso7064Mod97_10 => 2,
        }
    }

    /// Why it cannot be used with an alphabet, and what would be right.
    pub fn refusal(self, alphabet: &Alphabet) -> Option<String> {
        match self {
            Self::Verhoeff | Self::Luhn | Self::Damm | Self::Iso7064Mod97_10
                if !alphabet.is_digits() =>
            {
                Some(format!(
                    "{} works on digits only; use the alphabet digits, or the check symbol iso7064",
                    self.name()
                ))
            }
            Self::Iso7064 if alphabet.radix() % 2 == 1 => Some(format!(
                "iso7064 needs an even number of symbols and the alphabet has {}; \
                 add or leave out one symbol, or use none",
                alphabet.radix()
            )),
            _ => None,
        }
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Check symbols of one ID; only the first [`Check::symbols`] of them mean anything.
pub type CheckSymbols = [u8; 2];

/// What an algorithm has to say about itself.
struct Automaton {
    /// After this many symbols the transitions repeat.
    period: usize,
    states: usize,
    start: usize,
    /// Whether the payload is read from its end.
    from_the_right: bool,
    /// State after `(position, state, symbol)`.
    step: fn(position: usize, state: usize, symbol: usize, radix: usize) -> usize,
    /// The check symbols that the last state names.
    finish: fn(state: usize, radix: usize) -> CheckSymbols,
}

/// IDs whose check symbols are worked out in step. One automaton waits for memory at every symbol;
/// eight keep the processor busy.
const LANES: usize = 8;

/// A check symbol algorithm made ready for one alphabet.
#[derive(Debug, Clone)]
pub struct CheckTable {
    symbols: usize,
    radix: usize,
    start: u16,
    from_the_right: bool,
    /// For each position of the period a table of `states × radix` next states. A state is stored
    /// as the place where its row begins, so that a step is one addition and one look-up.
    steps: Vec<Vec<u16>>,
    finish: Vec<CheckSymbols>,
}

impl CheckTable {
    /// Works out the tables. The alphabet must be one that [`Check::refusal`] has nothing against.
    pub fn new(check: Check, alphabet: &Alphabet) -> Self {
        let automaton = match check {
            Check::None => Automaton {
                period: 1,
                states: 1,
                start: 0,
                from_the_right: false,
                step: |_, _, _, _| 0,
                finish: |_, _| [0; 2],
            },
            Check::Verhoeff => verhoeff::automaton(),
            Check::Luhn => luhn::automaton(),
            Check::Damm => damm::automaton(),
            Check::Iso7064 => iso7064::hybrid(alphabet.symbols().len()),
            Check::Iso7064Mod97_10 => iso7064::mod97_10(),
        };
        let radix = alphabet.symbols().len();
        let row = |state: usize| u16::try_from(state * radix).expect("at most 65 rows of 64");
        let table_at = |position| {
            (0..automaton.states * radix)
                .map(|i| row((automaton.step)(position, i / radix, i % radix, radix)))
                .collect()
        };
        Self {
            symbols: check.symbols(),
            radix,
            start: row(automaton.start),
            from_the_right: automaton.from_the_right,
            steps: (0..automaton.period).map(table_at).collect(),
            finish: (0..automaton.states).map(|s| (automaton.finish)(s, radix)).collect(),
        }
    }

    /// How many check symbols there are.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// The check symbols for a payload, given as symbol values below the radix.
    pub fn compute(&self, payload: &[u8]) -> CheckSymbols {
        self.run([payload])[0]
    }

    /// Writes the check symbols of many IDs behind their payloads, which all have one length.
    pub(crate) fn append_to_all<const N: usize>(&self, ids: &mut [[u8; N]], payload: usize) {
        if self.symbols == 0 {
            return;
        }
        let end = payload + self.symbols;
        let (lanes, rest) = ids.as_chunks_mut::<LANES>();
        for ids in lanes {
            let checks = self.run(ids.each_ref().map(|id| &id[..payload]));
            for (id, check) in ids.iter_mut().zip(checks) {
                id[payload..end].copy_from_slice(&check[..self.symbols]);
            }
        }
        for id in rest {
            let check = self.compute(&id[..payload]);
            id[payload..end].copy_from_slice(&check[..self.symbols]);
        }
    }

    /// Runs the automaton over several payloads of one length in step.
    fn run<const L: usize>(&self, payloads: [&[u8]; L]) -> [CheckSymbols; L] {
        let len = payloads[0].len();
        let mut rows = [self.start; L];
        for (i, steps) in (0..len).zip(self.steps.iter().cycle()) {
            let place = if self.from_the_right { len - 1 - i } else { i };
            for (row, payload) in rows.iter_mut().zip(payloads) {
                *row = steps[usize::from(*row) + usize::from(payload[place])];
            }
        }
        rows.map(|row| self.finish[usize::from(row) / self.radix])
    }
}
