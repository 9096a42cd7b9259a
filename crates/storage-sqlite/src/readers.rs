//! Connections that only read. They see what was committed last and never wait for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use storage::{Result, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;

use crate::error::{StepResult, from_sqlite};
use crate::open;

/// Reads at the same time.
const READERS_MAX: usize = 4;

/// A few connections, opened when they are first needed.
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    file: PathBuf,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(file: PathBuf) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self { shared: Arc::new(Shared { file, permits, idle: Mutex::default() }) }
    }

    /// Reads. All statements of one call see the same state.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StepResult<T> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let closed = |_| StoreError::Unavailable("it is closed".to_owned());
        let permit = Arc::clone(&shared.permits).acquire_owned().await.map_err(closed)?;
        task::spawn_blocking(move || shared.read(permit, work))
            .await
            .map_err(|error| StoreError::Unavailable(format!("a read did not end: {error}")))?
    }

    /// Closes the idle connections, and each of the others at the end of its read.
    pub(crate) fn close(&self) {
        self.shared.permits.close();
        self.shared.idle().clear();
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn read<T>(
        &self,
        _permit: OwnedSemaphorePermit,
        work: impl FnOnce(&Connection) -> StepResult<T>,
    ) -> Result<T> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.file).map_err(|error| from_sqlite(&error))?,
        };
        let result = connection
            .unchecked_transaction()
            .map_err(Into::into)
            .and_then(|_transaction| work(&connection))
            .map_err(|error| error.0);
        // A connection that has failed may be beyond use; the next read opens another.
        if result.is_ok() {
            let mut idle = self.idle();
            if !self.permits.is_closed() {
                idle.push(connection);
            }
        }
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
