//! The parts of a workbook around its cells.

use std::fmt::Write as _;
use std::io;

use super::super::columns::Column;
use super::archive::Archive;
use super::cells::letter;

/// The style of every cell: the second of `STYLES`, which has the format "text".
pub(super) const TEXT_STYLE: u32 = 1;

/// How wide a column may be, in characters.
const WIDTH_MAX: usize = 80;

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";

const ROOT_LINKS: &str = "<Relationships \
xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"rId1\" \
Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
Target=\"xl/workbook.xml\"/></Relationships>";

/// Format 49 is text. The two fills have to be there.
const STYLES: &str = "<styleSheet \
xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">\
<fonts count=\"1\"><font><sz val=\"11\"/><name val=\"Calibri\"/></font></fonts>\
<fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill>\
<fill><patternFill patternType=\"gray125\"/></fill></fills>\
<borders count=\"1\"><border><left/><right/><top/><bottom/><diagonal/></border></borders>\
<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
<cellXfs count=\"2\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>\
<xf numFmtId=\"49\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\"/></cellXfs>\
<cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>\
</styleSheet>";

/// One sheet of a workbook.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sheet {
    /// From 1.
    number: usize,
    /// What it is called on its tab.
    name: String,
    /// The row of its last code; 1 is the head.
    pub(super) last_row: u64,
}

impl Sheet {
    /// Its path in the archive.
    pub(super) fn path(&self) -> String {
        format!("xl/worksheets/sheet{}.xml", self.number)
    }

    /// All its cells.
    fn cells(&self, columns: &[Column]) -> String {
        format!("A1:{}{}", letter(columns.len().saturating_sub(1)), self.last_row)
    }
}

/// The sheets for so many codes; one at least.
pub(super) fn sheets(codes: u64, codes_max: u64) -> Vec<Sheet> {
    let (mut sheets, mut left) = (Vec::new(), codes);
    while left > 0 || sheets.is_empty() {
        let here = left.min(codes_max.max(1));
        left -= here;
        let number = sheets.len() + 1;
        sheets.push(Sheet { number, name: format!("codes {number}"), last_row: here + 1 });
    }
    sheets
}

/// Writes the parts that come before the sheets. They have to name each of them.
pub(super) fn write_all_but_sheets(archive: &mut Archive, sheets: &[Sheet]) -> io::Result<()> {
    for (path, xml) in [
        ("[Content_Types].xml", content_types(sheets)),
        ("_rels/.rels", ROOT_LINKS.to_owned()),
        ("xl/workbook.xml", workbook(sheets)),
        ("xl/_rels/workbook.xml.rels", workbook_links(sheets)),
        ("xl/styles.xml", STYLES.to_owned()),
    ] {
        archive.begin(path)?;
        archive.write(DECLARATION)?;
        archive.write(&xml)?;
    }
    Ok(())
}

/// A text in which something is written for each sheet.
fn each_sheet(
    open: &str,
    sheets: &[Sheet],
    each: impl Fn(&mut String, &Sheet) -> std::fmt::Result,
    close: &str,
) -> String {
    let mut xml = String::from(open);
    for sheet in sheets {
        each(&mut xml, sheet).expect("memory can be written to");
    }
    xml + close
}

fn content_types(sheets: &[Sheet]) -> String {
    each_sheet(
        "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
         <Default Extension=\"rels\" \
         ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
         <Override PartName=\"/xl/workbook.xml\" \
         ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml\"/>\
         <Override PartName=\"/xl/styles.xml\" \
         ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml\"/>",
        sheets,
        |xml, sheet| {
            write!(
                xml,
                "<Override PartName=\"/{}\" ContentType=\"application/\
                 vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml\"/>",
                sheet.path()
            )
        },
        "</Types>",
    )
}

fn workbook(sheets: &[Sheet]) -> String {
    each_sheet(
        "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" \
         xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\">\
         <bookViews><workbookView/></bookViews><sheets>",
        sheets,
        |xml, Sheet { number, name, .. }| {
            write!(xml, "<sheet name=\"{name}\" sheetId=\"{number}\" r:id=\"rId{number}\"/>")
        },
        "</sheets></workbook>",
    )
}

fn workbook_links(sheets: &[Sheet]) -> String {
    each_sheet(
        "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
         <Relationship Id=\"styles\" \
         Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles\" \
         Target=\"styles.xml\"/>",
        sheets,
        |xml, Sheet { number, .. }| {
            write!(
                xml,
                "<Relationship Id=\"rId{number}\" Type=\"http://schemas.openxmlformats.org/\
                 officeDocument/2006/relationships/worksheet\" \
                 Target=\"worksheets/sheet{number}.xml\"/>"
            )
        },
        "</Relationships>",
    )
}

/// What comes before the rows of a sheet. The head stays in view.
pub(super) fn sheet_head(sheet: &Sheet, columns: &[Column], widths: &[usize]) -> String {
    let mut xml = format!(
        "{DECLARATION}<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">\
         <dimension ref=\"{}\"/><sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" \
         topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/></sheetView></sheetViews><cols>",
        sheet.cells(columns)
    );
    for (number, width) in (1..).zip(widths) {
        write!(
            xml,
            "<col min=\"{number}\" max=\"{number}\" width=\"{}\" style=\"{TEXT_STYLE}\" \
             customWidth=\"1\"/>",
            (width + 2).min(WIDTH_MAX)
        )
        .expect("memory can be written to");
    }
    xml + "</cols><sheetData>"
}

/// What comes behind the rows of a sheet. Digits that are text are no mistake here.
pub(super) fn sheet_foot(sheet: &Sheet, columns: &[Column]) -> String {
    let cells = sheet.cells(columns);
    format!(
        "</sheetData><ignoredErrors><ignoredError sqref=\"{cells}\" numberStoredAsText=\"1\"/>\
         </ignoredErrors></worksheet>"
    )
}
