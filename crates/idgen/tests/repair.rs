//! Repairs: what people and cameras do to an ID leads back to it, and little else does.

use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::random::RandomFormat;
use idgen::repair::Mistake;
use idgen::spec::IdType;

const BOTTLE: &str = r#"{"alphabet": "crockford32", "length": 16, "check": "iso7064", "group": 4}"#;
const DIGITS: &str = r#"{"alphabet": "digits", "length": 12, "check": "verhoeff"}"#;
const ALNUM: &str = r#"{"alphabet": "alnum", "length": 12, "check": "iso7064"}"#;
const UNCHECKED: &str = r#"{"alphabet": "crockford32", "length": 12}"#;
/// Both cases, without the letters that would be read as digits anyway.
const BOTH_CASES: &str = r#"{"alphabet": "23456789abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ",
    "length": 10, "check": "iso7064"}"#;

fn format(random: &str) -> RandomFormat {
    let id_type: IdType =
        serde_json::from_str(&format!(r#"{{"name": "t", "random": {random}}}"#)).unwrap();
    match Format::new(&id_type, &TypeKey::new([42; 32])) {
        Format::Random(format) => *format,
        _ => unreachable!("a random type was asked for"),
    }
}

/// The ID of a serial without its hyphens.
fn plain(format: &RandomFormat, serial: u64) -> Vec<char> {
    format.render(serial).unwrap().chars().filter(|c| *c != '-').collect()
}

/// What a text is taken for, if it is taken for this serial at all.
fn mistake(format: &RandomFormat, typed: &[char], serial: u64) -> Option<Mistake> {
    let text: String = typed.iter().collect();
    let repairs = format.repairs(&text);
    repairs.iter().find(|repair| repair.serial == serial).map(|repair| repair.mistake)
}

#[test]
fn swapped_neighbours_are_found() {
    for random in [BOTTLE, DIGITS, ALNUM, UNCHECKED] {
        let format = format(random);
        for serial in 0..50 {
            let id = plain(&format, serial);
            for at in (1..id.len()).filter(|&at| id[at - 1] != id[at]) {
                let mut typed = id.clone();
                typed.swap(at - 1, at);
                let found = mistake(&format, &typed, serial);
                // The neighbours may be a pair that looks alike, next to its double.
                let right = [Some(Mistake::Swapped), Some(Mistake::LookAlike)];
                assert!(right.contains(&found), "{id:?} {typed:?} {found:?}");
            }
        }
    }
}

#[test]
fn one_wrong_symbol_is_found_where_there_is_a_check_symbol() {
    for random in [BOTTLE, DIGITS, ALNUM] {
        let format = format(random);
        for serial in 0..20 {
            let id = plain(&format, serial);
            for at in 0..id.len() {
                let mut typed = id.clone();
                typed[at] = if id[at] == '3' { '7' } else { '3' };
                assert!(mistake(&format, &typed, serial).is_some(), "{id:?} {typed:?}");
                // A character that no alphabet has and that looks like nothing.
                typed[at] = '%';
                assert_eq!(mistake(&format, &typed, serial), Some(Mistake::Mistyped));
            }
        }
    }
    // Everything is an ID there, so a wrong symbol means nothing.
    let format = format(UNCHECKED);
    let mut typed = plain(&format, 7);
    typed[0] = if typed[0] == '3' { 'X' } else { '3' };
    assert_eq!(mistake(&format, &typed, 7), None);
}

#[test]
fn look_alikes_are_found_whether_they_are_symbols_or_not() {
    let cases: [(&str, &[(char, char)]); 3] = [
        (
            BOTTLE,
            &[('V', 'U'), ('5', 'S'), ('S', '5'), ('8', 'B'), ('A', '\u{410}'), ('K', '\u{43a}')],
        ),
        (DIGITS, &[('0', 'O'), ('1', 'l'), ('5', 'S'), ('8', 'B'), ('2', 'z')]),
        (ALNUM, &[('0', 'O'), ('O', '0'), ('I', '1'), ('Z', '2'), ('B', '8')]),
    ];
    for (random, pairs) in cases {
        let format = format(random);
        for &(right, wrong) in pairs {
            let serial = (0..1000).find(|&s| plain(&format, s).contains(&right)).unwrap();
            let typed: Vec<char> = plain(&format, serial)
                .into_iter()
                .map(|c| if c == right { wrong } else { c })
                .collect();
            let found = mistake(&format, &typed, serial);
            assert_eq!(found, Some(Mistake::LookAlike), "{right} as {wrong} in {typed:?}");
        }
    }
}

#[test]
fn a_lost_or_turned_case_is_found_where_the_alphabet_has_both() {
    let format = format(BOTH_CASES);
    for serial in 0..50 {
        let id = plain(&format, serial);
        let turned: Vec<char> = (id.iter())
            .map(|c| if c.is_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
            .collect();
        assert_eq!(mistake(&format, &turned, serial), Some(Mistake::Case), "{id:?}");
        let first = id.iter().position(char::is_ascii_lowercase);
        if let Some(first) = first {
            let mut typed = id.clone();
            typed[first] = typed[first].to_ascii_uppercase();
            assert_eq!(mistake(&format, &typed, serial), Some(Mistake::Case), "{id:?}");
        }
        let lower: Vec<char> = id.iter().map(char::to_ascii_lowercase).collect();
        if lower != id {
            assert_eq!(mistake(&format, &lower, serial), Some(Mistake::Case), "{id:?}");
        }
    }
    let crockford = self::format(BOTTLE);
    let id = plain(&crockford, 3);
    let repairs = crockford.repairs(&id.iter().collect::<String>().to_lowercase());
    assert!(repairs.iter().all(|repair| repair.mistake != Mistake::Case));
}

#[test]
fn missing_and_surplus_symbols_are_found() {
    for random in [BOTTLE, DIGITS, ALNUM] {
        let format = format(random);
        for serial in 0..10 {
            let id = plain(&format, serial);
            // Doubling a symbol, or leaving one out.
            for at in 0..id.len() {
                let shorter = [&id[..at], &id[at + 1..]].concat();
                assert_eq!(mistake(&format, &shorter, serial), Some(Mistake::CutOff), "{id:?}");
                let longer = [&id[..=at], &id[at..]].concat();
                assert_eq!(mistake(&format, &longer, serial), Some(Mistake::TooLong), "{id:?}");
            }
            let within = [&['A', 'B', '3'][..], &id].concat();
            if random != DIGITS {
                assert_eq!(mistake(&format, &within, serial), Some(Mistake::TooLong), "{id:?}");
            }
            assert!(format.repairs(&id[3..].iter().collect::<String>()).is_empty());
        }
    }
    let bank = format(r#"{"alphabet": "digits", "length": 12, "check": "iso7064_mod97_10"}"#);
    let id = plain(&bank, 5);
    assert_eq!(mistake(&bank, &id[..10], 5), Some(Mistake::CutOff));
}

#[test]
fn repairs_are_other_ids_and_few() {
    for random in [BOTTLE, DIGITS, ALNUM, UNCHECKED] {
        let format = format(random);
        for serial in 0..200 {
            let id = format.render(serial).unwrap();
            let repairs = format.repairs(&id);
            assert!(repairs.iter().all(|repair| repair.serial != serial), "{id}");
            assert!(repairs.len() <= 96, "{id}: {}", repairs.len());
            let mut serials: Vec<u64> = repairs.iter().map(|repair| repair.serial).collect();
            serials.sort_unstable();
            serials.dedup();
            assert_eq!(serials.len(), repairs.len(), "{id}: one comes twice");
        }
        for text in ["", "-", "x", "\u{1f600}", &"7".repeat(10_000), "????????????????"] {
            assert!(format.repairs(text).len() <= 96, "{text}");
        }
    }
}
