//! The stores that a benchmark can run on.

use std::process::Command;

use clap::ValueEnum;
use tempfile::TempDir;

use super::child::this_executable;
use crate::message::say;

const POSTGRES: &str = "MINTAGE__POSTGRES__URL";
const POSTGRES_MORE: [&str; 2] = ["MINTAGE__POSTGRES__REPLICA", "MINTAGE__POSTGRES__SHARDS"];
const REDIS: &str = "MINTAGE__REDIS__URL";

/// Which store a benchmark uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    /// The embedded store
    Embedded,
    /// PostgreSQL, as `MINTAGE__POSTGRES__URL` names it
    Postgres,
    /// PostgreSQL with Redis, as `MINTAGE__REDIS__URL` names it
    #[value(name = "postgres+redis")]
    PostgresRedis,
}

/// A store for one server.
pub(super) struct Place {
    kind: StoreKind,
    directory: TempDir,
}

impl StoreKind {
    /// A sample ID type that uses what is special about the store: table pools hold random IDs,
    /// Redis holds sequences.
    pub(super) fn sample_type(self) -> &'static str {
        match self {
            Self::Embedded | Self::Postgres => "bottle",
            Self::PostgresRedis => "invoice",
        }
    }

    /// What the store can write in the bare way.
    pub(super) fn bare_rows_per_second(self, rows: u64) -> anyhow::Result<f64> {
        let place = self.place()?;
        crate::stores::bare_rows_per_second(self.url().as_deref(), place.directory.path(), rows)
    }

    /// Waits until the store has written what it has put off. The embedded store puts nothing off.
    pub(super) fn write_out(self) -> anyhow::Result<()> {
        if let Some(url) = self.url()
            && !crate::stores::write_out(&url)?
        {
            say("PostgreSQL may still write while it is measured: no role pg_checkpoint");
        }
        Ok(())
    }

    /// Where PostgreSQL is.
    fn url(self) -> Option<String> {
        let url = crate::cli::config::environment().find(|(name, _)| name == POSTGRES);
        url.filter(|_| self != Self::Embedded).map(|(_, url)| url)
    }

    /// A place for a server, if the servers that it needs are known.
    pub(super) fn place(self) -> anyhow::Result<Place> {
        let needed: &[&str] = match self {
            Self::Embedded => &[],
            Self::Postgres => &[POSTGRES],
            Self::PostgresRedis => &[POSTGRES, REDIS],
        };
        for name in needed {
            anyhow::ensure!(
                crate::cli::config::environment().any(|(set, _)| set == *name),
                "{name} is not set; in a checkout of the project: eval \"$(scripts/services start)\""
            );
        }
        Ok(Place { kind: self, directory: tempfile::tempdir()? })
    }
}

impl Place {
    /// A command of this executable that works on the store.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let mut command = this_executable()?;
        command.env("MINTAGE__STORE__DIRECTORY", self.directory.path());
        if self.kind == StoreKind::Embedded {
            POSTGRES_MORE.iter().chain([&POSTGRES]).for_each(|name| {
                command.env_remove(name);
            });
        }
        if self.kind != StoreKind::PostgresRedis {
            command.env_remove(REDIS);
        }
        Ok(command)
    }

    /// A file beside the data.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}
