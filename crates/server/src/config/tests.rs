//! Layers, errors and warnings, without a process around them.

mod errors;
mod manual;
mod openg2p;

use std::fs;

use super::*;

/// Loads a file with the given text under the given variables.
fn load(text: &str, variables: &[(&str, &str)]) -> Result<(Config, Effective), ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my.yaml");
    fs::write(&path, text).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load_with_sources(Some(&path), variables)
}

fn ok(text: &str, variables: &[(&str, &str)]) -> Config {
    load(text, variables).map_or_else(|error| panic!("{error}"), |(config, _)| config)
}

fn error(text: &str, variables: &[(&str, &str)]) -> String {
    load(text, variables).err().expect("it must not load").to_string()
}

fn defaults() -> Config {
    Config::load_with_sources(None, std::iter::empty()).unwrap().0
}

#[test]
fn without_file_and_variables_the_defaults_are_in_effect() {
    let config = defaults();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.security.authentication, Authentication::Auto);
    assert_eq!(config.issuing.count_max, 10_000);
    assert_eq!(config.log.format, LogFormat::Auto);
    let names: Vec<_> = config.id_types.iter().map(IdType::name).collect();
    assert_eq!(names, ["invoice", "farmer", "bottle", "event"]);
    assert_eq!((config.openg2p, config.warnings.len()), (None, 0));
}

#[test]
fn a_variable_wins_over_the_file_and_the_file_over_the_defaults() {
    let file = "server: { listen: '127.0.0.1:1', shutdown_seconds: 1 }\n";
    let config = ok(file, &[("MINTAGE__SERVER__LISTEN", "127.0.0.1:2")]);
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.shutdown_seconds, 1);
    assert_eq!(config.server.request_timeout_seconds, 30);
}

#[test]
fn json_is_read_as_well() {
    let config = ok("{\"issuing\": {\"count_max\": 5},\n\"tenants\": [{\"name\": \"A\"}]}", &[]);
    assert_eq!((config.issuing.count_max, config.tenants.len()), (5, 1));
}

#[test]
fn an_empty_file_and_empty_headings_change_nothing() {
    assert_eq!(ok("", &[]), defaults());
    assert_eq!(ok("# nothing\nserver:\nlog: {}\nid_generator:\n", &[]), defaults());
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let file = "id_types: [{ name: a, snowflake: {} }]\ntenants: [{ name: T }, { name: U }]\n";
    let config = ok(file, &[("mintage__tenants", "[{name: V, requests_per_second: 7}]")]);
    assert_eq!(config.id_types.len(), 1);
    let [tenant] = &config.tenants[..] else { panic!("{:?}", config.tenants) };
    assert_eq!((&*tenant.name, tenant.requests_per_second), ("V", Some(7)));
    assert!(ok("id_types: []\n", &[]).id_types.is_empty());
    assert!(ok("id_types:\n", &[]).id_types.is_empty());
}

#[test]
fn a_variable_can_hold_a_whole_section() {
    let variables = [
        ("MINTAGE__ISSUING", "{count_max: 5, watermark: 0.5}"),
        ("MINTAGE__ISSUING__COUNT_MAX", "6"),
    ];
    let config = ok("", &variables);
    assert_eq!(config.issuing.count_max, 6);
    assert!((config.issuing.watermark - 0.5).abs() < f64::EPSILON);
}

#[test]
fn public_types_are_named_alone_or_as_a_whole() {
    assert!(defaults().public.types.is_empty());
    let config = ok("", &[("MINTAGE__PUBLIC__TYPES", "[bottle, PROJ/pill, 'NEXT/*']")]);
    let is_public = |tenant: &str, name: &str| {
        config.public.types.iter().any(|entry| entry.includes(tenant, name))
    };
    assert!(is_public("default", "bottle") && is_public("PROJ", "pill"));
    assert!(is_public("NEXT", "anything"));
    assert!(!is_public("default", "pill") && !is_public("PROJ", "bottle"));
    assert!(config.warnings[0].contains("trusted_proxies is empty"), "{:?}", config.warnings);
    let all = ok("public: { types: ['*/*'], trusted_proxies: [10.0.0.7, 'fd00::/8'] }\n", &[]);
    assert!(all.public.types[0].includes("any", "thing"));
    let proxies: Vec<String> =
        all.public.trusted_proxies.iter().map(|proxy| proxy.0.to_string()).collect();
    assert_eq!(proxies, ["10.0.0.7/32", "fd00::/8"]);
    assert_eq!(all.warnings, [""; 0]);
}

