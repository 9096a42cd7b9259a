//! Files of text: csv, ndjson and txt.

use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::rows::Rows;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFormat {
    Csv,
    Ndjson,
    Txt,
}

/// A file of text in the making.
pub(super) struct TextFile {
    pub(super) rows: Rows,
    format: TextFormat,
}

impl TextFile {
    pub(super) fn new(rows: Rows, format: TextFormat) -> Self {
        Self { rows, format }
    }

    /// What comes before the first row.
    pub(super) fn head(&self) -> String {
        if self.format != TextFormat::Csv {
            return String::new();
        }
        let names: Vec<&str> = self.rows.columns.iter().map(|column| column.name()).collect();
        names.join(",") + "\r\n"
    }

    /// Writes some codes.
    pub(super) fn write_rows(&self, out: &mut String, serials: Range<u64>) {
        self.rows.for_each(serials, |serial, code| self.row(out, serial, code));
    }

    /// The row of one code.
    pub(super) fn row_of(&self, serial: u64) -> String {
        let mut row = String::new();
        self.write_rows(&mut row, serial..serial + 1);
        row
    }

    /// What tells the file of these serials from every other, as a strong `ETag`. The first row is a part
    /// of it, because codes can be grouped in another way later.
    pub(super) fn etag(&self, with_head: bool, serials: &[Range<u64>]) -> String {
        let first = serials.first().map_or_else(String::new, |range| self.row_of(range.start));
        let identity = (&self.rows, self.format, with_head, serials, first);
        let digest = Sha256::digest(format!("{identity:?}"));
        format!("\"{}\"", hex::encode(&digest[..16]))
    }

    fn row(&self, rows: &mut String, serial: u64, code: &str) {
        // What separates the fields; for ndjson the names are a part of it.
        let (open, between, close) = match self.format {
            TextFormat::Txt => ("", "", "\n"),
            TextFormat::Csv => ("\"", "\",\"", "\"\r\n"),
            TextFormat::Ndjson => ("{\"", "\",\"", "\"}\n"),
        };
        for (at, column) in self.rows.columns.iter().enumerate() {
            rows.push_str(if at == 0 { open } else { between });
            if self.format == TextFormat::Ndjson {
                rows.push_str(column.name());
                rows.push_str("\":\"");
            }
            self.rows.write_field(rows, *column, serial, code);
        }
        rows.push_str(close);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idgen::format::Format;
    use idgen::key::TypeKey;
    use idgen::spec::IdType;
    use serde_json::json;
    use storage::BatchId;

    use super::super::columns::Column;
    use super::super::url::UrlTemplate;
    use super::*;

    #[test]
    fn every_other_file_has_another_tag() {
        let tag = |change: &str| {
            let is = |what: &str| change == what;
            let group = if is("group") { 4 } else { 5 };
            let spec = json!({"alphabet": "hex", "length": 20, "group": group});
            let id_type = IdType::from_value(json!({"name": "x", "random": spec})).unwrap();
            let codes = Arc::new(Format::new(&id_type, &TypeKey::new([7; 32])));
            let columns = if is("columns") { "url,code" } else { "code,url" };
            let template = if is("url") { "http://b/{code}" } else { "http://a/{code}" };
            let rows = Rows::of_test(
                BatchId(if is("batch") { 1 << 22 } else { 2 << 22 }),
                codes,
                Column::read(columns).unwrap(),
                Some(UrlTemplate::read(template, &json!({})).unwrap()),
            );
            let format = if is("format") { TextFormat::Ndjson } else { TextFormat::Csv };
            let made = if is("made") { [0..10, 21..30] } else { [0..10, 20..30] };
            TextFile::new(rows, format).etag(!is("head"), &made)
        };
        let usual = tag("");
        assert_eq!(tag(""), usual);
        assert!(usual.len() == 34 && usual.starts_with('"') && usual.ends_with('"'), "{usual}");
        for change in ["group", "columns", "url", "batch", "format", "made", "head"] {
            assert_ne!(tag(change), usual, "{change}");
        }
    }
}
