//! Each way to be wrong, and what is said about it.

use super::{error, ok};

/// Text of the file, variables, and what the message must contain.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

fn check(cases: &[Case<'_>]) {
    for (file, variables, expected) in cases {
        let error = error(file, variables);
        for part in *expected {
            assert!(error.contains(part), "{file:?} {variables:?}: {error}\nlacks {part:?}");
        }
    }
}

#[test]
fn unknown_fields_are_named_with_those_that_exist() {
    check(&[
        (
            "log:\n  levle: info\n",
            &[],
            &[
                "my.yaml:2: log.levle: there is no such field; use level, format or requests; did you mean level?",
            ],
        ),
        ("sever: {}\n", &[], &["my.yaml:1: sever:", "did you mean server?"]),
        (
            "tenants:\n  - name: A\n    limit: 3\n",
            &[],
            &[
                "my.yaml:3: tenants[0].limit:",
                "use name, requests_per_second, active_batches_max or codes_max",
            ],
        ),
        ("tenants: [{}]\n", &[], &["tenants[0]: the field name is missing"]),
        (
            "",
            &[("MINTAGE__LOG__LEVLE", "info")],
            &["MINTAGE__LOG__LEVLE: log.levle:", "did you mean level?"],
        ),
        ("", &[("MINTAGE__COLOUR", "red")], &["MINTAGE__COLOUR: colour:", "use server, store,"]),
        ("", &[("MINTAGE__", "red")], &["MINTAGE__:"]),
        (
            "",
            &[("MINTAGE__LOG__LEVEL__X", "red")],
            &["log.level: expected a single value, found a mapping"],
        ),
        (
            "",
            &[("MINTAGE__TENANTS__0__NAME", "A")],
            &["tenants: expected the whole list, as YAML or JSON"],
        ),
    ]);
}

#[test]
fn wrong_values_are_named_with_what_is_accepted() {
    check(&[
        (
            "server: { listen: localhost }\n",
            &[],
            &["server.listen: \"localhost\" is not an address", "127.0.0.1:8080"],
        ),
        (
            "server: { listen: null }\n",
            &[],
            &["my.yaml:1: server.listen: it is empty; expected a string"],
        ),
        (
            "server: 8080\n",
            &[],
            &["server: expected a mapping with listen,", "found a single value"],
        ),
        (
            "store: { directory: [a] }\n",
            &[],
            &["store.directory: expected a single value, found a list"],
        ),
        (
            "log: { requests: 1 }\n",
            &[],
            &["log.requests: \"1\" is not accepted; use true or false"],
        ),
        (
            "log: { format: jsn }\n",
            &[],
            &["log.format: \"jsn\" is not accepted; use auto, text or json; did you mean json?"],
        ),
        ("log: { level: loud }\n", &[], &["log.level: \"loud\" is not a level; use off, error,"]),
        (
            "issuing: { count_max: lots }\n",
            &[],
            &["issuing.count_max: \"lots\" is not a whole number from 1 to 1000000"],
        ),
        (
            "public: { types: ['*/bottle', 'a b', x/y/z] }\n",
            &[],
            &["my.yaml:1: public.types[0]: \"*/bottle\" does not name ID types", "PROJ/bottle"],
        ),
        (
            "public: { trusted_proxies: [10.0.0.0/33] }\n",
            &[],
            &["public.trusted_proxies[0]: \"10.0.0.0/33\" is not an address or a network"],
        ),
        ("issuing: { watermark: high }\n", &[], &["issuing.watermark: \"high\" is not a number"]),
        ("tenants: 3\n", &[], &["my.yaml:1: tenants: expected the whole list"]),
        ("id_generator: 3\n", &[], &["id_generator: expected a mapping"]),
        ("- a\n", &[], &["my.yaml:1: expected a mapping with server,"]),
        ("", &[("MINTAGE__TENANTS", "[{")], &["MINTAGE__TENANTS: tenants: not YAML or JSON:"]),
        ("a: [\n", &[], &["my.yaml:", "not YAML or JSON:"]),
        ("log: {}\nlog: {}\n", &[], &["my.yaml:2:", "duplicate"]),
    ]);
}

#[test]
fn limits_are_kept_and_told() {
    for (path, min, max) in super::limits::LIMITS {
        let name = format!("MINTAGE__{}", path.replace('.', "__").to_uppercase());
        let above = (u64::from(max) + 1).to_string();
        let below = (i64::from(min) - 1).to_string();
        for wrong in [above.as_str(), below.as_str(), "1.5", "99999999999999999999"] {
            let error = error("", &[(&name, wrong)]);
            assert!(error.starts_with(&format!("{name}: {path}: ")), "{error}");
            assert!(error.contains(&format!("{min} to {max}")), "{error}");
        }
        for right in [min, max] {
            let result = super::load("", &[(&name, &right.to_string())]);
            let complaint = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!complaint.contains("limits"), "{complaint}");
        }
    }
    for wrong in ["0", "1", "-0.5", "nan", "inf", "2"] {
        let error = error("", &[("MINTAGE__ISSUING__WATERMARK", wrong)]);
        assert!(
            error.contains("issuing.watermark:") && error.contains("above 0 and below 1"),
            "{error}"
        );
    }
}

