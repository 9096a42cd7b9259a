//! FF1, the format-preserving cipher of NIST SP 800-38G, on whole numbers.
//!
//! A numeral string of `n` symbols is split into a left half of `n / 2` symbols and a right half
//! with the rest. Ten rounds of a Feistel network then add a keyed function of one half to the
//! other. Within the limits here (radix up to 64, up to 32 symbols) that function needs **one AES
//! block per round**, because
//!
//! - everything that the standard feeds to the CBC-MAC before its last block depends only on key,
//!   tweak, radix and length, so it is worked out once, in [`Ff1::new`];
//! - a half has at most 96 bits, so it fits in the last block, and the 16 bytes that come out are
//!   all the output that the standard asks for.
//!
//! What is left of a round is an XOR, one AES block and an addition modulo `radix^m`, on plain
//! 128-bit integers. [`Ff1::encrypt_halves`] does it for many inputs in step, so that the AES unit
//! always has independent blocks to work on.
//!
//! The standard asks for at least a million possible inputs. Smaller spaces work here (a type of
//! four digits has a right to exist), but what they keep secret is worth as little as their size.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};

/// Most symbols that a numeral string may have.
pub const LEN_MAX: usize = 32;
/// Fewest symbols: each half needs one.
pub const LEN_MIN: usize = 2;
/// Largest radix; 64^16 is what keeps a half within 96 bits.
pub const RADIX_MAX: u32 = 64;

const ROUNDS: usize = 10;
const BLOCK_BYTES: usize = 16;

/// How many inputs go through the rounds in step. A multiple of the 8 and of the 30 blocks that
/// the AES-NI and VAES code of the `aes` crate takes at once, small enough to stay in the L1 cache.
const LANES: usize = 240;

/// Why an [`Ff1`] could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ff1Error {
    /// AES has keys of three sizes.
    #[error("an AES key has 16, 24 or 32 bytes, not {0}")]
    KeyLength(usize),
    /// The radix is outside 2 to 64.
    #[error("the radix must be from 2 to {RADIX_MAX}, not {0}")]
    Radix(u32),
    /// The length is outside 2 to 32.
    #[error("the length must be from {LEN_MIN} to {LEN_MAX} symbols, not {0}")]
    Length(usize),
    /// The standard writes the tweak's length in four bytes.
    #[error("the tweak is too long")]
    Tweak,
    /// A numeral is not below the radix, or there are too many or too few of them.
    #[error("the numerals do not form a string of {length} symbols below {radix}")]
    Numerals {
        /// Symbols expected.
        length: usize,
        /// Exclusive upper bound of each symbol.
        radix: u32,
    },
}

/// The two halves of a numeral string as numbers, the left one first.
pub type Halves = (u128, u128);

/// FF1 for one key, tweak, radix and length.
pub struct Ff1 {
    cipher: Cipher,
    radix: u32,
    len: usize,
    left: Half,
    right: Half,
    /// The last block before the half is put in: MAC state, end of the tweak, round number.
    round_blocks: [u128; ROUNDS],
    /// How far to shift a block right so that the bytes that the standard uses remain.
    output_shift: u32,
}

impl Ff1 {
    /// Prepares everything that does not depend on the input.
    pub fn new(key: &[u8], tweak: &[u8], radix: u32, len: usize) -> Result<Self, Ff1Error> {
        if !(2..=RADIX_MAX).contains(&radix) {
            return Err(Ff1Error::Radix(radix));
        }
        if !(LEN_MIN..=LEN_MAX).contains(&len) {
            return Err(Ff1Error::Length(len));
        }
        let tweak_len = u32::try_from(tweak.len()).map_err(|_| Ff1Error::Tweak)?;
        let cipher = Cipher::new(key)?;

        let left = Half::new(radix, len / 2);
        let right = Half::new(radix, len - len / 2);
        // b and d in the standard: bytes of a half, bytes of round output.
        let half_bytes = right.bits().div_ceil(8) as usize;
        let output_bytes = 4 * half_bytes.div_ceil(4) + 4;

        let mut prefix = [0u8; BLOCK_BYTES];
        prefix[..3].copy_from_slice(&[1, 2, 1]);
        prefix[3..6].copy_from_slice(&radix.to_be_bytes()[1..]);
        prefix[6] = 10;
        prefix[7] = u8::try_from(left.symbols).expect("at most 16");
        prefix[8..12].copy_from_slice(&u32::try_from(len).expect("at most 32").to_be_bytes());
        prefix[12..].copy_from_slice(&tweak_len.to_be_bytes());

        let zeros = (BLOCK_BYTES - (tweak.len() + half_bytes + 1) % BLOCK_BYTES) % BLOCK_BYTES;
        let mut message = [&prefix[..], tweak].concat();
        message.resize(message.len() + zeros + 1 + half_bytes, 0);
        let (blocks, last) = message.split_at(message.len() - BLOCK_BYTES);
        let state = blocks
            .chunks_exact(BLOCK_BYTES)
            .fold(0, |state, block| be_number(&cipher.encrypt_one(state ^ be_number(block))));
        let last = state ^ be_number(last);
        let round_position = u32::try_from(8 * half_bytes).expect("at most 96");

        Ok(Self {
            cipher,
            radix,
            len,
            left,
            right,
            round_blocks: std::array::from_fn(|round| last ^ ((round as u128) << round_position)),
            output_shift: u32::try_from(8 * (BLOCK_BYTES - output_bytes)).expect("at most 128"),
        })
    }

