//! Documents whose numbers are where they should be and of which nothing is on record: one statement.
//!
//! The functions in the database also take care of all that is out of the ordinary, and need a dozen
//! statements to look for it. These here do everything or nothing. Where no row comes back, the functions
//! find out why. Both lock rows in the same order and take the same parameters.

use storage::DocumentOrder;

use crate::outbox::consignments::RUN_MAX;

/// A statement for documents that are due at once, and one for those that are claimed.
pub(super) struct Usual {
    due: &'static str,
    claimed: &'static str,
}

impl Usual {
    /// The one for an order of so many documents; none if they are too many.
    pub(super) fn of(&self, order: &DocumentOrder, documents: usize) -> Option<&'static str> {
        match order.claimed_until {
            None => Some(self.due),
            Some(_) => (documents <= RUN_MAX).then_some(self.claimed),
        }
    }
}

/// What is due is a row for each of them. What is claimed sets out together.
macro_rules! queueing {
    (due) => {
        "INSERT INTO pending_deliveries (number, receiver, type_id, due_at)
         SELECT number, $18, $1, $20 FROM put"
    };
    (claimed) => {
        "INSERT INTO consignments (start, stop, receiver, type_id, due_at)
         SELECT lower(run), upper(run), $18, $1, $19
         FROM (SELECT unnest(range_agg(int8range(number, number + 1))) AS run FROM put) AS runs"
    };
}

macro_rules! usual {
    (locking: $locking:literal, if: $condition:literal, taking: $taking:literal) => {
        Usual {
            due: assign!(due, $locking, $condition, $taking),
            claimed: assign!(claimed, $locking, $condition, $taking),
        }
    };
}

macro_rules! assign {
    ($queue:ident, $locking:literal, $condition:literal, $taking:literal) => {
        concat!(
            "WITH ",
            $locking,
            "type AS MATERIALIZED (
                SELECT name FROM id_types
                WHERE id = $1 AND revision = $2 AND NOT retired AND used AND ",
            $condition,
            "     AND EXISTS (SELECT FROM delivery_receivers WHERE receiver = $18)
                  AND NOT EXISTS (
                      SELECT FROM unnest($15::text[], $16::text[]) AS new (reference, request_key)
                      CROSS JOIN LATERAL (
                          SELECT 1 FROM deliveries AS known
                          WHERE known.type_id = $1 AND known.reference = new.reference
                          UNION ALL
                          SELECT 1 FROM deliveries AS known
                          WHERE known.request_key = new.request_key LIMIT 1) AS known)
                FOR SHARE
            ), taken AS (",
            $taking,
            "     AND EXISTS (SELECT FROM type)
                RETURNING 1
            ), logged AS (
                INSERT INTO issue_log (type_id, period, width_log2, start, stop, entries)
                SELECT $1, $3, entry.*
                FROM unnest($9::smallint[], $7::bigint[], $8::bigint[], $10::bytea[]) AS entry
                WHERE EXISTS (SELECT FROM taken)
                ON CONFLICT (type_id, period, width_log2, start)
                    DO UPDATE SET stop = excluded.stop, entries = excluded.entries
                    WHERE excluded.stop > issue_log.stop
            ), put AS (
                INSERT INTO deliveries (number, receiver, key, subject, body, created_at, type_id,
                                        period, serial, reference, request_key, key_id)
                    OVERRIDING SYSTEM VALUE
                SELECT (ARRAY(SELECT nextval('deliveries_number_seq')
                              FROM generate_series(1, cardinality($11))))[document.place],
                       $18, document.id, type.name, document.payload, $20, $1, $3, document.serial,
                       document.reference, document.request_key, document.asker
                FROM type CROSS JOIN
                    unnest($11::integer[], $12::bigint[], $13::text[], $14::text[], $15::text[],
                           $16::text[], $17::bigint[])
                    AS document (place, serial, id, payload, reference, request_key, asker)
                WHERE EXISTS (SELECT FROM taken)
                RETURNING serial, number, subject
            ), queued AS (",
            queueing!($queue),
            ")
            SELECT serial AS its_serial, number AS its_number, subject AS its_subject
            FROM put ORDER BY serial"
        )
    };
}

/// With numbers that were drawn before, unless they are the last ones that the holder has.
pub(super) const TAKE_DRAWN: Usual = usual!(
    locking: "",
    if: "true",
    taking: "
        UPDATE draws SET open = open - spent.spans
        FROM (SELECT range_agg(int8range(span.start, span.stop)) AS spans
              FROM unnest($7::bigint[], $8::bigint[]) AS span (start, stop)) AS spent
        WHERE type_id = $1 AND period = $3 AND holder = $4
          AND open @> spent.spans AND open <> spent.spans"
);

/// With the next numbers of a counter, if it stands where it should.
pub(super) const TAKE_NEXT: Usual = usual!(
    locking: "counter AS MATERIALIZED (
        SELECT FROM counters WHERE type_id = $1 AND period = $3 AND next = ($7::bigint[])[1]
        FOR UPDATE
    ), ",
    if: "EXISTS (SELECT FROM counter)",
    taking: "
        UPDATE counters SET next = ($8::bigint[])[cardinality($8)]
        WHERE type_id = $1 AND period = $3 AND next = ($7::bigint[])[1]
          AND ($8::bigint[])[cardinality($8)] <= $6"
);
