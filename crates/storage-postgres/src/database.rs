//! One database: its connections, and what is done when they break.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, QueueMode, RecyclingMethod, Runtime,
};
use storage::{Result, StoreError};
use tokio_postgres::Row;

use crate::PostgresSettings;
use crate::address::Address;
use crate::error::{self, Failure, OpenError};
use crate::session::{Keep, Param, Session};
use crate::tls;

/// How often a step is repeated, and the pause before.
const RETRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Whether a step may be done again when nobody knows whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It may: it reads, or doing it twice is the same as once, or what it takes is on record and
    /// only goes unused.
    Always,
    /// Only if it was certainly not done.
    Undone,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A step, from the first try to the last.
    pub(crate) step: Duration,
    /// Longer work in a transaction of its own.
    pub(crate) work: Duration,
}

impl Limits {
    /// What is done on the way, and would do no harm if it were left out.
    pub(crate) fn aside(self) -> Duration {
        self.step / 4
    }
}

/// One database.
pub(crate) struct Database {
    /// Where it is, without user and password.
    pub(crate) shown: String,
    pub(crate) limits: Limits,
    pool: Pool,
    prepare: bool,
    waits: AtomicU64,
    retries: AtomicU64,
}

/// Figures about the connections.
pub(crate) struct Connections {
    pub(crate) in_use: usize,
    pub(crate) idle: usize,
    pub(crate) max: usize,
    pub(crate) waits: u64,
    pub(crate) retries: u64,
}

/// Why a try has failed.
enum Failed {
    NoConnection(PoolError),
    Statement(tokio_postgres::Error),
}

impl Failed {
    fn failure(&self) -> Failure {
        match self {
            Self::NoConnection(
                PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)),
            ) => match Failure::of(error) {
                Failure::Connection => Failure::NotSent,
                failure => failure,
            },
            Self::NoConnection(_) => Failure::Overloaded,
            Self::Statement(error) => Failure::of(error),
        }
    }

    fn may_repeat(&self, repeat: Repeat) -> bool {
        match self.failure() {
            Failure::RolledBack | Failure::NotSent => true,
            Failure::Connection => repeat == Repeat::Always,
            Failure::Overloaded | Failure::Statement => false,
        }
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NoConnection(error) => error::from_pool(&error),
            Failed::Statement(error) => error::from_database(&error),
        }
    }
}

impl Database {
    /// Makes ready to connect, but does not do it yet.
    pub(crate) fn new(address: &Address, settings: &PostgresSettings) -> Result<Self, OpenError> {
        let tls = tls::connector(address, settings.tls_root_file.as_deref())?;
        let recycling_method = RecyclingMethod::Fast;
        let manager =
            Manager::from_config(address.config.clone(), tls, ManagerConfig { recycling_method });
        let limits = Limits { step: settings.step_timeout, work: settings.work_timeout };
        let mut builder = Pool::builder(manager)
            .max_size(settings.connections_max)
            // The connection that was used last has a server process whose caches are warm.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(settings.wait_timeout))
            .create_timeout(Some(settings.connect_timeout))
            .recycle_timeout(Some(settings.connect_timeout));
        if settings.prepared_statements {
            let sql = session_settings(limits);
            builder = builder.post_create(Hook::async_fn(move |client, _| {
                let sql = sql.clone();
                Box::pin(async move {
                    client.batch_execute(&sql).await.map_err(HookError::Backend)?;
                    Ok(())
                })
            }));
        }
        let pool = builder.build().map_err(|error| OpenError::Settings(error.to_string()))?;
        Ok(Self {
            shown: address.shown.clone(),
            limits,
            pool,
            prepare: settings.prepared_statements,
            waits: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        })
    }

    async fn connection(&self) -> Result<Session, PoolError> {
        let status = self.pool.status();
        if status.available == 0 && status.size == status.max_size {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Session::new(self.pool.get().await?, self.prepare))
    }

