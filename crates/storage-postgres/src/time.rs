//! Times in the database. It counts microseconds since 2000; the traits speak of milliseconds.

use std::error::Error;

use bytes::BytesMut;
use jiff::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// 2000-01-01 in microseconds since 1970.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A time as a column of type `timestamptz` holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    /// A time without the part of it that is finer than a millisecond.
    pub(crate) fn new(time: Timestamp) -> Self {
        Self(Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time))
    }
}

impl ToSql for Time {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        (self.0.as_microsecond() - EPOCH_MICROS).to_sql(ty, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_sql(ty, raw)?.checked_add(EPOCH_MICROS).ok_or("an endless time")?;
        let time = Timestamp::from_microsecond(micros).map_err(|error| error.to_string())?;
        Ok(Self(time))
    }

    accepts!(TIMESTAMPTZ);
}

/// A time just as the database counts it, for times that are only compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) i64);

impl Stamp {
    /// Before every other time.
    pub(crate) const MIN: Self = Self(i64::MIN);
}

impl ToSql for Stamp {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Stamp {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        i64::from_sql(ty, raw).map(Self)
    }

    accepts!(TIMESTAMPTZ);
}
