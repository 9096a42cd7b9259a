//! Compressing a file on its way out, a portion at a time.

use std::io::{self, Write as _};

use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Fast rather than small: whoever downloads waits for it.
const ZSTD_LEVEL: i32 = 3;

/// What comes out of a file.
pub(super) enum Packer {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Packer {
    /// The best that the client understands.
    pub(super) fn for_client(headers: &HeaderMap) -> io::Result<Self> {
        let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
        let accepted: Vec<&str> = accepted
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .collect();
        let accepts = |name: &str| {
            accepted.iter().any(|entry| {
                let (coding, weight) = entry.split_once(';').unwrap_or((entry, ""));
                let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
                coding.trim().eq_ignore_ascii_case(name)
                    && weight.parse::<f64>().is_ok_and(|weight| weight > 0.0)
            })
        };
        Ok(if accepts("zstd") {
            Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?)
        } else if accepts("gzip") {
            Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast()))
        } else {
            Self::Plain
        })
    }

    /// The value of `Content-Encoding`.
    pub(super) fn coding(&self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Gzip(_) => Some("gzip"),
            Self::Zstd(_) => Some("zstd"),
        }
    }

    /// Takes some of the file and gives out what is ready, which may be nothing yet.
    pub(super) fn pack(&mut self, text: String) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Plain => text.into_bytes(),
            Self::Gzip(encoder) => {
                encoder.write_all(text.as_bytes())?;
                std::mem::take(encoder.get_mut())
            }
            Self::Zstd(encoder) => {
                encoder.write_all(text.as_bytes())?;
                std::mem::take(encoder.get_mut())
            }
        })
    }

    /// What is left at the end.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain => Ok(Vec::new()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
