//! The formats that a file can have.

use serde::Deserialize;

use super::text::TextFormat;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileFormat {
    #[default]
    Csv,
    Ndjson,
    Txt,
    Xlsx,
}

impl FileFormat {
    /// The format of the text, if it is one.
    pub(super) fn text(self) -> Option<TextFormat> {
        match self {
            Self::Csv => Some(TextFormat::Csv),
            Self::Ndjson => Some(TextFormat::Ndjson),
            Self::Txt => Some(TextFormat::Txt),
            Self::Xlsx => None,
        }
    }

    /// The media type of a file that begins with the names of the columns, or of the rest of one.
    pub(super) fn media_type(self, with_head: bool) -> &'static str {
        match self {
            Self::Csv if with_head => "text/csv; charset=utf-8; header=present",
            Self::Csv => "text/csv; charset=utf-8; header=absent",
            Self::Ndjson => "application/x-ndjson",
            Self::Txt => "text/plain; charset=utf-8",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Txt => "txt",
            Self::Xlsx => "xlsx",
        }
    }
}
