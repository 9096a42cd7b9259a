//! Lays a file and variables over the defaults.

use super::error::Findings;
use super::openg2p;
use super::reader::unknown_field;
use super::suggest::choices;
use super::tree::{Node, Value, join};

/// The one block whose keys are not all known beforehand.
pub(crate) const ID_GENERATOR: &str = "id_generator";

/// The mapping in which the user invents the keys.
const ID_GENERATOR_TYPES: &str = "id_generator.id_types";

/// Puts `over` on top of `base`: mappings are merged, everything else is replaced.
///
/// `base` has every field there is, so what it lacks is a mistake.
pub(crate) fn lay_over(base: &mut Node, over: Node, path: &str, findings: &mut Findings) {
    // The defaults of this block apply only once there is one.
    if path == ID_GENERATOR && matches!((&base.value, &over.value), (Value::Null, Value::Map(_))) {
        *base = Node { source: over.source.clone(), ..openg2p::defaults() };
    }
    match (&mut base.value, over.value) {
        (Value::Map(_), Value::Map(entries)) => {
            for (key, node) in entries {
                lay_over_entry(base, key, node, path, findings);
            }
        }
        // A heading with every line below it commented out.
        (Value::Map(_), Value::Null) => {}
        (Value::List(items), Value::Null) => {
            items.clear();
            base.source = over.source;
        }
        (Value::Map(entries), other) => {
            let names: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
            let message = format!("expected a mapping with {}", choices(&names, "and"));
            findings.error(&over.source, path, format!("{message}, found {}", other.kind()));
        }
        (Value::List(_), other @ (Value::Map(_) | Value::Scalar { .. })) => {
            let message = "expected the whole list, as YAML or JSON";
            findings.error(&over.source, path, format!("{message}, found {}", other.kind()));
        }
        (Value::Null, other @ (Value::Scalar { .. } | Value::List(_))) if path == ID_GENERATOR => {
            let message = format!("expected a mapping, found {}", other.kind());
            findings.error(&over.source, path, message);
        }
        (Value::Null | Value::Scalar { .. }, other @ (Value::Map(_) | Value::List(_)))
            if !is_invented(path) =>
        {
            let message = format!("expected a single value, found {}", other.kind());
            findings.error(&over.source, path, message);
        }
        (value, other) => {
            *value = other;
            base.source = over.source;
        }
    }
}

fn lay_over_entry(base: &mut Node, key: String, node: Node, path: &str, findings: &mut Findings) {
    let here = join(path, &key);
    let Value::Map(entries) = &mut base.value else {
        return;
    };
    if let Some((_, child)) = entries.iter_mut().find(|(name, _)| *name == key) {
        return lay_over(child, node, &here, findings);
    }
    if is_invented(&here) {
        entries.push((key, node));
        return;
    }
    let names: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
    let message = unknown_field(&key, &names);
    if path == ID_GENERATOR {
        let message = if key == "namespaces" {
            "ignored; since the ID generator was renamed this is called id_types".to_owned()
        } else {
            format!("ignored, because {message}")
        };
        findings.warn(&node.source, &here, message);
    } else {
        findings.error(&node.source, &here, message);
    }
}

/// Whether this is an entry below `id_generator.id_types`, where names are the user's.
fn is_invented(path: &str) -> bool {
    path.strip_prefix(ID_GENERATOR_TYPES).is_some_and(|rest| rest.starts_with('.'))
}
