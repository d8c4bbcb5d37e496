//! Places of contexts whose peers have not shown a returned key: so many a listener has, and one address half of them.

use core::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who has a place.
type Holders = Mutex<Vec<IpAddr>>;

/// The places of one listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Holders>);

/// One that is taken; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Holders>,
    holder: IpAddr,
}

fn lock(holders: &Holders) -> MutexGuard<'_, Vec<IpAddr>> {
    holders.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// How many are taken.
    pub fn taken(&self) -> usize {
        lock(&self.0).len()
    }

    /// Takes one, if less than `most` are, and less than half of them by this address.
    pub fn take(&self, most: usize, holder: IpAddr) -> Option<Place> {
        let mut holders = lock(&self.0);
        let own = holders.iter().filter(|other| **other == holder).count();
        (holders.len() < most && own < most.div_ceil(2)).then(|| {
            holders.push(holder);
            Place { of: self.0.clone(), holder }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut holders = lock(&self.of);
        if let Some(index) = holders.iter().position(|holder| *holder == self.holder) {
            holders.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_its_holder_is_gone() {
        let places = Places::default();
        let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let held: Vec<_> = [here, here, there].map(|at| places.take(3, at).unwrap()).into();
        assert!(places.take(3, there).is_none());
        drop(held);
        let held: Vec<_> = (0..4).map(|_| places.take(4, here)).collect();
        assert_eq!(held.iter().flatten().count(), 2, "half of them");
        drop(held);
        assert_eq!(places.taken(), 0);
    }
}
