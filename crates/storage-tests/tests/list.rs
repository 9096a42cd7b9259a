//! A behaviour that is written is also run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Words of a text that come behind a prefix.
fn names_behind(text: &str, prefix: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .filter_map(|line| line.strip_prefix(prefix))
        .map(|rest| rest.chars().take_while(|&c| is_part(c)).collect())
        .collect()
}

#[test]
fn the_list_names_every_behaviour() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    let mut written = BTreeSet::new();
    for subject in names_behind(&lib, "pub mod ") {
        let text = fs::read_to_string(source.join(format!("{subject}.rs"))).unwrap();
        for behaviour in names_behind(&text, "pub async fn ") {
            written.insert(format!("{subject}::{behaviour}"));
        }
    }
    let list = fs::read_to_string(source.join("conformance.rs")).unwrap();
    let mut listed = BTreeSet::new();
    let mut subject = String::new();
    for line in list.lines() {
        if let Some(name) = line.strip_prefix("            ").and_then(|l| l.strip_suffix(" {")) {
            name.clone_into(&mut subject);
        } else if let Some(behaviour) = line.strip_prefix("                ")
            && behaviour.chars().all(|c| c.is_alphanumeric() || c == '_')
        {
            listed.insert(format!("{subject}::{behaviour}"));
        }
    }
    assert!(!written.is_empty());
    assert_eq!(listed, written);
}