    /// Symbols in a numeral string.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true; a numeral string has at least two symbols.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Splits a number into the halves of its numeral string. Numbers below 2^64 that are beyond
    /// the space are the caller's mistake; their left half would be out of range.
    pub fn split(&self, number: u64) -> Halves {
        let modulus = self.right.modulus();
        match u64::try_from(modulus) {
            Ok(modulus) => ((number / modulus).into(), (number % modulus).into()),
            Err(_) => (0, number.into()),
        }
    }

    /// The number whose numeral string has these halves, if it is below 2^64.
    pub fn join(&self, (left, right): Halves) -> Option<u64> {
        let number = left.checked_mul(self.right.modulus())?.checked_add(right)?;
        u64::try_from(number).ok()
    }

    /// Writes the halves as one numeral per byte, most significant first.
    pub fn write_numerals(&self, (left, right): Halves, numerals: &mut [u8]) {
        let (head, tail) = numerals.split_at_mut(self.left.symbols);
        write_number(left, self.radix, head);
        write_number(right, self.radix, tail);
    }

    /// Reads one numeral per byte, most significant first.
    pub fn read_numerals(&self, numerals: &[u8]) -> Result<Halves, Ff1Error> {
        if numerals.len() != self.len || numerals.iter().any(|&n| u32::from(n) >= self.radix) {
            return Err(Ff1Error::Numerals { length: self.len, radix: self.radix });
        }
        let number = |numerals: &[u8]| {
            numerals.iter().fold(0, |n, &numeral| n * u128::from(self.radix) + u128::from(numeral))
        };
        let (head, tail) = numerals.split_at(self.left.symbols);
        Ok((number(head), number(tail)))
    }

    /// Encrypts a numeral string in place.
    pub fn encrypt(&self, numerals: &mut [u8]) -> Result<(), Ff1Error> {
        let mut halves = [self.read_numerals(numerals)?];
        self.encrypt_halves(&mut halves);
        self.write_numerals(halves[0], numerals);
        Ok(())
    }

    /// Decrypts a numeral string in place.
    pub fn decrypt(&self, numerals: &mut [u8]) -> Result<(), Ff1Error> {
        let halves = self.decrypt_halves(self.read_numerals(numerals)?);
        self.write_numerals(halves, numerals);
        Ok(())
    }

    /// Encrypts many inputs at once; far faster per input than one at a time.
    pub fn encrypt_halves(&self, inputs: &mut [Halves]) {
        for lanes in inputs.chunks_mut(LANES) {
            // The choice is made out here so that the rounds are compiled without a branch for it.
            match (self.left.modulus, self.right.modulus) {
                (Modulus::PowerOfTwo(left), Modulus::PowerOfTwo(right)) => {
                    self.encrypt_lanes(lanes, left, right);
                }
                (Modulus::Word(left), Modulus::Word(right)) => {
                    self.encrypt_lanes(lanes, left, right);
                }
                (left, right) => self.encrypt_lanes(lanes, left, right),
            }
        }
    }

    /// The standard swaps the halves after every round. Here they stay where they are and take
    /// turns instead; the number of rounds is even, so the result is the same.
    fn encrypt_lanes<R: Reduce + Copy>(&self, lanes: &mut [Halves], left: R, right: R) {
        let mut blocks = [Block::default(); LANES];
        let blocks = &mut blocks[..lanes.len()];
        for [even, odd] in self.round_blocks.as_chunks::<2>().0 {
            for (block, lane) in blocks.iter_mut().zip(lanes.iter()) {
                *block = Array((even ^ lane.1).to_be_bytes());
            }
            self.cipher.encrypt_many(blocks);
            for (block, lane) in blocks.iter_mut().zip(lanes.iter_mut()) {
                lane.0 = left.add(lane.0, self.output(block));
                *block = Array((odd ^ lane.0).to_be_bytes());
            }
            self.cipher.encrypt_many(blocks);
            for (block, lane) in blocks.iter().zip(lanes.iter_mut()) {
                lane.1 = right.add(lane.1, self.output(block));
            }
        }
    }

    /// The part of a block that the standard uses, as a number.
    fn output(&self, block: &Block) -> u128 {
        u128::from_be_bytes(block.0) >> self.output_shift
    }

    /// The inverse of [`Ff1::encrypt_halves`] for one input.
    pub fn decrypt_halves(&self, (mut a, mut b): Halves) -> Halves {
        for [even, odd] in self.round_blocks.as_chunks::<2>().0.iter().rev() {
            b = self.right.modulus.subtract(b, self.output(&self.cipher.encrypt_one(odd ^ a)));
            a = self.left.modulus.subtract(a, self.output(&self.cipher.encrypt_one(even ^ b)));
        }
        (a, b)
    }
}

