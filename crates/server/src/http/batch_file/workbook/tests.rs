//! Workbooks are read back, cell by cell.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::sync::Arc;

use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::spec::IdType;
use serde_json::json;
use storage::BatchId;
use zip::ZipArchive;

use super::super::columns::Column;
use super::super::rows::Rows;
use super::super::url::UrlTemplate;
use super::*;

fn rows_with(columns: &str, url: &str) -> Rows {
    let spec = json!({"name": "x", "random": {"alphabet": "digits", "length": 12}});
    let id_type = IdType::from_value(spec).unwrap();
    let format = Arc::new(Format::new(&id_type, &TypeKey::new([7; 32])));
    let url = UrlTemplate::read(url, &json!({})).unwrap();
    Rows::of_test(BatchId::new(1_000_000, 0), format, Column::read(columns).unwrap(), Some(url))
}

/// Rows in which everything occurs that has to be escaped.
fn rows(columns: &str) -> Rows {
    rows_with(columns, "https://a.example/_x0041_?c={code}&s={serial}")
}

/// The fields of every row, as they should be.
fn expected(rows: &Rows, serials: &[Range<u64>]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for range in serials {
        rows.for_each(range.clone(), |serial, code| {
            let field = |column: &Column| {
                let mut field = String::new();
                rows.write_field(&mut field, *column, serial, code);
                field
            };
            all.push(rows.columns.iter().map(field).collect());
        });
    }
    all
}

/// The parts of an archive.
fn unzip(bytes: Vec<u8>) -> BTreeMap<String, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut part = archive.by_index(index).unwrap();
            let mut text = String::new();
            // Reading it to the end compares the checksum.
            part.read_to_string(&mut text).unwrap();
            (part.name().unwrap().into_owned(), text)
        })
        .collect()
}

/// What stands between two texts, at each place.
fn all_between<'a>(text: &'a str, open: &'a str, close: &'a str) -> Vec<&'a str> {
    text.split(open).skip(1).map(|rest| rest.split_once(close).unwrap().0).collect()
}

/// The rows of a sheet. Each cell must be a text, and say where it is.
fn read_sheet(xml: &str) -> Vec<Vec<String>> {
    let mut read = Vec::new();
    for (number, row) in (1..).zip(all_between(xml, "<row ", "</row>")) {
        let (attributes, cells) = row.split_once('>').unwrap();
        assert_eq!(attributes, format!("r=\"{number}\""));
        let cell = |(letter, cell): (char, &str)| {
            let (attributes, text) = cell.split_once("><is><t>").unwrap();
            assert_eq!(attributes, format!("r=\"{letter}{number}\" s=\"1\" t=\"inlineStr\""));
            let text = text.strip_suffix("</t></is>").unwrap();
            assert!(!text.contains('<'), "{text}");
            text.replace("_x005F_", "_").replace("&lt;", "<").replace("&amp;", "&")
        };
        read.push(('A'..='Z').zip(all_between(cells, "<c ", "</c>")).map(cell).collect());
    }
    read
}

fn make(sheet_rows: u64, columns: &str, serials: &[Range<u64>]) -> BTreeMap<String, String> {
    let workbook = Workbook::with_sheets_of(sheet_rows, rows(columns), serials.to_vec());
    let portions: Vec<Vec<u8>> = workbook.map(Result::unwrap).collect();
    assert!(portions.iter().all(|portion| !portion.is_empty()));
    unzip(portions.concat())
}

#[test]
fn every_cell_is_there_on_as_many_sheets_as_it_takes() {
    let serials = [95..105, 1000..1001, 99_990..100_010];
    for (columns, sheet_rows, sheets) in [
        ("code", 2, vec![1; 31]),
        ("code,serial,id,url", 11, vec![10, 10, 10, 1]),
        ("url,code", 32, vec![31]),
        ("serial", 31, vec![30, 1]),
    ] {
        let parts = make(sheet_rows, columns, &serials);
        let names: Vec<&str> = columns.split(',').collect();
        let mut found = Vec::new();
        for (number, codes) in (1..).zip(&sheets) {
            let xml = &parts[&format!("xl/worksheets/sheet{number}.xml")];
            let mut rows = read_sheet(xml);
            assert_eq!(rows.remove(0), names);
            assert_eq!(rows.len(), *codes, "sheet {number} of {columns}");
            let last = ('A'..).nth(names.len() - 1).unwrap();
            assert!(xml.contains(&format!("<dimension ref=\"A1:{last}{}\"/>", codes + 1)));
            found.extend(rows);
        }
        assert_eq!(found, expected(&rows(columns), &serials), "{columns}");
        assert_eq!(parts.len(), 5 + sheets.len());
        for (part, mark) in [
            ("[Content_Types].xml", "/xl/worksheets/sheet"),
            ("xl/workbook.xml", "<sheet name=\"codes "),
            ("xl/_rels/workbook.xml.rels", "Target=\"worksheets/sheet"),
        ] {
            assert_eq!(parts[part].matches(mark).count(), sheets.len(), "{part}");
        }
    }
}

#[test]
fn a_batch_without_codes_is_a_head() {
    let parts = make(100, "code,serial", &[]);
    assert_eq!(read_sheet(&parts["xl/worksheets/sheet1.xml"]), [["code", "serial"]]);
    assert_eq!(parts.len(), 6);
    // An empty list of columns would be damage.
    assert_eq!(parts["xl/worksheets/sheet1.xml"].matches("<col min=").count(), 2);
}

#[test]
fn the_text_style_is_the_one_of_cells() {
    let parts = make(100, "code", &[0..1, 3..4]);
    let styles = all_between(&parts["xl/styles.xml"], "<cellXfs count=\"2\">", "</cellXfs>")[0];
    let style = styles.split("<xf ").nth(2).unwrap();
    assert!(style.contains("numFmtId=\"49\"") && style.contains("applyNumberFormat=\"1\""));
}

#[test]
fn no_portion_is_larger_than_it_has_to_be() {
    let workbook = Workbook::new(rows("code,serial,id,url"), vec![0..100_000, 100_000..200_000]);
    let largest = workbook.map(|portion| portion.unwrap().len()).max().unwrap();
    assert!(largest < 1 << 20, "{largest}");
}

#[test]
fn sheets_end_before_they_are_too_large_for_excel() {
    let long = format!("https://a.example/{}{{code}}", "&".repeat(1900));
    let rows = rows_with("url", &long);
    let mut row = String::new();
    rows.for_each(0..1, |serial, code| cells::write_row(&mut row, &rows, 1, serial, code));
    let workbook = Workbook::new(rows, vec![0..1_000_000, 2_000_000..4_000_000]);
    let codes: u64 = workbook.sheets.iter().map(|sheet| sheet.last_row - 1).sum();
    assert_eq!(codes, 3_000_000);
    for sheet in &workbook.sheets {
        assert!(sheet.last_row * (row.len() as u64) < 4 << 30, "{sheet:?}");
    }
    assert!(workbook.sheets.len() > 3);
}
