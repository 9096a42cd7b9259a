//! Which byte of a file of text is where, so that a download can begin anywhere.
//!
//! The codes of a type have the same length, and the numbers beside them differ in their digits only. So
//! a file consists of few stretches of rows that are equally long, and nothing has to be rendered to find
//! a row.

use std::io;
use std::ops::Range;

use super::stream::portion_rows;
use super::text::TextFile;

/// The head of a file and its stretches.
pub(super) struct Layout {
    head: String,
    stretches: Vec<Stretch>,
    bytes: u64,
}

/// Rows that follow each other and have the same length.
struct Stretch {
    serials: Range<u64>,
    row_bytes: u64,
    /// Where it begins in the file.
    at: u64,
}

impl Layout {
    /// The layout of a file of these serials; with a head where it is not the rest of another.
    pub(super) fn new(file: &TextFile, with_head: bool, serials: &[Range<u64>]) -> Self {
        let head = if with_head { file.head() } else { String::new() };
        let mut layout = Self { bytes: head.len() as u64, head, stretches: Vec::new() };
        for range in serials {
            let mut start = range.start;
            for end in file.rows.longer_from(range).into_iter().chain([range.end]) {
                layout.push(file, start..end);
                start = end;
            }
        }
        layout
    }

    fn push(&mut self, file: &TextFile, serials: Range<u64>) {
        // Measured rather than worked out: there is one place that knows what a row looks like.
        let row_bytes = file.row_of(serials.start).len() as u64;
        let rows = serials.end - serials.start;
        self.stretches.push(Stretch { serials, row_bytes, at: self.bytes });
        self.bytes += rows * row_bytes;
    }

    /// The size of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The beginning of a part of the file, as much as is rendered at a time.
    fn portion(&self, file: &TextFile, Range { start, end }: Range<u64>) -> io::Result<Vec<u8>> {
        let mut text = self.head.as_bytes().to_vec();
        let mut skip = start;
        if start >= text.len() as u64 {
            let after = self.stretches.partition_point(|stretch| stretch.at <= start);
            let Stretch { serials, row_bytes, at } = &self.stretches[after - 1];
            let first = serials.start + (start - at) / row_bytes;
            skip = (start - at) % row_bytes;
            let wanted = (skip + end - start).div_ceil(*row_bytes);
            let rows = wanted.min(portion_rows(*row_bytes)).min(serials.end - first);
            let length = usize::try_from(rows * row_bytes).map_err(io::Error::other)?;
            let mut written = String::with_capacity(length);
            file.write_rows(&mut written, first..first + rows);
            if written.len() != length {
                return Err(io::Error::other("a row has another length than those before it"));
            }
            text = written.into_bytes();
        }
        let cut = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(text.len());
        let (first, last) = (cut(skip), cut(skip + end - start));
        text.truncate(last);
        text.drain(..first);
        Ok(text)
    }
}

/// A file or a part of it, one portion after the other.
pub(super) struct Slice {
    file: TextFile,
    layout: Layout,
    left: Range<u64>,
}

impl Slice {
    /// Some bytes of a file, which has them.
    pub(super) fn new(file: TextFile, layout: Layout, bytes: Range<u64>) -> Self {
        Self { file, layout, left: bytes }
    }

    /// All of it.
    pub(super) fn whole(file: TextFile, layout: Layout) -> Self {
        let bytes = 0..layout.bytes;
        Self::new(file, layout, bytes)
    }
}

impl Iterator for Slice {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let portion = self.layout.portion(&self.file, self.left.clone());
        self.left.start += portion.as_ref().map_or(0, Vec::len) as u64;
        Some(portion)
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
    use super::super::rows::Rows;
    use super::super::text::TextFormat;
    use super::super::url::UrlTemplate;
    use super::*;

    /// Files of every kind. The ID gets another digit behind the first thousand codes.
    fn file(format: TextFormat, columns: &str) -> TextFile {
        let spec = json!({"name": "x", "random": {"alphabet": "hex", "length": 16, "group": 4}});
        let id_type = IdType::from_value(spec).unwrap();
        let codes = Arc::new(Format::new(&id_type, &TypeKey::new([7; 32])));
        let url = "https://a.example/{serial}/{id}?{code}&{serial}";
        let url = UrlTemplate::read(url, &json!({})).unwrap();
        let batch = BatchId(10_i64.pow(18) - 1000);
        TextFile::new(
            Rows::of_test(batch, codes, Column::read(columns).unwrap(), Some(url)),
            format,
        )
    }

    const FILES: [(TextFormat, &str); 7] = [
        (TextFormat::Txt, "code"),
        (TextFormat::Csv, "code"),
        (TextFormat::Csv, "serial"),
        (TextFormat::Csv, "id,serial"),
        (TextFormat::Csv, "url"),
        (TextFormat::Ndjson, "url,code,id"),
        (TextFormat::Ndjson, "serial,id,code,url"),
    ];

    /// Over every number of digits, with holes, and the longest stretch longer than a portion.
    fn serials() -> Vec<Range<u64>> {
        vec![0..8, 9..12, 95..130, 999..1000, 1001..30_000, 99_990..100_011, 9_999_999..10_000_000]
    }

    fn collect(slice: Slice) -> Vec<u8> {
        slice.flat_map(Result::unwrap).collect()
    }

    #[test]
    fn the_file_is_as_long_as_it_says_and_complete() {
        for (format, columns) in FILES {
            for with_head in [true, false] {
                let rendered = file(format, columns);
                let mut expected = if with_head { rendered.head() } else { String::new() };
                for range in serials() {
                    rendered.write_rows(&mut expected, range);
                }
                let layout = Layout::new(&rendered, with_head, &serials());
                assert_eq!(layout.bytes(), expected.len() as u64, "{format:?} {columns}");
                assert!(collect(Slice::whole(rendered, layout)) == expected.as_bytes());
            }
        }
    }

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let make = |format, columns, bytes: Option<Range<u64>>| {
            let file = file(format, columns);
            let layout = Layout::new(&file, true, &serials());
            let bytes = bytes.unwrap_or(0..layout.bytes());
            collect(Slice::new(file, layout, bytes))
        };
        let mut state = 1_u64;
        let mut chance = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for (format, columns) in FILES {
            let whole = make(format, columns, None);
            let length = whole.len() as u64;
            for round in 0..40 {
                let start = chance(length);
                // Short ones, long ones, and those that end with the file.
                let most = if round % 2 == 0 { 200.min(length - start) } else { length - start };
                let end = if round % 10 == 0 { length } else { start + 1 + chance(most) };
                let part = make(format, columns, Some(start..end));
                let (from, to) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
                assert!(part == whole[from..to], "{start}..{end} of {format:?} {columns}");
            }
        }
    }

    #[test]
    fn a_byte_far_behind_is_found_without_what_is_before_it() {
        let rendered = file(TextFormat::Ndjson, "serial,id,code,url");
        let last = rendered.row_of(899_999_999);
        let layout = Layout::new(&rendered, true, &[0..450_000_000, 450_000_000..900_000_000]);
        let bytes = layout.bytes() - last.len() as u64..layout.bytes();
        assert_eq!(collect(Slice::new(rendered, layout, bytes)), last.as_bytes());
    }
}
