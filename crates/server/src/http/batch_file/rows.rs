//! The rows of a file.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use engine::LiveType;
use idgen::format::Format;
use serde::Deserialize;
use serde_json::Value;
use storage::{Batch, BatchId};

use crate::http::problem::Problem;
use crate::percent::escape;

/// Codes that are rendered at a time. All that is in memory of a file.
pub(super) const PORTION: u64 = 8192;

/// The longest template of addresses, in bytes, and the longest address that can come of it, without
/// what belongs to the code.
const TEMPLATE_BYTES_MAX: usize = 2000;
const URL_BYTES_MAX: usize = 2000;

/// Characters that no address has, and that would end a cell or a text in a file.
const NOT_IN_ADDRESSES: &[u8] = b"\"\\<>^`|";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileFormat {
    #[default]
    Csv,
    Ndjson,
    Txt,
}

impl FileFormat {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
            Self::Txt => "text/plain; charset=utf-8",
        }
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Txt => "txt",
        }
    }
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Code,
    Serial,
    Id,
    Url,
}

impl Column {
    const NAMES: [(&'static str, Self); 4] =
        [("code", Self::Code), ("serial", Self::Serial), ("id", Self::Id), ("url", Self::Url)];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, column)| *column == self).map_or("", |(name, _)| name)
    }

    pub(super) fn read(list: &str) -> Result<Vec<Self>, Problem> {
        let read = |name: &str| {
            let known = Self::NAMES.iter().find(|(known, _)| *known == name.trim());
            known.map(|(_, column)| *column).ok_or_else(|| {
                let detail = format!("There is no column {name:?}; use code, serial, id and url.");
                Problem::invalid(detail)
            })
        };
        let mut columns = Vec::with_capacity(Self::NAMES.len());
        for column in list.split(',').take(Self::NAMES.len() + 1).map(read) {
            let column = column?;
            if columns.contains(&column) {
                return Err(Problem::invalid(format!(
                    "The column {} is there twice.",
                    column.name()
                )));
            }
            columns.push(column);
        }
        Ok(columns)
    }
}

/// An address with places for what belongs to a code, such as a GS1 Digital Link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct UrlTemplate(Vec<UrlPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlPart {
    Text(String),
    Code,
    Serial,
    Id,
}

impl UrlTemplate {
    /// Reads `https://id.example.com/01/{gtin}/21/{code}`. Places other than `code`, `serial` and `id`
    /// are filled from the batch's metadata.
    pub(in crate::http) fn read(text: &str, metadata: &Value) -> Result<Self, Problem> {
        let wrong = |what: &str| Problem::invalid(format!("The url template {text:?} {what}."));
        if !(text.starts_with("https://") || text.starts_with("http://")) {
            return Err(wrong("must begin with https:// or http://"));
        }
        let usable = |byte: u8| byte.is_ascii_graphic() && !NOT_IN_ADDRESSES.contains(&byte);
        if text.len() > TEMPLATE_BYTES_MAX || !text.bytes().all(usable) {
            return Err(wrong("must be a short address without spaces, quotes and the like"));
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, place)) = rest.split_once('{') {
            let (name, after) = place.split_once('}').ok_or_else(|| wrong("has an open brace"))?;
            parts.push(UrlPart::Text(before.to_owned()));
            parts.push(match (name, &metadata[name]) {
                ("code", _) => UrlPart::Code,
                ("serial", _) => UrlPart::Serial,
                ("id", _) => UrlPart::Id,
                (_, Value::String(value)) => UrlPart::Text(escape(value)),
                (_, Value::Number(value)) => UrlPart::Text(value.to_string()),
                _ => {
                    return Err(wrong(&format!(
                        "names {name:?}, which the batch's metadata lacks"
                    )));
                }
            });
            rest = after;
        }
        if rest.contains('}') {
            return Err(wrong("has a brace too many"));
        }
        parts.push(UrlPart::Text(rest.to_owned()));
        let length = |part: &UrlPart| if let UrlPart::Text(text) = part { text.len() } else { 0 };
        if parts.iter().map(length).sum::<usize>() > URL_BYTES_MAX {
            return Err(wrong("becomes too long with the batch's metadata"));
        }
        if !parts.iter().any(|part| matches!(part, UrlPart::Code | UrlPart::Serial | UrlPart::Id)) {
            return Err(wrong("names nothing of the code; use {code}"));
        }
        Ok(Self(parts))
    }

    /// Writes the address of a code. Codes consist of characters that need no escaping.
    pub(in crate::http) fn write(&self, out: &mut String, code: &str, serial: u64, id: i64) {
        for part in &self.0 {
            let written = match part {
                UrlPart::Text(text) => out.write_str(text),
                UrlPart::Code => out.write_str(code),
                UrlPart::Serial => write!(out, "{serial}"),
                UrlPart::Id => write!(out, "{id}"),
            };
            written.expect("memory can be written to");
        }
    }
}

