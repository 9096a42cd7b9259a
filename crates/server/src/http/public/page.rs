//! The page for consumers. Its words are in `page.html`, and the script has none.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use super::verdict::PublicVerdict;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The section that is there until there is a verdict.
const WAITING: &str = "waiting";

/// What a page shows.
pub(super) enum Shows<'a> {
    /// That it is checking, which its script does with this token.
    Waiting(&'a str),
    Verdict(&'a PublicVerdict),
    Limited,
    Failed,
}

pub(super) struct Page {
    html: String,
    /// Allows this script and these styles, and calls to this server.
    policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Self {
        let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            hash(STYLE),
            hash(SCRIPT),
        );
        Self {
            html: TEMPLATE.replace("{{style}}", STYLE).replace("{{script}}", SCRIPT),
            policy: HeaderValue::from_str(&policy).expect("visible ASCII"),
        }
    }

    pub(super) fn response(&self, status: StatusCode, shows: &Shows<'_>) -> Response {
        let mut response = (status, Html(self.render(shows))).into_response();
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        response
    }

    fn render(&self, shows: &Shows<'_>) -> String {
        let (section, token) = match shows {
            Shows::Waiting(token) => (WAITING, *token),
            Shows::Verdict(verdict) => (verdict.name(), ""),
            Shows::Limited => ("limited", ""),
            Shows::Failed => ("failed", ""),
        };
        let mut html = self.html.replace("{{token}}", token);
        if section != WAITING {
            let shown = format!("<section id=\"{section}\"");
            let start = html.find(&shown).expect("every state has a section");
            let hidden = html[start..].find(" hidden>").expect("all but one are hidden");
            html.replace_range(start + hidden..start + hidden + " hidden".len(), "");
            html = html.replace("<section id=\"waiting\">", "<section id=\"waiting\" hidden>");
        }
        if let Shows::Verdict(verdict) = shows {
            html = filled(&html, "scans", &verdict.scans.to_string());
            html = filled(&html, "first", &verdict.first_time().unwrap_or_default());
            html = filled(&html, "reason", verdict.reason().unwrap_or_default());
        }
        html
    }
}

/// Puts text into the places of a name.
fn filled(html: &str, name: &str, text: &str) -> String {
    let place = format!("data-fill=\"{name}\">");
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    html.replace(&place, &format!("{place}{escaped}"))
}

/// What every answer to a stranger carries: it is for them alone, and for nobody's index.
pub(super) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "accept"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("x-robots-tag"), "noindex, nofollow, noarchive"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use storage::{CodeStatus, Void};

    use super::*;
    use crate::http::scans::Seen;

    /// The sections that can be seen.
    fn visible(html: &str) -> Vec<&str> {
        let sections = html.split("<section id=\"").skip(1);
        let sections = sections.filter_map(|section| section.split_once('>'));
        sections
            .filter(|(tag, _)| !tag.ends_with("hidden"))
            .filter_map(|(tag, _)| tag.split('"').next())
            .collect()
    }

    #[test]
    fn one_section_is_shown_and_text_is_escaped() {
        let page = Page::new();
        let waiting = page.render(&Shows::Waiting("abc"));
        assert_eq!(visible(&waiting), ["waiting"]);
        assert_eq!(waiting.matches("\"abc\"").count(), 2, "for the script and for the form");
        let at = Timestamp::UNIX_EPOCH;
        let void = Void { at, reason: "<b>\"stolen\" & lost".to_owned() };
        for (status, section) in [
            (CodeStatus { scans: 1, first_scanned_at: Some(at), void: None }, "genuine"),
            (CodeStatus { scans: 7, first_scanned_at: Some(at), void: None }, "repeated"),
            (CodeStatus { scans: 1, first_scanned_at: Some(at), void: Some(void) }, "void"),
        ] {
            let verdict = PublicVerdict::new(status, Seen::Counted);
            let html = page.render(&Shows::Verdict(&verdict));
            assert_eq!(visible(&html), [section]);
            assert!(html.contains("data-token=\"\"") && !html.contains("{{"), "{html}");
            assert!(section != "repeated" || html.contains(">7</span> times"), "{html}");
            assert!(section != "repeated" || html.contains(">1 January 1970, 00:00 UTC<"));
            assert!(section != "void" || html.contains("&lt;b&gt;\"stolen\" &amp; lost"));
        }
        let unknown = PublicVerdict::unknown();
        assert_eq!(visible(&page.render(&Shows::Verdict(&unknown))), ["unknown"]);
        assert_eq!(visible(&page.render(&Shows::Limited)), ["limited"]);
        assert_eq!(visible(&page.render(&Shows::Failed)), ["failed"]);
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = Page::new().render(&Shows::Waiting(""));
        for outside in ["http:", "https:", "src=", "@import", "url(", "//"] {
            let allowed = if outside == "//" { page.matches("// ").count() } else { 0 };
            assert_eq!(page.matches(outside).count(), allowed, "{outside}");
        }
        assert!(page.len() < 8_192, "{} bytes", page.len());
    }
}
