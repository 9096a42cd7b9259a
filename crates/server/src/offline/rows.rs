//! How a code is written into a file.

use std::io::Write as _;

use clap::ValueEnum;

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values (RFC 4180).
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// One code a line.
    Txt,
}

/// What a row can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    Code,
    Serial,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Serial => "serial",
        }
    }
}

/// Writes rows of one format.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    format: FileFormat,
    columns: Vec<Column>,
}

impl Rows {
    pub(crate) fn new(format: FileFormat, columns: Vec<Column>) -> Self {
        Self { format, columns }
    }

    /// The names of the columns, for a CSV file.
    pub(crate) fn header(&self) -> String {
        self.columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(",") + "\n"
    }

    /// Appends one row.
    pub(crate) fn push(&self, serial: u64, code: &[u8], buffer: &mut Vec<u8>) {
        match self.format {
            FileFormat::Csv => self.separated(b',', serial, code, buffer, push_csv_cell),
            FileFormat::Txt => {
                self.separated(b'\t', serial, code, buffer, |code, buffer| {
                    buffer.extend_from_slice(code);
                });
            }
            FileFormat::Ndjson => self.push_json(serial, code, buffer),
        }
        buffer.push(b'\n');
    }

    fn separated(
        &self,
        separator: u8,
        serial: u64,
        code: &[u8],
        buffer: &mut Vec<u8>,
        push_code: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                buffer.push(separator);
            }
            match column {
                Column::Code => push_code(code, buffer),
                Column::Serial => push_number(serial, buffer),
            }
        }
    }

    fn push_json(&self, serial: u64, code: &[u8], buffer: &mut Vec<u8>) {
        for (i, column) in self.columns.iter().enumerate() {
            buffer.extend_from_slice(if i == 0 { b"{\"" } else { b",\"" });
            buffer.extend_from_slice(column.name().as_bytes());
            buffer.extend_from_slice(b"\":");
            match column {
                Column::Code => {
                    let text = std::str::from_utf8(code).expect("codes are made of characters");
                    serde_json::to_writer(&mut *buffer, text).expect("memory can be written to");
                }
                Column::Serial => push_number(serial, buffer),
            }
        }
        buffer.push(b'}');
    }
}

fn push_number(number: u64, buffer: &mut Vec<u8>) {
    write!(buffer, "{number}").expect("memory can be written to");
}

/// Random codes never need quotes; the text of a template might.
fn push_csv_cell(cell: &[u8], buffer: &mut Vec<u8>) {
    let special = |&byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    // Counting has no early exit, so it is done many bytes at a time.
    if cell.iter().filter(|byte| special(byte)).count() == 0 {
        buffer.extend_from_slice(cell);
        return;
    }
    buffer.push(b'"');
    for &byte in cell {
        if byte == b'"' {
            buffer.push(b'"');
        }
        buffer.push(byte);
    }
    buffer.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(format: FileFormat, columns: &[Column], code: &str) -> String {
        let mut buffer = Vec::new();
        Rows::new(format, columns.to_vec()).push(7, code.as_bytes(), &mut buffer);
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn each_format_writes_its_rows() {
        let both = [Column::Code, Column::Serial];
        assert_eq!(row(FileFormat::Csv, &both, "AB-1"), "AB-1,7\n");
        assert_eq!(row(FileFormat::Txt, &both[..1], "AB-1"), "AB-1\n");
        assert_eq!(row(FileFormat::Ndjson, &both, "AB-1"), "{\"code\":\"AB-1\",\"serial\":7}\n");
    }

    #[test]
    fn text_from_templates_is_escaped() {
        assert_eq!(row(FileFormat::Csv, &[Column::Code], "a,\"b"), "\"a,\"\"b\"\n");
        assert_eq!(row(FileFormat::Ndjson, &[Column::Code], "a\"b"), "{\"code\":\"a\\\"b\"}\n");
    }
}
