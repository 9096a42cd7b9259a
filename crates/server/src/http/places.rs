//! Room for clients that are served for long, of which a tenant has a part.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many there may be at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// In all, so that they leave connections and cores to others.
    pub(super) in_all: usize,
    /// For what is one tenant's, so that it leaves room to others.
    pub(super) per_tenant: usize,
}

/// Who takes up room.
pub(super) struct Places {
    room: Room,
    by_tenant: Mutex<HashMap<String, usize>>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    ForTheTenant,
    ForAll,
}

/// Room for one client until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    tenant: String,
}

impl Places {
    pub(super) fn new(room: Room) -> Arc<Self> {
        Arc::new(Self { room, by_tenant: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for what is a tenant's.
    pub(super) fn enter(self: &Arc<Self>, tenant: &str) -> Result<Place, Full> {
        let mut by_tenant = self.lock();
        // Few enough to add up: there are no more tenants here than clients.
        if by_tenant.values().sum::<usize>() >= self.room.in_all {
            return Err(Full::ForAll);
        }
        let own = by_tenant.entry(tenant.to_owned()).or_default();
        if *own >= self.room.per_tenant {
            return Err(Full::ForTheTenant);
        }
        *own += 1;
        Ok(Place { places: Arc::clone(self), tenant: tenant.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_tenant = self.places.lock();
        if let Some(own) = by_tenant.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_a_part_of_the_room() {
        let room = Room { in_all: 8, per_tenant: 2 };
        let all = Places::new(room);
        let enter = |tenant: &str| all.enter(tenant);
        let mut places: Vec<Vec<Place>> = Vec::new();
        for tenant in ["a", "b", "c", "d"] {
            places.push((0..room.per_tenant).map(|_| enter(tenant).ok().unwrap()).collect());
            if tenant != "d" {
                assert_eq!(enter(tenant).err(), Some(Full::ForTheTenant));
            }
        }
        assert_eq!(enter("e").err(), Some(Full::ForAll));
        places[0].pop();
        let other = enter("e").ok().unwrap();
        assert_eq!(enter("a").err(), Some(Full::ForAll));
        drop((places, other));
        assert!(all.lock().is_empty(), "nobody is remembered who is gone");
    }
}
