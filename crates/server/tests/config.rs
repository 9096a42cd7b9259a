//! `mintage config`, as a user runs it: the real executable, real files, a real environment.

use std::fs;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Runs a command with these variables and no others.
fn run(directory: &TempDir, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mintage"));
    command.current_dir(directory.path()).args(args).stdin(Stdio::null());
    command.env_clear().envs(variables.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A directory with `my.yaml`.
fn directory(file: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("my.yaml"), file).unwrap();
    directory
}

const CHECK: [&str; 4] = ["config", "check", "--config", "my.yaml"];
const SHOW: [&str; 4] = ["config", "show", "--config", "my.yaml"];

#[test]
fn check_says_ok_and_touches_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&directory, &["config", "check"], &[]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "ok\n"));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn check_tells_everything_that_is_wrong() {
    let directory = directory("server:\n  lisen: 127.0.0.1:1\nissuing:\n  count_max: 0\n");
    let output = run(&directory, &CHECK, &[("MINTAGE__LOG__FORMAT", "xml")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let expected = "\
mintage: the configuration has 3 errors:
  my.yaml:2: server.lisen: there is no such field; use listen, request_timeout_seconds, \
header_timeout_seconds, stall_timeout_seconds, body_limit_bytes, bodies_bytes_max, connections_max, \
heartbeat_seconds or shutdown_seconds; did you mean listen?
  my.yaml:4: issuing.count_max: 0 is outside the limits; use 1 to 1000000
  MINTAGE__LOG__FORMAT: log.format: \"xml\" is not accepted; use auto, text or json
";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn one_mistake_is_one_sentence() {
    let directory = directory("");
    let output = run(&directory, &CHECK, &[("MINTAGE__LOG__LEVLE", "info")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "mintage: MINTAGE__LOG__LEVLE: log.levle: there is no such field; use level, format or \
         requests; did you mean level?\n"
    );
    let output = run(&directory, &["config", "check", "--config", "missing.yaml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("mintage: cannot read missing.yaml: "));
}

#[test]
fn warnings_go_to_standard_error() {
    let directory = directory("security: { authentication: off }\n");
    let output = run(&directory, &CHECK, &[]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "ok\n"));
    let warning = text(&output.stderr);
    assert!(warning.starts_with("mintage: warning: my.yaml:1: security.authentication: "));
}

#[test]
fn show_tells_where_values_come_from_and_hides_secrets() {
    let directory = directory("log:\n  level: debug\n");
    let key = "5a".repeat(32);
    let variables =
        [("MINTAGE__SECURITY__MASTER_KEY", key.as_str()), ("MINTAGE__SERVER__LISTEN", "[::1]:9")];
    let output = run(&directory, &SHOW, &variables);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for line in [
        "  listen: \"[::1]:9\"  # MINTAGE__SERVER__LISTEN",
        "  master_key: \"***\"  # MINTAGE__SECURITY__MASTER_KEY",
        "  level: debug  # my.yaml:2",
        "  format: auto",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} is not in\n{shown}");
    }
    assert!(!shown.contains("5a5a"), "{shown}");

    let json = run(&directory, &[&SHOW[..], &["--json"]].concat(), &variables);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["log"]["level"], "debug");
    assert_eq!(json["issuing"]["count_max"], 10_000);
    assert_eq!(json["security"]["master_key"], "***");
}

#[test]
fn a_file_of_openg2p_works_as_it_is() {
    let file =
        "id_generator:\n  sequence_limit: 99\n  id_types:\n    farmer_id:\n      id_length: 6\n";
    let directory = directory(file);
    let variables = [("ID_GENERATOR__ID_TYPES__SOCIAL_ID__ID_LENGTH", "12")];
    let output = run(&directory, &SHOW, &variables);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("my.yaml:2: id_generator.sequence_limit: 99 can never"));
    let shown = text(&output.stdout);
    for line in [
        "id_types: []  # my.yaml:1",
        "  pool_min_threshold: 1000",
        "      id_length: 6  # my.yaml:5",
        "      id_length: 12  # ID_GENERATOR__ID_TYPES__SOCIAL_ID__ID_LENGTH",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} is not in\n{shown}");
    }
}

/// A value that is not Unicode is refused like any other that is wrong, and not passed over.
#[test]
fn a_broken_variable_is_not_passed_over() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let output = Command::new(env!("CARGO_BIN_EXE_mintage"))
        .args(["config", "check"])
        .env("MINTAGE__LOG__FORMAT", OsStr::from_bytes(b"js\xffon"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("log.format"), "{}", text(&output.stderr));
}
