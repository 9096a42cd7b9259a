//! The suite that every store passes.

use std::sync::Arc;

use async_trait::async_trait;
use storage::Store;
use storage_sqlite::SqliteStore;
use storage_tests::Fixture;
use tempfile::TempDir;

/// A directory for one test.
struct SqliteFixture(TempDir);

#[async_trait]
impl Fixture for SqliteFixture {
    async fn create() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.0.path().join("data")).unwrap())
    }

    async fn lose_draws(&self) {
        let file = self.0.path().join("data").join("mintage.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.execute("DELETE FROM draws", []).unwrap();
    }

    fn many_instances(&self) -> bool {
        false
    }
}

storage_tests::conformance!(SqliteFixture);
