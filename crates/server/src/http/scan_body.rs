//! The body of a scan: a code, and whatever comes along with it.

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::problem::Problem;

/// The most that may come along with a scan, as JSON without blanks.
const CONTEXT_BYTES_MAX: usize = 2048;

/// What has more bytes than this before it is read is too much in any case: an escape takes up to six for
/// one. So nobody fills the memory with what is refused afterwards.
const WRITTEN_BYTES_MAX: usize = 6 * CONTEXT_BYTES_MAX;

/// A code as it was scanned or typed. Further fields, such as a place or a device, are the context of the scan
/// and are kept with it: 2,048 bytes of JSON at most, for as long as the server is configured to
/// (`codes.context_days`).
#[derive(Debug, ToSchema)]
pub(crate) struct ScanBody<'a> {
    /// Whose ID type; the key's tenant, or `default`, where it is left out.
    pub(super) tenant: Option<Cow<'a, str>>,
    /// The ID type.
    #[schema(rename = "type", example = "bottle")]
    pub(super) type_name: Cow<'a, str>,
    /// The code. Case, spaces, hyphens and look-alikes do not matter.
    pub(super) code: Cow<'a, str>,
    /// Not looked into before somebody asks: most scans have none, and these should not pay for it.
    #[schema(ignore)]
    further: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl ScanBody<'_> {
    /// What came along, as one object in JSON. Of two fields with the same name the last one counts. A NUL
    /// stays an escape, which any database keeps.
    pub(super) fn context(&self) -> Result<Option<String>, Problem> {
        if self.further.is_empty() {
            return Ok(None);
        }
        let written = |text: &str| text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
        let fields = self.further.iter();
        if fields.map(|(name, value)| name.len() + written(value.get())).sum::<usize>()
            > WRITTEN_BYTES_MAX
        {
            return Err(too_large());
        }
        let mut context = Map::new();
        for (name, value) in &self.further {
            let value: Value = serde_json::from_str(value.get()).map_err(|error| {
                Problem::invalid(format!("The field {name:?} cannot be kept: {error}."))
            })?;
            context.insert(name.to_string(), value);
        }
        let json = Value::Object(context).to_string();
        if json.len() > CONTEXT_BYTES_MAX { Err(too_large()) } else { Ok(Some(json)) }
    }
}

fn too_large() -> Problem {
    let detail = format!(
        "The fields beside tenant, type and code may have {CONTEXT_BYTES_MAX} bytes as JSON without \
         blanks. The scan was not counted."
    );
    let (status, title) = (StatusCode::UNPROCESSABLE_ENTITY, "The context is too large");
    Problem::new(status, "context_too_large", title, detail)
}

/// Text that is not copied unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// By hand, because a derived one would drop fields that it does not know, or copy all of them.
impl<'de> Deserialize<'de> for ScanBody<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = ScanBody<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<ScanBody<'de>, M::Error> {
        let (mut tenant, mut type_name, mut code) = (None, None, None);
        let mut further = Vec::new();
        while let Some(Text(name)) = fields.next_key()? {
            match &*name {
                "tenant" => set(&mut tenant, "tenant", fields.next_value::<Option<Text<'_>>>()?)?,
                "type" => set(&mut type_name, "type", fields.next_value::<Text<'_>>()?)?,
                "code" => set(&mut code, "code", fields.next_value::<Text<'_>>()?)?,
                _ => further.push((name, fields.next_value()?)),
            }
        }
        let Text(type_name) = type_name.ok_or_else(|| Error::missing_field("type"))?;
        let Text(code) = code.ok_or_else(|| Error::missing_field("code"))?;
        let tenant = tenant.flatten().map(|Text(tenant)| tenant);
        Ok(ScanBody { tenant, type_name, code, further })
    }
}

fn set<T, E: Error>(field: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::duplicate_field(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::read_json;
    use super::*;

    fn context(further: &str) -> Result<Option<String>, Problem> {
        let body = format!(r#"{{"type": "bottle", {further} "code": "A1"}}"#);
        let read: ScanBody<'_> = read_json(body.as_bytes()).unwrap();
        assert_eq!((&*read.type_name, &*read.code, read.tenant.as_deref()), ("bottle", "A1", None));
        read.context()
    }

    #[track_caller]
    fn refused(further: &str, code: &str) {
        let problem = serde_json::to_value(context(further).unwrap_err()).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
    }

    #[test]
    fn a_plain_body_is_not_copied() {
        let read: ScanBody<'_> =
            read_json(br#" {"tenant": "PROJ", "type": "bottle", "code": "A1"}"#).unwrap();
        let (tenant, type_name, code) = (read.tenant.as_ref(), &read.type_name, &read.code);
        assert!(matches!(tenant, Some(Cow::Borrowed("PROJ"))));
        assert!(matches!((type_name, code), (Cow::Borrowed("bottle"), Cow::Borrowed("A1"))));
        assert_eq!((read.further.capacity(), read.context().unwrap()), (0, None));
    }

    #[test]
    fn further_fields_are_the_context() {
        let sent = r#""place": { "city" : "Bonn", "at": [50.73, 7.1, null] },
            "dev\u0069ce": "caf\u00e9", "n": 1, "n": 2, "\u0000": "a\u0000b","#;
        let kept = r#"{"place":{"city":"Bonn","at":[50.73,7.1,null]},"device":"café","n":2,"\u0000":"a\u0000b"}"#;
        assert_eq!(context(sent).unwrap().as_deref(), Some(kept));
        assert_eq!(context("").unwrap(), None);
    }

    #[test]
    fn a_context_has_a_limit() {
        let fill = |bytes: usize| format!(r#""a": "{}","#, "x".repeat(bytes - r#"{"a":""}"#.len()));
        let kept = context(&fill(CONTEXT_BYTES_MAX)).unwrap().unwrap();
        assert_eq!(kept.len(), CONTEXT_BYTES_MAX);
        refused(&fill(CONTEXT_BYTES_MAX + 1), "context_too_large");
        refused(&fill(CONTEXT_BYTES_MAX * 100), "context_too_large");
        // How it is written does not count.
        let escaped = format!(r#"{}"a": "{}","#, " ".repeat(100_000), r"\u00e9".repeat(1000));
        assert_eq!(context(&escaped).unwrap().unwrap().len(), 2008);
        let many: Vec<_> = (0..1000).map(|field| format!("\"{field}\": 1,")).collect();
        refused(&many.concat(), "context_too_large");
    }

    #[test]
    fn what_others_cannot_read_is_not_kept() {
        let deep = format!(r#""a": {}{},"#, "[".repeat(200), "]".repeat(200));
        for further in [&deep, r#""a": "\ud800","#, r#""a": 1e999,"#] {
            refused(further, "invalid_request");
        }
    }

    #[test]
    fn fields_that_are_known_stand_there_once() {
        for body in [
            r#"{"type": "a", "code": "b", "type": "c"}"#,
            r#"{"type": "a"}"#,
            r#"{"code": "a", "place": 1}"#,
            r#"{"type": 1, "code": "a"}"#,
            r#"{"type": "a", "code": null}"#,
            r#"{"type": "a", "code": "b", "tenant": {}}"#,
            "7",
        ] {
            let problem = read_json::<ScanBody<'_>>(body.as_bytes()).unwrap_err();
            let problem = serde_json::to_value(problem).unwrap();
            assert_eq!(problem["code"], "invalid_request", "{body}: {problem}");
        }
        let open: ScanBody<'_> =
            read_json(br#"{"tenant": null, "type": "a", "code": "b"}"#).unwrap();
        assert_eq!(open.tenant, None);
    }
}
