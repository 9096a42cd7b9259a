//! Spans as arrays, one for each column, so that any number of them is one parameter list.

use std::ops::Range;

use storage::{Result, Span, TypeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::corrupt;
use crate::session::Param;

/// A serial for the database, which has signed numbers only.
pub(crate) fn write_serial(serial: u64) -> Result<i64> {
    i64::try_from(serial).map_err(|_| corrupt(format!("{serial} is beyond every serial")))
}

pub(crate) fn read_serial(serial: i64) -> Result<u64> {
    u64::try_from(serial).map_err(|_| corrupt(format!("{serial} is no serial")))
}

/// The serials of a row that has `start` and `stop`.
pub(crate) fn read_serials(row: &Row) -> Result<Range<u64>> {
    Ok(read_serial(row.get("start"))?..read_serial(row.get("stop"))?)
}

/// The span of a row that has one.
pub(crate) fn read_span(row: &Row) -> Result<Span> {
    Ok(Span {
        type_id: TypeId(row.get("type_id")),
        period: row.get("period"),
        serials: read_serials(row)?,
    })
}

/// Spans, column by column.
#[derive(Default)]
pub(crate) struct SpanColumns<'a> {
    types: Vec<i64>,
    periods: Vec<&'a str>,
    starts: Vec<i64>,
    stops: Vec<i64>,
}

impl<'a> SpanColumns<'a> {
    pub(crate) fn new(spans: impl IntoIterator<Item = &'a Span>) -> Result<Self> {
        let mut columns = Self::default();
        for span in spans {
            // An empty span is nothing.
            if span.serials.start < span.serials.end {
                columns.types.push(span.type_id.0);
                columns.periods.push(&span.period);
                columns.starts.push(write_serial(span.serials.start)?);
                columns.stops.push(write_serial(span.serials.end)?);
            }
        }
        Ok(columns)
    }

    /// In the order in which the functions in the database take them.
    pub(crate) fn params(&self) -> [Param<'_>; 4] {
        [
            (&self.types, Type::INT8_ARRAY),
            (&self.periods, Type::TEXT_ARRAY),
            (&self.starts, Type::INT8_ARRAY),
            (&self.stops, Type::INT8_ARRAY),
        ]
    }
}
