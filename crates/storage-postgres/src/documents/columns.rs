//! Documents and their numbers as arrays, one for each column, so that any number of them is one
//! parameter list.

use storage::{DocumentOrder, Issue, NewDocument, Result, packing};
use tokio_postgres::types::Type;

use crate::session::Param;
use crate::spans::write_serial;
use crate::time::Time;

/// Puts documents on record. No row comes back if nothing was done.
pub(super) const ASSIGN: &str = "
    SELECT its_serial, its_number, its_subject
    FROM assign_documents($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                          $18, $19, $20)
    ORDER BY its_serial";

/// The same, behind everybody who does so at the same time.
pub(super) const ASSIGN_IN_ORDER: &str = "
    SELECT its_serial, its_number, its_subject
    FROM assign_in_order($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                         $18, $19, $20)
    ORDER BY its_serial";

/// Most documents in one row of the issue log: whoever looks for one reads the whole row.
const ISSUES_PER_ROW: usize = 512;

/// Where the numbers come from, as the database is told.
pub(super) struct Source<'a> {
    /// Who has drawn them. Nobody: they are the counter's next ones.
    pub(super) holder: Option<&'a str>,
    pub(super) bounds: (i64, i64),
}

/// Documents with their numbers, column by column.
pub(super) struct Columns<'a> {
    order: &'a DocumentOrder,
    source: Source<'a>,
    starts: Vec<i64>,
    stops: Vec<i64>,
    widths: Vec<i16>,
    packed: Vec<Vec<u8>>,
    places: Vec<i32>,
    serials: Vec<i64>,
    ids: Vec<&'a str>,
    payloads: Vec<&'a str>,
    references: Vec<Option<&'a str>>,
    request_keys: Vec<Option<&'a str>>,
    askers: Vec<i64>,
    claimed_until: Option<Time>,
    now: Time,
}

/// The log of one document.
pub(super) fn pack_one(serial: u64, key_id: i64, now: Time) -> Vec<u8> {
    packing::encode(serial, &[issue(serial, key_id, now)])
}

fn issue(serial: u64, key_id: i64, now: Time) -> Issue {
    Issue { first: serial, last: serial, key_id, at_ms: now.0.as_millisecond() }
}

impl<'a> Columns<'a> {
    /// The first numbers are those of the documents. There are at least as many.
    pub(super) fn new(
        order: &'a DocumentOrder,
        source: Source<'a>,
        documents: &[&'a NewDocument],
        numbers: &'a [(u64, String)],
    ) -> Result<Self> {
        let now = Time::new(order.now);
        let mut columns = Self {
            order,
            source,
            starts: Vec::new(),
            stops: Vec::new(),
            widths: Vec::new(),
            packed: Vec::new(),
            places: Vec::with_capacity(documents.len()),
            serials: Vec::with_capacity(documents.len()),
            ids: Vec::with_capacity(documents.len()),
            payloads: Vec::with_capacity(documents.len()),
            references: Vec::with_capacity(documents.len()),
            request_keys: Vec::with_capacity(documents.len()),
            askers: Vec::with_capacity(documents.len()),
            claimed_until: order.claimed_until.map(Time::new),
            now,
        };
        let mut rows: Vec<_> = (1_i32..).zip(documents.iter().copied().zip(numbers)).collect();
        // Whoever brings some of the same documents has them in the same order.
        rows.sort_by_key(|(_, (document, _))| (&document.request_key, &document.reference));
        for (place, (document, (serial, id))) in rows {
            columns.places.push(place);
            columns.serials.push(write_serial(*serial)?);
            columns.ids.push(id);
            columns.payloads.push(&document.payload);
            columns.references.push(document.reference.as_deref());
            columns.request_keys.push(document.request_key.as_deref());
            columns.askers.push(document.key_id);
        }
        let issues: Vec<Issue> = documents
            .iter()
            .zip(numbers)
            .map(|(document, (serial, _))| issue(*serial, document.key_id, now))
            .collect();
        // What lies between the numbers is no concern of theirs, so every run is a row of its own.
        for run in issues.chunk_by(|a, b| a.last + 1 == b.first) {
            for row in run.chunks(ISSUES_PER_ROW) {
                columns.log(row)?;
            }
        }
        Ok(columns)
    }

    fn log(&mut self, row: &[Issue]) -> Result<()> {
        let (Some(first), Some(last)) = (row.first(), row.last()) else { return Ok(()) };
        let (start, stop) = (first.first, last.last + 1);
        self.starts.push(write_serial(start)?);
        self.stops.push(write_serial(stop)?);
        let width_log2 = (stop - start).ilog2();
        self.widths.push(i16::try_from(width_log2).expect("a logarithm is below 64"));
        self.packed.push(packing::encode(start, row));
        Ok(())
    }

    /// In the order in which the function in the database takes them.
    pub(super) fn params(&self) -> [Param<'_>; 20] {
        [
            (&self.order.type_id.0, Type::INT8),
            (&self.order.revision, Type::INT8),
            (&self.order.period, Type::TEXT),
            (&self.source.holder, Type::TEXT),
            (&self.source.bounds.0, Type::INT8),
            (&self.source.bounds.1, Type::INT8),
            (&self.starts, Type::INT8_ARRAY),
            (&self.stops, Type::INT8_ARRAY),
            (&self.widths, Type::INT2_ARRAY),
            (&self.packed, Type::BYTEA_ARRAY),
            (&self.places, Type::INT4_ARRAY),
            (&self.serials, Type::INT8_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.payloads, Type::TEXT_ARRAY),
            (&self.references, Type::TEXT_ARRAY),
            (&self.request_keys, Type::TEXT_ARRAY),
            (&self.askers, Type::INT8_ARRAY),
            (&self.order.sink.0, Type::INT8),
            (&self.claimed_until, Type::TIMESTAMPTZ),
            (&self.now, Type::TIMESTAMPTZ),
        ]
    }
}
