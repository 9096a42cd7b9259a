//! The offline commands, as a user runs them: the real executable, real files, real signals.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

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
    let message = fails(&directory, 2, &[&flags[..], &["--count", "29594", "--out", "x"]].concat());
    assert!(message.contains("has 29593 valid codes"), "{message}");
    let late = ["--count", "29593", "--from", "9", "--out", "x"];
    let message = fails(&directory, 1, &[&flags[..], &late[..]].concat());
    assert!(message.contains("valid codes from serial 9 on"), "{message}");
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

    for args in [
        &["--header", "--format", "ndjson"][..],
        &["--header", "--out", "codes.txt"],
        &["--columns", "code,serial,code"],
    ] {
        fails(&directory, 2, &[&["generate", "--count", "1"], args].concat());
    }
    let one = run(&directory, &["generate", "--count", "1"]);
    assert!(String::from_utf8(one.stderr).unwrap().starts_with("1 code in standard output"));
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

/// One line, with the file, the place or the field, what is wrong, and what would be right.
#[test]
fn mistakes_in_type_files_are_one_sentence() {
    let directory = directory();
    let cases = [
        ("", "t.yaml: it is empty; it must have a name"),
        ("# nothing yet\n", "t.yaml: it is empty"),
        ("name: a\nname: b\n", "t.yaml: line 2 column 1: the field name is there twice"),
        ("name: [a\n", "t.yaml: line 1 column 7: unclosed bracket"),
        ("name: a\n---\nname: b\n", "t.yaml: line 3 column 1: another document begins here"),
        ("- name: a\n", "t.yaml: ID type: a list is not a mapping"),
        ("name: 9012\nsnowflake: {}\n", "t.yaml: name: 9012 is not text; put it in quotes"),
        ("name: event\nsnowflake:\n", "t.yaml: snowflake: null is not a mapping"),
        (
            "name: x\nrandom: { alphabet: digits, length: abc, check: luhn }\n",
            "t.yaml: random.length: \"abc\" is not a number; use 3 to 32\n",
        ),
        (
            "name: x\nrandom:\n  alphabet: digits\n  length: 12\n  filters:\n    sequence_limit: [3]\n",
            "t.yaml: random.filters.sequence_limit: a list is not a number; use 2 to 10, or 0",
        ),
        (
            "name: x y\nrandom: { alphabet: 0123456789, length: 9.5, chek: luhn }\n",
            "random.alphabet: 123456789.0 is not text; put it in quotes; random.length: 9.5 is not",
        ),
    ];
    for (text, expected) in cases {
        fs::write(directory.path().join("t.yaml"), text).unwrap();
        let message = fails(&directory, 2, &["capacity", "--type-file", "t.yaml"]);
        assert!(message.contains(expected), "{text:?} gives {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    fs::write(directory.path().join("t.yaml"), [0xff]).unwrap();
    fails(&directory, 2, &["capacity", "--type-file", "t.yaml"]);
    let message = fails(&directory, 1, &["capacity", "--type-file", "/dev/zero"]);
    assert!(message.contains("larger than 1024 KiB"), "{message}");
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
    assert_eq!(report["issuable"], 29_593);
    assert!(ok(&directory, &flags).contains("100,000 (exact)"));
    let large = ok(&directory, &["capacity"]);
    assert!(large.contains("issuable           9,223,372,036,854,775,807\n"), "{large}");
}

#[test]
fn bad_usage_is_one_sentence_and_code_2() {
    let directory = directory();
    let cases: [(&[&str], &str); 23] = [
        (&["generate", "--count", "0"], "use a whole number from 1 to 9223372036854775807"),
        (&["generate", "--count", "-1"], "'--count <COUNT>': use a whole number from 1"),
        (&["generate", "--count", "99999999999999999999999"], "use a whole number from 1"),
        (
            &["generate", "--count", "1", "--from", "-1"],
            "'--from <SERIAL>': use a whole number from 0",
        ),
        (&["generate", "--count", "1", "--threads", "65"], "use a whole number from 1 to 64"),
        (&["generate", "--length", "0", "--count", "1"], "use a whole number from 2 to 32"),
        (&["generate", "--length", "33", "--count", "1"], "use a whole number from 2 to 32"),
        (&["generate", "--length", "2", "--count", "1"], "--length: 2 is outside the limits"),
        (&["generate", "--group", "16", "--count", "1"], "--group: a group must have"),
        (&["generate", "--alphabet", "x", "--count", "1"], "an alphabet has 2 to 64 symbols"),
        (&["generate", "--alphabet", "a💥", "--count", "1"], "cannot be a symbol"),
        (&["generate", "--check", "crc", "--count", "1"], "; use one of none, verhoeff"),
        (&["generate", "--check", "verhoeff", "--count", "1"], "--check: verhoeff works on digits"),
        (&["generate", "--filters", "openg2p", "--count", "1"], "--filters: filters judge digits"),
        (
            &[
                "generate",
                "--alphabet",
                "digits",
                "--length",
                "3",
                "--check",
                "luhn",
                "--count",
                "101",
            ],
            "there are 100 serials",
        ),
        (&["generate", "--count", "2", "--from", "9223372036854775806"], "there are 1 serials"),
        (&["generate"], "required arguments were not provided: --count <COUNT>"),
        (&["generate", "--cuont", "1"], "a similar argument exists: '--count'"),
        (&["capacity", "--length", "0"], "use a whole number from 2 to 32"),
        (&["capacity", "--issued", "-1"], "use a whole number from 0"),
        (&["bench", "render", "--seconds", "-1"], "from 0.01 to 3600"),
        (&["generate", "--count", "1", "--out", ""], "a value is required for '--out <FILE>'"),
        (&["nonsense"], "unrecognized subcommand 'nonsense'"),
    ];
    for (args, expected) in cases {
        let message = fails(&directory, 2, args);
        assert!(message.starts_with("mintage: ") && message.contains(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert_eq!(names(directory.path()), [""; 0], "a refused command makes no key");
    assert!(String::from_utf8(run(&directory, &[]).stderr).unwrap().contains("Usage: mintage"));
    assert!(ok(&directory, &["generate", "--help"]).contains("Usage: mintage generate"));
}

/// What can be known before the work is known before the work, and nothing is left behind.
#[test]
fn impossible_work_is_one_sentence_and_code_1() {
    let directory = directory();
    fs::write(directory.path().join("broken.key"), "not a key").unwrap();
    symlink("no/such/file", directory.path().join("lost")).unwrap();
    symlink("loop", directory.path().join("loop")).unwrap();
    let before = names(directory.path());
    let cases: [(&[&str], &str); 10] = [
        (&["--key-file", "broken.key"], "64 hexadecimal digits"),
        (&["--key-file", "/dev/zero"], "larger than 64 KiB"),
        (&["--key-file", "no/such/dir.key"], "cannot make the key file"),
        (&["--key-file", "no/such/dir.key", "--out", "codes.csv"], "cannot make the key file"),
        (&["--out", "no/such/file"], "there is no directory"),
        (&["--out", "lost"], "there is no directory"),
        (&["--out", "loop"], "cannot write to loop"),
        (&["--out", "codes/"], "it names a directory"),
        (&["--out", "broken.key/codes"], "Not a directory"),
        (&["--out", "."], "it is a directory"),
    ];
    for (args, expected) in cases {
        let message = fails(&directory, 1, &[&["generate", "--count", "9"], args].concat());
        assert!(message.contains(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert_eq!(names(directory.path()), before, "{args:?}");
    }
    ok(&directory, &["generate", "--count", "1"]);
    let message = fails(&directory, 1, &["generate", "--count", "9", "--out", "/dev/full"]);
    assert!(message.contains("No space left"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// A type that can never issue as many is refused before the work, whatever its filters.
#[test]
fn filters_that_leave_too_little_are_refused() {
    let directory = directory();
    let yaml = |limit: u32, length: u32| {
        let filters = format!(
            "{{ conjugative_even_digits_limit: {limit}, restricted_numbers: ['1', '3', '5', '7', '9'] }}"
        );
        format!("name: x\nrandom: {{ alphabet: digits, length: {length}, filters: {filters} }}\n")
    };
    for length in [6, 12] {
        fs::write(directory.path().join("t.yaml"), yaml(1, length)).unwrap();
        let args = ["generate", "--type-file", "t.yaml", "--count", "9", "--out", "x"];
        let message = fails(&directory, 2, &args);
        assert!(message.contains("beyond what the filters leave"), "{message}");
    }
    assert_eq!(names(directory.path()), ["t.yaml"]);
}

#[test]
fn codes_never_replace_the_key_or_the_type() {
    let directory = directory();
    fs::write(directory.path().join("t.yaml"), "name: x\nsequence: {}\n").unwrap();
    ok(&directory, &["generate", "--count", "1"]);
    let key = fs::read(directory.path().join("mintage.key")).unwrap();
    symlink("mintage.key", directory.path().join("link")).unwrap();
    fs::hard_link(directory.path().join("mintage.key"), directory.path().join("twin")).unwrap();
    let absolute = directory.path().join("mintage.key");
    for out in ["mintage.key", "./mintage.key", "link", "twin", absolute.to_str().unwrap()] {
        let message = fails(&directory, 2, &["generate", "--count", "1", "--out", out]);
        assert!(message.contains("--out and --key-file are the same file"), "{message}");
    }
    let args = ["generate", "--count", "1", "--type-file", "t.yaml", "--out", "t.yaml"];
    assert!(fails(&directory, 2, &args).contains("--out and --type-file"));
    let new = ["generate", "--count", "1", "--key-file", "new", "--out", "new"];
    assert!(fails(&directory, 2, &new).contains("--out and --key-file"));
    assert_eq!(fs::read(directory.path().join("mintage.key")).unwrap(), key);
    assert_eq!(names(directory.path()), ["link", "mintage.key", "t.yaml", "twin"]);
}

/// The names of open descriptors mean the descriptors, not the files behind them.
#[test]
fn descriptors_are_written_to_where_they_stand() {
    let directory = directory();
    let code = ok(&directory, &["generate", "--count", "1"]);
    for (name, redirect) in [
        ("-", ">>log"),
        ("/dev/stdout", ">>log"),
        ("/dev/fd/1", ">>log"),
        ("/proc/self/fd/1", ">>log"),
        ("/dev/fd/3", "3>>log"),
    ] {
        fs::write(directory.path().join("log"), "before\n").unwrap();
        let script =
            format!("\"$0\" generate --count 1 --out {name} {redirect} && echo after >>log");
        let mintage = env!("CARGO_BIN_EXE_mintage");
        let output = Command::new("sh")
            .current_dir(directory.path())
            .args(["-c", &script, mintage])
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let log = fs::read_to_string(directory.path().join("log")).unwrap();
        assert_eq!(log, format!("before\n{code}after\n"), "{name}");
    }
    let output = run(&directory, &["generate", "--count", "1", "--out", "/dev/stderr"]);
    assert!(String::from_utf8(output.stderr).unwrap().starts_with(&code));
    assert_eq!(names(directory.path()), ["log", "mintage.key"]);
}

#[test]
fn files_keep_their_mode_and_links_stay_links() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    fs::write(path("secret.csv"), "old").unwrap();
    fs::set_permissions(path("secret.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path("open.csv"), "old").unwrap();
    fs::set_permissions(path("open.csv"), fs::Permissions::from_mode(0o666)).unwrap();
    symlink("later.csv", path("link.csv")).unwrap();
    for name in ["secret.csv", "open.csv", "link.csv", "link.csv"] {
        ok(&directory, &["generate", "--count", "2", "--out", name]);
        assert_eq!(fs::read_to_string(path(name)).unwrap().lines().count(), 2);
    }
    assert_eq!((mode("secret.csv"), mode("open.csv")), (0o600, 0o666));
    assert_eq!(fs::read_link(path("link.csv")).unwrap(), Path::new("later.csv"));
    assert!(fs::symlink_metadata(path("later.csv")).unwrap().is_file());
}

#[test]
fn a_standard_error_that_cannot_be_written_to_is_no_reason_to_fail() {
    let directory = directory();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let cases: [(&[&str], i32); 3] = [
        (&["generate", "--count", "1", "--out", "codes.csv"], 0),
        (&["generate", "--count", "0"], 2),
        (&["generate", "--count", "1", "--out", "no/such/file"], 1),
    ];
    for (args, code) in cases {
        let status = mintage(directory.path(), args).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
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

fn send(signal: &str, child: &Child) {
    // The shell's own: a machine may have no other `kill`.
    let script = format!("kill -{signal} \"$1\"");
    let status = Command::new("sh").args(["-c", &script, "sh", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Waits for a child that was interrupted.
fn assert_interrupted(mut child: Child) {
    let status = child.wait().unwrap();
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(status.code(), Some(130), "{message}");
    assert_eq!(message, "mintage: interrupted\n");
}

#[test]
fn signals_remove_the_temporary_file() {
    for signals in [&["INT"][..], &["TERM"], &["INT", "TERM"], &["HUP", "INT", "INT"]] {
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
        for signal in signals {
            send(signal, &child);
        }
        assert_interrupted(child);
        assert_eq!(names(directory.path()), ["mintage.key"]);
    }
}

/// Nobody reads the codes, so the writer is stuck; the first signal ends it all the same.
#[test]
fn a_signal_ends_a_run_that_is_stuck_in_a_write() {
    let directory = directory();
    ok(&directory, &["generate", "--count", "1"]);
    for out in ["-", "fifo"] {
        let mut command =
            mintage(directory.path(), &["generate", "--count", "1000000000000", "--out", out]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut reader: Box<dyn Read>;
        let mut child;
        if out == "-" {
            child = command.spawn().unwrap();
            reader = Box::new(child.stdout.take().unwrap());
        } else {
            let fifo = directory.path().join(out);
            assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            child = command.spawn().unwrap();
            reader = Box::new(fs::File::open(&fifo).unwrap());
        }
        // The first code is there, so the signal is awaited; no other is ever taken out.
        reader.read_exact(&mut [0; 17]).unwrap();
        send("INT", &child);
        assert_interrupted(child);
        drop(reader);
    }
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
