//! Room for what is under way at once, so that no place takes up that of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How much may be under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) in_all: usize,
    /// Of these, in the same place.
    pub(super) in_place: usize,
    /// Whoever finds all of it taken for so long is told, and comes again later.
    pub(super) wait_max: Duration,
}

/// Where everything is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Full {
    There,
    Everywhere,
}

/// Given back when it is dropped.
pub(super) struct Permit {
    _there: OwnedSemaphorePermit,
    _anywhere: OwnedSemaphorePermit,
}

/// Counts what is under way.
pub(super) struct Room {
    bounds: Bounds,
    all: Arc<Semaphore>,
    /// Places that are in use.
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Room {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, all: Arc::new(Semaphore::new(bounds.in_all)), places: Mutex::default() }
    }

    /// Waits until there is room.
    pub(super) async fn enter(&self, place: &str) -> Result<Permit, Full> {
        let there = self.place(place);
        // The place first: those that wait there must not keep anybody from another one.
        let there = self.permit(there).await.ok_or(Full::There)?;
        let anywhere = self.permit(Arc::clone(&self.all)).await.ok_or(Full::Everywhere)?;
        Ok(Permit { _there: there, _anywhere: anywhere })
    }

    async fn permit(&self, permits: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        timeout(self.bounds.wait_max, permits.acquire_owned()).await.ok()?.ok()
    }

    fn place(&self, name: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(name) {
            return Arc::clone(place);
        }
        // Whoever waits for one or has one has the place as well.
        places.retain(|_, place| Arc::strong_count(place) > 1);
        let place = Arc::new(Semaphore::new(self.bounds.in_place));
        places.insert(name.to_owned(), Arc::clone(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_that_is_full_leaves_room_for_others() {
        let room = Room::new(Bounds { in_all: 3, in_place: 2, wait_max: Duration::ZERO });
        let held = [room.enter("a").await.unwrap(), room.enter("a").await.unwrap()];
        assert_eq!(room.enter("a").await.err(), Some(Full::There));
        let other = room.enter("b").await.unwrap();
        assert_eq!(room.enter("b").await.err(), Some(Full::Everywhere));
        drop(held);
        let again = [room.enter("b").await.unwrap(), room.enter("c").await.unwrap()];
        assert_eq!(room.places.lock().unwrap().len(), 2, "nobody is at the first any more");
        drop((again, other));
        assert!(room.enter("a").await.is_ok());
    }
}
