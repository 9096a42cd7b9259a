//! Opening a cluster: every database is reached, of the right kind, up to date and in its place.

use futures_util::future::try_join_all;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::database::Database;
use crate::error::OpenError;
use crate::listen::Listener;
use crate::migrate::{self, CATALOGUE, SHARD};
use crate::session::{Keep, Param};
use crate::settings::SHARDS_MAX;
use crate::{PostgresSettings, replicas::Replica};

/// The oldest server that can do all that the schema asks for.
const VERSION_MIN: i32 = 150_000;

/// What was opened.
pub(crate) struct Opened {
    /// The name of the cluster, which no other one has.
    pub(crate) cluster: String,
    /// By shard number; the catalogue is the first.
    pub(crate) databases: Vec<Database>,
    pub(crate) replicas: Vec<Replica>,
    /// None where a pooler is between us and the databases: it would keep to itself what it hears.
    pub(crate) listeners: Vec<Listener>,
}

pub(crate) async fn open(settings: &PostgresSettings) -> Result<Opened, OpenError> {
    if settings.connections_max < 2 {
        return Err(OpenError::Settings("connections_max must be at least 2".to_owned()));
    }
    let configured = settings.databases();
    if configured.len() > SHARDS_MAX {
        return Err(OpenError::Settings(format!("there can be {SHARDS_MAX} databases at most")));
    }
    let mut databases = Vec::new();
    let (mut replicas, mut listeners) = (Vec::new(), Vec::new());
    for (shard, place) in configured.iter().enumerate() {
        let address = Address::read(&place.url, settings, true)?;
        databases.push(Database::new(&address, settings)?);
        if settings.prepared_statements {
            listeners.push(Listener::new(&address, settings)?);
        }
        if let Some(url) = &place.replica {
            let address = Address::read(url, settings, false)?;
            replicas.push(Replica::new(shard, &address, settings)?);
        }
    }
    let catalogue = &databases[0];
    let cluster = set_up(catalogue, settings, 0, None).await?;
    check_placements(catalogue, databases.len()).await?;
    try_join_all((1..).zip(&databases[1..]).map(|(shard, database)| {
        let cluster = cluster.as_str();
        async move { set_up(database, settings, shard, Some(cluster)).await }
    }))
    .await?;
    Ok(Opened { cluster, databases, replicas, listeners })
}

/// Makes one database ready and returns the name of its cluster. Without one, a new database
/// begins a cluster.
async fn set_up(
    database: &Database,
    settings: &PostgresSettings,
    shard: u8,
    cluster: Option<&str>,
) -> Result<String, OpenError> {
    check_server(database).await?;
    if settings.prepared_statements {
        check_for_pooler(database).await?;
    } else {
        check_commits(database).await?;
    }
    // Before anything is written, so that a wrong database is left as it is.
    let exists = "SELECT to_regclass('mintage_migrations') IS NOT NULL AND
                         to_regclass('meta') IS NOT NULL";
    if one::<bool>(database, exists, &[]).await? == Some(true) {
        check_identity(database, shard, cluster).await?;
    }
    match shard {
        0 => migrate::migrate(database, &[SHARD, CATALOGUE]).await?,
        _ => migrate::migrate(database, &[SHARD]).await?,
    }
    one::<i32>(
        database,
        "INSERT INTO meta (cluster, shard) VALUES (coalesce($1, gen_random_uuid()::text), $2)
         ON CONFLICT DO NOTHING RETURNING 1",
        &[(&cluster, Type::TEXT), (&i16::from(shard), Type::INT2)],
    )
    .await?;
    check_identity(database, shard, cluster).await?.ok_or_else(|| OpenError::Database {
        address: database.shown.clone(),
        what: "its table meta is empty".to_owned(),
    })
}

/// The first column of the first row.
async fn one<T>(
    database: &Database,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Option<T>, OpenError>
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    let mut session = database.open_session().await?;
    let rows = session
        .query(Keep::Never, sql, params)
        .await
        .map_err(|error| OpenError::from_database(&database.shown, &error))?;
    Ok(rows.first().map(|row| row.get(0)))
}

async fn check_server(database: &Database) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('server_version_num')::integer";
    let version = one::<i32>(database, sql, &[]).await?.unwrap_or_default();
    if version < VERSION_MIN {
        let found = format!("{}.{}", version / 10_000, version % 10_000);
        return Err(OpenError::OldServer { address: database.shown.clone(), found });
    }
    Ok(())
}

/// What one session sets, another one must not see, and it must see it itself. Behind a pooler the
/// second one most likely meets the server that the first one has just let go of.
async fn check_for_pooler(database: &Database) -> Result<(), OpenError> {
    const LOOK: &str = "SELECT coalesce(current_setting('mintage.probe', true), '') <> ''";
    let failed = |error| OpenError::from_database(&database.shown, &error);
    let (mut first, mut second) = (database.open_session().await?, database.open_session().await?);
    second.batch("SELECT 1").await.map_err(failed)?;
    first.batch("SELECT set_config('mintage.probe', 'seen', false)").await.map_err(failed)?;
    second.begin(database.limits.step.as_millis(), 0).await.map_err(failed)?;
    let rows = second.query(Keep::Never, LOOK, &[]).await.map_err(failed)?;
    let seen_by_second = rows.first().is_some_and(|row| row.get(0));
    second.roll_back().await.map_err(failed)?;
    let rows = first.query(Keep::Never, LOOK, &[]).await.map_err(failed)?;
    let seen_by_first = rows.first().is_some_and(|row| row.get(0));
    first.batch("RESET mintage.probe").await.map_err(failed)?;
    if seen_by_second || !seen_by_first {
        return Err(OpenError::Pooler { address: database.shown.clone() });
    }
    Ok(())
}

/// Where sessions cannot be told to wait for the disk, they have to do it by themselves.
async fn check_commits(database: &Database) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('synchronous_commit')";
    let found: String = one(database, sql, &[]).await?.unwrap_or_default();
    if !matches!(found.as_str(), "on" | "remote_apply") {
        return Err(OpenError::WeakCommit { address: database.shown.clone(), found });
    }
    Ok(())
}

/// Whether a database is the one that it is configured to be. None if it is nothing yet.
async fn check_identity(
    database: &Database,
    shard: u8,
    cluster: Option<&str>,
) -> Result<Option<String>, OpenError> {
    let address = || database.shown.clone();
    let found: Option<String> =
        one(database, "SELECT shard || ' ' || cluster FROM meta", &[]).await?;
    let Some(found) = found else { return Ok(None) };
    let (number, its_cluster) = found.split_once(' ').unwrap_or_default();
    let number = number.parse().map_err(|_| OpenError::Database {
        address: address(),
        what: "its table meta makes no sense".to_owned(),
    })?;
    if cluster.is_some_and(|cluster| cluster != its_cluster) {
        return Err(OpenError::OtherCluster { address: address() });
    }
    if number != shard {
        return Err(OpenError::OtherShard { address: address(), configured: shard, found: number });
    }
    Ok(Some(its_cluster.to_owned()))
}

async fn check_placements(catalogue: &Database, configured: usize) -> Result<(), OpenError> {
    let sql = "SELECT coalesce(max(shard), 0)::integer + 1 FROM placements";
    let needed = one::<i32>(catalogue, sql, &[]).await?.unwrap_or_default();
    let needed = usize::try_from(needed).unwrap_or_default();
    if needed > configured {
        return Err(OpenError::MissingShards { configured, needed });
    }
    Ok(())
}
