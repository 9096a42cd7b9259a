//! Configuration as a tree in which every value remembers where it was written.
//!
//! Scalars stay the text that the user wrote until the field that they are for says what it
//! expects. So `authentication: off` is not a boolean, a key of 64 digits is not a number, and a
//! variable is read exactly like a line of a file.

use std::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The compiled-in defaults.
    Default,
    /// A line of a file.
    File { name: Arc<str>, line: u64 },
    /// An environment variable.
    Variable(Arc<str>),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the defaults"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// A value and where it was written.
///
/// Deliberately not `Debug`: the tree holds secrets in plain text.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// What YAML and JSON can say.
#[derive(Clone)]
pub(crate) enum Value {
    Null,
    Scalar {
        text: String,
        /// Quoted text is a string even where it looks like a number.
        quoted: bool,
    },
    List(Vec<Node>),
    /// In the order of the file, which the configuration route of OpenG2P repeats.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The text of a scalar.
    #[cfg(test)]
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn new(value: Value, source: Source) -> Self {
        Self { value, source }
    }

    /// The child of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Map(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The node at a path of keys such as `server.listen`.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, Self::get)
    }

    /// The node at a path of keys, to be changed.
    pub(crate) fn at_mut(&mut self, path: &str) -> Option<&mut Self> {
        path.split('.').try_fold(self, Self::get_mut)
    }

    /// Where the value at a path, or else the nearest mapping or list around it, was written.
    pub(crate) fn source_of(&self, path: &str) -> Source {
        let mut node = self;
        for key in path.split(['.', '[']) {
            let child = match &node.value {
                Value::List(items) => {
                    key.trim_end_matches(']').parse().ok().and_then(|i: usize| items.get(i))
                }
                _ => node.get(key),
            };
            match child {
                Some(child) => node = child,
                None => break,
            }
        }
        node.source.clone()
    }

    /// The same as JSON. Unquoted text becomes the number or boolean that it looks like.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Scalar { text, quoted: true } => text.as_str().into(),
            Value::Scalar { text, quoted: false } => {
                inferred(text).unwrap_or_else(|| text.as_str().into())
            }
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect()
            }
        }
    }

    /// The items of a list; none for everything else.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of a mapping; none for everything else.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar { .. } => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// The number or boolean that an unquoted text stands for.
pub(crate) fn inferred(text: &str) -> Option<serde_json::Value> {
    let value = serde_json::from_str(text).ok()?;
    matches!(value, serde_json::Value::Number(_) | serde_json::Value::Bool(_)).then_some(value)
}

/// A path with one more key.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
