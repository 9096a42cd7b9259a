//! What the rows of a file say, in whatever form they are written.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use idgen::format::Format;
use storage::{Batch, BatchId};

use super::columns::Column;
use super::url::UrlTemplate;

/// The rows of a batch.
pub(super) struct Rows {
    batch: BatchId,
    /// The first serial of the batch.
    first: u64,
    format: Arc<Format>,
    pub(super) columns: Vec<Column>,
    url: Option<UrlTemplate>,
}

impl Rows {
    pub(super) fn new(
        batch: &Batch,
        format: Arc<Format>,
        columns: Vec<Column>,
        url: Option<UrlTemplate>,
    ) -> Self {
        Self { batch: batch.id, first: batch.serials.start, format, columns, url }
    }

    /// Calls `each` with every serial of the range and its code.
    pub(super) fn for_each(&self, serials: Range<u64>, mut each: impl FnMut(u64, &str)) {
        // Batches are of random types only.
        let Format::Random(format) = &*self.format else { return };
        format.for_each(serials, |serial, code| {
            each(serial, std::str::from_utf8(code).expect("symbols are ASCII"));
        });
    }

    /// The serials of a range from which on rows can be longer than before, because a number in them has
    /// another digit. In order.
    pub(super) fn longer_from(&self, serials: &Range<u64>) -> Vec<u64> {
        let Range { start, end } = *serials;
        let id = |serial: u64| self.batch.code_id(serial - self.first).unsigned_abs();
        let mut cuts = Vec::new();
        for digits in 1..20 {
            let limit = 10_u64.pow(digits);
            cuts.push(limit);
            if id(start) < limit && limit <= id(end - 1) {
                cuts.push(first_where(start..end, |serial| id(serial) >= limit));
            }
        }
        cuts.retain(|cut| start < *cut && *cut < end);
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// Writes what a column says about a code.
    pub(super) fn write_field(&self, out: &mut String, column: Column, serial: u64, code: &str) {
        let id = self.batch.code_id(serial - self.first);
        let written = match column {
            Column::Code => out.write_str(code),
            Column::Serial => write!(out, "{serial}"),
            Column::Id => write!(out, "{id}"),
            Column::Url => {
                if let Some(url) = &self.url {
                    url.write(out, code, serial, id);
                }
                Ok(())
            }
        };
        written.expect("memory can be written to");
    }
}

/// All that the rows depend on, apart from the key and the form of the codes.
impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, first, columns, url, format: _ } = self;
        write!(f, "{batch:?} {first} {columns:?} {url:?}")
    }
}

/// The first number of a range for which something holds that holds for all behind it; the end if there is
/// none.
fn first_where(Range { mut start, mut end }: Range<u64>, holds: impl Fn(u64) -> bool) -> u64 {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) {
            end = middle;
        } else {
            start = middle + 1;
        }
    }
    start
}

#[cfg(test)]
impl Rows {
    /// Rows of a batch that begins with the first serial.
    pub(super) fn of_test(
        batch: BatchId,
        format: Arc<Format>,
        columns: Vec<Column>,
        url: Option<UrlTemplate>,
    ) -> Self {
        Self { batch, first: 0, format, columns, url }
    }
}
