//! What users write, what they are told when it is wrong, and what is written back.

use serde_json::json;

use super::{Behaviour, FilterSettings, FilterSpec};

fn parse(value: serde_json::Value) -> Result<FilterSpec, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[test]
fn profiles_are_names_in_both_directions() {
    for (name, spec) in
        [("none", FilterSpec::None), ("openg2p", FilterSpec::Openg2p), ("mosip", FilterSpec::Mosip)]
    {
        assert_eq!(parse(json!(name)).as_ref(), Ok(&spec));
        assert_eq!(serde_json::to_value(&spec).unwrap(), json!(name));
    }
    assert_eq!(FilterSpec::default(), FilterSpec::None);
}

#[test]
fn settings_left_out_have_the_defaults_of_openg2p() {
    let spec = parse(json!({ "sequence_limit": 4 })).unwrap();
    let expected = FilterSettings { sequence_limit: 4, ..FilterSettings::default() };
    assert_eq!(spec, FilterSpec::Settings(expected));
    assert_eq!(parse(json!({})).unwrap().settings(), FilterSpec::Openg2p.settings());
    assert_eq!(
        parse(json!({ "behaviour": "mosip" })).unwrap().settings(),
        FilterSpec::Mosip.settings()
    );
    assert_eq!(FilterSpec::None.settings(), None);
}

#[test]
fn default_settings_are_written_as_the_block_of_openg2p() {
    let text = serde_json::to_string(&FilterSettings::default()).unwrap();
    assert_eq!(
        text,
        r#"{"sequence_limit":3,"repeating_limit":2,"repeating_block_limit":2,"#.to_owned()
            + r#""conjugative_even_digits_limit":3,"digits_group_limit":5,"#
            + r#""reverse_digits_group_limit":5,"not_start_with":["0","1"],"#
            + r#""restricted_numbers":[]}"#
    );
}

#[test]
fn settings_survive_being_written_and_read() {
    let spec = FilterSpec::Settings(FilterSettings {
        restricted_numbers: vec!["786".into(), "007".into()],
        ..FilterSettings::mosip()
    });
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(written["behaviour"], "mosip");
    assert_eq!(parse(written), Ok(spec));
}

#[test]
fn mistakes_are_answered_with_what_would_be_right() {
    let error = parse(json!("aadhaar")).unwrap_err();
    assert!(error.contains("\"aadhaar\" is not a filter profile"), "{error}");
    assert!(error.contains("use openg2p, mosip, none, or a mapping"), "{error}");
    let error = parse(json!({ "sequence": 3 })).unwrap_err();
    for part in ["filters.sequence: ", "sequence_limit", "restricted_numbers", "behaviour"] {
        assert!(error.contains(part), "{error}");
    }
    let error = parse(json!({ "behaviour": "none" })).unwrap_err();
    assert!(error.contains("use openg2p or mosip"), "{error}");
    for value in [json!(3), json!(null), json!(["openg2p"])] {
        let error = parse(value).unwrap_err();
        assert!(error.contains("is not a filter profile"), "{error}");
    }
}

/// The same settings stand in configurations that are read by serde alone.
#[test]
fn settings_can_be_read_on_their_own() {
    let settings: FilterSettings =
        serde_json::from_value(json!({ "sequence_limit": 4, "behaviour": "mosip" })).unwrap();
    assert_eq!(settings, FilterSettings { sequence_limit: 4, ..FilterSettings::mosip() });
    let unknown = serde_json::from_value::<FilterSettings>(json!({ "sequence": 4 }));
    assert!(unknown.unwrap_err().to_string().contains("`sequence_limit`"));
}

/// The fields reported for settings that differ from the defaults in one way.
fn reported(change: impl Fn(&mut FilterSettings)) -> Vec<String> {
    let mut settings = FilterSettings::default();
    change(&mut settings);
    let mut errors = Vec::new();
    settings.validate(&mut errors);
    errors.into_iter().map(|(field, message)| format!("{field}: {message}")).collect()
}

#[track_caller]
fn assert_reported(change: impl Fn(&mut FilterSettings), field: &str, part: &str) {
    let errors = reported(change);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(&format!("{field}: ")), "{errors:?}");
    assert!(errors[0].contains(part), "{errors:?}");
}

#[test]
fn limits_are_checked() {
    assert_eq!(reported(|_| ()), [""; 0]);
    assert_eq!(reported(|s| *s = super::nothing(Behaviour::Mosip)), [""; 0]);
    assert_reported(|s| s.sequence_limit = 1, "sequence_limit", "use 2 to 10");
    assert_reported(|s| s.sequence_limit = 11, "sequence_limit", "use 2 to 10");
    assert_eq!(reported(|s| s.sequence_limit = 10), [""; 0]);
    let range = "use 1 to 32, or 0";
    assert_reported(|s| s.repeating_limit = 33, "repeating_limit", range);
    assert_reported(|s| s.repeating_block_limit = 33, "repeating_block_limit", range);
    assert_reported(
        |s| s.conjugative_even_digits_limit = 33,
        "conjugative_even_digits_limit",
        range,
    );
    assert_reported(|s| s.digits_group_limit = 33, "digits_group_limit", range);
    assert_reported(
        |s| s.reverse_digits_group_limit = u32::MAX,
        "reverse_digits_group_limit",
        range,
    );
    assert_eq!(reported(|s| s.digits_group_limit = 32), [""; 0]);
}

#[test]
fn lists_are_checked() {
    let field = "not_start_with";
    assert_reported(|s| s.not_start_with = vec![String::new()], field, "single digits");
    assert_reported(|s| s.not_start_with = vec!["x".into()], field, "\"x\"");
    assert_reported(|s| s.not_start_with = vec!["12".into()], field, "behaviour: mosip");
    assert_reported(
        |s| s.not_start_with = (0..10).map(|d| d.to_string()).collect(),
        field,
        "leave one out",
    );
    let with_prefix = |prefix: &str| {
        let prefix = prefix.to_owned();
        move |s: &mut FilterSettings| {
            s.behaviour = Behaviour::Mosip;
            s.not_start_with = vec![prefix.clone()];
        }
    };
    assert_reported(|s| s.not_start_with = vec!["7".into(); 1_001], field, "at most 1000");
    assert_eq!(reported(with_prefix("12")), [""; 0]);
    assert_reported(with_prefix("1-2"), field, "use digits");

    let field = "restricted_numbers";
    assert_reported(|s| s.restricted_numbers = vec![String::new()], field, "remove it");
    assert_reported(|s| s.restricted_numbers = vec!["٣".into()], field, "digits only");
    assert_reported(|s| s.restricted_numbers = vec!["7".repeat(33)], field, "1 to 32 digits");
    assert_eq!(reported(|s| s.restricted_numbers = vec!["7".repeat(32)]), [""; 0]);
    assert_reported(|s| s.restricted_numbers = vec!["7".into(); 1_001], field, "at most 1000");
    assert_reported(
        |s| s.restricted_numbers = (0..10).map(|d| d.to_string()).collect(),
        field,
        "leave one out",
    );
}
