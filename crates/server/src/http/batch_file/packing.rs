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
    /// What the client likes best, and zstd where it does not care; none if it understands nothing or
    /// would rather have the file as it is.
    pub(super) fn for_client(headers: &HeaderMap) -> io::Result<Option<Self>> {
        let weight = |coding| weight_of(headers, coding).unwrap_or(0.0);
        let (zstd, gzip, plain) = (weight("zstd"), weight("gzip"), weight("identity"));
        let best = zstd.max(gzip);
        Ok(if best <= 0.0 || best < plain {
            None
        } else if zstd >= gzip {
            Some(Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?))
        } else {
            Some(Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())))
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

/// How much a client likes a coding, from 0 for not at all to 1 (RFC 9110, section 12.4.2); none where it
/// does not name it.
fn weight_of(headers: &HeaderMap, coding: &str) -> Option<f32> {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut entries =
        accepted.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    entries.find_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(coding) {
            return None;
        }
        let weight = parts.find_map(|part| {
            let (name, weight) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then_some(weight.trim())
        });
        // What cannot be read is no wish.
        let read = |weight: &str| weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
        Some(weight.map_or(1.0, |weight| read(weight).unwrap_or(0.0)))
    })
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn coding(accepted: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for value in accepted {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        Packer::for_client(&headers).unwrap().map(|packer| packer.coding())
    }

    #[test]
    fn a_file_is_compressed_as_the_client_likes_it_best() {
        for accepted in ["zstd", "gzip, zstd", "gzip;q=0.5,zstd;q=0.5", "ZSTD ; Q = 0.8, gzip;q=.7"]
        {
            assert_eq!(coding(&[accepted]), Some("zstd"), "{accepted}");
        }
        for accepted in
            ["gzip", "br, GZip;q=0.001", "zstd;q=0.5, gzip", "zstd; Q=0, gzip ; q = 0.3"]
        {
            assert_eq!(coding(&[accepted]), Some("gzip"), "{accepted}");
        }
        assert_eq!(coding(&["gzip;q=0.9", "zstd;q=0.8"]), Some("gzip"), "lines make one list");
        assert_eq!(coding(&["gzip, identity"]), Some("gzip"));
    }

    #[test]
    fn a_file_stays_as_it_is_for_those_who_want_nothing_else() {
        for accepted in [
            "",
            "br, *;q=0",
            "gzip;q=0, identity",
            "gzip;q=0.000",
            "gzip; Q=0",
            "gzip;q=nan",
            "gzip;q=2",
            "gzip;q=",
            "gzip;q=0.5, identity;q=0.7",
        ] {
            assert_eq!(coding(&[accepted]), None, "{accepted}");
        }
        assert_eq!(coding(&[]), None);
    }
}
