//! The columns of a file.

use crate::http::problem::Problem;

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

    pub(super) fn name(self) -> &'static str {
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
