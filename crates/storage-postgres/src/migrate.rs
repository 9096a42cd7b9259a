//! Bringing the schema of a database up to date.

use crate::database::Database;
use crate::error::OpenError;
use crate::session::{Keep, Session};

/// One step of a schema.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// Whether releases that do not know this step can go on working: it only adds. Where not, they
    /// refuse to start, and it takes a release in between or a stop of all instances.
    older_may_run: bool,
}

/// A part of the schema that has its own steps.
pub(crate) struct Series {
    name: &'static str,
    steps: &'static [Migration],
}

macro_rules! migration {
    ($series:literal, $name:literal, older_may_run: $older_may_run:literal) => {
        Migration {
            name: $name,
            sql: include_str!(concat!("../migrations/", $series, "/", $name, ".sql")),
            older_may_run: $older_may_run,
        }
    };
}

/// What every database has.
pub(crate) const SHARD: Series = Series {
    name: "shard",
    steps: &[
        migration!("shard", "0001_first_tables", older_may_run: false),
        migration!("shard", "0002_functions", older_may_run: false),
        migration!("shard", "0003_batches", older_may_run: true),
        migration!("shard", "0004_batch_events", older_may_run: true),
        migration!("shard", "0005_deliveries", older_may_run: true),
        migration!("shard", "0006_marks_and_orders", older_may_run: false),
        migration!("shard", "0007_closed_gaps", older_may_run: true),
        migration!("shard", "0008_documents", older_may_run: true),
        migration!("shard", "0009_assigning", older_may_run: true),
        migration!("shard", "0010_reconciling", older_may_run: true),
        migration!("shard", "0011_losses", older_may_run: true),
        migration!("shard", "0012_ending_batches", older_may_run: true),
        migration!("shard", "0013_manifests", older_may_run: true),
        migration!("shard", "0014_idle_batches", older_may_run: true),
        migration!("shard", "0015_order_and_moves", older_may_run: true),
        migration!("shard", "0016_failures", older_may_run: true),
        migration!("shard", "0017_consignments", older_may_run: false),
        migration!("shard", "0018_ranges_of_losses", older_may_run: true),
        migration!("shard", "0019_reconciling_pools", older_may_run: true),
        migration!("shard", "0020_scan_keys", older_may_run: true),
        migration!("shard", "0021_events_and_pace", older_may_run: true),
        migration!("shard", "0022_claims_by_tenant", older_may_run: true),
        migration!("shard", "0023_scan_contexts", older_may_run: true),
    ],
};

/// What the first database has in addition.
pub(crate) const CATALOGUE: Series = Series {
    name: "catalogue",
    steps: &[
        migration!("catalogue", "0001_first_tables", older_may_run: false),
        migration!("catalogue", "0002_functions", older_may_run: false),
        migration!("catalogue", "0003_receivers_and_deeds", older_may_run: true),
        migration!("catalogue", "0004_last_seen", older_may_run: true),
        migration!("catalogue", "0005_tenant_limits", older_may_run: true),
    ],
};

const MAKE_RECORD: &str = "
    SELECT pg_advisory_xact_lock(1296979015, 1);
    CREATE TABLE IF NOT EXISTS mintage_migrations (
        series        text NOT NULL,
        number        integer NOT NULL,
        name          text NOT NULL,
        older_may_run boolean NOT NULL,
        applied_at    timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (series, number)
    )";

/// Where a series stands.
struct Standing {
    done: i32,
    /// The first step that we do not know and that does not let us run.
    refused: Option<i32>,
}

/// How often a change of the schema is tried that gets into a deadlock with those who are at work.
const COLLISIONS_MAX: u32 = 20;

/// Brings a database up to date, if it is not.
pub(crate) async fn migrate(database: &Database, series: &[Series]) -> Result<(), OpenError> {
    let mut collisions = 0;
    loop {
        match try_to_migrate(database, series).await {
            Err(OpenError::Collision { what, .. }) if collisions < COLLISIONS_MAX => {
                collisions += 1;
                tracing::info!(database = database.shown, "the migration is tried again: {what}");
            }
            result => return result,
        }
    }
}

/// The same under a lock and in one transaction.
async fn try_to_migrate(database: &Database, series: &[Series]) -> Result<(), OpenError> {
    let failed = |error| OpenError::from_database(&database.shown, &error);
    let mut session = database.open_session().await?;
    let rows = session
        .query(Keep::Never, "SELECT to_regclass('mintage_migrations') IS NOT NULL", &[])
        .await
        .map_err(failed)?;
    let recorded = rows.first().is_some_and(|row| row.get(0));
    if recorded && is_current(database, &mut session, series).await? {
        return Ok(());
    }
    let limit_ms = database.limits.work.as_millis();
    session.begin(limit_ms, limit_ms).await.map_err(failed)?;
    session.batch(MAKE_RECORD).await.map_err(failed)?;
    for series in series {
        apply(database, &mut session, series).await?;
    }
    session.commit().await.map_err(failed)
}

async fn is_current(
    database: &Database,
    session: &mut Session,
    series: &[Series],
) -> Result<bool, OpenError> {
    for series in series {
        if standing(database, session, series).await?.done < known(series) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn known(series: &Series) -> i32 {
    i32::try_from(series.steps.len()).expect("there are few migrations")
}

/// How far a series is. An error if it is further than this release can work with.
async fn standing(
    database: &Database,
    session: &mut Session,
    series: &Series,
) -> Result<Standing, OpenError> {
    let rows = session
        .query(
            Keep::Never,
            "SELECT coalesce(max(number), 0),
                    min(number) FILTER (WHERE number > $2 AND NOT older_may_run)
             FROM mintage_migrations WHERE series = $1",
            &[
                (&series.name, tokio_postgres::types::Type::TEXT),
                (&known(series), tokio_postgres::types::Type::INT4),
            ],
        )
        .await
        .map_err(|error| OpenError::from_database(&database.shown, &error))?;
    let standing = rows.first().map_or(Standing { done: 0, refused: None }, |row| Standing {
        done: row.get(0),
        refused: row.get(1),
    });
    match standing.refused {
        None => Ok(standing),
        Some(_) => Err(OpenError::NewerSchema {
            address: database.shown.clone(),
            series: series.name,
            found: standing.done,
            known: known(series),
        }),
    }
}

async fn apply(
    database: &Database,
    session: &mut Session,
    series: &Series,
) -> Result<(), OpenError> {
    let done = standing(database, session, series).await?.done;
    for (number, step) in (1_i32..).zip(series.steps) {
        if number <= done {
            continue;
        }
        tracing::info!(database = database.shown, "migration {}/{}", series.name, step.name);
        let record = format!(
            "INSERT INTO mintage_migrations (series, number, name, older_may_run)
             VALUES ('{}', {number}, '{}', {})",
            series.name, step.name, step.older_may_run
        );
        let failed = |error| OpenError::from_database(&database.shown, &error);
        session.batch(step.sql).await.map_err(failed)?;
        session.batch(&record).await.map_err(failed)?;
    }
    Ok(())
}
