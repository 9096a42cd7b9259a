//! What PostgreSQL and Redis say about every serial, read in bulk.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use anyhow::{Context as _, bail};
use storage::{packing, pool_holder};
use test_services::Database;

use crate::id_types::{Kind, TYPES};
use crate::world::World;

/// A counter within a type: its type as `tenant/name`, and its period.
pub(crate) type CounterName = (String, String);

/// Serials that are with somebody.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) holder: String,
    pub(crate) serials: Range<u64>,
}

/// Serials that were handed out at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issued {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// By the clock of the instance.
    pub(crate) unix_ms: i64,
}

/// Serials that will never carry anything.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) serials: Range<u64>,
    pub(crate) reason: String,
    pub(crate) instance: String,
}

/// All that is known about a counter.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) next: u64,
    /// The issues by their first serial.
    pub(crate) issues: Vec<Issued>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) held: Vec<Held>,
    /// What is in the list of the pool that is in force.
    pub(crate) listed: Vec<u64>,
}

/// The table of a pool: each ID, and whether it was taken.
pub(crate) type Table = HashMap<String, bool>;

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) counters: BTreeMap<CounterName, Counter>,
    /// The tables by type.
    pub(crate) tables: BTreeMap<String, Table>,
    /// Instances that are known, and whether their lease is good.
    pub(crate) instances: BTreeMap<String, bool>,
    /// The holder that is the pool in force.
    pub(crate) pool: String,
}

impl Account {
    /// Reads everything. Nobody should be issuing meanwhile.
    pub(crate) fn read(world: &World) -> anyhow::Result<Self> {
        let mut account = Self::default();
        let epoch = world.databases[0].sql("SELECT max(epoch) FROM pool_epochs");
        account.pool = epoch.parse().map(pool_holder).unwrap_or_default();
        let leases = "SELECT name, expires_at > clock_timestamp() FROM instances";
        for row in rows(&world.databases[0].sql(leases), 2)? {
            account.instances.insert(row[0].clone(), row[1] == "t");
        }
        let mut types = HashMap::new();
        for database in &world.databases {
            for row in rows(&database.sql("SELECT id, tenant, name FROM id_types"), 3)? {
                types.insert(row[0].clone(), format!("{}/{}", row[1], row[2]));
            }
            account.read_database(database, &types)?;
        }
        account.read_lists(world, &types)?;
        Ok(account)
    }

    /// The counter that a row begins with.
    fn counter(
        &mut self,
        types: &HashMap<String, String>,
        row: &[String],
    ) -> anyhow::Result<&mut Counter> {
        let name = types.get(&row[0]).context("a row of a type that is not there")?;
        Ok(self.counters.entry((name.clone(), row[1].clone())).or_default())
    }

    fn read_database(
        &mut self,
        database: &Database,
        types: &HashMap<String, String>,
    ) -> anyhow::Result<()> {
        for row in rows(&database.sql("SELECT type_id, period, next FROM counters"), 3)? {
            self.counter(types, &row)?.next = row[2].parse()?;
        }
        let draws = "SELECT type_id, period, lower(span), upper(span), holder
                     FROM draws, unnest(open) AS span";
        for row in rows(&database.sql(draws), 5)? {
            let held = Held { holder: row[4].clone(), serials: range(&row)? };
            self.counter(types, &row)?.held.push(held);
        }
        let gaps = "SELECT type_id, period, start, stop, reason, instance FROM gaps
                    WHERE closed_at IS NULL";
        for row in rows(&database.sql(gaps), 6)? {
            let (reason, instance) = (row[4].clone(), row[5].clone());
            self.counter(types, &row)?.gaps.push(Gap { serials: range(&row)?, reason, instance });
        }
        let log = "SELECT type_id, period, start, encode(entries, 'hex') FROM issue_log
                   ORDER BY type_id, period, start";
        for row in rows(&database.sql(log), 4)? {
            let issues = packing::decode(row[2].parse()?, &hex::decode(&row[3])?);
            let issues = issues.with_context(|| format!("an unreadable log entry: {row:?}"))?;
            let issues = issues.into_iter().map(|issue| Issued {
                first: issue.first,
                last: issue.last,
                unix_ms: issue.at_ms,
            });
            self.counter(types, &row)?.issues.extend(issues);
        }
        for counter in self.counters.values_mut() {
            counter.issues.sort_unstable();
            // A group that was written twice with different lengths is in two rows.
            counter.issues.dedup();
        }
        for row in rows(&database.sql("SELECT type_id, table_name FROM pool_tables"), 2)? {
            let name = types.get(&row[0]).context("a table of a type that is not there")?;
            let sql = format!("SELECT id_value, status = 'TAKEN' FROM \"{}\"", row[1]);
            let table = rows(&database.sql(&sql), 2)?;
            let table = table.into_iter().map(|row| (row[0].clone(), row[1] == "t")).collect();
            self.tables.insert(name.clone(), table);
        }
        Ok(())
    }

