//! Tells the executable what it was built from.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    // The time of the commit, not of the build, so that the same source gives the same executable.
    let time = or_unknown(git(&["log", "-1", "--format=%cI"]));
    let commit = or_unknown(git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=MINTAGE_BUILD_TIME={time}");
    println!("cargo::rustc-env=MINTAGE_BUILD_COMMIT={commit}");
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
}
