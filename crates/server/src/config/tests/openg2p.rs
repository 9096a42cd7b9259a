//! The block of `OpenG2P`: an existing file must work.

use idgen::check::Check;
use idgen::filters::{FilterSettings, FilterSpec};
use idgen::spec::{Kind, RandomSpec};

use super::{Config, IdType, error, ok};

fn random(config: &Config, name: &str) -> RandomSpec {
    let id_type = config.id_types.iter().find(|id_type| id_type.name() == name);
    match id_type.map(IdType::kind) {
        Some(Kind::Random(spec)) => spec.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

fn settings(file: &str) -> (FilterSettings, Vec<String>) {
    let config = ok(&format!("{file}\n  id_types: {{ farmer: {{ id_length: 9 }} }}\n"), &[]);
    let filters = random(&config, "farmer").filters;
    (filters.settings().expect("there are filters"), config.warnings)
}

#[test]
fn a_shipped_file_gives_its_types_and_no_samples() {
    let file = "id_generator:\n  pool_min_threshold: 50\n  id_types:\n    household_id: { id_length: 6 }\n    farmer_id:\n      id_length: 10\n";
    let config = ok(file, &[]);
    let names: Vec<_> = config.id_types.iter().map(|t| (t.tenant(), t.name())).collect();
    assert_eq!(names, [("default", "household_id"), ("default", "farmer_id")]);
    let spec = random(&config, "farmer_id");
    assert!(spec.alphabet.is_digits());
    assert_eq!((spec.length, spec.check), (10, Check::Verhoeff));
    assert_eq!(spec.filters, FilterSpec::Openg2p);
    assert_eq!(config.warnings, Vec::<String>::new());

    let block = config.openg2p.unwrap();
    assert_eq!(block.pool_min_threshold, 50);
    assert_eq!(block.pool_generation_batch_size, 5000);
    let shown = serde_json::to_string(&block.filter_rules).unwrap();
    assert_eq!(
        shown,
        "{\"sequence_limit\":3,\"repeating_limit\":2,\"repeating_block_limit\":2,\
         \"conjugative_even_digits_limit\":3,\"digits_group_limit\":5,\
         \"reverse_digits_group_limit\":5,\"not_start_with\":[\"0\",\"1\"],\
         \"restricted_numbers\":[]}"
    );
}

#[test]
fn own_types_stay_beside_the_block() {
    let file = "id_types: [{ name: a, snowflake: {} }]\nid_generator: { id_types: { bb: { id_length: 8 } } }\n";
    let names: Vec<_> = ok(file, &[]).id_types.iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(names, ["a", "bb"]);
}

#[test]
fn variables_of_openg2p_win_and_types_are_merged() {
    let file = "id_generator: { pool_min_threshold: 1, id_types: { farmer: { id_length: 12 } } }\n";
    let variables = [
        ("ID_GENERATOR", "{\"sub_batch_size\": 7, \"pool_min_threshold\": 2}"),
        ("ID_GENERATOR__POOL_MIN_THRESHOLD", "3"),
        ("id_generator__id_types__SOCIAL_ID__ID_LENGTH", "11"),
        ("ID_GENERATOR__ID_TYPES__FARMER__ID_LENGTH", "13"),
        ("ID_GENERATOR__NOT_START_WITH", "[\"9\"]"),
        ("MINTAGE__ID_GENERATOR__EXHAUSTION_MAX_ATTEMPTS", "5"),
    ];
    let block = ok(file, &variables).openg2p.unwrap();
    let types: Vec<_> = block.id_types.iter().map(|t| (t.name.as_str(), t.id_length)).collect();
    assert_eq!(types, [("farmer", 13), ("social_id", 11)]);
    assert_eq!((block.pool_min_threshold, block.sub_batch_size), (3, 7));
    assert_eq!(block.exhaustion_max_attempts, 5);
    assert_eq!(block.filter_rules.not_start_with, ["9"]);

    let alone = ok("", &[("ID_GENERATOR__ID_TYPES__SOCIAL_ID__ID_LENGTH", "12")]);
    assert_eq!(alone.id_types.len(), 1);
}

#[test]
fn unknown_keys_are_ignored_with_a_warning() {
    let file = "id_generator:\n  colour: red\n  namespaces: {}\n  id_types: { farmer: { id_length: 9, x: 1 } }\n";
    let config = ok(file, &[("ID_GENERATOR__SHAPE", "round")]);
    let warnings = config.warnings.join("\n");
    for part in [
        "my.yaml:2: id_generator.colour: ignored",
        "namespaces: ignored;",
        "SHAPE",
        "farmer.x: ignored",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert_eq!(config.warnings.len(), 4);
}

#[test]
fn limits_out_of_reach_are_turned_into_what_has_the_same_effect() {
    let (read, warnings) = settings(
        "id_generator:\n  sequence_limit: 99\n  repeating_limit: 99\n  repeating_block_limit: 99\n  \
         conjugative_even_digits_limit: 99\n  digits_group_limit: 99\n  reverse_digits_group_limit: 99\n  \
         not_start_with: ['0', '12', x, '']\n  restricted_numbers: ['666', '', abc]",
    );
    let expected = FilterSettings {
        sequence_limit: 0,
        repeating_limit: 32,
        repeating_block_limit: 0,
        conjugative_even_digits_limit: 0,
        digits_group_limit: 0,
        reverse_digits_group_limit: 0,
        not_start_with: vec!["0".to_owned()],
        restricted_numbers: vec!["666".to_owned()],
        ..FilterSettings::default()
    };
    assert_eq!(read, expected);
    assert_eq!(warnings.len(), 11, "{warnings:?}");
    let (read, warnings) = settings("id_generator:\n  sequence_limit: 11");
    assert_eq!((read.sequence_limit, warnings.len()), (0, 1));
}

#[test]
fn zero_is_read_as_openg2p_reads_it_where_that_makes_sense() {
    let (read, warnings) = settings(
        "id_generator:\n  sequence_limit: 0\n  repeating_limit: 0\n  repeating_block_limit: 0\n  \
         conjugative_even_digits_limit: 0\n  digits_group_limit: 0\n  reverse_digits_group_limit: 0",
    );
    let limits = [read.sequence_limit, read.repeating_limit, read.repeating_block_limit];
    assert_eq!(limits, [0, 0, 0]);
    assert_eq!(read.conjugative_even_digits_limit, 1);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}

#[test]
fn what_is_configured_is_shown_as_it_was_written() {
    let config =
        ok("id_generator: { sequence_limit: 99, id_types: { farmer: { id_length: 12 } } }\n", &[]);
    assert_eq!(config.openg2p.unwrap().filter_rules.sequence_limit, 99);
}

#[test]
fn what_could_never_issue_an_id_is_an_error() {
    for (file, expected) in [
        (
            "id_generator: { sequence_limit: 1 }\n",
            "my.yaml:1: id_generator.sequence_limit: 1 rejects every ID",
        ),
        (
            "id_generator: { sequence_limit: -1 }\n",
            "id_generator.sequence_limit: \"-1\" is not a whole number",
        ),
        (
            "id_generator: { id_types: { farmer: { id_length: 33 } } }\n",
            "id_generator.id_types.farmer: id_length: 33 is outside the limits",
        ),
        (
            "id_generator: { id_types: { farmer: { id_length: x } } }\n",
            "id_generator.id_types.farmer.id_length: \"x\" is not a whole number",
        ),
        (
            "id_generator: { id_types: { farmer: 6 } }\n",
            "id_generator.id_types.farmer: expected a mapping with id_length",
        ),
        ("id_generator: { id_types: { farmer: {} } }\n", "the field id_length is missing"),
        ("id_generator: { id_types: [] }\n", "id_generator.id_types: expected a mapping"),
    ] {
        let error = error(file, &[]);
        assert!(error.contains(expected), "{error}\nlacks {expected:?}");
    }
}

#[test]
fn names_that_the_routes_cannot_reach_are_warned_about() {
    let config = ok("id_generator: { id_types: { Farmer-1: { id_length: 9 } } }\n", &[]);
    assert!(
        config.warnings[0].contains("OpenG2P's routes cannot reach this name"),
        "{:?}",
        config.warnings
    );
}
