//! Reads one section of the tree into its struct.

use serde::de::DeserializeOwned;

use super::error::Findings;
use super::reader::Reader;
use super::tree::{Node, Source};

/// Reads the section at `root`, reporting every field that is wrong.
///
/// A wrong field is set back to its value in `defaults` and reading starts again, so that one
/// attempt shows all mistakes. Nothing comes back only where the fault is not in a field.
pub(crate) fn read<T: DeserializeOwned>(
    tree: &mut Node,
    root: &str,
    defaults: &Node,
    findings: &mut Findings,
) -> Option<T> {
    loop {
        let section = tree.get(root)?;
        let error = match T::deserialize(Reader(section)) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let (path, source, message) = error.located(root, &section.source);
        findings.error(&source, &path, message);
        if source == Source::Default || !reset(tree, root, &path, defaults) {
            return None;
        }
    }
}

/// Sets the field that contains `path` back to its default.
fn reset(tree: &mut Node, root: &str, path: &str, defaults: &Node) -> bool {
    let field = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let field = field.split(['.', '[']).next().unwrap_or_default();
    let default = defaults.get(field);
    match (default, tree.at_mut(&format!("{root}.{field}"))) {
        (Some(default), Some(node)) => {
            *node = default.clone();
            true
        }
        _ => false,
    }
}
