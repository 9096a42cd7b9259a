//! Times in the file: milliseconds since 1970.

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// A time as a column holds it.
pub(crate) struct Millis(pub(crate) Timestamp);

impl ToSql for Millis {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_millisecond().into())
    }
}

impl FromSql for Millis {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        Timestamp::from_millisecond(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}
