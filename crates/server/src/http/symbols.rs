//! `GET /api/v1/codes/{type}/{code}/qr.svg` and `…/datamatrix.svg`: a code as a picture to print.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use datamatrix::{DataMatrix, SymbolList};
use engine::codes::Scan;
use idgen::format::Format;
use qrcodegen::{QrCode, QrCodeEcc};
use serde::Deserialize;
use storage::Scope;
use utoipa::IntoParams;

use super::App;
use super::auth::Caller;
use super::batch_file::url_template;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::request::as_caller;
use super::scans::unknown_code;

/// Light modules around a symbol, as the standards ask for.
const QR_MARGIN: usize = 4;
const DATA_MATRIX_MARGIN: usize = 1;

/// What the picture shows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SymbolQuery {
    /// The tenant; the key's own, or `default`, where it is left out.
    tenant: Option<String>,
    /// An address with `{code}` in it, as for the file of a batch; the code alone where it is left out.
    url: Option<String>,
}

/// Show a code as a QR code
#[utoipa::path(get, path = "/api/v1/codes/{type}/{code}/qr.svg", tag = "Codes", params(SymbolQuery),
    responses((status = 200, content_type = "image/svg+xml", body = String),
        (status = 404, body = Problem)))]
pub(crate) async fn qr(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((type_name, code)): Path<(String, String)>,
    Query(query): Query<SymbolQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let text = text(&app, caller, &type_name, &code, &query).await?;
        let symbol = QrCode::encode_text(&text, QrCodeEcc::Medium).map_err(|_| too_long())?;
        let size = usize::try_from(symbol.size()).unwrap_or(0);
        let dark = (0..symbol.size())
            .flat_map(|y| (0..symbol.size()).map(move |x| (x, y)))
            .filter(|(x, y)| symbol.get_module(*x, *y))
            .filter_map(|(x, y)| Some((usize::try_from(x).ok()?, usize::try_from(y).ok()?)));
        Ok(svg((size, size), QR_MARGIN, dark))
    })
    .await
}

/// Show a code as a Data Matrix
#[utoipa::path(get, path = "/api/v1/codes/{type}/{code}/datamatrix.svg", tag = "Codes", params(SymbolQuery),
    responses((status = 200, content_type = "image/svg+xml", body = String),
        (status = 404, body = Problem)))]
pub(crate) async fn data_matrix(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((type_name, code)): Path<(String, String)>,
    Query(query): Query<SymbolQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let text = text(&app, caller, &type_name, &code, &query).await?;
        let symbol = DataMatrix::encode(text.as_bytes(), SymbolList::default());
        let bitmap = symbol.map_err(|_| too_long())?.bitmap();
        Ok(svg((bitmap.width(), bitmap.height()), DATA_MATRIX_MARGIN, bitmap.pixels()))
    })
    .await
}

/// What the symbol says: the code as it was made, or its address.
async fn text(
    app: &App,
    caller: &Caller,
    type_name: &str,
    code: &str,
    query: &SymbolQuery,
) -> Result<String, Problem> {
    let tenant = caller.tenant(query.tenant.as_deref())?;
    let live = app.engine.catalogue.find(&tenant, type_name)?;
    let (Scan::Known { batch, serial, id, .. }, Format::Random(format)) =
        (app.engine.codes.glance(&live, code).await?, live.format())
    else {
        return Err(unknown_code());
    };
    let code = format.render(serial).map_err(|error| Problem::invalid(format!("{error}.")))?;
    let (batch, _) = app.engine.batches.find(batch, Some(&*tenant)).await?;
    let Some(url) = url_template(query.url.as_deref(), &batch)? else { return Ok(code) };
    let mut text = String::new();
    url.write(&mut text, &code, serial, id);
    Ok(text)
}

fn too_long() -> Problem {
    Problem::invalid("The address is too long for a symbol.")
}

/// One square for each dark module. Sizes are in modules; whoever prints it chooses the rest.
fn svg(
    (width, height): (usize, usize),
    margin: usize,
    dark: impl Iterator<Item = (usize, usize)>,
) -> Response {
    let mut path = String::new();
    for (x, y) in dark {
        let _ = write!(path, "M{},{}h1v1h-1z", x + margin, y + margin);
    }
    let (width, height) = (width + 2 * margin, height + 2 * margin);
    let picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0,0h{width}v{height}h-{width}z\"/>\
         <path d=\"{path}\"/></svg>\n"
    );
    ([(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"))], picture).into_response()
}
