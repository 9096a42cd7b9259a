//! The answer that a file is sent with.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::format::FileFormat;
use super::layout::{Layout, Slice};
use super::packing::{Packed, Packer};
use super::range::{Wanted, wanted};
use super::stream::send;
use super::text::TextFile;
use super::workbook::Workbook;
use crate::http::places::Place;
use crate::http::problem::Problem;

/// A file of text, or the part of it that the client asks for. Parts are those of the file as it is, so
/// it is not compressed for whoever wants one.
pub(super) fn text(
    method: &Method,
    request: &HeaderMap,
    file: TextFile,
    with_head: bool,
    serials: &[Range<u64>],
    place: Place,
) -> Result<Response, Problem> {
    let packer = if request.contains_key(header::RANGE) {
        None
    } else {
        Packer::for_client(request)
            .map_err(|error| Problem::unavailable(format!("Cannot compress: {error}.")))?
    };
    let layout = Layout::new(&file, with_head, serials);
    // Parts of what is compressed cannot be had: whoever goes on with it would get bytes of another file.
    let parts = if packer.is_some() { "none" } else { "bytes" };
    let mut response = match packer {
        Some(packer) => {
            let coding = HeaderValue::from_static(packer.coding());
            let portions = Box::new(Slice::whole(file, layout));
            let body = send(Box::new(Packed::new(portions, packer)), place);
            ([(header::CONTENT_ENCODING, coding)], body).into_response()
        }
        None => plain_text(method, request, file, with_head, serials, layout, place),
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static(parts));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn plain_text(
    method: &Method,
    request: &HeaderMap,
    file: TextFile,
    with_head: bool,
    serials: &[Range<u64>],
    layout: Layout,
    place: Place,
) -> Response {
    let etag = file.etag(with_head, serials);
    let bytes = layout.bytes();
    let (status, part) = match wanted(method, request, &etag, bytes) {
        Wanted::Whole => (StatusCode::OK, 0..bytes),
        Wanted::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Wanted::Beyond => return beyond(bytes),
    };
    let Range { start, end } = part;
    let body = send(Box::new(Slice::new(file, layout, part)), place);
    let mut response = (status, [(header::ETAG, etag)], body).into_response();
    response.headers_mut().insert(header::CONTENT_LENGTH, (end - start).into());
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {start}-{}/{bytes}", end - 1);
        insert(&mut response, header::CONTENT_RANGE, &range);
    }
    response
}

fn beyond(bytes: u64) -> Response {
    let status = StatusCode::RANGE_NOT_SATISFIABLE;
    let detail = format!("The file has {bytes} bytes.");
    let problem =
        Problem::new(status, "range_not_satisfiable", "Beyond the end of the file", detail);
    let mut response = problem.into_response();
    insert(&mut response, header::CONTENT_RANGE, &format!("bytes */{bytes}"));
    response
}

/// A workbook. It is compressed already, and its size is known at its end only.
pub(super) fn workbook(workbook: Workbook, place: Place) -> Response {
    let no_parts = [(header::ACCEPT_RANGES, HeaderValue::from_static("none"))];
    (no_parts, send(Box::new(workbook), place)).into_response()
}

/// Adds what all files have in common, unless it is a problem that is sent in place of one.
pub(super) fn name(
    mut response: Response,
    format: FileFormat,
    with_head: bool,
    batch: i64,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if response.status().is_success() {
        insert(&mut response, header::CONTENT_TYPE, format.media_type(with_head));
        let name = format!("attachment; filename=\"batch-{batch}.{}\"", format.extension());
        insert(&mut response, header::CONTENT_DISPOSITION, &name);
    }
    response
}

fn insert(response: &mut Response<Body>, name: HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("visible ASCII");
    response.headers_mut().insert(name, value);
}
