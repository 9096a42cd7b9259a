//! `config.default.yaml` is the manual, so it is held to that.

use super::*;

/// The indentation and the key of a line that sets something.
fn key(line: &str) -> Option<(usize, &str)> {
    let body = line.trim_start();
    let (key, _) = body.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    is_key.then_some((line.len() - body.len(), key))
}

#[test]
fn every_setting_has_a_comment_above_it_or_beside_it() {
    let mut previous = "";
    let mut keys = 0;
    for line in DEFAULTS.lines() {
        if let Some((indent, key)) = key(line) {
            let above = previous.trim_start();
            let same_indent = previous.len() - above.len() == indent;
            let documented = (above.starts_with("# ") && same_indent) || line.contains(" # ");
            assert!(documented, "{key} has no comment");
            keys += 1;
        }
        previous = line;
    }
    assert!(keys > 25, "only {keys} keys were found");
}

#[test]
fn the_limits_in_the_comments_are_the_ones_that_are_checked() {
    for (path, min, max) in limits::LIMITS {
        let (section, key) = path.split_once('.').unwrap();
        let section = DEFAULTS.find(&format!("\n{section}:")).unwrap();
        // The second of a pair refers to the first.
        let documented = if key == "pool_size_max" { "pool_size_min" } else { key };
        let end = section + DEFAULTS[section..].find(&format!("\n  {documented}:")).unwrap();
        let start = DEFAULTS[..end].rfind("\n\n").unwrap_or(0);
        let comment = DEFAULTS[start..end].replace("\n  #", "");
        let limits = format!("{min} to {max}");
        // A section's first setting is preceded by the section's own comment.
        assert!(comment.contains(&limits), "{path}: {limits} is not in {comment:?}");
    }
}

#[test]
fn the_block_of_openg2p_is_documented_with_its_defaults() {
    let start = DEFAULTS.find("# id_generator:\n").expect("the block is shown");
    let end = DEFAULTS.find("\nid_generator: null").expect("there is none by default");
    let lines: Vec<&str> = DEFAULTS[start..end].lines().map(|line| &line[2..]).collect();
    let uncommented = lines.join(
        "
",
    );
    assert!(uncommented.lines().skip(1).all(|line| line.contains(" # ")), "{uncommented}");
    let shown = ok(&uncommented, &[]).openg2p.unwrap();
    assert_eq!(Some(shown), ok("id_generator: {}\n", &[]).openg2p);
    let keys = uncommented.lines().skip(1).count();
    assert_eq!(keys, super::super::openg2p::defaults().entries().len());
}

/// A key that a struct lacks would be refused, and one that the file lacks would be missing.
#[test]
fn the_manual_can_be_used_as_a_file() {
    assert_eq!(ok(DEFAULTS, &[]), defaults());
}
