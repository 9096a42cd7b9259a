//! What a receiver has to do just now, and how much more it may be given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is sent to one receiver at once may have so many bytes: all of it is in memory. A claim may go
/// beyond this once, by as much as it may bring.
const BYTES_MAX: usize = 32 << 20;

/// Deliveries, and how much they send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Freight {
    pub(crate) deliveries: usize,
    pub(crate) bytes: usize,
}

impl Freight {
    pub(crate) fn of<'a>(bodies: impl IntoIterator<Item = &'a String>) -> Self {
        bodies.into_iter().fold(Self::default(), |sum, body| sum.with(Self::one(body)))
    }

    pub(crate) fn one(body: &str) -> Self {
        Self { deliveries: 1, bytes: body.len() }
    }

    fn with(self, other: Self) -> Self {
        let (deliveries, bytes) = (self.deliveries + other.deliveries, self.bytes + other.bytes);
        Self { deliveries, bytes }
    }

    /// What is left of it.
    pub(crate) fn without(self, part: Self) -> Self {
        Self {
            deliveries: self.deliveries.saturating_sub(part.deliveries),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }
}

/// What a receiver has to do just now. It stays the same when the receiver is changed: what was begun
/// before ends behind it.
#[derive(Default)]
pub(super) struct Load {
    /// What this instance has claimed and not settled.
    under_way: Mutex<Freight>,
    /// Whether it is being left alone, because it does not work.
    resting: AtomicBool,
}

impl Load {
    /// How many more deliveries may be claimed.
    pub(super) fn room(&self, at_once: usize) -> usize {
        let under_way = *self.lock();
        if under_way.bytes < BYTES_MAX { at_once.saturating_sub(under_way.deliveries) } else { 0 }
    }

    /// Takes up room, whether there is any or not.
    pub(super) fn enter(&self, freight: Freight) {
        let mut under_way = self.lock();
        *under_way = under_way.with(freight);
    }

    /// Takes up room if there is enough.
    pub(super) fn try_enter(&self, freight: Freight, at_once: usize) -> bool {
        let mut under_way = self.lock();
        let together = under_way.with(freight);
        let fits = together.deliveries <= at_once && together.bytes <= BYTES_MAX;
        if fits {
            *under_way = together;
        }
        fits
    }

    pub(super) fn leave(&self, freight: Freight) {
        let mut under_way = self.lock();
        *under_way = under_way.without(freight);
    }

    pub(super) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Acquire)
    }

    /// Notes whether it is being left alone, and says whether that is new.
    pub(super) fn set_resting(&self, resting: bool) -> bool {
        self.resting.swap(resting, Ordering::AcqRel) != resting
    }

    fn lock(&self) -> MutexGuard<'_, Freight> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freight(deliveries: usize, bytes: usize) -> Freight {
        Freight { deliveries, bytes }
    }

    #[test]
    fn there_is_room_for_so_many_and_for_so_much() {
        let load = Load::default();
        assert!(load.try_enter(freight(3, 100), 4));
        assert!(!load.try_enter(freight(2, 0), 4), "too many");
        assert!(!load.try_enter(freight(1, BYTES_MAX), 4), "too much");
        assert_eq!(load.room(4), 1);
        load.enter(freight(1, BYTES_MAX));
        assert_eq!(load.room(10), 0, "few, and too much");
        load.leave(freight(1, BYTES_MAX));
        load.leave(freight(3, 100));
        assert_eq!(load.room(4), 4);
        assert!(load.try_enter(freight(1, BYTES_MAX), 4));
    }
}
