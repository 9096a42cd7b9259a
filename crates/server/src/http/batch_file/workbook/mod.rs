//! Files for spreadsheets: xlsx, which is a zip archive of XML parts.
//!
//! Every cell is a text in a cell that is formatted as text, so that no spreadsheet makes a number of a
//! code, and nothing is a formula. Strings stand in their cells: a table of all of them, which other
//! writers use, would have to be in memory.

mod archive;
mod cells;
mod parts;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;

use self::archive::Archive;
use self::parts::Sheet;
use super::rows::Rows;
use super::stream::portion_rows;

/// The rows of a sheet, its head included. No spreadsheet has more.
const SHEET_ROWS_MAX: u64 = 1 << 20;

/// The largest sheet. Excel takes archives with larger parts for damaged, unless they are written in one
/// certain way, so a sheet ends earlier where rows are long.
const SHEET_BYTES_MAX: u64 = (4 << 30) - (1 << 20);

/// A workbook, one portion after the other.
pub(super) struct Workbook {
    rows: Rows,
    /// What is left to be written, the next last.
    left: Vec<Range<u64>>,
    sheets: Vec<Sheet>,
    /// The characters of each column.
    widths: Vec<usize>,
    /// Codes that are rendered at a time.
    portion: u64,
    /// Sheets that were begun.
    begun: usize,
    /// The last row that was written into the last of them.
    row: u64,
    /// None at the end.
    archive: Option<Archive>,
}

impl Workbook {
    pub(super) fn new(rows: Rows, serials: Vec<Range<u64>>) -> Self {
        Self::with_sheets_of(SHEET_ROWS_MAX, rows, serials)
    }

    /// The same with other sheets.
    fn with_sheets_of(sheet_rows_max: u64, rows: Rows, serials: Vec<Range<u64>>) -> Self {
        let mut longest = String::new();
        let mut widths = rows.columns.iter().map(|column| column.name().len()).collect();
        // Numbers only grow, so the last row is the longest.
        let last = serials.last().map_or(0..0, |range| range.end - 1..range.end);
        rows.for_each(last, |serial, code| {
            cells::write_row(&mut longest, &rows, SHEET_ROWS_MAX, serial, code);
            widths = cells::widths(&rows, serial, code);
        });
        let row_bytes = longest.len().max(1) as u64;
        let codes_max = (sheet_rows_max - 1).min(SHEET_BYTES_MAX / row_bytes);
        let codes = serials.iter().map(|range| range.end - range.start).sum();
        Self {
            sheets: parts::sheets(codes, codes_max),
            left: serials.into_iter().rev().collect(),
            widths,
            portion: portion_rows(row_bytes),
            begun: 0,
            row: 0,
            archive: Some(Archive::default()),
            rows,
        }
    }

    /// Writes some more. The archive is gone when it is complete.
    fn step(&mut self, mut archive: Archive) -> io::Result<Vec<u8>> {
        let sheet = self.begun.checked_sub(1).and_then(|index| self.sheets.get(index));
        if let Some(sheet) = sheet.filter(|sheet| self.row < sheet.last_row) {
            let room = sheet.last_row - self.row;
            archive.write(&self.next_rows(room))?;
        } else {
            match sheet {
                Some(sheet) => archive.write(&parts::sheet_foot(sheet, &self.rows.columns))?,
                None => parts::write_all_but_sheets(&mut archive, &self.sheets)?,
            }
            let Some(sheet) = self.sheets.get(self.begun) else { return archive.finish() };
            archive.begin(&sheet.path())?;
            archive.write(&parts::sheet_head(sheet, &self.rows.columns, &self.widths))?;
            archive.write(&cells::head_row(&self.rows.columns))?;
            self.begun += 1;
            self.row = 1;
        }
        let bytes = archive.take();
        self.archive = Some(archive);
        Ok(bytes)
    }

    fn next_rows(&mut self, room: u64) -> String {
        let mut xml = String::new();
        let Some(Range { start, end }) = self.left.pop() else { return xml };
        let cut = end.min(start + room.min(self.portion));
        if cut < end {
            self.left.push(cut..end);
        }
        let row = &mut self.row;
        self.rows.for_each(start..cut, |serial, code| {
            *row += 1;
            cells::write_row(&mut xml, &self.rows, *row, serial, code);
        });
        xml
    }
}

impl Iterator for Workbook {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let archive = self.archive.take()?;
            let portion = self.step(archive);
            // What is compressed comes out when there is enough of it.
            if !portion.as_ref().is_ok_and(Vec::is_empty) {
                return Some(portion);
            }
        }
    }
}
