//! Figures for whoever operates the store.

use storage::Reading;

use crate::PostgresStore;

#[expect(clippy::cast_precision_loss, reason = "figures are for people and graphs")]
pub(crate) fn readings(store: &PostgresStore) -> Vec<Reading> {
    let mut readings = Vec::new();
    for (shard, database) in store.databases.iter().enumerate() {
        let labels = vec![("shard", shard.to_string())];
        let mut add = |name, help, counter, value| {
            readings.push(Reading { name, help, counter, labels: labels.clone(), value });
        };
        let connections = database.connections();
        add(
            "postgres_connections_in_use",
            "Connections to PostgreSQL that a step is using",
            false,
            connections.in_use as f64,
        );
        add(
            "postgres_connections_idle",
            "Connections to PostgreSQL that wait for a step",
            false,
            connections.idle as f64,
        );
        add(
            "postgres_connections_max",
            "Most connections to PostgreSQL that may be made",
            false,
            connections.max as f64,
        );
        add(
            "postgres_connection_waits",
            "Steps that found all connections in use",
            true,
            connections.waits as f64,
        );
        add(
            "postgres_retries",
            "Tries that were repeated after a conflict or a broken connection",
            true,
            connections.retries as f64,
        );
    }
    readings.extend(store.replicas.iter().map(|replica| Reading {
        name: "replica_reads",
        help: "Reads that a replica has answered in the place of its primary",
        counter: true,
        labels: vec![("shard", replica.shard.to_string()), ("replica", replica.shown().to_owned())],
        value: replica.reads() as f64,
    }));
    readings.extend(store.lags.latest().into_iter().map(|lag| Reading {
        name: "replica_lag_seconds",
        help: "How far a replica is behind its primary",
        counter: false,
        labels: vec![("shard", lag.shard.to_string()), ("replica", lag.replica)],
        value: lag.seconds,
    }));
    readings
}