#[test]
fn contradictions_are_errors() {
    let key = "0".repeat(64);
    let both = format!("security: {{ master_key: '{key}', master_key_file: k }}\n");
    check(&[
        (
            "issuing: { pool_size_max: 10 }\n",
            &[],
            &["my.yaml:1: issuing.pool_size_max: pool_size_min (256) is larger"],
        ),
        (
            "documents: { body_bytes_max: 300000000 }\n",
            &[],
            &[
                "my.yaml:1: documents.body_bytes_max: server.bodies_bytes_max (268435456) is for all",
            ],
        ),
        (
            "server: { bodies_bytes_max: 1000000 }\n",
            &[],
            &[
                "my.yaml:1: server.bodies_bytes_max:",
                "less than documents.body_bytes_max (16777216)",
            ],
        ),
        (
            "tenants: [{ name: A }, { name: A }]\n",
            &[],
            &["tenants[1]: the tenant A is listed twice"],
        ),
        ("tenants: [{ name: 'A B' }]\n", &[], &["tenants[0].name: \"A B\" is not a name"]),
        (
            "tenants: [{ name: A, requests_per_second: 0 }]\n",
            &[],
            &["tenants[0].requests_per_second: use 1 to"],
        ),
        (
            "server: { listen: '0.0.0.0:80' }\nsecurity: { authentication: off }\n",
            &[],
            &["my.yaml:2: security.authentication:", "use auto or required"],
        ),
        (
            "public: { types: [a], miss_milliseconds: 2000 }\nserver: { request_timeout_seconds: 2 }\n",
            &[],
            &["my.yaml:1: public.miss_milliseconds: miss_milliseconds (2000) must be less"],
        ),
        (&both, &[], &["security.master_key_file: master_key is given too"]),
        ("store: { directory: '' }\n", &[], &["store.directory: it is empty; use a path"]),
    ]);
}

#[test]
fn id_types_are_checked_one_by_one_and_against_each_other() {
    let twice = "id_types:\n  - { name: a, snowflake: {} }\n  - { tenant: T, name: a, snowflake: {} }\n  - { name: a, snowflake: {} }\n";
    let crossed = "id_types:\n  - { name: farmer, snowflake: {} }\nid_generator:\n  id_types: { farmer: { id_length: 9 } }\n";
    check(&[
        (
            twice,
            &[],
            &[
                "my.yaml:4: id_types: the ID type a of the tenant default is defined twice",
                "my.yaml:2",
            ],
        ),
        (
            crossed,
            &[],
            &["my.yaml:4: id_types: the ID type farmer of the tenant default is defined twice"],
        ),
        (
            "id_types:\n  - name: a\n    random:\n      alphabet: digits\n      length: 99\n",
            &[],
            &["my.yaml:5: id_types[0].random.length:"],
        ),
        ("id_types: [{ name: a }]\n", &[], &["id_types[0].", "exactly one"]),
    ]);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let file = "server: { listen: x, colour: red }\nlog: { format: y, requests: z }\n\
                issuing: { count_max: 0, watermark: 7 }\nid_types: [{ name: a }, { name: '!' , snowflake: {} }]\n";
    let error = error(file, &[("MINTAGE__LOG__LEVEL", "w")]);
    assert!(error.starts_with("the configuration has 9 errors:"), "{error}");
    for field in ["listen", "colour", "format", "requests", "level", "count_max", "watermark"] {
        assert!(error.contains(&format!(".{field}: ")), "{field}: {error}");
    }
    assert!(error.contains("id_types[0].") && error.contains("id_types[1].name"), "{error}");
}

#[test]
fn a_wrong_master_key_is_not_repeated() {
    let key = "topsecret".repeat(5);
    for (file, variables) in [
        (format!("security: {{ master_key: {key} }}\n"), vec![]),
        (format!("security: {key}\n"), vec![]),
        (format!("security: {{ master_key: {{ x: {key} }} }}\n"), vec![]),
        (String::new(), vec![("MINTAGE__SECURITY__MASTER_KEY", key.as_str())]),
        (String::new(), vec![("MINTAGE__SECURITY", key.as_str())]),
    ] {
        let error = error(&file, &variables);
        assert!(error.contains("security"), "{error}");
        assert!(!error.contains("topsecret"), "{error}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let path = std::path::Path::new("/nowhere/my.yaml");
    let loaded = super::Config::load_with_sources(Some(path), std::iter::empty());
    let error = loaded.err().expect("it must not load").to_string();
    assert!(error.starts_with("cannot read /nowhere/my.yaml: "), "{error}");
}

#[test]
fn risky_combinations_are_warned_about() {
    let key = "0".repeat(64);
    let cases = [
        (
            "security: { authentication: off }\n".to_owned(),
            "security.authentication: off lets every program",
        ),
        (format!("security: {{ master_key: '{key}' }}\n"), "whoever can read"),
        ("issuing: { count_max: 100000 }\n".to_owned(), "more than the largest pool holds"),
        ("issuing: { log_flush_milliseconds: 5000 }\n".to_owned(), "last 5000 ms before a crash"),
        ("issuing: { wait_milliseconds_max: 30000 }\n".to_owned(), "is never reached"),
        (
            "server: { request_timeout_seconds: 5 }\n".to_owned(),
            "header_timeout_seconds (10) is longer",
        ),
        ("batches: { workers: 0 }\n".to_owned(), "on the embedded store there are none"),
        ("public: { types: [bottle] }\n".to_owned(), "all visitors are taken for one"),
        (
            "public: { types: [bottle], trusted_proxies: [0.0.0.0/0] }\n".to_owned(),
            "it contains every address",
        ),
        (
            "public: { types: [bottle], trusted_proxies: [10.0.0.1], scans_per_minute: 601 }\n"
                .to_owned(),
            "scans_per_minute (601) is never reached",
        ),
    ];
    for (file, expected) in cases {
        let warnings = ok(&file, &[]).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("my.yaml:1: ") && warnings[0].contains(expected),
            "{warnings:?}"
        );
    }
}
