//! Places of contexts whose peers have not shown a returned key: so many a listener has, and one address half of them.
//! And addresses that have shown one lately.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_base::Instant;

/// Addresses that are remembered.
const PROVEN_MAX: usize = 1024;
/// For how long.
const PROVEN_FOR: Duration = Duration::from_secs(60);

/// Who has a place, and who has shown a key.
#[derive(Debug, Default)]
struct Book {
    holders: Vec<IpAddr>,
    proven: Proven,
}

/// Addresses that have shown a key, and when they did last.
#[derive(Debug, Default)]
struct Proven {
    at: HashMap<SocketAddr, Instant>,
    /// In order of time; of an address that has shown one again since, an earlier time.
    since: VecDeque<(Instant, SocketAddr)>,
}

impl Proven {
    fn add(&mut self, now: Instant, who: SocketAddr) {
        if self.since.len() >= PROVEN_MAX {
            self.forget_oldest();
        }
        self.at.insert(who, now);
        self.since.push_back((now, who));
    }

    fn has(&mut self, now: Instant, who: SocketAddr) -> bool {
        while self.since.front().is_some_and(|(at, _)| now - *at > PROVEN_FOR) {
            self.forget_oldest();
        }
        self.at.contains_key(&who)
    }

    fn forget_oldest(&mut self) {
        if let Some((at, who)) = self.since.pop_front()
            && self.at.get(&who) == Some(&at)
        {
            self.at.remove(&who);
        }
    }
}

/// The places of one listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Book>>);

/// One that is taken; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Places,
    holder: SocketAddr,
}

fn has_room(holders: &[IpAddr], most: usize, holder: IpAddr) -> bool {
    let own = holders.iter().filter(|other| **other == holder).count();
    holders.len() < most && own < most.div_ceil(2)
}

impl Places {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.book().holders.len()
    }

    /// One could be taken.
    pub fn has_room(&self, most: usize, holder: SocketAddr) -> bool {
        has_room(&self.book().holders, most, holder.ip())
    }

    /// Takes one, if less than `most` are, and less than half of them by this host.
    pub fn take(&self, most: usize, holder: SocketAddr) -> Option<Place> {
        let holders = &mut self.book().holders;
        has_room(holders, most, holder.ip()).then(|| {
            holders.push(holder.ip());
            Place { of: self.clone(), holder }
        })
    }

    /// This address has shown a key.
    pub fn prove(&self, now: Instant, who: SocketAddr) {
        self.book().proven.add(now, who);
    }

    /// It has lately.
    pub fn is_proven(&self, now: Instant, who: SocketAddr) -> bool {
        self.book().proven.has(now, who)
    }
}

impl Place {
    /// Who has it has shown its key.
    pub fn shown(self, now: Instant) {
        self.of.prove(now, self.holder);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let holders = &mut self.of.book().holders;
        if let Some(index) = holders.iter().position(|holder| *holder == self.holder.ip()) {
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
        let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|ip| SocketAddr::from((ip, 1)));
        let held: Vec<_> = [here, here, there].map(|at| places.take(3, at).unwrap()).into();
        assert!(places.take(3, there).is_none());
        drop(held);
        let held: Vec<_> = (0..4).map(|_| places.take(4, here)).collect();
        assert_eq!(held.iter().flatten().count(), 2, "half of them");
        drop(held);
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn an_address_is_proven_for_60_s_and_the_oldest_goes_first() {
        let places = Places::default();
        let at = |s: u64| Instant::from_ms(s * 1000);
        let who = |n: u16| SocketAddr::from(([10, 0, 0, 1], n));
        places.take(1, who(1)).unwrap().shown(at(0));
        assert_eq!(places.taken(), 0);
        places.prove(at(30), who(1));
        assert!(!places.is_proven(at(30), who(2)), "another port");
        assert!(places.is_proven(at(90), who(1)), "it has shown one again");
        assert!(!places.is_proven(at(91), who(1)));
        for n in 0..=PROVEN_MAX as u16 {
            places.prove(at(100), who(n));
        }
        assert!(!places.is_proven(at(100), who(0)) && places.is_proven(at(100), who(1)));
        assert_eq!(places.book().proven.at.len(), PROVEN_MAX);
    }
}