#[test]
fn an_empty_variable_is_null() {
    let file = "security: { requests_per_second: 5 }\n";
    let config = ok(file, &[("MINTAGE__SECURITY__REQUESTS_PER_SECOND", "")]);
    assert_eq!(config.security.requests_per_second, None);
}

/// Secrets and numbers that come out of files often end in a line break.
#[test]
fn space_around_a_variable_does_not_count() {
    let config = ok("", &[("MINTAGE__ISSUING__COUNT_MAX", " 5\n")]);
    assert_eq!(config.issuing.count_max, 5);
}

#[test]
fn other_variables_are_none_of_our_business() {
    let variables = [("MINTAGE_KEY", "x"), ("MINTAGE_SERVER", "y"), ("ID_GENERATORS", "z")];
    assert_eq!(ok("", &variables), defaults());
}

/// YAML would make `off` a boolean and a key of digits a number.
#[test]
fn values_are_what_their_field_expects() {
    let key = "1".repeat(64);
    let file = format!(
        "security: {{ authentication: off, master_key: {key} }}\nstore: {{ directory: 0012 }}\n"
    );
    let config = ok(&file, &[]);
    assert_eq!(config.security.authentication, Authentication::Off);
    assert_eq!(config.security.master_key.unwrap().as_bytes(), &[0x11; 32]);
    assert_eq!(config.store.directory.to_str(), Some("0012"));
}

#[test]
fn the_master_key_file_has_a_place_by_default() {
    let config = ok("store: { directory: /data }\n", &[]);
    let path = config.security.master_key_path(&config.store);
    assert_eq!(path.to_str(), Some("/data/master.key"));
}

#[test]
fn secrets_are_never_printed() {
    let key = "ab".repeat(32);
    let (config, effective) = load("", &[("MINTAGE__SECURITY__MASTER_KEY", &key)]).unwrap();
    let json = serde_json::to_string(&config.security.master_key).unwrap();
    let printed =
        [format!("{config:?}"), json, effective.to_yaml(), effective.to_json().to_string()];
    for text in printed {
        assert!(text.contains("***") && !text.contains("abab"), "{text}");
    }
}

#[test]
fn what_is_shown_tells_where_it_comes_from_and_can_be_read_again() {
    let file = "log: { level: 'info,engine=debug' }\nid_types:\n  - { tenant: P, name: '9012', sequence: {} }\n";
    let (config, effective) = load(file, &[("MINTAGE__SERVER__LISTEN", "[::1]:9")]).unwrap();
    let yaml = effective.to_yaml();
    assert!(yaml.contains("  listen: \"[::1]:9\"  # MINTAGE__SERVER__LISTEN\n"), "{yaml}");
    assert!(yaml.contains("my.yaml:1\n") && yaml.contains("my.yaml:3\n"), "{yaml}");
    assert!(yaml.contains("  format: auto\n"), "{yaml}");
    assert_eq!(ok(&yaml, &[]), config);
    assert_eq!(ok(&effective.to_json().to_string(), &[]), config);
}

#[test]
fn configured_keys_are_read_and_their_tokens_are_never_shown() {
    let token = "mtg_deploy01_0123456789abcdefghjkmnpq";
    let file = format!("keys: [{{ name: deploy, token: {token}, scopes: [issue, admin] }}]\n");
    let (config, effective) = load(&file, &[]).unwrap();
    assert_eq!(config.keys[0].token.expose(), token);
    assert_eq!(config.keys[0].scopes, [storage::Scope::Issue, storage::Scope::Admin]);
    let shown = format!("{}{}{:?}", effective.to_yaml(), effective.to_json(), config.keys);
    assert!(shown.contains("***") && !shown.contains("0123456789abcdef"), "{shown}");

    let wrong = error("keys: [{ name: x, token: hunter2-hunter2, scopes: [issue] }]\n", &[]);
    assert!(wrong.contains("keys[0].token") && wrong.contains("mtg_<short>_<secret>"), "{wrong}");
    assert!(!wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn keys_that_the_server_would_refuse_are_errors() {
    let token = "mtg_deploy01_0123456789abcdefghjkmnpq";
    let file = format!(
        "keys:\n- {{ name: '', token: {token}, scopes: [], tenant: 'a b', requests_per_second: 0 }}\n\
         - {{ name: twin, token: {token}, scopes: [issue] }}\n"
    );
    let error = error(&file, &[]);
    for field in ["[0].name", "[0].scopes", "[0].tenant", "[0].requests_per_second", "[1].token"] {
        assert!(error.contains(&format!("keys{field}")), "{field} is missing in {error}");
    }
}
