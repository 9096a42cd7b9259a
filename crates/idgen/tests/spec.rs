//! ID types as they are written in files: what is accepted, and what a mistake is answered with.

use idgen::spec::IdType;
use serde_json::{Value, json};

fn read(json: &str) -> Result<IdType, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn the_examples_of_the_manual_are_valid_and_survive_a_round_trip() {
    let examples = [
        r#"{"tenant": "PROJ", "name": "9012", "sequence": {"start": 1001, "template": "{tenant}-{type}-{seq}"}}"#,
        r#"{"name": "invoice", "sequence": {"template": "INV-{yyyy}-{seq:06}", "reset": "yearly", "gapless": true}}"#,
        r#"{"name": "farmer", "random": {"alphabet": "digits", "length": 12, "check": "verhoeff", "filters": "openg2p"}}"#,
        r#"{"name": "bottle", "random": {"alphabet": "crockford32", "length": 16, "check": "iso7064", "group": 4}}"#,
        r#"{"name": "event", "snowflake": {}}"#,
        r#"{"name": "old", "snowflake": {"epoch": "2010-11-04T01:42:54.657Z"}}"#,
        r#"{"name": "custom", "random": {"alphabet": "abcdefgh", "length": 9, "check": "iso7064"}}"#,
        r#"{"name": "loose", "random": {"alphabet": "digits", "length": 9, "filters": {"sequence_limit": 4}}}"#,
    ];
    for example in examples {
        let id_type = read(example).unwrap();
        let written = serde_json::to_string(&id_type).unwrap();
        assert_eq!(read(&written).unwrap(), id_type, "{written}");
    }
    assert_eq!(read(examples[1]).unwrap().tenant(), "default");
}

