//! The store for the conformance suite.

use std::sync::Arc;

use async_trait::async_trait;
use storage::Store;
use storage_postgres::PostgresStore;
use storage_tests::Fixture;

use super::support::{Databases, connect};

/// New databases for one test.
pub(crate) struct Cluster<const DATABASES: usize>(Databases);

#[async_trait]
impl<const DATABASES: usize> Fixture for Cluster<DATABASES> {
    async fn create() -> Self {
        Self(Databases::create(DATABASES).await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        let store = PostgresStore::open(self.0.settings()).await.unwrap();
        // Whoever used an earlier store is gone.
        let sql = "UPDATE instances SET expires_at = '-infinity'";
        self.0.connect().await.batch_execute(sql).await.unwrap();
        store
    }

    async fn lose_draws(&self) {
        for url in &self.0.urls {
            connect(url).await.batch_execute("DELETE FROM draws").await.unwrap();
        }
    }

    fn many_instances(&self) -> bool {
        true
    }
}
