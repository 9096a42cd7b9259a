//! Random types: every serial has its own ID, every ID leads back, and failures say why.

use std::collections::HashSet;

use idgen::error::RenderError;
use idgen::filters::FilterSpec;
use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::random::RandomFormat;
use idgen::spec::IdType;
use proptest::prelude::*;

fn format(random: &str) -> RandomFormat {
    let id_type: IdType =
        serde_json::from_str(&format!(r#"{{"name": "t", "random": {random}}}"#)).unwrap();
    match Format::new(&id_type, &TypeKey::new([42; 32])) {
        Format::Random(format) => *format,
        _ => unreachable!("a random type was asked for"),
    }
}

const BOTTLE: &str = r#"{"alphabet": "crockford32", "length": 16, "check": "iso7064", "group": 4}"#;

#[test]
fn a_small_space_is_used_up_exactly() {
    for check in ["none", "verhoeff", "luhn", "damm", "iso7064", "iso7064_mod97_10"] {
        let length = if check == "none" { 4 } else { 5 };
        let format =
            format(&format!(r#"{{"alphabet": "digits", "length": {length}, "check": "{check}"}}"#));
        let ids: HashSet<String> =
            (0..format.serials()).map(|serial| format.render(serial).unwrap()).collect();
        assert_eq!(ids.len() as u64, format.serials());
        assert_eq!(format.render(format.serials()), Err(RenderError::OutOfRange));
    }
}

#[test]
fn filters_leave_gaps_in_the_serials_and_nothing_else() {
    let format =
        format(r#"{"alphabet": "digits", "length": 6, "check": "verhoeff", "filters": "openg2p"}"#);
    let mut buffer = Vec::new();
    assert_eq!(format.render_range(0..u64::MAX, &mut buffer), 29_593);
    let text = String::from_utf8(buffer).unwrap();
    let ids: HashSet<&str> = text.lines().collect();
    assert_eq!(ids.len(), 29_593);
    let rejected = (0..format.serials())
        .filter(|&serial| matches!(format.render(serial), Err(RenderError::Rejected(_))))
        .count();
    assert_eq!(rejected, 100_000 - 29_593);
}

#[test]
fn parsing_normalises_and_leads_back() {
    let format = format(BOTTLE);
    for serial in (0..2000).chain([u64::from(u32::MAX), format.serials() - 1]) {
        let id = format.render(serial).unwrap();
        assert_eq!(id.len(), 19, "{id}");
        assert_eq!(format.parse(&id), Ok(serial));
        let typed = id.to_lowercase().replace('-', " ").replace('0', "o").replace('1', "L");
        assert_eq!(format.parse(&format!("\t{typed}\r\n")), Ok(serial), "{typed}");
    }
}

#[test]
fn failures_say_why() {
    let bottle = format(BOTTLE);
    let id = bottle.render(7).unwrap();
    assert_eq!(bottle.parse(&id[1..]).unwrap_err().code(), "length");
    assert_eq!(bottle.parse(&format!("{id}{id}")).unwrap_err().code(), "length");
    assert_eq!(bottle.parse("").unwrap_err().code(), "length");
    assert_eq!(bottle.parse(&id.replacen(&id[..1], "U", 1)).unwrap_err().code(), "symbol");
    assert_eq!(bottle.parse(&id.replacen(&id[..1], "💥", 1)).unwrap_err().code(), "symbol");
    let swapped = format!("{}{}{}", &id[1..2], &id[..1], &id[2..]);
    assert_eq!(bottle.parse(&swapped).unwrap_err().code(), "check");
    // Nearly all of the 2^75 possible payloads are beyond the serials that a counter can reach.
    let stranger = bottle.shape().check_symbols("ZZZZ-ZZZZ-ZZZZ-ZZZZ").unwrap().1;
    let stranger = format!("ZZZZ-ZZZZ-ZZZZ-ZZZ{stranger}");
    assert_eq!(bottle.parse(&stranger).unwrap_err().code(), "out_of_range");

    let farmer =
        format(r#"{"alphabet": "digits", "length": 6, "check": "verhoeff", "filters": "openg2p"}"#);
    let check = farmer.shape().check_symbols("123450").unwrap().1;
    assert_eq!(farmer.parse(&format!("12345{check}")).unwrap_err().code(), "filter");
    assert_eq!(farmer.parse("٣٣٣٣٣٣").unwrap_err().code(), "symbol");
}

#[test]
fn ids_of_32_digits_work() {
    let format = format(
        r#"{"alphabet": "digits", "length": 32, "check": "verhoeff", "filters": "openg2p"}"#,
    );
    let mut seen = 0;
    format.for_each(0..200_000, |serial, text| {
        let id = std::str::from_utf8(text).unwrap();
        assert_eq!(id.len(), 32);
        assert_eq!(format.parse(id), Ok(serial));
        seen += 1;
    });
    assert!(seen > 0);
}

#[test]
fn another_key_gives_another_order() {
    let text = format!(r#"{{"name": "t", "random": {BOTTLE}}}"#);
    let id_type: IdType = serde_json::from_str(&text).unwrap();
    let render = |key: u8| {
        let format = Format::new(&id_type, &TypeKey::new([key; 32]));
        format.render(0, jiff::civil::date(2026, 1, 1)).unwrap()
    };
    assert_ne!(render(1), render(2));
    assert_eq!(format!("{:?}", TypeKey::new([9; 32])), "TypeKey(secret)");
}

const ALPHABETS: [&str; 7] =
    ["01", "abc", "digits", "hex", "crockford32", "alnum", "0123456789abcdefABCDEF_~."];

fn random_type() -> impl Strategy<Value = String> {
    let checks = ["none", "verhoeff", "luhn", "damm", "iso7064", "iso7064_mod97_10"];
    (
        prop::sample::select(ALPHABETS.to_vec()),
        2..=32u8,
        prop::sample::select(checks.to_vec()),
        prop::sample::select(vec!["none", "openg2p", "mosip"]),
        0..6u8,
    )
        .prop_map(|(alphabet, length, check, filters, group)| {
            let group = if group == 0 { "null".to_owned() } else { group.to_string() };
            format!(
                r#"{{"alphabet": "{alphabet}", "length": {length}, "check": "{check}",
                    "filters": "{filters}", "group": {group}}}"#
            )
        })
        .prop_filter("only valid types", |random| {
            serde_json::from_str::<IdType>(&format!(r#"{{"name": "t", "random": {random}}}"#))
                .is_ok()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// One at a time, in bulk, and back again: all the same, for any type and any serials.
    #[test]
    fn render_parse_and_bulk_agree(random in random_type(), start in any::<u64>(), count in 1..500u64) {
        let format = format(&random);
        let start = start % format.serials();
        let end = start.saturating_add(count).min(format.serials());
        let mut bulk = Vec::new();
        format.for_each(start..end, |serial, text| {
            bulk.push((serial, String::from_utf8(text.to_vec()).unwrap()));
        });
        let single: Vec<_> = (start..end)
            .filter_map(|serial| Some((serial, format.render(serial).ok()?)))
            .collect();
        prop_assert_eq!(&bulk, &single);
        for (serial, id) in bulk {
            prop_assert_eq!(format.parse(&id), Ok(serial));
        }
    }

    #[test]
    fn parsing_never_panics(random in random_type(), text in ".{0,80}") {
        let format = format(&random);
        if let Ok(serial) = format.parse(&text) {
            prop_assert!(format.render(serial).is_ok());
        }
    }
}

#[test]
fn filters_are_none_by_default() {
    assert_eq!(FilterSpec::default(), FilterSpec::None);
}
