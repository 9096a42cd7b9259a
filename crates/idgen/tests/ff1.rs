//! FF1 against NIST's samples and against an independent implementation.

use aes::cipher::{BlockCipherEncrypt, KeyInit, consts::U16};
use aes::{Aes128, Aes192, Aes256};
use fpe::ff1::{FF1, FlexibleNumeralString};
use idgen::ff1::{Ff1, Ff1Error, LEN_MAX, RADIX_MAX};
use proptest::prelude::*;

const KEY: &str = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
const TWEAK_10: &str = "39383736353433323130";
const TWEAK_36: &str = "3737373770717273373737";

/// The nine FF1 samples that NIST publishes with SP 800-38G: key bytes, radix, tweak, plaintext,
/// ciphertext.
const SAMPLES: [(usize, u32, &str, &str, &str); 9] = [
    (16, 10, "", "0123456789", "2433477484"),
    (16, 10, TWEAK_10, "0123456789", "6124200773"),
    (16, 36, TWEAK_36, "0123456789abcdefghi", "a9tv40mll9kdu509eum"),
    (24, 10, "", "0123456789", "2830668132"),
    (24, 10, TWEAK_10, "0123456789", "2496655549"),
    (24, 36, TWEAK_36, "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"),
    (32, 10, "", "0123456789", "6657667009"),
    (32, 10, TWEAK_10, "0123456789", "1001623463"),
    (32, 36, TWEAK_36, "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn numerals(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c.to_digit(36).unwrap()).unwrap()).collect()
}

#[test]
fn nist_samples() {
    for (key_bytes, radix, tweak, plain, cipher) in SAMPLES {
        let key = &unhex(KEY)[..key_bytes];
        let ff1 = Ff1::new(key, &unhex(tweak), radix, plain.len()).unwrap();
        let mut text = numerals(plain);
        ff1.encrypt(&mut text).unwrap();
        assert_eq!(text, numerals(cipher), "AES-{} radix {radix}", 8 * key_bytes);
        ff1.decrypt(&mut text).unwrap();
        assert_eq!(text, numerals(plain), "AES-{} radix {radix}", 8 * key_bytes);
    }
}

/// The same encryption by the `fpe` crate, or `None` where it refuses so small a space.
fn by_fpe(key: &[u8], tweak: &[u8], radix: u32, plain: &[u8]) -> Option<Vec<u8>> {
    fn run<C: BlockCipherEncrypt<BlockSize = U16> + KeyInit + Clone>(
        key: &[u8],
        tweak: &[u8],
        radix: u32,
        plain: &[u8],
    ) -> Option<Vec<u8>> {
        let numerals = plain.iter().map(|&n| u16::from(n)).collect::<Vec<_>>();
        let cipher = FF1::<C>::new(key, radix).unwrap();
        let numerals = cipher.encrypt(tweak, &FlexibleNumeralString::from(numerals)).ok()?;
        Some(Vec::<u16>::from(numerals).into_iter().map(|n| u8::try_from(n).unwrap()).collect())
    }
    match key.len() {
        16 => run::<Aes128>(key, tweak, radix, plain),
        24 => run::<Aes192>(key, tweak, radix, plain),
        _ => run::<Aes256>(key, tweak, radix, plain),
    }
}

prop_compose! {
    fn numeral_string()(radix in 2..=RADIX_MAX, len in 2..=LEN_MAX)(
        radix in Just(radix),
        plain in prop::collection::vec(0..u8::try_from(radix).unwrap(), len),
    ) -> (u32, Vec<u8>) {
        (radix, plain)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn same_as_the_fpe_crate(
        key in any::<[u8; 32]>(),
        key_bytes in prop::sample::select(vec![16usize, 24, 32]),
        tweak in prop::collection::vec(any::<u8>(), 0..40),
        (radix, plain) in numeral_string(),
    ) {
        let key = &key[..key_bytes];
        let ff1 = Ff1::new(key, &tweak, radix, plain.len()).unwrap();
        let mut text = plain.clone();
        ff1.encrypt(&mut text).unwrap();
        if let Some(expected) = by_fpe(key, &tweak, radix, &plain) {
            prop_assert_eq!(&text, &expected);
        } else {
            let space = f64::from(radix).powi(i32::try_from(plain.len()).unwrap());
            prop_assert!(space < 1_000_000.0, "fpe refuses small spaces only");
        }
        ff1.decrypt(&mut text).unwrap();
        prop_assert_eq!(text, plain);
    }

    #[test]
    fn many_at_once_are_the_same_as_one_by_one(
        key in any::<[u8; 32]>(),
        radix in 2..=RADIX_MAX,
        len in 2..=LEN_MAX,
        count in 1usize..700,
    ) {
        let ff1 = Ff1::new(&key, &[], radix, len).unwrap();
        let space = u64::from(radix).checked_pow(u32::try_from(len).unwrap()).unwrap_or(u64::MAX);
        let inputs: Vec<_> = (0..count as u64).map(|n| ff1.split((n * 0x9E37_79B9_7F4A) % space)).collect();
        let mut together = inputs.clone();
        ff1.encrypt_halves(&mut together);
        for (input, output) in inputs.into_iter().zip(together) {
            let mut alone = [input];
            ff1.encrypt_halves(&mut alone);
            prop_assert_eq!(alone[0], output);
            prop_assert_eq!(ff1.decrypt_halves(output), input);
        }
    }
}

#[test]
fn a_small_space_is_permuted() {
    let ff1 = Ff1::new(&[1; 32], &[], 7, 3).unwrap();
    let mut seen = std::collections::HashSet::new();
    for number in 0..343 {
        let mut halves = [ff1.split(number)];
        ff1.encrypt_halves(&mut halves);
        let image = ff1.join(halves[0]).unwrap();
        assert!(image < 343);
        assert!(seen.insert(image));
    }
}

#[test]
fn limits_are_errors() {
    assert_eq!(Ff1::new(&[0; 31], &[], 10, 6).unwrap_err(), Ff1Error::KeyLength(31));
    assert_eq!(Ff1::new(&[0; 32], &[], 1, 6).unwrap_err(), Ff1Error::Radix(1));
    assert_eq!(Ff1::new(&[0; 32], &[], 65, 6).unwrap_err(), Ff1Error::Radix(65));
    assert_eq!(Ff1::new(&[0; 32], &[], 10, 1).unwrap_err(), Ff1Error::Length(1));
    assert_eq!(Ff1::new(&[0; 32], &[], 10, 33).unwrap_err(), Ff1Error::Length(33));
    let ff1 = Ff1::new(&[0; 32], &[], 10, 6).unwrap();
    assert!(ff1.encrypt(&mut [10; 6]).is_err());
    assert!(ff1.encrypt(&mut [1; 5]).is_err());
}
