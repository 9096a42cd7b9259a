//! Environment variables as a layer of configuration.

use std::fmt::Write as _;
use std::sync::Arc;

use super::error::Findings;
use super::layers::{ID_GENERATOR, lay_over};
use super::parse::{Origin, parse};
use super::tree::{Node, Source, Value};

const PREFIX: &str = "mintage__";
const SEPARATOR: &str = "__";

/// A variable that is meant for us.
struct Variable {
    name: Arc<str>,
    keys: Vec<String>,
    text: String,
}

/// Lays OpenG2P's variables for its database over `tree`, if there is a block of OpenG2P: the names
/// are so common that they may well be meant for somebody else.
pub(crate) fn lay_database_over(
    tree: &mut Node,
    environment: &[(String, String)],
    findings: &mut Findings,
) {
    if !matches!(tree.get(ID_GENERATOR), Some(Node { value: Value::Map(_), .. })) {
        return;
    }
    let get = |name: &str| {
        let found = environment.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let Some(host) = get("DB_HOST") else { return };
    let user = percent_encoded(get("DB_USER").unwrap_or("postgres"));
    let password = get("DB_PASSWORD").map(percent_encoded);
    let password = password.map_or_else(String::new, |password| format!(":{password}"));
    let port = get("DB_PORT").unwrap_or("5432");
    let database = percent_encoded(get("DB_NAME").unwrap_or("postgres"));
    let url = format!("postgres://{user}{password}@{host}:{port}/{database}");
    let source = Source::Variable(Arc::from("DB_HOST"));
    let url = Node::new(Value::Scalar { text: url, quoted: true }, source.clone());
    let section = Node::new(Value::Map(vec![("url".to_owned(), url)]), source.clone());
    let over = Node::new(Value::Map(vec![("postgres".to_owned(), section)]), source);
    // Our own setting, from the file or a variable, is the more deliberate one.
    if matches!(tree.at("postgres.url"), Some(Node { value: Value::Null, .. })) {
        lay_over(tree, over, "", findings);
    }
}

/// Text as a part of a URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Lays the variables over `tree`. Those that are not meant for us are passed over.
pub(crate) fn lay_variables_over(
    tree: &mut Node,
    environment: impl Iterator<Item = (String, String)>,
    findings: &mut Findings,
) {
    let mut variables: Vec<Variable> =
        environment.filter_map(|(name, text)| Variable::new(&name, text)).collect();
    // A variable for a whole block comes before those for parts of it, and the outcome does not
    // depend on the order in which the system lists them.
    variables.sort_by(|a, b| (a.keys.len(), &a.name).cmp(&(b.keys.len(), &b.name)));
    for variable in variables {
        if let Some(over) = variable.layer(tree, findings) {
            lay_over(tree, over, "", findings);
        }
    }
}

impl Variable {
    fn new(name: &str, text: String) -> Option<Self> {
        let lower = name.to_lowercase();
        let keys = match lower.strip_prefix(PREFIX) {
            Some(rest) => rest.to_owned(),
            // OpenG2P's own names have no prefix.
            None if lower == ID_GENERATOR => lower,
            None => lower
                .strip_prefix(ID_GENERATOR)?
                .strip_prefix(SEPARATOR)
                .map(|rest| format!("{ID_GENERATOR}{SEPARATOR}{rest}"))?,
        };
        let keys = keys.split(SEPARATOR).map(str::to_owned).collect();
        Some(Self { name: Arc::from(name), keys, text })
    }

    /// A tree with this one value in its place.
    fn layer(self, tree: &Node, findings: &mut Findings) -> Option<Node> {
        let value = self.value(tree, findings)?;
        let source = Source::Variable(Arc::clone(&self.name));
        Some(
            self.keys.into_iter().rev().fold(value, |inner, key| {
                Node::new(Value::Map(vec![(key, inner)]), source.clone())
            }),
        )
    }

    fn value(&self, tree: &Node, findings: &mut Findings) -> Option<Node> {
        let source = Source::Variable(Arc::clone(&self.name));
        let text = self.text.trim();
        if matches!(text, "" | "null" | "~") {
            return Some(Node::new(Value::Null, source));
        }
        if !self.is_structured(tree, text) {
            let value = Value::Scalar { text: text.to_owned(), quoted: false };
            return Some(Node::new(value, source));
        }
        match parse(text, Origin::Variable(&self.name)) {
            Ok(node) => Some(node),
            Err(error) => {
                let path = self.keys.join(".");
                findings.error(&source, &path, format!("not YAML or JSON: {}", error.message));
                None
            }
        }
    }

    /// Whether the text is YAML or JSON and not simply the value. What the setting is decides; the
    /// text itself only where that is not known, so that no password is ever taken for YAML.
    fn is_structured(&self, tree: &Node, text: &str) -> bool {
        let known = self.keys.iter().try_fold(tree, |node, key| node.get(key));
        match known.map(|node| &node.value) {
            Some(Value::List(_) | Value::Map(_)) => true,
            _ => self.keys[0] == ID_GENERATOR && text.starts_with(['[', '{']),
        }
    }
}
