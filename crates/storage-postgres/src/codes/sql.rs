//! Statements about codes. Each names its table, and each reads the batch along with the codes.

use storage::Ledger;

/// How a code stands, in terms of `code` and `known`, which has the batch.
const STATUS: &str = "
    code.serial, code.scans, code.first_scanned_at, code.void_at, code.void_reason,
    known.recalled_at, known.recall_reason";

/// Counts scans of codes that have rows.
///
/// The serials come in order, and a lateral join keeps to it, so two groups never lock the same rows
/// in different orders.
fn count_stored(table: &str) -> String {
    format!(
        "WITH known AS MATERIALIZED (
             SELECT wanted.serial, wanted.scans, batch.recalled_at, batch.recall_reason
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
                 AS wanted (serial, batch_id, id, scans)
             CROSS JOIN LATERAL (
                 SELECT recalled_at, recall_reason FROM batches
                 WHERE batches.id = wanted.batch_id AND type_id = $5 AND ledger = 'stored'
                   AND start <= wanted.serial AND wanted.serial < stop OFFSET 0) AS batch
             CROSS JOIN LATERAL (
                 SELECT FROM {table} AS code WHERE code.serial = wanted.serial
                 FOR NO KEY UPDATE) AS locked
         )
         UPDATE {table} AS code SET scans = code.scans + known.scans,
             first_scanned_at = coalesce(code.first_scanned_at, $6)
         FROM known WHERE code.serial = known.serial
         RETURNING {STATUS}"
    )
}

/// Counts scans of codes that have rows only if something happened to them before.
fn count_derived(table: &str) -> String {
    format!(
        "WITH known AS MATERIALIZED (
             SELECT wanted.serial, wanted.id, wanted.scans, batch.recalled_at,
                    batch.recall_reason
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
                 AS wanted (serial, batch_id, id, scans)
             CROSS JOIN LATERAL (
                 SELECT recalled_at, recall_reason FROM batches
                 WHERE batches.id = wanted.batch_id AND type_id = $5 AND ledger = 'derived'
                   AND start <= wanted.serial AND wanted.serial < stop OFFSET 0) AS batch
         ), code AS (
             INSERT INTO {table} AS code (serial, id, scans, first_scanned_at)
             SELECT known.serial, known.id, known.scans, $6 FROM known
             ON CONFLICT (serial) DO UPDATE SET scans = code.scans + excluded.scans,
                 first_scanned_at = coalesce(code.first_scanned_at, excluded.first_scanned_at)
             RETURNING code.*
         )
         SELECT {STATUS} FROM code JOIN known ON known.serial = code.serial"
    )
}

pub(super) fn count(table: &str, ledger: Ledger) -> String {
    match ledger {
        Ledger::Stored => count_stored(table),
        Ledger::Derived => count_derived(table),
    }
}

pub(super) fn look(table: &str) -> String {
    format!(
        "SELECT coalesce(code.scans, 0) AS scans, code.first_scanned_at, code.void_at,
                code.void_reason, known.recalled_at, known.recall_reason
         FROM batches AS known LEFT JOIN {table} AS code ON code.serial = $3
         WHERE known.id = $1 AND known.type_id = $2 AND known.start <= $3 AND $3 < known.stop
           AND (code.serial IS NOT NULL OR known.ledger = 'derived')"
    )
}

pub(super) fn make_void(table: &str, ledger: Ledger) -> String {
    let known = |name: &str| {
        format!(
            "WITH known AS MATERIALIZED (
                 SELECT recalled_at, recall_reason FROM batches
                 WHERE id = $1 AND type_id = $2 AND ledger = '{name}' AND start <= $3 AND $3 < stop
             )"
        )
    };
    match ledger {
        // The ID is in the row already; it is a parameter only for the other form.
        Ledger::Stored => format!(
            "{}
             UPDATE {table} AS code SET void_at = coalesce(code.void_at, $5),
                 void_reason = coalesce(code.void_reason, $4)
             FROM known WHERE code.serial = $3 AND $6::bigint IS NOT NULL
             RETURNING {STATUS}",
            known("stored")
        ),
        Ledger::Derived => format!(
            "{}, code AS (
                 INSERT INTO {table} AS code (serial, id, void_at, void_reason)
                 SELECT $3, $6, $5, $4 FROM known
                 ON CONFLICT (serial) DO UPDATE SET
                     void_at = coalesce(code.void_at, excluded.void_at),
                     void_reason = coalesce(code.void_reason, excluded.void_reason)
                 RETURNING code.*
             )
             SELECT {STATUS} FROM code CROSS JOIN known",
            known("derived")
        ),
    }
}
