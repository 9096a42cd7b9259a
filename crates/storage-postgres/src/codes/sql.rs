//! Statements about codes. Each reads the batch along with the codes, and changes nothing but marks.

use storage::Ledger;

use super::tables::CodeTable;

/// A condition that a code of a batch was made: a stored one has a row. One that has a mark was found
/// there before, and the few marks are in memory more often than the many codes.
fn was_made(table: &CodeTable, ledger: Ledger, batch: &str, serial: &str) -> String {
    match ledger {
        Ledger::Stored => format!(
            "{batch}.ledger = 'stored'
             AND (EXISTS (SELECT FROM {} AS marked WHERE marked.serial = {serial})
                  OR EXISTS (SELECT FROM {} AS code WHERE code.serial = {serial}))",
            table.marks, table.codes
        ),
        Ledger::Derived => format!("{batch}.ledger = 'derived'"),
    }
}

/// Whether anything is to be kept that came along with scans. Where nothing is, the statement is one that
/// does not know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    Nothing,
    Contexts,
}

impl Along {
    /// A further part of a statement that counts, with four parameters from `first` on: serials, how many
    /// scans of each code are counted behind the one that is meant, keys, texts.
    fn kept(self, first: usize) -> String {
        if self == Self::Nothing {
            return String::new();
        }
        let [serials, behind, keys, texts] = [first, first + 1, first + 2, first + 3];
        format!(
            ", kept AS (
                 INSERT INTO scan_contexts (type_id, serial, number, scanned_at, key_id, context)
                 SELECT $4, mark.serial, mark.scans - sent.behind, $5, sent.key_id, sent.context
                 FROM unnest(${serials}::bigint[], ${behind}::bigint[], ${keys}::bigint[],
                             ${texts}::text[]) AS sent (serial, behind, key_id, context)
                 JOIN mark ON mark.serial = sent.serial)"
        )
    }
}

/// Counts scans: `$1` serials, `$2` their batches, `$3` how many scans, `$4` the type, `$5` the time, and
/// what came along from `$6` on. Rows without a serial are batches that were recalled.
///
/// The codes of a group are of few batches, often of one, so these are looked up first and not with every
/// code. Whether a code was made is asked for one after the other: a plan for all of them might read whole
/// tables. The serials are put in order, so two groups never lock the same rows in different orders.
pub(super) fn count(table: &CodeTable, ledger: Ledger, along: Along) -> String {
    count_where(table, ledger, "", &along.kept(6))
}

/// The same for one code, if the scan that `$6` stands for was not counted yet. Notes which one it was. What
/// came along is from `$7` on.
pub(super) fn count_once(table: &CodeTable, ledger: Ledger, along: Along) -> String {
    let noted =
        ", noted AS (UPDATE scan_keys SET scans = mark.scans FROM mark WHERE scan_keys.key = $6)";
    count_where(
        table,
        ledger,
        "JOIN scan_keys ON scan_keys.key = $6 AND scan_keys.scans IS NULL",
        &[noted, &along.kept(7)].concat(),
    )
}

fn count_where(table: &CodeTable, ledger: Ledger, condition: &str, note: &str) -> String {
    format!(
        "WITH batch AS MATERIALIZED (
             SELECT id, start, stop, ledger, recalled_at, recall_reason FROM batches
             WHERE id = ANY ($2) AND type_id = $4
         ), mark AS (
             INSERT INTO {marks} AS mark (serial, scans, first_scanned_at)
             SELECT wanted.serial, wanted.scans, $5
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
                 AS wanted (serial, batch_id, scans)
             JOIN batch ON batch.id = wanted.batch_id
                 AND batch.start <= wanted.serial AND wanted.serial < batch.stop
             CROSS JOIN LATERAL (SELECT WHERE {was_made} OFFSET 0) AS made
             {condition}
             ORDER BY wanted.serial
             ON CONFLICT (serial) DO UPDATE SET scans = mark.scans + excluded.scans,
                 first_scanned_at = coalesce(mark.first_scanned_at, excluded.first_scanned_at)
             RETURNING mark.*
         ){note}
         SELECT serial, scans, first_scanned_at, void_at, void_reason, NULL::bigint AS recalled
         FROM mark
         UNION ALL
         SELECT NULL, NULL, NULL, recalled_at, recall_reason, id FROM batch
         WHERE recalled_at IS NOT NULL",
        was_made = was_made(table, ledger, "batch", "wanted.serial"),
        marks = table.marks,
    )
}

/// How a code stands: `$1` the batch, `$2` the type, `$3` the serial.
pub(super) fn look(table: &CodeTable, ledger: Ledger) -> String {
    format!(
        "SELECT coalesce(mark.scans, 0) AS scans, mark.first_scanned_at, mark.void_at,
                mark.void_reason, batches.recalled_at, batches.recall_reason
         FROM batches LEFT JOIN {marks} AS mark ON mark.serial = $3
         WHERE batches.id = $1 AND batches.type_id = $2
           AND batches.start <= $3 AND $3 < batches.stop AND {was_made}",
        was_made = was_made(table, ledger, "batches", "$3"),
        marks = table.marks,
    )
}

/// Makes a code void: `$4` the reason, `$5` the time, the others as above.
pub(super) fn make_void(table: &CodeTable, ledger: Ledger) -> String {
    format!(
        "WITH known AS MATERIALIZED (
             SELECT recalled_at, recall_reason FROM batches
             WHERE batches.id = $1 AND batches.type_id = $2
               AND batches.start <= $3 AND $3 < batches.stop AND {was_made}
         ), mark AS (
             INSERT INTO {marks} AS mark (serial, void_at, void_reason)
             SELECT $3, $5, $4 FROM known
             ON CONFLICT (serial) DO UPDATE SET
                 void_at = coalesce(mark.void_at, excluded.void_at),
                 void_reason = coalesce(mark.void_reason, excluded.void_reason)
             RETURNING mark.*
         )
         SELECT mark.scans, mark.first_scanned_at, mark.void_at, mark.void_reason,
                known.recalled_at, known.recall_reason
         FROM mark CROSS JOIN known",
        was_made = was_made(table, ledger, "batches", "$3"),
        marks = table.marks,
    )
}
