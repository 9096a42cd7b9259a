//! Moves what was committed from the log to the database file, beside the writer.
//!
//! A commit only appends to the log. Moving its pages to their places writes all over the file and waits
//! for the disk, which would be the one slow commit in thirty if the writer did it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// The pause between two moves. Pages that change again meanwhile are moved once.
const PAUSE: Duration = Duration::from_millis(200);

/// The writer moves pages itself once the log has so many: a writer that never pauses would otherwise
/// keep the log from starting over, and it would grow without end. Usually nearly all are moved by then.
pub(crate) const LOG_PAGES_MAX: u32 = 16_384;

#[derive(Default)]
struct Shared {
    /// Whether anything was committed since the last move.
    committed: AtomicBool,
    stop: AtomicBool,
}

/// A handle on the thread that moves pages. It ends with this.
pub(crate) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread with a connection of its own.
    pub(crate) fn start(file: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        // What is moved must be on the disk before the log can start over.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("mintage-checkpoints".to_owned())
            .spawn(move || work(&connection, &own))
            .ok();
        Ok(Self { shared, thread })
    }

    /// Says that something was committed.
    pub(crate) fn note_commit(&self) {
        self.shared.committed.store(true, Ordering::Release);
    }
}

fn work(connection: &Connection, shared: &Shared) {
    while !shared.stop.load(Ordering::Acquire) {
        if shared.committed.swap(false, Ordering::AcqRel) {
            // It takes what can be taken without waiting for anybody. Where it fails, as on a full disk,
            // the pages stay in the log, and the writer says what is wrong.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
        thread::park_timeout(PAUSE);
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has no panics of its own.
            let _ = thread.join();
        }
    }
}
