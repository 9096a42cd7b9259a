//! YAML (and so JSON) text to a tree.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{NonFiniteFloatPolicy, Spanned};

use super::tree::{Node, Source, Value};

/// What the text is part of.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Default,
    File(&'a Arc<str>),
    Variable(&'a Arc<str>),
}

impl Origin<'_> {
    fn source(self, line: u64) -> Source {
        match self {
            Self::Default => Source::Default,
            Self::File(name) => Source::File { name: Arc::clone(name), line },
            Self::Variable(name) => Source::Variable(Arc::clone(name)),
        }
    }
}

/// Why text is not YAML, and where in it.
pub(crate) struct NotYaml {
    pub(crate) source: Source,
    pub(crate) message: String,
}

/// Reads one YAML or JSON document. An empty one is null.
pub(crate) fn parse(text: &str, origin: Origin<'_>) -> Result<Node, NotYaml> {
    let options = serde_saphyr::options! {
        // A snippet could show a secret on the lines around the mistake.
        with_snippet: false,
        // Text that happens to look like an enormous number may be a key.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Ok(resolve(raw, text, origin, None)),
        Err(error) => {
            let line = error.location().map_or(1, |location| location.line());
            let message = error.without_snippet().to_string();
            Err(NotYaml { source: origin.source(line), message })
        }
    }
}

/// Turns what was read into a tree. The line of an entry is that of its key.
fn resolve(raw: Spanned<Raw>, text: &str, origin: Origin<'_>, line: Option<u64>) -> Node {
    let line = line.filter(|line| *line > 0).unwrap_or_else(|| raw.referenced.line());
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => Value::Scalar { text, quoted: true },
        Raw::Inferred(value) => {
            let span = raw.defined.span();
            let written = span.byte_offset().zip(span.byte_len()).and_then(|(offset, len)| {
                let offset = usize::try_from(offset).ok()?;
                text.get(offset..offset + usize::try_from(len).ok()?)
            });
            Value::Scalar { text: written.map_or(value, str::to_owned), quoted: false }
        }
        Raw::List(items) => {
            Value::List(items.into_iter().map(|item| resolve(item, text, origin, None)).collect())
        }
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let line = Some(key.referenced.line());
                    (key.value, resolve(value, text, origin, line))
                })
                .collect(),
        ),
    };
    Node::new(value, origin.source(line))
}

/// A YAML value before it is known where it stands.
enum Raw {
    Null,
    Text(String),
    /// A number or boolean. The text is the fallback where the place in the source is not known.
    Inferred(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Inferred(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Node {
        let name = Arc::from("test.yaml");
        parse(text, Origin::File(&name)).unwrap_or_else(|error| panic!("{}", error.message))
    }

    #[test]
    fn scalars_keep_the_text_that_was_written() {
        let key = "0".repeat(64);
        let node = parsed(&format!("- off\n- 0123\n- 1.50\n- 12e{key}\n- {key}\n- '7'\n- ~\n"));
        let texts: Vec<_> = node.items().iter().map(Node::text).collect();
        let long = format!("12e{key}");
        let expected =
            [Some("off"), Some("0123"), Some("1.50"), Some(&long), Some(&key), Some("7"), None];
        assert_eq!(texts, expected);
    }

    #[test]
    fn every_value_knows_its_line() {
        let node = parsed("a:\n  b: 1\n\nc:\n  - x\n  - y\n");
        let line = |path: &str| match node.source_of(path) {
            Source::File { line, .. } => line,
            _ => 0,
        };
        assert_eq!(["a", "a.b", "c", "c[1]"].map(line), [1, 2, 4, 6]);
    }

    #[test]
    fn json_anchors_and_merge_keys_are_read() {
        assert_eq!(parsed("{\"a\": {\"b\": [true]}}").source_of("a.b").to_string(), "test.yaml:1");
        let node = parsed("x: &x {p: 1}\nq:\n  <<: *x\n  y: 2\n");
        assert_eq!(node.at("q.p").and_then(Node::text), Some("1"));
    }

    #[test]
    fn what_is_not_yaml_is_placed_and_never_quoted() {
        let name = Arc::from("test.yaml");
        let broken = "security:\n  master_key: [topsecret\nlog: x\n";
        let error = parse(broken, Origin::File(&name)).err().expect("it is broken");
        assert_eq!(error.source.to_string(), "test.yaml:3");
        assert!(!error.message.contains("topsecret"), "{}", error.message);
    }
}
