//! The configuration in effect, and where each value comes from.

use std::fmt::Write as _;

use super::secret::MASK;
use super::tree::{Node, Source, Value, inferred};

/// Paths of values that are never shown.
pub(crate) const SECRETS: [&str; 4] =
    ["security.master_key", "postgres.url", "postgres.replica", "redis.url"];

/// Lists whose entries have fields that are never shown.
const SECRETS_IN_LISTS: [(&str, &[&str]); 2] =
    [(super::KEYS, &["token"]), ("postgres.shards", &["url", "replica"])];

/// Every setting as it is in effect, without the secrets.
pub(crate) struct Effective(Node);

impl Effective {
    pub(crate) fn new(mut tree: Node) -> Self {
        for path in SECRETS {
            mask(tree.at_mut(path));
        }
        for (list, fields) in SECRETS_IN_LISTS {
            if let Some(Node { value: Value::List(entries), .. }) = tree.at_mut(list) {
                for entry in entries {
                    for field in fields {
                        mask(entry.at_mut(field));
                    }
                }
            }
        }
        Self(tree)
    }

    /// As YAML, with a comment behind each value that is not a default.
    pub(crate) fn to_yaml(&self) -> String {
        let mut out = String::new();
        block(&mut out, self.0.entries(), 0);
        out
    }

    /// As JSON. There is no room for the sources.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        self.0.to_json()
    }
}

fn mask(secret: Option<&mut Node>) {
    if let Some(node) = secret
        && !matches!(node.value, Value::Null)
    {
        node.value = Value::Scalar { text: MASK.to_owned(), quoted: true };
    }
}

fn block(out: &mut String, entries: &[(String, Node)], indent: usize) {
    for (key, node) in entries {
        let key = scalar(key, true);
        match &node.value {
            Value::Map(inner) if !inner.is_empty() => {
                line(out, indent, &format!("{key}:"), &Source::Default);
                block(out, inner, indent + 2);
            }
            Value::List(items) if items.iter().any(|item| !item.entries().is_empty()) => {
                line(out, indent, &format!("{key}:"), &Source::Default);
                for item in items {
                    line(out, indent + 2, &format!("- {}", flow(item)), &item.source);
                }
            }
            _ => line(out, indent, &format!("{key}: {}", flow(node)), &node.source),
        }
    }
}

fn line(out: &mut String, indent: usize, text: &str, source: &Source) {
    // Writing to a string cannot fail.
    let _ = match source {
        Source::Default => writeln!(out, "{:indent$}{text}", ""),
        source => writeln!(out, "{:indent$}{text}  # {source}", ""),
    };
}

fn flow(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Scalar { text, quoted } => scalar(text, *quoted),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entry =
                |(key, node): &(String, Node)| format!("{}: {}", scalar(key, true), flow(node));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// A scalar as YAML reads it back: bare where nothing can be misread, else as JSON, which is YAML.
fn scalar(text: &str, is_string: bool) -> String {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '/';
    let bare = (text.starts_with(begins) || text.starts_with("./"))
        && text.chars().all(plain)
        && !words.contains(&text.to_lowercase().as_str());
    let inferred = !is_string && (inferred(text).is_some() || words.contains(&text));
    if bare || inferred { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
