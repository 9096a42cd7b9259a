//! What Ctrl-C and its relatives do while codes are written: end the process at once, and leave no
//! half-written file.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::message;

/// As shells expect: 128 and the number of SIGINT.
const EXIT_CODE: i32 = 130;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The temporary file of this run, shared with the thread that waits for signals. It is there from
/// the moment the file is made until it gets its final name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupts(Arc<Mutex<Option<PathBuf>>>);

impl Interrupts {
    /// From now on a signal removes the temporary file and ends the process. The thread that waits
    /// for signals does all of it, so it works however long the others are stuck in a write.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let interrupts = Self::default();
        let shared = interrupts.clone();
        ctrlc::set_handler(move || shared.end()).context("cannot watch for Ctrl-C")?;
        Ok(interrupts)
    }

    /// Takes a step that a signal must not cut in two. The step sees the path to remove.
    pub(crate) fn whole_step<T>(&self, step: impl FnOnce(&mut Option<PathBuf>) -> T) -> T {
        step(&mut self.lock())
    }

    fn end(&self) {
        // Never unlocked again: a file that is about to get its name does not get it any more.
        let mut temporary = self.lock();
        if let Some(path) = temporary.take() {
            let _ = fs::remove_file(path);
        }
        // A progress bar may stand on the line.
        let line_end = if io::stderr().is_terminal() { "\n" } else { "" };
        message::say_within(LAST_WORDS, format!("{line_end}mintage: interrupted"));
        std::process::exit(EXIT_CODE);
    }

    fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
