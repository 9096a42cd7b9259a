//! A limit on the size of files, which stands in for a disk that is full: it can be lowered and raised
//! while the server runs, and by anybody.

use std::process::Command;

use super::Server;

/// Writes that fail must not kill the process; it is the shell that can say so.
pub(crate) const IGNORE_THE_SIGNAL: &str = "trap '' XFSZ";

/// Sets the limit on the size of files that the running server writes.
pub(crate) fn limit_files(server: &Server, bytes: &str) {
    let status = Command::new("prlimit")
        .args(["--pid", &server.pid().to_string(), &format!("--fsize={bytes}:")])
        .status()
        .expect("prlimit, which is part of util-linux");
    assert!(status.success());
}