/// A file in the making.
pub(super) struct File {
    pub(super) batch: BatchId,
    /// The first serial of the batch.
    first: u64,
    live: Arc<LiveType>,
    pub(super) format: FileFormat,
    columns: Vec<Column>,
    url: Option<UrlTemplate>,
}

impl File {
    pub(super) fn new(
        batch: &Batch,
        live: Arc<LiveType>,
        format: FileFormat,
        columns: Vec<Column>,
        url: Option<UrlTemplate>,
    ) -> Self {
        Self { batch: batch.id, first: batch.serials.start, live, format, columns, url }
    }

    /// What comes before the first row.
    pub(super) fn head(&self) -> Option<String> {
        if self.format != FileFormat::Csv {
            return None;
        }
        let names: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
        Some(names.join(",") + "\r\n")
    }

    /// Writes some codes.
    pub(super) fn rows(&self, serials: Range<u64>) -> String {
        let Format::Random(format) = self.live.format() else { return String::new() };
        let mut rows = String::with_capacity(256 << 10);
        format.for_each(serials, |serial, code| {
            let code = std::str::from_utf8(code).expect("symbols are ASCII");
            self.row(&mut rows, serial, code);
        });
        rows
    }

    fn row(&self, rows: &mut String, serial: u64, code: &str) {
        // What separates the fields; for ndjson the names are a part of it.
        let (open, between, close) = match self.format {
            FileFormat::Txt => ("", "", "\n"),
            FileFormat::Csv => ("\"", "\",\"", "\"\r\n"),
            FileFormat::Ndjson => ("{\"", "\",\"", "\"}\n"),
        };
        for (at, column) in self.columns.iter().enumerate() {
            rows.push_str(if at == 0 { open } else { between });
            if self.format == FileFormat::Ndjson {
                rows.push_str(column.name());
                rows.push_str("\":\"");
            }
            self.field(rows, *column, serial, code);
        }
        rows.push_str(close);
    }

    fn field(&self, rows: &mut String, column: Column, serial: u64, code: &str) {
        let id = self.batch.code_id(serial - self.first);
        let written = match column {
            Column::Code => rows.write_str(code),
            Column::Serial => write!(rows, "{serial}"),
            Column::Id => write!(rows, "{id}"),
            Column::Url => {
                if let Some(url) = &self.url {
                    url.write(rows, code, serial, id);
                }
                Ok(())
            }
        };
        written.expect("memory can be written to");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_filled_in() {
        let metadata = json!({"gtin": "0950 6", "line": 3});
        let template = "https://id.example.com/01/{gtin}/21/{code}?l={line}&s={serial}";
        let template = UrlTemplate::read(template, &metadata).unwrap();
        let mut url = String::new();
        template.write(&mut url, "AB-CD", 7, 8);
        assert_eq!(url, "https://id.example.com/01/0950%206/21/AB-CD?l=3&s=7");
    }

    #[test]
    fn what_is_no_address_of_a_code_is_refused() {
        for text in [
            "",
            "javascript:{code}",
            "https://a/{code",
            "https://a/code}",
            "https://a/",
            "https://a/{b}",
            "https://a/ {code}",
            "https://a/\"{code}",
            "https://a/\\{code}",
            "https://a/\n{code}",
        ] {
            assert!(UrlTemplate::read(text, &Value::Null).is_err(), "{text}");
        }
    }
}
