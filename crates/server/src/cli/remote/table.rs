//! Entries as a table for people.

use std::io::{self, Write as _};

use serde_json::Value;

/// Prints fields of the entries as columns, each as wide as it needs to be.
pub(super) fn print(entries: &[Value], columns: &[&str]) -> io::Result<()> {
    let header: Vec<String> = columns.iter().map(|c| c.replace('_', " ")).collect();
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| columns.iter().map(|column| cell(&entry[*column])).collect())
        .collect();
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([header[i].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = io::stdout().lock();
    for row in std::iter::once(&header).chain(&rows) {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.2}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
