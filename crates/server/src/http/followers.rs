//! Room for clients that follow batches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clients that follow batches at once, so that they leave connections to others.
pub(super) const FOLLOWERS_MAX: usize = 256;

/// Those among them that follow batches of one tenant, so that it leaves room to others.
pub(super) const FOLLOWERS_PER_TENANT_MAX: usize = FOLLOWERS_MAX / 4;

/// How many follow the batches of whom.
#[derive(Default)]
pub(super) struct Followers {
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
    followers: Arc<Followers>,
    tenant: String,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room to follow a batch of a tenant.
    pub(super) fn enter(self: &Arc<Self>, tenant: &str) -> Result<Place, Full> {
        let mut by_tenant = self.lock();
        // Few enough to add up: there are no more tenants here than followers.
        if by_tenant.values().sum::<usize>() >= FOLLOWERS_MAX {
            return Err(Full::ForAll);
        }
        let own = by_tenant.entry(tenant.to_owned()).or_default();
        if *own >= FOLLOWERS_PER_TENANT_MAX {
            return Err(Full::ForTheTenant);
        }
        *own += 1;
        Ok(Place { followers: Arc::clone(self), tenant: tenant.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_tenant = self.followers.lock();
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
        let followers = Arc::new(Followers::default());
        let enter = |tenant: &str| followers.enter(tenant);
        let mut places: Vec<Vec<Place>> = Vec::new();
        for tenant in ["a", "b", "c", "d"] {
            let own = (0..FOLLOWERS_PER_TENANT_MAX).map(|_| enter(tenant).ok().unwrap());
            places.push(own.collect());
            if tenant != "d" {
                assert_eq!(enter(tenant).err(), Some(Full::ForTheTenant));
            }
        }
        assert_eq!(enter("e").err(), Some(Full::ForAll));
        places[0].pop();
        let other = enter("e").ok().unwrap();
        assert_eq!(enter("a").err(), Some(Full::ForAll));
        drop((places, other));
        assert!(followers.lock().is_empty(), "nobody is remembered who is gone");
    }
}
