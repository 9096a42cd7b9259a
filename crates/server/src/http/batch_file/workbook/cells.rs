//! The cells of a sheet.

use std::fmt::Write as _;

use super::super::columns::Column;
use super::super::rows::Rows;
use super::parts::TEXT_STYLE;

/// The row with the names of the columns.
pub(super) fn head_row(columns: &[Column]) -> String {
    let mut xml = String::from("<row r=\"1\">");
    for (at, column) in columns.iter().enumerate() {
        write_cell(&mut xml, at, 1, |xml| xml.push_str(column.name()));
    }
    xml + "</row>"
}

/// Writes the row of a code.
pub(super) fn write_row(xml: &mut String, rows: &Rows, row: u64, serial: u64, code: &str) {
    write!(xml, "<row r=\"{row}\">").expect("memory can be written to");
    for (at, column) in rows.columns.iter().enumerate() {
        write_cell(xml, at, row, |xml| {
            let start = xml.len();
            rows.write_field(xml, *column, serial, code);
            escape_from(xml, start);
        });
    }
    xml.push_str("</row>");
}

/// The characters that each column takes for a code.
pub(super) fn widths(rows: &Rows, serial: u64, code: &str) -> Vec<usize> {
    let width = |column: &Column| {
        let mut field = String::new();
        rows.write_field(&mut field, *column, serial, code);
        field.len().max(column.name().len())
    };
    rows.columns.iter().map(width).collect()
}

/// The letter of a column. There are four at most.
pub(super) fn letter(column: usize) -> char {
    char::from(b'A' + u8::try_from(column).unwrap_or(25))
}

fn write_cell(xml: &mut String, column: usize, row: u64, text: impl FnOnce(&mut String)) {
    let letter = letter(column);
    write!(xml, "<c r=\"{letter}{row}\" s=\"{TEXT_STYLE}\" t=\"inlineStr\"><is><t>")
        .expect("memory can be written to");
    text(xml);
    xml.push_str("</t></is></c>");
}

/// Escapes what was written behind `start`. Codes and numbers hardly ever need it, so the text is looked
/// at where it is.
fn escape_from(xml: &mut String, start: usize) {
    let text = &xml[start..];
    if text.contains(['&', '<', '>']) || hidden_character(text).is_some() {
        let escaped = escape(text);
        xml.truncate(start);
        xml.push_str(&escaped);
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let mut rest = text;
    while let Some(at) = hidden_character(rest) {
        escaped.push_str(&rest[..at]);
        // The underscore itself, so that what follows it is taken as it is.
        escaped.push_str("_x005F_");
        rest = &rest[at + 1..];
    }
    escaped.push_str(rest);
    escaped.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Where a text has something like `_x0041_`, which spreadsheets read as the character of that number.
fn hidden_character(text: &str) -> Option<usize> {
    text.as_bytes().windows(7).position(|window| {
        window.starts_with(b"_x")
            && window[6] == b'_'
            && window[2..6].iter().all(u8::is_ascii_hexdigit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_sheet_is_escaped() {
        let escaped = |text: &str| {
            let mut xml = String::from("<t>");
            escape_from(&mut xml, 3);
            xml.push_str(text);
            escape_from(&mut xml, 3);
            xml.split_off(3)
        };
        assert_eq!(escaped("ABCD-EFGH_xyz~"), "ABCD-EFGH_xyz~");
        assert_eq!(escaped("https://a/?b=1&c='2'"), "https://a/?b=1&amp;c='2'");
        assert_eq!(escaped("<&>"), "&lt;&amp;&gt;");
        assert_eq!(escaped("A_x0041_"), "A_x005F_x0041_");
        assert_eq!(escaped("_x0041_x00e9_&"), "_x005F_x0041_x005F_x00e9_&amp;");
        assert_eq!(escaped("_x004_ _x00g1_ x0041_"), "_x004_ _x00g1_ x0041_");
    }
}
