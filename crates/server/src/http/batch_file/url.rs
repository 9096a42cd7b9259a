//! Addresses that are made from a template, one for each code.

use std::fmt::Write as _;

use serde_json::Value;

use crate::http::problem::Problem;
use crate::percent::escape;

/// The longest template of addresses, in bytes, and the longest address that can come of it, without
/// what belongs to the code.
const TEMPLATE_BYTES_MAX: usize = 2000;
const URL_BYTES_MAX: usize = 2000;

/// Characters that no address has, and that would end a cell or a text in a file.
const NOT_IN_ADDRESSES: &[u8] = b"\"\\<>^`|";

/// An address with places for what belongs to a code, such as a GS1 Digital Link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct UrlTemplate(Vec<UrlPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlPart {
    Text(String),
    Code,
    Serial,
    Id,
}

impl UrlTemplate {
    /// Reads `https://id.example.com/01/{gtin}/21/{code}`. Places other than `code`, `serial` and `id`
    /// are filled from the batch's metadata.
    pub(in crate::http) fn read(text: &str, metadata: &Value) -> Result<Self, Problem> {
        let wrong = |what: &str| Problem::invalid(format!("The url template {text:?} {what}."));
        if !(text.starts_with("https://") || text.starts_with("http://")) {
            return Err(wrong("must begin with https:// or http://"));
        }
        let usable = |byte: u8| byte.is_ascii_graphic() && !NOT_IN_ADDRESSES.contains(&byte);
        if text.len() > TEMPLATE_BYTES_MAX || !text.bytes().all(usable) {
            return Err(wrong("must be a short address without spaces, quotes and the like"));
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, place)) = rest.split_once('{') {
            let (name, after) = place.split_once('}').ok_or_else(|| wrong("has an open brace"))?;
            parts.push(UrlPart::Text(before.to_owned()));
            parts.push(match (name, &metadata[name]) {
                ("code", _) => UrlPart::Code,
                ("serial", _) => UrlPart::Serial,
                ("id", _) => UrlPart::Id,
                (_, Value::String(value)) => UrlPart::Text(escape(value)),
                (_, Value::Number(value)) => UrlPart::Text(value.to_string()),
                _ => {
                    return Err(wrong(&format!(
                        "names {name:?}, which the batch's metadata lacks"
                    )));
                }
            });
            rest = after;
        }
        if rest.contains('}') {
            return Err(wrong("has a brace too many"));
        }
        parts.push(UrlPart::Text(rest.to_owned()));
        let length = |part: &UrlPart| if let UrlPart::Text(text) = part { text.len() } else { 0 };
        if parts.iter().map(length).sum::<usize>() > URL_BYTES_MAX {
            return Err(wrong("becomes too long with the batch's metadata"));
        }
        if !parts.iter().any(|part| matches!(part, UrlPart::Code | UrlPart::Serial | UrlPart::Id)) {
            return Err(wrong("names nothing of the code; use {code}"));
        }
        Ok(Self(parts))
    }

    /// Writes the address of a code. Codes consist of characters that need no escaping.
    pub(in crate::http) fn write(&self, out: &mut String, code: &str, serial: u64, id: i64) {
        for part in &self.0 {
            let written = match part {
                UrlPart::Text(text) => out.write_str(text),
                UrlPart::Code => out.write_str(code),
                UrlPart::Serial => write!(out, "{serial}"),
                UrlPart::Id => write!(out, "{id}"),
            };
            written.expect("memory can be written to");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_filled_in() {
        let metadata = json!({"gtin": "0950 6", "line": 3});
        let template = "https://id.example.com/01/{gtin}/21/{code}?l={line}&s={serial}";
        let template = UrlTemplate::read(template, &metadata).unwrap();
        let mut url = String::new();
        template.write(&mut url, "AB-CD", 7, 8);
        assert_eq!(url, "https://id.example.com/01/0950%206/21/AB-CD?l=3&s=7");
    }

    #[test]
    fn what_is_no_address_of_a_code_is_refused() {
        for text in [
            "",
            "javascript:{code}",
            "https://a/{code",
            "https://a/code}",
            "https://a/",
            "https://a/{b}",
            "https://a/ {code}",
            "https://a/\"{code}",
            "https://a/\\{code}",
            "https://a/\n{code}",
        ] {
            assert!(UrlTemplate::read(text, &Value::Null).is_err(), "{text}");
        }
    }
}
