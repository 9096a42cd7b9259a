//! A zip archive that is sent while it is written.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

/// Fast rather than small: whoever downloads waits for it.
const LEVEL: i64 = 1;

/// An archive. The sizes of its parts follow them, because nobody goes back to write them before.
pub(super) struct Archive {
    zip: ZipWriter<StreamWriter<Outlet>>,
    outlet: Outlet,
}

/// What is ready to be sent. The writer keeps one hand on it, the archive the other.
#[derive(Clone, Default)]
struct Outlet(Arc<Mutex<Vec<u8>>>);

impl Outlet {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Default for Archive {
    fn default() -> Self {
        let outlet = Outlet::default();
        Self { zip: ZipWriter::new_stream(outlet.clone()), outlet }
    }
}

impl Archive {
    /// Begins a part.
    pub(super) fn begin(&mut self, path: &str) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL));
        Ok(self.zip.start_file(path, options)?)
    }

    /// Writes into the part that was begun last.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        self.zip.write_all(text.as_bytes())
    }

    /// What is ready to be sent, which may be nothing yet.
    pub(super) fn take(&self) -> Vec<u8> {
        self.outlet.take()
    }

    /// Ends the archive and gives out the rest.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.zip.finish()?;
        Ok(self.outlet.take())
    }
}
