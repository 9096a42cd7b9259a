//! `/api/v1/ids/gaps`: serials that will never carry anything, each with a reason.

use std::sync::Arc;

use axum::body::Body as AnswerBody;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use engine::{Engine, LiveType};
use futures_util::stream;
use idgen::format::Format;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::{Gap, GapFilter, GapReason, Page, Scope, SignOff, StoreError};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::batches::check_text;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, post_once, read_json, read_number};

/// Serials that are tried for the first and the last ID of a gap.
const RENDERED_MAX: usize = 1000;

/// Gaps that are read at once for a file.
const ROWS_AT_ONCE: u32 = 1000;

/// Which gaps.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GapsQuery {
    /// Whose; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(alias = "tenant")]
    project: Option<String>,
    /// The ID type.
    #[serde(rename = "type")]
    type_name: String,
    /// Only those that hold serials from here on.
    from: Option<u64>,
    /// Only those that hold serials up to here.
    to: Option<u64>,
    /// Only with this reason, or one of several with commas in between.
    reason: Option<String>,
    /// `true`: also those that are over, because their documents have arrived after all, or the reason is
    /// another one.
    #[serde(default)]
    closed: bool,
    /// `json`, or `csv` for all of them as a file.
    format: Option<String>,
}

/// A range of serials that will never carry anything.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GapRangeBody {
    /// What to sign it off by.
    id: String,
    /// First serial.
    first: String,
    /// Last serial.
    last: String,
    /// How many.
    count: u64,
    /// The first ID, as it would be written when the gap was found. A filter may reject serials, so it is
    /// the one of the first serial that has one; null if none of the first thousand has.
    first_id: Option<String>,
    /// The last one, in the same way.
    last_id: Option<String>,
    /// The counter within the type.
    #[serde(skip_serializing_if = "String::is_empty")]
    period: String,
    /// Why: `crash`, `pool_discarded`, `batch_cancelled`, `abandoned`, `outbox_dlq`, `untracked_loss`,
    /// `reservation_expired` or `reservation_released`.
    #[schema(value_type = String)]
    reason: GapReason,
    /// When it was found.
    #[schema(value_type = String, format = DateTime)]
    detected_at: Timestamp,
    /// When it was lost, where that is known. What was on an instance that is gone was lost no earlier: it
    /// is when the instance was last seen.
    #[schema(value_type = Option<String>, format = DateTime)]
    lost_at: Option<Timestamp>,
    /// The instance that lost it, where one did.
    instance: Option<String>,
    /// When it was over: its document has arrived after all, or it is a gap for another reason since then.
    #[schema(value_type = Option<String>, format = DateTime)]
    closed_at: Option<Timestamp>,
    /// Who has accepted it, and why.
    signed_off: Option<SignOffBody>,
}

/// That somebody has accepted a gap.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignOffBody {
    /// The public part of the API key; null where the server ran open.
    pub(super) key: Option<String>,
    /// What people call the key.
    pub(super) key_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) at: Timestamp,
    pub(super) note: String,
}

impl SignOffBody {
    pub(super) fn new(sign_off: SignOff, engine: &Engine) -> Self {
        let key = engine.key_by_number(sign_off.key_id);
        Self {
            key: key.as_ref().map(|key| key.stored().key.short.clone()),
            key_name: key.map(|key| key.stored().key.name.clone()),
            at: sign_off.at,
            note: sign_off.note,
        }
    }
}

impl GapRangeBody {
    /// Gaps with their IDs: as they are on record, or as they would be written.
    async fn all(
        gaps: Vec<Gap>,
        live: &LiveType,
        engine: &Engine,
    ) -> Result<Vec<Self>, StoreError> {
        let ids = engine.gaps.written(live, &gaps).await?;
        let gaps = gaps.into_iter().zip(ids);
        Ok(gaps.map(|(gap, ids)| Self::new(gap, ids, live, engine)).collect())
    }

