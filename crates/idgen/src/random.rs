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
        let mut halves = [self.cipher.split(serial)];
        self.cipher.encrypt_halves(&mut halves);
        let mut text = [0; TEXT_BYTES_MAX];
        let text = self.finish(halves[0], &mut text).map_err(RenderError::Rejected)?;
        Ok(text.iter().map(|&byte| char::from(byte)).collect())
    }

    /// Calls `each` with every serial of the range that has an ID, in order, and the ID's ASCII
    /// text. The range is cut off at the end of the space.
    pub fn for_each(&self, range: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        let mut halves = [(0, 0); BULK];
        let mut text = [0; TEXT_BYTES_MAX];
        let end = range.end.min(self.serials);
        let mut first = range.start;
        while first < end {
            let count = usize::try_from(end - first).unwrap_or(BULK).min(BULK);
            for (serial, halves) in (first..).zip(&mut halves[..count]) {
                *halves = self.cipher.split(serial);
            }
            self.cipher.encrypt_halves(&mut halves[..count]);
            for (serial, halves) in (first..).zip(&halves[..count]) {
                if let Ok(text) = self.finish(*halves, &mut text) {
                    each(serial, text);
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
        let halves = self
            .cipher
            .read_numerals(&symbols[..self.cipher.len()])
            .expect("symbol values are below the radix");
        self.cipher
            .join(self.cipher.decrypt_halves(halves))
            .filter(|&serial| serial < self.serials)
            .ok_or(ParseError::OutOfRange)
    }

    fn finish<'a>(
        &self,
        halves: Halves,
        text: &'a mut [u8; TEXT_BYTES_MAX],
    ) -> Result<&'a [u8], crate::filters::Rule> {
        let mut symbols: Symbols = [0; _];
        self.cipher.write_numerals(halves, &mut symbols[..self.cipher.len()]);
        self.shape.complete(&mut symbols)?;
        let end = self.shape.write(&symbols, text);
        Ok(&text[..end])
    }
}