    /// A connection for work that takes several statements. Where none can be made because the
    /// server is away, it tries again a few times.
    pub(crate) async fn session(&self) -> Result<Session> {
        let mut tries = 0;
        loop {
            let failed = match self.connection().await {
                Ok(session) => return Ok(session),
                Err(error) => Failed::NoConnection(error),
            };
            self.may_go_on(failed, Repeat::Undone, &mut tries)?;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// A connection for opening the database.
    pub(crate) async fn open_session(&self) -> Result<Session, OpenError> {
        self.connection().await.map_err(|error| match &error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                OpenError::from_database(&self.shown, error)
            }
            _ => OpenError::Unreachable {
                address: self.shown.clone(),
                what: error::pool_trouble(&error),
            },
        })
    }

    /// Runs one statement that is a step by itself, and commits it.
    pub(crate) async fn query(
        &self,
        repeat: Repeat,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.query_as(Keep::Prepared, repeat, sql, params).await
    }

    pub(crate) async fn query_as(
        &self,
        keep: Keep,
        repeat: Repeat,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.within(self.limits.step, async {
            let (mut tries, mut in_doubt) = (0, false);
            loop {
                let failed = match self.attempt(keep, sql, params).await {
                    Ok(rows) => return Ok(rows),
                    Err(failed) => failed,
                };
                in_doubt |= failed.failure() == Failure::Connection;
                let goes_on = self.may_go_on(failed, repeat, &mut tries);
                // A try before may have been done.
                if in_doubt { goes_on.map_err(error::heard_of) } else { goes_on }?;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        })
        .await
    }

    async fn attempt(
        &self,
        keep: Keep,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failed> {
        let mut session = self.connection().await.map_err(Failed::NoConnection)?;
        session.query(keep, sql, params).await.map_err(Failed::Statement)
    }

    /// Counts a failed try. An error if it was the last one.
    fn may_go_on(&self, failed: Failed, repeat: Repeat, tries: &mut u32) -> Result<()> {
        if failed.failure() == Failure::Connection {
            // Connections to a server that has gone away have all gone with it.
            self.drop_idle();
        }
        if *tries == RETRIES_MAX || !failed.may_repeat(repeat) {
            return Err(failed.into());
        }
        *tries += 1;
        self.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sees to it that work ends in time. What was begun is given up: its connection is closed.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            // A server that is cut off would keep every one of them waiting.
            self.drop_idle();
            Err(StoreError::Unavailable("PostgreSQL does not answer in time".to_owned()))
        })
    }

    fn drop_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    pub(crate) fn connections(&self) -> Connections {
        let status = self.pool.status();
        Connections {
            in_use: status.size.saturating_sub(status.available),
            idle: status.available,
            max: status.max_size,
            waits: self.waits.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// What every session is told before its first statement.
///
/// `synchronous_commit`: what is answered is on the disk, and on a synchronous standby where there
/// is one. A level that waits for still more is kept. The isolation level is what the functions in
/// the database are written for. Statements are short, so compiling them never pays. And every one of
/// them has its index: a plan that was made while a table was small must still be right when it is
/// large, so plans that read or sort whole tables are out, and one plan is good for all parameters.
/// Keepalives end a session whose client is cut off in the middle of sending data, which no timeout does.
fn session_settings(limits: Limits) -> String {
    let statement_ms = limits.step.as_millis();
    let lock_ms = statement_ms * 3 / 4;
    // A process that stands still in the middle of filling a pool holds up all others. Between two
    // statements nobody does more than render a few IDs.
    let idle_ms = statement_ms.max(1000);
    format!(
        "SELECT set_config('synchronous_commit',
                    CASE current_setting('synchronous_commit')
                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
                set_config('default_transaction_isolation', 'read committed', false),
                set_config('statement_timeout', '{statement_ms}', false),
                set_config('lock_timeout', '{lock_ms}', false),
                set_config('idle_in_transaction_session_timeout', '{idle_ms}', false),
                set_config('tcp_keepalives_idle', '20', false),
                set_config('tcp_keepalives_interval', '10', false),
                set_config('tcp_keepalives_count', '4', false),
                set_config('client_min_messages', 'warning', false),
                set_config('jit', 'off', false),
                set_config('enable_seqscan', 'off', false),
                set_config('enable_bitmapscan', 'off', false),
                set_config('enable_sort', 'off', false),
                set_config('plan_cache_mode', 'force_generic_plan', false)",
    )
}
