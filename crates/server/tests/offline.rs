//! The offline commands, as a user runs them: the real executable, real files, real signals.

use std::collections::HashSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn mintage(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mintage"));
    command.current_dir(directory).args(args).stdin(Stdio::null());
    command
}

fn run(directory: &TempDir, args: &[&str]) -> Output {
    mintage(directory.path(), args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a command that must succeed, and returns what it printed.
fn ok(directory: &TempDir, args: &[&str]) -> String {
    let output = run(directory, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    stdout(&output)
}

/// Runs a command that must fail, checks the code, and returns its message.
fn fails(directory: &TempDir, code: i32, args: &[&str]) -> String {
    let output = run(directory, args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn generate_makes_distinct_codes_that_can_be_continued() {
    let directory = directory();
    let flags = ["generate", "--alphabet", "crockford32", "--length", "16", "--check", "iso7064"];
    ok(&directory, &[&flags[..], &["--count", "100000", "--out", "a.csv"]].concat());
    ok(
        &directory,
        &[&flags[..], &["--count", "50000", "--out", "b.csv", "--from", "100000"]].concat(),
    );
    let key = directory.path().join("mintage.key");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);

    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let both = read("a.csv") + &read("b.csv");
    assert_eq!(both.lines().collect::<HashSet<_>>().len(), 150_000);
    assert!(both.lines().all(|line| line.len() == 16));
    assert_eq!(names(directory.path()), ["a.csv", "b.csv", "mintage.key"]);
}

#[test]
fn the_number_of_threads_does_not_change_the_file() {
    let directory = directory();
    let flags = [
        "generate",
        "--alphabet",
        "digits",
        "--length",
        "9",
        "--check",
        "verhoeff",
        "--filters",
        "mosip",
    ];
    for threads in ["1", "2", "5"] {
        let out = format!("{threads}.txt");
        let more = ["--count", "20001", "--out", &out, "--threads", threads];
        ok(&directory, &[&flags[..], &more[..]].concat());
    }
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("1.txt"), read("2.txt"));
    assert_eq!(read("1.txt"), read("5.txt"));
    assert_eq!(String::from_utf8(read("1.txt")).unwrap().lines().count(), 20_001);
}

/// The serial that a run names as the next one is right even where filters skip serials.
#[test]
fn runs_join_without_a_gap_or_a_repetition() {
    let directory = directory();
    let flags = [
        "generate",
        "--alphabet",
        "digits",
        "--length",
        "6",
        "--check",
        "verhoeff",
        "--filters",
        "openg2p",
    ];
    let all = ok(&directory, &[&flags[..], &["--count", "29593"]].concat());
    let first = run(&directory, &[&flags[..], &["--count", "1000"]].concat());
    let message = String::from_utf8(first.stderr.clone()).unwrap();
    let next = message.trim().rsplit(' ').next().unwrap();
    let rest = ok(&directory, &[&flags[..], &["--count", "28593", "--from", next]].concat());
    assert_eq!(stdout(&first) + &rest, all);
    let message = fails(&directory, 1, &[&flags[..], &["--count", "29594", "--out", "x"]].concat());
    assert!(message.contains("only 29593 valid codes"), "{message}");
    assert_eq!(names(directory.path()), ["mintage.key"]);
}

#[test]
fn formats_and_columns() {
    let directory = directory();
    let code = ok(&directory, &["generate", "--count", "1"]);
    let code = code.trim();
    let cases = [
        (&["--format", "txt"][..], format!("{code}\n")),
        (&["--columns", "serial,code", "--header"], format!("serial,code\n0,{code}\n")),
        (&["--format", "ndjson"], format!("{{\"code\":\"{code}\"}}\n")),
    ];
    for (args, expected) in cases {
        assert_eq!(ok(&directory, &[&["generate", "--count", "1"], args].concat()), expected);
    }
    ok(&directory, &["generate", "--count", "1", "--out", "codes.ndjson"]);
    assert!(fs::read_to_string(directory.path().join("codes.ndjson")).unwrap().starts_with('{'));
}

#[test]
fn type_files_in_yaml_and_json() {
    let directory = directory();
    let yaml =
        "name: invoice\nsequence: { template: 'INV-{yyyy}-{seq:04}', reset: yearly, start: 7 }\n";
    fs::write(directory.path().join("invoice.yaml"), yaml).unwrap();
    let args = ["generate", "--type-file", "invoice.yaml", "--count", "2", "--date", "2026-03-01"];
    assert_eq!(ok(&directory, &args), "INV-2026-0007\nINV-2026-0008\n");
    let shown =
        ok(&directory, &["inspect", "--type-file", "invoice.yaml", "inv 2026 0008", "--json"]);
    assert_eq!(shown, "{\"code\":\"inv 2026 0008\",\"valid\":true,\"serial\":8,\"year\":2026}\n");

    let json = r#"{"name": "event", "snowflake": {"epoch": "2010-11-04T01:42:54.657Z"}}"#;
    fs::write(directory.path().join("event.json"), json).unwrap();
    let shown =
        ok(&directory, &["inspect", "--type-file", "event.json", "1541815603606036480", "--json"]);
    assert!(shown.contains("2022-06-28T16:07:40.105Z"), "{shown}");
    let message = fails(&directory, 2, &["generate", "--type-file", "event.json", "--count", "1"]);
    assert!(message.contains("only a server"), "{message}");

    fs::write(
        directory.path().join("bad.yaml"),
        "name: x\nrandom: { alphabet: digits, lenght: 9 }\n",
    )
    .unwrap();
    let message = fails(&directory, 2, &["generate", "--type-file", "bad.yaml", "--count", "1"]);
    assert!(message.contains("bad.yaml") && message.contains("lenght"), "{message}");
    fails(&directory, 1, &["generate", "--type-file", "missing.yaml", "--count", "1"]);
    fails(&directory, 2, &["generate", "--type-file", "bad.yaml", "--length", "3", "--count", "1"]);
}

#[test]
fn inspect_and_validate_read_codes_back() {
    let directory = directory();
    let codes = ok(&directory, &["generate", "--count", "3", "--from", "40", "--group", "4"]);
    let code = codes.lines().nth(1).unwrap();
    let shown = ok(&directory, &["inspect", &code.to_lowercase(), "--json"]);
    assert!(shown.contains("\"serial\":41"), "{shown}");
    assert!(ok(&directory, &["inspect", code]).contains("check symbol"));
    assert!(ok(&directory, &["validate", code]).ends_with(": valid\n"));

    let wrong = run(&directory, &["validate", code, "ABC", "--json"]);
    assert_eq!(wrong.status.code(), Some(1));
    let lines = stdout(&wrong);
    assert!(lines.contains(r#""code":"ABC","valid":false,"rule":"length""#), "{lines}");

    let mut child = mintage(directory.path(), &["validate"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(codes.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(stdout(&output).matches(": valid").count(), 3);
}

#[test]
fn inspect_needs_the_key_and_never_makes_one() {
    let directory = directory();
    let message = fails(&directory, 2, &["inspect", "ABCDEFGHJKMNPQRS"]);
    assert!(message.contains("no key file"), "{message}");
    assert!(names(directory.path()).is_empty());
}

#[test]
fn capacity_counts() {
    let directory = directory();
    let flags = ["capacity", "--alphabet", "digits", "--length", "6", "--check", "verhoeff"];
    let json = ok(&directory, &[&flags[..], &["--filters", "openg2p", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["space"], 100_000);
    assert_eq!(report["valid"], 29_593);
    assert_eq!(report["exact"], true);
    assert!(ok(&directory, &flags).contains("100,000 (exact)"));
}

#[test]
fn bad_usage_is_one_sentence_and_code_2() {
    let directory = directory();
    for args in [
        &["generate", "--count", "0"][..],
        &["generate", "--count", "-1"],
        &["generate", "--count", "99999999999999999999999"],
        &["generate", "--length", "0", "--count", "1"],
        &["generate", "--length", "33", "--count", "1"],
        &["generate", "--alphabet", "x", "--count", "1"],
        &["generate", "--alphabet", "a💥", "--count", "1"],
        &["generate", "--check", "crc", "--count", "1"],
        &["generate", "--check", "verhoeff", "--count", "1"],
        &["generate", "--filters", "openg2p", "--count", "1"],
        &["generate", "--alphabet", "digits", "--length", "3", "--check", "luhn", "--count", "101"],
        &["generate", "--count", "1", "--from", "9223372036854775807"],
        &["generate"],
        &["capacity", "--length", "0"],
        &["nonsense"],
    ] {
        let message = fails(&directory, 2, args);
        assert!(!message.is_empty());
    }
}

#[test]
fn impossible_work_is_one_sentence_and_code_1() {
    let directory = directory();
    fs::write(directory.path().join("broken.key"), "not a key").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["--key-file", "broken.key"], "64 hexadecimal digits"),
        (&["--key-file", "no/such/dir.key"], "cannot make the key file"),
        (&["--out", "no/such/file"], "there is no directory"),
        (&["--out", "."], "it is a directory"),
        (&["--out", "/dev/full"], "No space left"),
    ];
    for (args, expected) in cases {
        let message = fails(&directory, 1, &[&["generate", "--count", "9"], args].concat());
        assert!(message.contains(expected), "{message}");
        assert_eq!(message.lines().filter(|line| line.starts_with("mintage:")).count(), 1);
    }
}

/// The limit on file sizes stands in for a full disk: the write fails in the middle.
#[test]
fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
    let directory = directory();
    ok(&directory, &["generate", "--count", "3", "--out", "codes.csv"]);
    let before = fs::read(directory.path().join("codes.csv")).unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} generate --count 1000000 --out codes.csv",
        env!("CARGO_BIN_EXE_mintage")
    );
    let output =
        Command::new("sh").current_dir(directory.path()).args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to"));
    assert_eq!(fs::read(directory.path().join("codes.csv")).unwrap(), before);
    assert_eq!(names(directory.path()), ["codes.csv", "mintage.key"]);
}

#[test]
fn ctrl_c_removes_the_temporary_file() {
    let directory = directory();
    ok(&directory, &["generate", "--count", "1"]);
    let mut child = mintage(
        directory.path(),
        &["generate", "--count", "1000000000000", "--threads", "1", "--out", "codes.csv"],
    )
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    while names(directory.path()).len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began to write");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(status.code(), Some(130), "{message}");
    assert_eq!(names(directory.path()), ["mintage.key"]);
}

#[test]
fn a_reader_that_goes_away_is_not_a_failure() {
    let directory = directory();
    let mut child = mintage(directory.path(), &["generate", "--count", "100000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 17];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bench_completions_and_version() {
    let directory = directory();
    let lines = ok(&directory, &["bench", "render", "--seconds", "0.1", "--json"]);
    for line in lines.lines() {
        let result: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&result["name"], &result["unit"]), (&"render".into(), &"codes/s".into()));
        assert!(result["value"].as_f64() > result["baseline"].as_f64());
        assert!(result["ratio"].as_f64() > Some(1.0));
    }
    assert!(ok(&directory, &["completions", "bash"]).contains("mintage"));
    assert_eq!(
        ok(&directory, &["--version"]),
        concat!("mintage ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
