//! Random types: a keyed permutation of the serial, then check symbols, then filters.

use std::ops::Range;

use crate::error::{ParseError, RenderError};
use crate::ff1::{Ff1, Halves};
use crate::key::TypeKey;
use crate::shape::{Shape, Symbols, TEXT_BYTES_MAX};
use crate::spec::{RandomSpec, SERIAL_MAX};

/// Serials that are encrypted together in the bulk path.
const BULK: usize = 240;

/// A random ID type, ready to render and parse.
#[derive(Debug)]
pub struct RandomFormat {
    shape: Shape,
    cipher: Ff1,
    serials: u64,
}

impl RandomFormat {
    /// Compiles a specification that has been validated.
    pub(crate) fn new(spec: &RandomSpec, key: &TypeKey) -> Self {
        let shape = Shape::new(spec);
        let cipher = Ff1::new(key.as_bytes(), &[], shape.radix(), shape.payload_len())
            .expect("a validated specification is within the limits of the cipher");
        let serials =
            u64::try_from(shape.space()).map_or(SERIAL_MAX, |space| space.min(SERIAL_MAX));
        Self { shape, cipher, serials }
    }

    /// The part that needs no key.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Serials run from 0 to one below this.
    pub fn serials(&self) -> u64 {
        self.serials
    }

    /// The ID of a serial.
    pub fn render(&self, serial: u64) -> Result<String, RenderError> {
        if serial >= self.serials {
            return Err(RenderError::OutOfRange);
        }
        let mut ids = [[0; _]];
        self.symbols_of(serial, &mut ids, &mut [(0, 0)]);
        self.shape.filter(&ids[0]).map_err(RenderError::Rejected)?;
        let mut text = [0; TEXT_BYTES_MAX];
        let end = self.shape.write(&ids[0], &mut text);
        Ok(text[..end].iter().map(|&byte| char::from(byte)).collect())
    }

    /// Calls `each` with every serial of the range that has an ID, in order, and the ID's ASCII
    /// text. The range is cut off at the end of the space.
    pub fn for_each(&self, range: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        let mut halves = [(0, 0); BULK];
        let mut ids: [Symbols; BULK] = [[0; _]; BULK];
        let mut text = [0; TEXT_BYTES_MAX];
        let end = range.end.min(self.serials);
        let mut first = range.start;
        while first < end {
            let count = usize::try_from(end - first).unwrap_or(BULK).min(BULK);
            let ids = &mut ids[..count];
            self.symbols_of(first, ids, &mut halves[..count]);
            for (serial, id) in (first..).zip(ids) {
                if self.shape.filter(id).is_ok() {
                    let end = self.shape.write(id, &mut text);
                    each(serial, &text[..end]);
                }
            }
            first += count as u64;
        }
    }

    /// Appends every ID of the range to the buffer, each followed by a line feed, and returns how
    /// many there were.
    pub fn render_range(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> u64 {
        let mut count = 0;
        self.for_each(range, |_, text| {
            buffer.extend_from_slice(text);
            buffer.push(b'\n');
            count += 1;
        });
        count
    }

    /// The serial that an ID was made from.
    pub fn parse(&self, text: &str) -> Result<u64, ParseError> {
        let symbols = self.shape.read(text)?;
        self.serial_of(&symbols).ok_or(ParseError::OutOfRange)
    }

    /// The serial behind symbol values; none if no serial that can be drawn leads to them.
    pub(crate) fn serial_of(&self, symbols: &Symbols) -> Option<u64> {
        let halves = self
            .cipher
            .read_numerals(&symbols[..self.cipher.len()])
            .expect("symbol values are below the radix");
        self.cipher.join(self.cipher.decrypt_halves(halves)).filter(|&serial| serial < self.serials)
    }

    /// Works out the symbols of consecutive serials; `halves` is room to work in.
    fn symbols_of(&self, first: u64, ids: &mut [Symbols], halves: &mut [Halves]) {
        for (serial, halves) in (first..).zip(&mut *halves) {
            *halves = self.cipher.split(serial);
        }
        self.cipher.encrypt_halves(halves);
        for (id, &halves) in ids.iter_mut().zip(&*halves) {
            self.cipher.write_numerals(halves, &mut id[..self.cipher.len()]);
        }
        self.shape.append_checks(ids);
    }
}
