//! Reads a tree of values field by field and notes everything that is wrong with it, so that one
//! attempt shows all mistakes, each with the path of its field.

use serde_json::{Map, Value};

use crate::error::{FieldError, SpecErrors};

/// Text that somebody wrote is repeated up to here.
const SHOWN_CHARS_MAX: usize = 40;

/// Collects what is wrong.
#[derive(Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    pub(crate) fn add(&mut self, field: &str, message: String) {
        self.0.push(FieldError { field: field.to_owned(), message });
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_result(self) -> Result<(), SpecErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(SpecErrors(self.0)) }
    }
}

/// The fields of one mapping. Every method takes a field out and returns its value if it is there
/// and of the right type; a wrong one has been reported when `None` comes back.
pub(crate) struct Fields<'e> {
    path: String,
    values: Map<String, Value>,
    errors: &'e mut Errors,
}

impl<'e> Fields<'e> {
    /// Opens a mapping and reports the fields that are not among the known ones.
    pub(crate) fn open(
        path: &str,
        value: Value,
        known: &[&str],
        errors: &'e mut Errors,
    ) -> Option<Self> {
        let known_list = known.join(", ");
        let values = match value {
            Value::Object(values) => values,
            other => {
                let field = if path.is_empty() { "ID type" } else { path };
                let shown = shown(&other);
                let or = if other.is_null() { ", or {} for their defaults" } else { "" };
                errors.add(
                    field,
                    format!("{shown} is not a mapping; use one with the fields {known_list}{or}"),
                );
                return None;
            }
        };
        let unknown: Vec<String> =
            values.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
        let mut fields = Self { path: path.to_owned(), values, errors };
        for name in unknown {
            fields.report(
                &clipped(&name),
                format!("there is no such field; the fields here are {known_list}"),
            );
        }
        Some(fields)
    }

    /// Where errors about these fields go.
    pub(crate) fn errors(&mut self) -> &mut Errors {
        self.errors
    }

    /// Takes a field out as it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// The default of a field that is not there, or else what is read from it.
    pub(crate) fn or<T>(
        &mut self,
        name: &str,
        default: T,
        read: impl FnOnce(&mut Self, &str) -> Option<T>,
    ) -> Option<T> {
        if self.values.contains_key(name) { read(self, name) } else { Some(default) }
    }

    /// Whether a field is there and null.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(Value::is_null)
    }

    /// Reports a field that must be there and is not.
    pub(crate) fn require(&mut self, name: &str, right: &str) {
        if !self.values.contains_key(name) {
            self.report(name, format!("it is missing; {right}"));
        }
    }

    /// A number from 0. `right` says which numbers would do.
    pub(crate) fn number(&mut self, name: &str, right: &str) -> Option<u64> {
        let value = self.take(name)?;
        if let Some(number) = value.as_u64() {
            return Some(number);
        }
        let shown = shown(&value);
        let wrong = match &value {
            Value::Number(number) if number.as_i64().is_some() => "is below zero",
            Value::Number(_) => "is not a whole number of at most 64 bits",
            Value::String(text) if text.parse::<u64>().is_ok() => {
                "is text and not a number; leave out the quotes"
            }
            _ => "is not a number",
        };
        self.report(name, format!("{shown} {wrong}; {right}"));
        None
    }

    /// Text. A number without quotes is not text: its zeros in front would be lost.
    pub(crate) fn text(&mut self, name: &str, right: &str) -> Option<String> {
        let value = self.take(name)?;
        self.text_of(name, value, right)
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, name: &str, right: &str) -> Option<Vec<String>> {
        match self.take(name)? {
            Value::Array(values) => {
                let texts: Vec<_> = values
                    .into_iter()
                    .enumerate()
                    .map(|(i, value)| self.text_of(&format!("{name}[{i}]"), value, right))
                    .collect();
                texts.into_iter().collect()
            }
            other => {
                self.report(name, format!("{} is not a list; {right}", shown(&other)));
                None
            }
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.take(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.report(
                name,
                format!("{} is neither true nor false; use one of them", shown(&value)),
            );
        }
        flag
    }

    /// One of a few names.
    pub(crate) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.take(name)?;
        let chosen = value.as_str().and_then(|text| choices.iter().find(|(name, _)| *name == text));
        if chosen.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.report(name, format!("{} is not known; use {}", shown(&value), one_of(&names)));
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// The path of a field of this mapping.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(crate) fn report(&mut self, name: &str, message: String) {
        let path = self.path_of(name);
        self.errors.add(&path, message);
    }

    fn text_of(&mut self, name: &str, value: Value, right: &str) -> Option<String> {
        let wrong = match value {
            Value::String(text) => return Some(text),
            Value::Number(_) | Value::Bool(_) => {
                format!("{} is not text; put it in quotes", shown(&value))
            }
            other => format!("{} is not text; {right}", shown(&other)),
        };
        self.report(name, wrong);
        None
    }
}

/// Names as one says them: `a, b or c`.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

/// A value in a message.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => shown_text(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        plain => plain.to_string(),
    }
}

pub(crate) fn shown_text(text: &str) -> String {
    format!("{:?}", clipped(text))
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
