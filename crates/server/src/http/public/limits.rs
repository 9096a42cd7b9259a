//! How often strangers may ask, by address and by network.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// Addresses are counted in this many places, so that memory has a bound however many there are. Two
/// that happen to share a place share its limit; which do, nobody outside can tell.
const PLACES: u64 = 1 << 18;

/// Bits of an IPv4 and an IPv6 address that stand for one visitor, and for a network.
const VISITOR_BITS: (u32, u32) = (32, 64);
const NETWORK_BITS: (u32, u32) = (24, 48);

pub(super) struct Limits {
    visitors: DefaultKeyedRateLimiter<u64>,
    networks: DefaultKeyedRateLimiter<u64>,
    places: RandomState,
}

impl Limits {
    pub(super) fn new(per_minute: u32, per_minute_of_network: u32) -> Self {
        let limiter = |limit: u32| {
            let limit = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
            DefaultKeyedRateLimiter::keyed(Quota::per_minute(limit))
        };
        Self {
            visitors: limiter(per_minute),
            networks: limiter(per_minute_of_network),
            places: RandomState::new(),
        }
    }

    /// Counts a request. Refused, it may come again after so many seconds.
    pub(super) fn count(&self, address: IpAddr) -> Result<(), u64> {
        for (limiter, bits) in [(&self.visitors, VISITOR_BITS), (&self.networks, NETWORK_BITS)] {
            let place = self.places.hash_one(prefix(address, bits)) % PLACES;
            limiter.check_key(&place).map_err(|refused| {
                refused.wait_time_from(DefaultClock::default().now()).as_secs() + 1
            })?;
        }
        Ok(())
    }
}

/// The first bits of an address.
fn prefix(address: IpAddr, (bits_v4, bits_v6): (u32, u32)) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(address.to_bits() >> (32 - bits_v4))),
        IpAddr::V6(address) => (true, address.to_bits() >> (128 - bits_v6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limits: &Limits, addresses: &[&str]) -> Vec<bool> {
        addresses.iter().map(|address| limits.count(address.parse().unwrap()).is_ok()).collect()
    }

    #[test]
    fn an_address_has_its_limit_and_so_has_its_network() {
        let limits = Limits::new(2, 4);
        let one = ["192.0.2.1"; 3];
        assert_eq!(allowed(&limits, &one), [true, true, false]);
        let near = ["192.0.2.2", "192.0.2.3", "192.0.2.4"];
        assert_eq!(allowed(&limits, &near), [true, true, false], "the network had four");
        assert_eq!(allowed(&limits, &["192.0.3.4"]), [true]);
        let seconds = limits.count("192.0.2.1".parse().unwrap()).unwrap_err();
        assert!((1..=31).contains(&seconds), "{seconds}");
    }

    #[test]
    fn an_ipv6_address_is_64_bits_and_its_network_48() {
        let limits = Limits::new(1, 2);
        let same = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"];
        assert_eq!(allowed(&limits, &same), [true, false]);
        let near = ["2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:1:3::1"];
        assert_eq!(allowed(&limits, &near), [true, false, true]);
    }
}
