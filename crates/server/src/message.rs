//! What a command says on standard error, beside its results.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Prints a line for people. That nobody can read it is no reason to fail.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints a line before the process ends, unless standard error takes longer than `wait`: a pipe
/// that nobody reads must not keep the process alive.
pub(crate) fn say_within(wait: Duration, message: String) {
    let (done, said) = mpsc::channel();
    let speaker = thread::Builder::new().spawn(move || {
        say(message);
        let _ = done.send(());
    });
    if speaker.is_ok() {
        let _ = said.recv_timeout(wait);
    }
}