    fn new(gap: Gap, known: [Option<String>; 2], live: &LiveType, engine: &Engine) -> Self {
        let lost_at = gap.time_of_loss();
        let serials = gap.span.serials;
        let last = serials.end.saturating_sub(1);
        let id = |serial| written(live, &gap.span.period, serial, gap.detected_at);
        let [first_known, last_known] = known;
        let first_id = first_known.or_else(|| serials.clone().take(RENDERED_MAX).find_map(id));
        let last_id = last_known.or_else(|| serials.clone().rev().take(RENDERED_MAX).find_map(id));
        Self {
            id: gap.id.to_string(),
            first: serials.start.to_string(),
            last: last.to_string(),
            count: serials.end - serials.start,
            first_id,
            last_id,
            reason: gap.reason,
            detected_at: gap.detected_at,
            lost_at,
            instance: Some(gap.instance).filter(|instance| !instance.is_empty()),
            closed_at: gap.closed_at,
            signed_off: gap.sign_off.map(|sign_off| SignOffBody::new(sign_off, engine)),
            period: gap.span.period,
        }
    }

    fn columns(&self, live: &LiveType) -> [String; 18] {
        let id_type = &live.stored().id_type;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let time = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.to_string());
        let signed = self.signed_off.as_ref();
        [
            id_type.tenant().to_owned(),
            id_type.name().to_owned(),
            self.period.clone(),
            self.first.clone(),
            self.last.clone(),
            self.count.to_string(),
            text(&self.first_id),
            text(&self.last_id),
            self.reason.name().to_owned(),
            self.detected_at.to_string(),
            time(self.lost_at),
            text(&self.instance),
            time(self.closed_at),
            self.id.clone(),
            signed.map_or_else(String::new, |signed| text(&signed.key)),
            signed.map_or_else(String::new, |signed| text(&signed.key_name)),
            signed.map_or_else(String::new, |signed| signed.at.to_string()),
            signed.map_or_else(String::new, |signed| signed.note.clone()),
        ]
    }
}

/// The heads of the columns, in the same order.
const HEADS: &str = "project,type,period,first,last,count,first_id,last_id,reason,detected_at,\
    lost_at,instance,closed_at,gap,signed_off_by,signed_off_by_name,signed_off_at,note\r\n";

/// A serial as an ID: on the first day of its period, or on the day on which its gap was found.
fn written(live: &LiveType, period: &str, serial: u64, detected_at: Timestamp) -> Option<String> {
    if matches!(live.format(), Format::Snowflake(_)) {
        return None;
    }
    let day = match period.len() {
        4 => format!("{period}-01-01"),
        7 => format!("{period}-01"),
        _ => period.to_owned(),
    };
    let detected = || jiff::tz::Offset::UTC.to_datetime(detected_at).date();
    let date = day.parse().unwrap_or_else(|_| detected());
    live.format().render(serial, date).ok()
}

/// A page of gaps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GapsBody {
    /// The oldest first.
    gaps: Vec<GapRangeBody>,
    /// How many serials all gaps have that match, on whichever page.
    total: u64,
    /// How many gaps these are.
    total_gaps: u64,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// List gaps
///
/// Every serial that was drawn and will never carry anything, as ranges, with the reason.
#[utoipa::path(get, path = "/api/v1/ids/gaps", tag = "IDs", params(GapsQuery, PageQuery),
    responses((status = 200, body = GapsBody), (status = 404, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<GapsQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(query.project.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &query.type_name)?;
        let limit = page.limit()?;
        if query.from > query.to.or(query.from) {
            return Err(Problem::invalid("from must not be behind to."));
        }
        let wrong = |_| Problem::invalid("after must be the next of the page before.");
        let after = page.after.as_deref().map(str::parse).transpose().map_err(wrong)?;
        let filter = GapFilter {
            type_id: live.stored().id,
            reasons: read_reasons(query.reason.as_deref())?,
            from: query.from,
            to: query.to,
            with_closed: query.closed,
            page: Page {
                after: after.unwrap_or(0),
                limit: u32::try_from(limit + 1).unwrap_or(u32::MAX),
            },
        };
        match query.format.as_deref() {
            None | Some("json") => {}
            Some("csv") => return Ok(csv(Arc::clone(&app), live, filter)),
            Some(_) => return Err(Problem::invalid("format must be json or csv.")),
        }
        let totals = app.engine.gaps.count(&filter).await?;
        let mut found = app.engine.gaps.list(&filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|gap| gap.id.to_string());
        let gaps = GapRangeBody::all(found, &live, &app.engine).await?;
        let (total, total_gaps) = (totals.serials, totals.gaps);
        Ok(JsonBody::ok(&GapsBody { gaps, total, total_gaps, next }).into_response())
    })
    .await
}

