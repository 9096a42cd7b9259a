//! Gaps on record: what is listed and counted, and what somebody has accepted.

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use storage::{Gap, GapFilter, GapReason, GapTotals, SignOff, TypeId};

use crate::error::{StepResult, corrupt};
use crate::gaps::{CLOSED_SERIALS_MAX, COLUMNS, read_row};
use crate::time::Millis;

// The last open one that begins before the serial is the only open one that can hold it. Closed ones
// begin within a short distance before it.
pub(crate) const FIND: &str = "
    SELECT gaps.* FROM counters JOIN gaps ON gaps.id = (
        SELECT id FROM gaps AS before INDEXED BY gaps_open
        WHERE before.type_id = counters.type_id AND before.period = counters.period
          AND before.start <= ?3 AND before.closed_at IS NULL
        ORDER BY before.start DESC LIMIT 1)
    WHERE counters.type_id = ?1 AND (?2 IS NULL OR counters.period = ?2)
      AND gaps.stop > ?3
    UNION ALL
    SELECT gaps.* FROM counters CROSS JOIN gaps INDEXED BY gaps_closed
        ON gaps.type_id = counters.type_id AND gaps.period = counters.period
       AND gaps.start BETWEEN ?4 AND ?3 AND gaps.closed_at IS NOT NULL
    WHERE counters.type_id = ?1 AND (?2 IS NULL OR counters.period = ?2)
      AND gaps.stop > ?3
    ORDER BY period, id";

/// Which gaps a filter means, whatever the page is.
const MATCHES: &str = "type_id = ?1
    AND (?2 OR closed_at IS NULL)
    AND (?3 IS NULL OR reason IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR stop > ?4)
    AND (?5 IS NULL OR start <= ?5)";

/// A serial as a parameter. No gap has one that does not fit.
fn serial(serial: u64) -> i64 {
    i64::try_from(serial).unwrap_or(i64::MAX)
}

fn matching(filter: &GapFilter) -> StepResult<Vec<Value>> {
    let GapFilter { type_id, reasons, from, to, with_closed, page: _ } = filter;
    let names: Vec<&str> = reasons.iter().copied().map(GapReason::name).collect();
    let reasons = serde_json::to_string(&names).map_err(|error| corrupt(error.to_string()))?;
    let or_null = |bound: Option<u64>| bound.map_or(Value::Null, |at| serial(at).into());
    Ok(vec![
        type_id.0.into(),
        (*with_closed).into(),
        if names.is_empty() { Value::Null } else { reasons.into() },
        or_null(*from),
        or_null(*to),
    ])
}

/// The gaps of a type, oldest first.
pub(crate) fn list(connection: &Connection, filter: &GapFilter) -> StepResult<Vec<Gap>> {
    let mut params = matching(filter)?;
    params.extend([filter.page.after.into(), filter.page.limit.into()]);
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM gaps INDEXED BY gaps_by_type
             WHERE {MATCHES} AND id > ?6 ORDER BY id LIMIT ?7"
        ))?
        .query_and_then(rusqlite::params_from_iter(params), read_row)?
        .collect()
}

/// How many gaps match, and how many serials they hold.
pub(crate) fn count(connection: &Connection, filter: &GapFilter) -> StepResult<GapTotals> {
    let totals = connection
        .prepare_cached(&format!(
            "SELECT count(*), coalesce(sum(stop - start), 0) FROM gaps INDEXED BY gaps_by_type
             WHERE {MATCHES}"
        ))?
        .query_one(rusqlite::params_from_iter(matching(filter)?), |row| {
            Ok(GapTotals { gaps: row.get(0)?, serials: row.get(1)? })
        })?;
    Ok(totals)
}

/// Records who has accepted a gap, unless somebody has.
pub(crate) fn sign_off(
    connection: &Connection,
    type_id: TypeId,
    gap: i64,
    sign_off: &SignOff,
) -> StepResult<Option<Gap>> {
    let SignOff { key_id, at, note } = sign_off;
    connection
        .prepare_cached(
            "UPDATE gaps SET signed_by = ?3, signed_at = ?4, signed_note = ?5
             WHERE id = ?1 AND type_id = ?2 AND signed_at IS NULL",
        )?
        .execute(params![gap, type_id.0, key_id, Millis(*at), note])?;
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM gaps WHERE id = ?1 AND type_id = ?2"))?
        .query_and_then([gap, type_id.0], read_row)?
        .next()
        .transpose()
}

/// The gaps that hold a serial, open or closed.
pub(crate) fn find(
    connection: &Connection,
    type_id: TypeId,
    period: Option<&str>,
    serial: u64,
) -> StepResult<Vec<Gap>> {
    let first = (serial + 1).saturating_sub(CLOSED_SERIALS_MAX);
    connection
        .prepare_cached(FIND)?
        .query_and_then(params![type_id.0, period, serial, first], read_row)?
        .collect()
}
