//! Databases for tests, on real servers.

#![allow(dead_code, unused_imports, reason = "no test binary uses all of it")]

use storage_postgres::{PostgresSettings, ShardSettings};
use test_services::Database;
pub(crate) use test_services::Servers;
use tokio_postgres::{Client, NoTls};

/// The same server, another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

/// A plain connection.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Databases for one test, which are dropped with it.
pub(crate) struct Databases {
    pub(crate) urls: Vec<String>,
    databases: Vec<Database>,
}

impl Databases {
    /// So many new and empty databases, on one server after the other.
    pub(crate) async fn create(count: usize) -> Self {
        tokio::task::spawn_blocking(move || {
            let servers = Servers::shared();
            let database = |number| match number % 2 {
                0 => servers.database(),
                _ => servers.database_on_shard(),
            };
            let databases: Vec<_> = (0..count).map(database).collect();
            Self { urls: databases.iter().map(Database::url).collect(), databases }
        })
        .await
        .unwrap()
    }

    /// What leads to them, as one cluster.
    pub(crate) fn settings(&self) -> PostgresSettings {
        let shard = |url: &String| ShardSettings { url: url.clone(), replica: None };
        PostgresSettings {
            shards: self.urls[1..].iter().map(shard).collect(),
            connections_max: 8,
            ..PostgresSettings::new(&self.urls[0])
        }
    }

    /// A plain connection to the first one.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.urls[0]).await
    }

    /// How often steps on the first one waited for each other in a circle. The server counts it when a
    /// session has been idle for a moment, or has ended.
    pub(crate) async fn deadlocks(&self) -> i64 {
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        self.connect().await.query_one(sql, &[]).await.unwrap().get(0)
    }
}
