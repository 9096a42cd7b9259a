//! What the servers of a test run keep their data in.

/// What servers keep their data in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// A directory.
    Embedded,
    /// PostgreSQL alone.
    Postgres,
    /// PostgreSQL, with pools in Redis.
    PostgresAndRedis,
}

impl Deployment {
    /// The one that `MINTAGE_TEST_STORE` names. A name that nobody knows must not pass for a run on
    /// the embedded store.
    #[expect(clippy::disallowed_methods, reason = "whoever starts the tests chooses")]
    pub(crate) fn of_this_run() -> Self {
        match std::env::var("MINTAGE_TEST_STORE").as_deref() {
            Err(_) | Ok("embedded") => Self::Embedded,
            Ok("postgres") => Self::Postgres,
            Ok("postgres+redis") => Self::PostgresAndRedis,
            Ok(other) => panic!("MINTAGE_TEST_STORE is {other}"),
        }
    }
}
