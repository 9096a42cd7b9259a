//! Sending a file while it is made.

use std::io;

use axum::body::Body;
use futures_util::stream;
use hyper::body::Bytes;

use crate::http::places::Place;

/// Codes that are rendered at a time, and the bytes that this may come to. All that is in memory of a
/// file.
const PORTION_CODES: u64 = 8192;
const PORTION_BYTES: u64 = 512 << 10;

/// A file, one portion after the other.
pub(super) type Portions = Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send>;

/// How many rows of a length make a portion.
pub(super) fn portion_rows(row_bytes: u64) -> u64 {
    (PORTION_BYTES / row_bytes.max(1)).clamp(1, PORTION_CODES)
}

/// Makes a portion each time that the client has taken the one before. A download that fails on the way
/// ends without its last bytes, so that nobody takes it for complete. It has its place until it is over.
pub(super) fn send(portions: Portions, place: Place) -> Body {
    Body::from_stream(stream::unfold(Some((portions, place)), async |download| {
        let (mut portions, place) = download?;
        // Rendering takes a core for a millisecond, which a worker of the server does not have.
        let step = tokio::task::spawn_blocking(move || (portions.next(), portions));
        match step.await {
            Ok((Some(Ok(bytes)), rest)) => Some((Ok(Bytes::from(bytes)), Some((rest, place)))),
            Ok((Some(Err(error)), _)) => Some((Err(error), None)),
            Ok((None, _)) => None,
            Err(panic) => Some((Err(io::Error::other(panic)), None)),
        }
    }))
}