    fn read_lists(&mut self, world: &World, types: &HashMap<String, String>) -> anyhow::Result<()> {
        let mut keys = redis::cmd("KEYS");
        keys.arg("*:serials");
        for key in world.redis::<Vec<String>>(&keys)? {
            // `…:{<type>:<period>}:<epoch>:serials`
            let (front, back) = key.rsplit_once("}:").context("a key with a tag")?;
            let (_, tag) = front.rsplit_once(":{").context("a key with a tag")?;
            let (type_id, period) = tag.split_once(':').context("a tag with a period")?;
            let epoch = back.strip_suffix(":serials").context("a list of serials")?;
            if pool_holder(epoch.parse()?) != self.pool {
                continue;
            }
            let name = types.get(type_id).context("a list of a type that is not there")?;
            let mut range = redis::cmd("LRANGE");
            range.arg(&key).arg(0).arg(-1);
            let counter = self.counters.entry((name.clone(), period.to_owned())).or_default();
            counter.listed = world.redis(&range)?;
        }
        Ok(())
    }

    /// Serials of sequences that are on record with instances. An instance that nobody has asked for
    /// a while has given back what it had, so what it still holds by the record is with nobody.
    pub(crate) fn held_by_instances(&self) -> u64 {
        let sequences = self.counters.iter().filter(|(name, _)| is(Kind::Sequence, name));
        let held = sequences.flat_map(|(_, counter)| &counter.held);
        let held = held.filter(|held| self.instances.contains_key(&held.holder));
        held.map(|held| held.serials.end - held.serials.start).sum()
    }

    /// Who holds serials without being alive or the pool in force.
    pub(crate) fn holders_that_are_gone(&self) -> Vec<&str> {
        let held = self.counters.values().flat_map(|counter| &counter.held);
        let mut holders: Vec<&str> = held.map(|held| held.holder.as_str()).collect();
        holders.sort_unstable();
        holders.dedup();
        holders.retain(|holder| {
            *holder != self.pool && !self.instances.get(*holder).copied().unwrap_or(false)
        });
        holders
    }
}

fn range(row: &[String]) -> anyhow::Result<Range<u64>> {
    Ok(row[2].parse()?..row[3].parse()?)
}

/// Whether a counter is of a type of some kind.
pub(crate) fn is(kind: Kind, counter: &CounterName) -> bool {
    TYPES.iter().any(|id_type| id_type.kind == kind && id_type.full_name() == counter.0)
}

/// The rows that were printed, each with so many columns.
fn rows(printed: &str, columns: usize) -> anyhow::Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for line in printed.lines() {
        let row: Vec<String> = line.split('|').map(str::to_owned).collect();
        if row.len() != columns {
            bail!("a row with {} columns in place of {columns}: {line}", row.len());
        }
        rows.push(row);
    }
    Ok(rows)
}