impl std::fmt::Debug for Ff1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ff1({} symbols of {})", self.len, self.radix)
    }
}

fn be_number(block: &[u8]) -> u128 {
    u128::from_be_bytes(block.try_into().expect("a whole block"))
}

/// AES with any of its key sizes.
enum Cipher {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(key: &[u8]) -> Result<Self, Ff1Error> {
        let wrong = |_| Ff1Error::KeyLength(key.len());
        match key.len() {
            16 => Aes128::new_from_slice(key).map(Box::new).map(Self::Aes128).map_err(wrong),
            24 => Aes192::new_from_slice(key).map(Box::new).map(Self::Aes192).map_err(wrong),
            _ => Aes256::new_from_slice(key).map(Box::new).map(Self::Aes256).map_err(wrong),
        }
    }

    fn encrypt_one(&self, block: u128) -> Block {
        let mut block = [Array(block.to_be_bytes())];
        self.encrypt_many(&mut block);
        block[0]
    }

    fn encrypt_many(&self, blocks: &mut [Block]) {
        match self {
            Self::Aes128(aes) => aes.encrypt_blocks(blocks),
            Self::Aes192(aes) => aes.encrypt_blocks(blocks),
            Self::Aes256(aes) => aes.encrypt_blocks(blocks),
        }
    }
}

/// One half of the Feistel network.
#[derive(Clone, Copy)]
struct Half {
    symbols: usize,
    modulus: Modulus,
}

impl Half {
    fn new(radix: u32, symbols: usize) -> Self {
        let modulus = u128::from(radix).pow(u32::try_from(symbols).expect("at most 16"));
        Self { symbols, modulus: Modulus::new(modulus) }
    }

    fn modulus(&self) -> u128 {
        self.modulus.value()
    }

    /// Bits of the largest number in this half.
    fn bits(&self) -> u32 {
        u128::BITS - (self.modulus() - 1).leading_zeros()
    }
}

/// Writes a number in a radix, filling the numerals from the right.
#[expect(clippy::cast_possible_truncation, reason = "a remainder is below the radix")]
fn write_number(number: u128, radix: u32, numerals: &mut [u8]) {
    match u64::try_from(number) {
        Ok(number) if radix.is_power_of_two() => {
            let (bits, mask) = (radix.trailing_zeros(), u64::from(radix - 1));
            write_numerals(number, numerals, |n| (n >> bits, (n & mask) as u8));
        }
        Ok(number) => {
            let radix = u64::from(radix);
            write_numerals(number, numerals, |n| (n / radix, (n % radix) as u8));
        }
        Err(_) => {
            let radix = u128::from(radix);
            write_numerals(number, numerals, |n| (n / radix, (n % radix) as u8));
        }
    }
}

fn write_numerals<N: Copy>(number: N, numerals: &mut [u8], div_rem: impl Fn(N) -> (N, u8)) {
    let mut rest = number;
    for numeral in numerals.iter_mut().rev() {
        (rest, *numeral) = div_rem(rest);
    }
}

/// Arithmetic modulo `radix^m`. `a` is already reduced, `output` is any 128-bit number.
trait Reduce {
    fn add(&self, a: u128, output: u128) -> u128;
}

#[derive(Clone, Copy)]
enum Modulus {
    PowerOfTwo(Mask),
    Word(Word),
    Wide(u128),
}

/// Modulo 2^k, as the mask of the low k bits.
#[derive(Clone, Copy)]
struct Mask(u128);

/// Modulo a number below 2^63, so that a sum of two residues fits in a word.
#[derive(Clone, Copy)]
struct Word(u64);

impl Modulus {
    fn new(modulus: u128) -> Self {
        match u64::try_from(modulus) {
            _ if modulus.is_power_of_two() => Self::PowerOfTwo(Mask(modulus - 1)),
            Ok(word) if word < 1 << 63 => Self::Word(Word(word)),
            _ => Self::Wide(modulus),
        }
    }

    fn value(&self) -> u128 {
        match *self {
            Self::PowerOfTwo(Mask(mask)) => mask + 1,
            Self::Word(Word(modulus)) => modulus.into(),
            Self::Wide(modulus) => modulus,
        }
    }

    fn subtract(&self, a: u128, output: u128) -> u128 {
        let modulus = self.value();
        (a + modulus - output % modulus) % modulus
    }
}

impl Reduce for Modulus {
    fn add(&self, a: u128, output: u128) -> u128 {
        match self {
            Self::PowerOfTwo(mask) => mask.add(a, output),
            Self::Word(word) => word.add(a, output),
            Self::Wide(modulus) => (a + output % modulus) % modulus,
        }
    }
}

impl Reduce for Mask {
    fn add(&self, a: u128, output: u128) -> u128 {
        a.wrapping_add(output) & self.0
    }
}

impl Reduce for Word {
    fn add(&self, a: u128, output: u128) -> u128 {
        (a + output % u128::from(self.0)) % u128::from(self.0)
    }
}
