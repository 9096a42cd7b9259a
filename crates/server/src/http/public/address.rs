//! Where a request comes from, seen through proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address that asks: the one that is connected or, if that is a trusted proxy, the one that the
/// proxies name. Who is not trusted could name anybody.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let last = |hops: Vec<Option<IpAddr>>| first_stranger(&hops, is_trusted);
    let by_list = last(entries(headers, &X_FORWARDED_FOR).map(read_address).collect());
    let by_standard = last(entries(headers, &header::FORWARDED).map(read_forwarded).collect());
    match (by_list, by_standard) {
        (Some(address), None) | (None, Some(address)) => address,
        // A proxy writes one of the two and lets the other one through as the visitor sent it.
        (Some(list), Some(standard)) if list == standard => list,
        (Some(_), Some(_)) | (None, None) => peer,
    }
}

/// The last hop that is no trusted proxy. Every proxy appends whom it heard from, so what is before
/// that one may be made up. None where a proxy does not say.
fn first_stranger(hops: &[Option<IpAddr>], is_trusted: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let mut last = None;
    for hop in hops.iter().rev() {
        let address = (*hop)?;
        last = Some(address);
        if !is_trusted(&address) {
            break;
        }
    }
    last
}

fn entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.to_str().unwrap_or_default().split(','))
}

/// `for=192.0.2.60;proto=http;by=203.0.113.43`
fn read_forwarded(entry: &str) -> Option<IpAddr> {
    let mut pairs = entry.split(';').filter_map(|pair| pair.split_once('='));
    let (_, address) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    read_address(address.trim().trim_matches('"'))
}

/// An address as proxies write it: alone, in brackets, with or without a port.
fn read_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let alone = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = alone.parse::<IpAddr>().ok();
    address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip())).map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(peer: &str, headers: &[(&HeaderName, &str)]) -> String {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        client_address(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let list = |value| (&X_FORWARDED_FOR, value);
        let standard = |value| (&header::FORWARDED, value);
        for (peer, headers, expected) in [
            ("192.0.2.1", vec![], "192.0.2.1"),
            ("::ffff:192.0.2.1", vec![], "192.0.2.1"),
            ("192.0.2.1", vec![list("198.51.100.1")], "192.0.2.1"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec![list("198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", vec![list("198.51.100.1:4711")], "198.51.100.1"),
            // What comes before the last stranger may be made up.
            ("10.0.0.1", vec![list("203.0.113.9, 198.51.100.1, 10.0.0.2")], "198.51.100.1"),
            ("10.0.0.1", vec![list("203.0.113.9"), list("198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", vec![list("10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            ("10.0.0.1", vec![list("203.0.113.9, unknown")], "10.0.0.1"),
            ("10.0.0.1", vec![list("")], "10.0.0.1"),
            ("fd00::1", vec![standard("for=\"[2001:db8::7]:4711\";proto=https")], "2001:db8::7"),
            ("fd00::1", vec![standard("For=192.0.2.9, for=\"[fd00::2]\"")], "192.0.2.9"),
            ("fd00::1", vec![standard("for=_hidden")], "fd00::1"),
            // One of the two is the visitor's own.
            ("10.0.0.1", vec![list("192.0.2.9"), standard("for=192.0.2.9")], "192.0.2.9"),
            ("10.0.0.1", vec![list("192.0.2.9"), standard("for=192.0.2.8")], "10.0.0.1"),
        ] {
            assert_eq!(address(peer, &headers), expected, "{peer} {headers:?}");
        }
    }
}
