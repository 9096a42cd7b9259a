//! Compressing a file on its way out, a portion at a time.

use std::io::{self, Write as _};

use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::stream::Portions;

/// Fast rather than small: whoever downloads waits for it.
const ZSTD_LEVEL: i32 = 3;

/// How a file is compressed.
pub(super) enum Packer {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Packer {
    /// The best that the client understands; none if it understands nothing.
    pub(super) fn for_client(headers: &HeaderMap) -> io::Result<Option<Self>> {
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
            Some(Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?))
        } else if accepts("gzip") {
            Some(Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())))
        } else {
            None
        })
    }

    /// The value of `Content-Encoding`.
    pub(super) fn coding(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        }
    }

    /// Takes some of the file and gives out what is ready, which may be nothing yet.
    fn pack(&mut self, portion: &[u8]) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Gzip(encoder) => {
                encoder.write_all(portion)?;
                std::mem::take(encoder.get_mut())
            }
            Self::Zstd(encoder) => {
                encoder.write_all(portion)?;
                std::mem::take(encoder.get_mut())
            }
        })
    }

    /// What is left at the end.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// A file that is compressed.
pub(super) struct Packed {
    portions: Portions,
    /// None at the end.
    packer: Option<Packer>,
}

impl Packed {
    pub(super) fn new(portions: Portions, packer: Packer) -> Self {
        Self { portions, packer: Some(packer) }
    }
}

impl Iterator for Packed {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let packed = match self.portions.next() {
                Some(Ok(portion)) => self.packer.as_mut()?.pack(&portion),
                Some(Err(error)) => Err(error),
                None => self.packer.take()?.finish(),
            };
            // An encoder collects more than one portion before it has something to give out.
            if !packed.as_ref().is_ok_and(Vec::is_empty) {
                return Some(packed);
            }
        }
    }
}
