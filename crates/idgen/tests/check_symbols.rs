//! Each check symbol algorithm catches the errors that its author or standard promises.

use idgen::alphabet::Alphabet;
use idgen::check::{Check, CheckTable};

/// A symbol string with its check symbols, as values.
fn with_check(table: &CheckTable, payload: &[u8]) -> Vec<u8> {
    [payload, &table.compute(payload)[..table.symbols()]].concat()
}

fn is_valid(table: &CheckTable, text: &[u8]) -> bool {
    let (payload, check) = text.split_at(text.len() - table.symbols());
    table.compute(payload)[..check.len()] == *check
}

/// All payloads of a length.
fn payloads(radix: u8, len: usize) -> impl Iterator<Item = Vec<u8>> {
    let count = u64::from(radix).pow(u32::try_from(len).unwrap());
    (0..count).map(move |mut number| {
        let mut payload = vec![0; len];
        for symbol in payload.iter_mut().rev() {
            *symbol = u8::try_from(number % u64::from(radix)).unwrap();
            number /= u64::from(radix);
        }
        payload
    })
}

/// Errors of one kind that were tried, and those that got past the check.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    tried: u64,
    missed: u64,
}

impl Tally {
    fn count(&mut self, table: &CheckTable, text: &[u8]) {
        self.tried += 1;
        self.missed += u64::from(is_valid(table, text));
    }
}

/// Tries every single error and every swap of different neighbours on every payload of a length.
fn search(check: Check, alphabet: &Alphabet, len: usize) -> (Tally, Tally, Vec<(u8, u8)>) {
    let table = CheckTable::new(check, alphabet);
    let radix = u8::try_from(alphabet.radix()).unwrap();
    let (mut single, mut swap, mut missed_swaps) = (Tally::default(), Tally::default(), vec![]);
    for payload in payloads(radix, len) {
        let right = with_check(&table, &payload);
        assert!(is_valid(&table, &right));
        let mut wrong = right.clone();
        for place in 0..right.len() {
            for symbol in (0..radix).filter(|&s| s != right[place]) {
                wrong[place] = symbol;
                single.count(&table, &wrong);
            }
            wrong[place] = right[place];
        }
        for place in (1..right.len()).filter(|&p| right[p - 1] != right[p]) {
            wrong.swap(place - 1, place);
            let missed_before = swap.missed;
            swap.count(&table, &wrong);
            if swap.missed > missed_before {
                missed_swaps.push((right[place - 1], right[place]));
            }
            wrong.swap(place - 1, place);
        }
    }
    (single, swap, missed_swaps)
}

fn digits() -> Alphabet {
    Alphabet::new("digits").unwrap()
}

#[test]
fn verhoeff_damm_and_mod97_catch_every_single_error_and_every_swap() {
    for check in [Check::Verhoeff, Check::Damm, Check::Iso7064Mod97_10] {
        for len in 2..=4 {
            let (single, swap, _) = search(check, &digits(), len);
            assert_eq!((single.missed, swap.missed), (0, 0), "{check} with {len} digits");
            assert!(single.tried > 0 && swap.tried > 0);
        }
    }
}

/// Verhoeff's permutations repeat after eight places, so longer payloads are tried at every place
/// of one period, on payloads that differ in the two symbols that matter.
#[test]
fn verhoeff_catches_them_at_every_place_of_its_period() {
    let table = CheckTable::new(Check::Verhoeff, &digits());
    for place in 1..12 {
        for (a, b) in (0..10).flat_map(|a| (0..10).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let mut payload = [4u8; 12];
            payload[place - 1] = a;
            payload[place] = b;
            let mut text = with_check(&table, &payload);
            text.swap(place - 1, place);
            assert!(!is_valid(&table, &text), "{a}{b} at {place}");
        }
    }
}

#[test]
fn luhn_catches_every_single_error_and_every_swap_but_09() {
    for len in 2..=4 {
        let (single, swap, mut missed) = search(Check::Luhn, &digits(), len);
        assert_eq!(single.missed, 0);
        assert!(swap.missed > 0);
        missed.sort_unstable();
        missed.dedup();
        assert_eq!(missed, [(0, 9), (9, 0)]);
    }
}

/// A hybrid system promises every single error. Of the swaps it misses exactly one pair of symbols
/// for each running product, 1 in r(r-1)/2: 1 in 45 for digits and 1 in 496 for 32 symbols.
///
/// The first symbol leads to each running product once, so payloads of three have a swap of
/// every two symbols behind every running product at their end.
#[test]
fn iso7064_hybrid_misses_one_swap_in_so_many() {
    for name in ["01", "0123", "digits", "hex", "crockford32", "alnum"] {
        let alphabet = Alphabet::new(name).unwrap();
        let table = CheckTable::new(Check::Iso7064, &alphabet);
        let radix = u8::try_from(alphabet.radix()).unwrap();
        let mut swap = Tally::default();
        let mut missed_after = vec![0; usize::from(radix)];
        for payload in payloads(radix, 3).filter(|payload| payload[1] != payload[2]) {
            let mut text = with_check(&table, &payload);
            text.swap(1, 2);
            let missed_before = swap.missed;
            swap.count(&table, &text);
            missed_after[usize::from(payload[0])] += swap.missed - missed_before;
        }
        let pairs = u64::from(radix) * u64::from(radix - 1) / 2;
        assert_eq!(swap.missed * pairs, swap.tried, "{name}: {swap:?}");
        // Both orders of the one pair.
        assert!(missed_after.iter().all(|&missed| missed == 2), "{name}: {missed_after:?}");
    }
}

#[test]
fn iso7064_hybrid_catches_every_single_error() {
    for (name, len) in [("0123", 4), ("digits", 4), ("hex", 3), ("crockford32", 3), ("alnum", 2)] {
        let (single, _, _) = search(Check::Iso7064, &Alphabet::new(name).unwrap(), len);
        assert!(single.tried > 0);
        assert_eq!(single.missed, 0, "{name}");
    }
}

#[test]
fn iso7064_hybrid_works_for_every_even_alphabet() {
    let symbols = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_~";
    for radix in (2..=64).step_by(2) {
        let alphabet = Alphabet::new(&symbols[..radix]).unwrap();
        assert_eq!(Check::Iso7064.refusal(&alphabet), None);
        let (single, _, _) = search(Check::Iso7064, &alphabet, 2);
        assert_eq!(single.missed, 0, "radix {radix}");
    }
    for radix in (3..=63).step_by(2) {
        assert!(Check::Iso7064.refusal(&Alphabet::new(&symbols[..radix]).unwrap()).is_some());
    }
}

/// Numbers with check symbols that are published elsewhere.
#[test]
fn known_examples() {
    let examples = [
        (Check::Verhoeff, "236", "3"),
        (Check::Verhoeff, "12345", "1"),
        (Check::Verhoeff, "142857", "0"),
        (Check::Luhn, "7992739871", "3"),
        (Check::Luhn, "37828224631000", "5"),
        (Check::Damm, "572", "4"),
        (Check::Iso7064, "0794", "5"),
        (Check::Iso7064Mod97_10, "794", "44"),
    ];
    for (check, payload, expected) in examples {
        let values: Vec<u8> = payload.bytes().map(|b| b - b'0').collect();
        let table = CheckTable::new(check, &digits());
        let found: String =
            table.compute(&values)[..table.symbols()].iter().map(u8::to_string).collect();
        assert_eq!(found, expected, "{check} of {payload}");
    }
}