fn read_reasons(text: Option<&str>) -> Result<Vec<GapReason>, Problem> {
    let known = |name: &str| GapReason::ALL.into_iter().find(|reason| reason.name() == name);
    let read = |name: &str| {
        known(name.trim()).ok_or_else(|| {
            let names = GapReason::ALL.map(GapReason::name).join(", ");
            Problem::invalid(format!("{name:?} is no reason; there are {names}."))
        })
    };
    text.map_or(Ok(Vec::new()), |text| text.split(',').map(read).collect())
}

/// All gaps as a file, which is read while it is sent.
fn csv(app: Arc<App>, live: Arc<LiveType>, mut filter: GapFilter) -> Response {
    filter.page.limit = ROWS_AT_ONCE;
    let first = Some((filter, HEADS.to_owned()));
    let portions = stream::try_unfold(first, move |state| {
        let (app, live) = (Arc::clone(&app), Arc::clone(&live));
        async move {
            let Some((mut filter, mut text)) = state else { return Ok(None) };
            let gaps = app.engine.gaps.list(&filter).await.map_err(std::io::Error::other)?;
            let more = gaps.len() == ROWS_AT_ONCE as usize;
            filter.page.after = gaps.last().map_or(0, |gap| gap.id);
            let gaps = GapRangeBody::all(gaps, &live, &app.engine).await;
            for gap in gaps.map_err(std::io::Error::other)? {
                let row = gap.columns(&live);
                let row = row.each_ref().map(|text| quoted(text));
                text.push_str(&row.join(","));
                text.push_str("\r\n");
            }
            let rest = more.then(|| (filter, String::new()));
            Ok::<_, std::io::Error>(Some((text, rest)))
        }
    });
    let csv = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    let name = HeaderValue::from_static("attachment; filename=\"gaps.csv\"");
    let headers = [(header::CONTENT_TYPE, csv), (header::CONTENT_DISPOSITION, name)];
    (headers, AnswerBody::from_stream(portions)).into_response()
}

/// A field. A spreadsheet would take what begins with certain characters for a formula.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let shield = if formula { "'" } else { "" };
    format!("\"{shield}{}\"", text.replace('"', "\"\""))
}

/// Who accepts a gap, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignOffOrder {
    /// Whose ID type; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(default, alias = "tenant")]
    project: Option<String>,
    /// The ID type.
    #[serde(rename = "type")]
    type_name: String,
    /// Why the gap is accepted.
    note: String,
}

/// Sign a gap off
///
/// Records who has accepted a gap, when and why. The first one stays.
#[utoipa::path(post, path = "/api/v1/ids/gaps/{gap}/sign-off", tag = "IDs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    request_body = SignOffOrder,
    responses((status = 200, body = GapRangeBody), (status = 404, body = Problem)))]
pub(crate) async fn sign_off(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(gap): Path<String>,
    Body(body): Body,
) -> Response {
    let about = gap.clone();
    post_once(
        &app,
        &headers,
        Scope::Admin,
        "sign off",
        &about,
        body,
        |app, caller, body| async move {
            let SignOffOrder { project, type_name, note } = read_json(&body)?;
            check_text("note", &note)?;
            let tenant = caller.tenant(project.as_deref())?;
            let live = app.engine.catalogue.find(&tenant, &type_name)?;
            let gap = read_number(&gap, "gap")?;
            let signed = app.engine.gaps.sign_off(&live, gap, caller.key_id(), note).await?;
            let signed =
                GapRangeBody::all(signed.into_iter().collect(), &live, &app.engine).await?;
            let signed = signed.first().ok_or_else(|| Problem::not_found("gap"))?;
            Ok(JsonBody::ok(signed))
        },
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_are_no_formulas() {
        for (text, expected) in [
            ("", "\"\""),
            ("1001", "\"1001\""),
            ("said \"yes\", twice", "\"said \"\"yes\"\", twice\""),
            ("=1+1", "\"'=1+1\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
