//! ID types as they are written in files: what is accepted, and what a mistake is answered with.

use idgen::spec::IdType;

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
        (r#"{"name": "t", "snowflake": {}, "lenght": 3}"#.to_owned(), "unknown field `lenght`"),
        (r#"{"name": "t", "sequence": {"begin": 3}}"#.to_owned(), "unknown field `begin`"),
        (r#"{"name": "t", "sequence": {"reset": "hourly"}}"#.to_owned(), "`monthly`"),
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
        (random(r#""alphabet": "digits", "length": 8, "check": "crc""#), "unknown variant `crc`"),
        (random(r#""alphabet": "hex", "length": 8, "filters": "mosip""#), "random.filters"),
        (random(r#""alphabet": "digits", "length": 5, "filters": "mosip""#), "random.length"),
        (random(r#""alphabet": "digits", "length": 8, "group": 8"#), "random.group"),
        (random(r#""alphabet": "digits", "length": 8, "group": 0"#), "random.group"),
        (random(r#""alphabet": "aa", "length": 8"#), "twice"),
        (random(r#""length": 8"#), "missing field `alphabet`"),
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