#[test]
fn each_mistake_names_its_field_and_what_would_be_right() {
    let random = |fields: &str| format!(r#"{{"name": "t", "random": {{{fields}}}}}"#);
    let cases = [
        (r#"{"name": "t"}"#.to_owned(), "exactly one of these fields, found none"),
        (r#"{"name": "t", "sequence": {}, "snowflake": {}}"#.to_owned(), "found more than one"),
        (r#"{"name": "", "snowflake": {}}"#.to_owned(), "name: \"\" is not a name"),
        (r#"{"name": "a b", "snowflake": {}}"#.to_owned(), "use 1 to 64 ASCII letters"),
        (r#"{"name": "t", "tenant": "é", "snowflake": {}}"#.to_owned(), "tenant: \"é\""),
        (
            r#"{"name": "t", "snowflake": {}, "lenght": 3}"#.to_owned(),
            "lenght: there is no such field; the fields here are tenant, name,",
        ),
        (
            r#"{"name": "t", "sequence": {"begin": 3}}"#.to_owned(),
            "sequence.begin: there is no such field; the fields here are start,",
        ),
        (
            r#"{"name": "t", "sequence": {"reset": "hourly"}}"#.to_owned(),
            "sequence.reset: \"hourly\" is not known; use never, yearly, monthly or daily",
        ),
        (
            r#"{"name": "t", "sequence": {"start": 9223372036854775807}}"#.to_owned(),
            "sequence.start: 9223372036854775807 is too large",
        ),
        (random(r#""alphabet": "digits", "length": 1"#), "random.length: 1 is outside"),
        (random(r#""alphabet": "digits", "length": 33"#), "2 to 32 symbols"),
        (random(r#""alphabet": "digits", "length": 2, "check": "luhn""#), "3 to 32 symbols"),
        (random(r#""alphabet": "alnum", "length": 32"#), "use at most 24 symbols"),
        (random(r#""alphabet": "alnum", "length": 8, "check": "damm""#), "random.check: damm"),
        (random(r#""alphabet": "abc", "length": 8, "check": "iso7064""#), "even number"),
        (
            random(r#""alphabet": "digits", "length": 8, "check": "crc""#),
            "random.check: \"crc\" is not known; use none, verhoeff",
        ),
        (random(r#""alphabet": "hex", "length": 8, "filters": "mosip""#), "random.filters"),
        (random(r#""alphabet": "digits", "length": 5, "filters": "mosip""#), "random.length"),
        (random(r#""alphabet": "digits", "length": 8, "group": 8"#), "random.group"),
        (random(r#""alphabet": "digits", "length": 8, "group": 0"#), "random.group"),
        (random(r#""alphabet": "aa", "length": 8"#), "twice"),
        (
            random(
                r#""alphabet": "digits", "length": 11, "filters": {"repeating_block_limit": 1}"#,
            ),
            "random.length: the filters reject every ID of 11 digits; use at most 10",
        ),
        (
            random(r#""alphabet": "digits", "length": 11, "filters": {"repeating_limit": 11}"#),
            "use at most 10",
        ),
        (random(r#""length": 8"#), "random.alphabet: it is missing; use digits, hex"),
    ];
    for (json, expected) in cases {
        let error = read(&json).unwrap_err();
        assert!(error.contains(expected), "{json}\n gives {error}");
    }
}

#[test]
fn all_mistakes_are_reported_together() {
    let error = read(
        r#"{"name": "", "tenant": "?", "random":
            {"alphabet": "hex", "length": 99, "check": "luhn", "filters": "openg2p", "group": 0}}"#,
    )
    .unwrap_err();
    for field in
        ["name:", "tenant:", "random.length:", "random.check:", "random.filters:", "random.group:"]
    {
        assert!(error.contains(field), "{field} is missing in {error}");
    }
}

/// Every error as `field: message`.
fn errors(value: Value) -> Vec<String> {
    let errors = IdType::from_value(value).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

#[test]
fn wrong_types_name_their_field_and_what_would_be_right() {
    let random = |field: &str, value: Value| {
        let mut random = json!({"alphabet": "digits", "length": 8, "check": "luhn"});
        random[field] = value;
        json!({"name": "t", "random": random})
    };
    let filters = |field: &str, value: Value| random("filters", json!({ field: value }));
    let sequence = |field: &str, value: Value| json!({"name": "t", "sequence": {field: value}});
    let cases = [
        (json!([]), "ID type: a list is not a mapping; use one with the fields tenant, name,"),
        (json!("bottle"), "ID type: \"bottle\" is not a mapping"),
        (json!({"name": 9012, "snowflake": {}}), "name: 9012 is not text; put it in quotes"),
        (json!({"name": null, "snowflake": {}}), "name: null is not text; use a name such as"),
        (json!({"snowflake": {}}), "name: it is missing; use a name such as invoice"),
        (json!({"name": "t", "tenant": ["x"], "snowflake": {}}), "tenant: a list is not text"),
        (json!({"name": "t", "snowflake": null}), "snowflake: null is not a mapping; use one"),
        (json!({"name": "t", "snowflake": {"epoch": 0}}), "snowflake.epoch: 0 is not text"),
        (
            json!({"name": "t", "snowflake": {"epoch": "new year"}}),
            "snowflake.epoch: \"new year\" is not an instant; use an instant such as 2024-",
        ),
        (json!({"name": "t", "sequence": 7}), "sequence: 7 is not a mapping"),
        (sequence("start", json!(-1)), "sequence.start: -1 is below zero; use 0 to 92233"),
        (sequence("start", json!(1.5)), "sequence.start: 1.5 is not a whole number"),
        (sequence("template", json!({})), "sequence.template: a mapping is not text; use text"),
        (sequence("gapless", json!("yes")), "sequence.gapless: \"yes\" is neither true nor false"),
        (sequence("reset", json!(null)), "sequence.reset: null is not known; use never"),
        (random("length", json!("abc")), "random.length: \"abc\" is not a number; use 3 to 32"),
        (
            random("length", json!("12")),
            "random.length: \"12\" is text and not a number; leave out",
        ),
        (random("length", json!(300)), "random.length: 300 is outside the limits"),
        (random("length", json!(null)), "random.length: null is not a number; use 3 to 32"),
        (random("alphabet", json!(10)), "random.alphabet: 10 is not text; put it in quotes"),
        (random("alphabet", json!("aa")), "random.alphabet: 'a' is in the alphabet twice"),
        (random("check", json!(true)), "random.check: true is not known; use none, verhoeff"),
        (random("group", json!("4")), "random.group: \"4\" is text"),
        (random("group", json!(300)), "random.group: a group must have"),
        (random("allow_dense", json!(1)), "random.allow_dense: 1 is neither true nor false"),
        (random("filters", json!(5)), "random.filters: 5 is not a filter profile; use openg2p"),
        (filters("sequence", json!(3)), "random.filters.sequence: there is no such field"),
        (
            filters("sequence_limit", json!("many")),
            "random.filters.sequence_limit: \"many\" is not a number; use 2 to 10, or 0",
        ),
        (filters("sequence_limit", json!(1)), "random.filters.sequence_limit: 1 rejects every ID"),
        (
            filters("digits_group_limit", json!(1u64 << 40)),
            "random.filters.digits_group_limit: 1099511627776 is too large; use 1 to 32",
        ),
        (
            filters("not_start_with", json!("0")),
            "random.filters.not_start_with: \"0\" is not a list",
        ),
        (
            filters("not_start_with", json!(["0", 1])),
            "random.filters.not_start_with[1]: 1 is not text; put it in quotes",
        ),
        (filters("behaviour", json!("x")), "random.filters.behaviour: \"x\" is not known"),
    ];
    for (value, expected) in cases {
        let found = errors(value.clone());
        assert_eq!(found.len(), 1, "{value} gives {found:?}");
        assert!(found[0].starts_with(expected), "{value} gives {found:?}");
    }
}

/// A mistake that keeps a field from being read does not hide what is wrong with the others.
#[test]
fn mistakes_of_all_sorts_are_reported_together() {
    let found = errors(json!({
        "name": 1, "tenant": "?", "extra": 0,
        "random": {
            "alphabet": 10, "length": 99, "check": "crc", "group": 0, "allow_dense": "no",
            "filters": {"sequence_limit": "x", "digits_group_limit": 33, "limit": 3},
        },
        "sequence": {"template": "none", "reset": 5},
    }));
    for field in [
        "name",
        "tenant",
        "extra",
        "random.alphabet",
        "random.length",
        "random.check",
        "random.group",
        "random.allow_dense",
        "random.filters.sequence_limit",
        "random.filters.digits_group_limit",
        "random.filters.limit",
        "sequence.template",
        "sequence.reset",
        "sequence, random or snowflake",
    ] {
        let count = found.iter().filter(|e| e.starts_with(&format!("{field}: "))).count();
        assert_eq!(count, 1, "{field} in {found:#?}");
    }
    assert_eq!(found.len(), 14, "{found:#?}");
}

#[test]
fn what_programs_write_for_absent_fields_is_absent() {
    let id_type = IdType::from_value(json!({
        "name": "t", "sequence": null, "snowflake": null,
        "random": {"alphabet": "digits", "length": 8, "group": null},
    }));
    assert_eq!(id_type.unwrap().name(), "t");
    assert_eq!(errors(json!({"name": "t", "sequence": null, "random": null})).len(), 1);
}

#[test]
fn long_text_is_not_repeated_whole() {
    let found = errors(json!({"name": "x".repeat(100_000), "snowflake": {}}));
    assert!(found[0].len() < 300, "{}", found[0].len());
}

#[test]
fn changes_that_old_ids_would_not_survive_are_named() {
    let read = |value: Value| IdType::from_value(value).unwrap();
    let farmer = json!({"tenant": "a", "name": "farmer", "random": {
        "alphabet": "digits", "length": 12, "check": "verhoeff", "filters": "openg2p"}});
    let invoice = json!({"name": "invoice", "sequence": {
        "start": 5, "template": "{yyyy}-{seq}", "reset": "yearly"}});
    let event = json!({"name": "event", "snowflake": {}});
    let changed = |old: &Value, path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).expect("a field that is there") = value;
        read(old.clone()).frozen_changes(&read(new))
    };
    assert_eq!(changed(&farmer, "/tenant", json!("b")), ["tenant"]);
    assert_eq!(changed(&farmer, "/name", json!("b")), ["name"]);
    assert_eq!(changed(&farmer, "/random/length", json!(13)), ["random.length"]);
    assert_eq!(changed(&farmer, "/random/check", json!("luhn")), ["random.check"]);
    assert_eq!(changed(&farmer, "/random/filters", json!("mosip")), ["random.filters"]);
    assert_eq!(changed(&farmer, "/random/filters", json!({})), [""; 0]);
    let hex = json!({"alphabet": "hex", "length": 12});
    assert_eq!(
        changed(&farmer, "/random", hex),
        ["random.alphabet", "random.check", "random.filters"]
    );
    assert_eq!(changed(&invoice, "/sequence/start", json!(1)), ["sequence.start"]);
    let template = json!("{yyyy}/{seq}");
    assert_eq!(changed(&invoice, "/sequence/template", template), ["sequence.template"]);
    assert_eq!(changed(&invoice, "/sequence/reset", json!("never")), ["sequence.reset"]);
    let epoch = json!({"epoch": "2010-11-04T01:42:54.657Z"});
    assert_eq!(changed(&event, "/snowflake", epoch), ["snowflake.epoch"]);
    assert_eq!(read(event).frozen_changes(&read(farmer.clone())), ["tenant", "name", "kind"]);

    let mut relaxed = farmer.clone();
    relaxed["random"]["group"] = json!(4);
    relaxed["random"]["allow_dense"] = json!(true);
    assert_eq!(read(farmer).frozen_changes(&read(relaxed)), [""; 0]);
    let mut gapless = invoice.clone();
    gapless["sequence"]["gapless"] = json!(true);
    assert_eq!(read(invoice).frozen_changes(&read(gapless)), [""; 0]);
}
