//! Places of contexts whose peers have not shown a returned key: so many a listener has, and one address half of them.
//! And addresses that have shown one lately.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_base::Instant;
use fusewire_wire::xtp::Key;

/// So many openings are remembered.
const REMEMBERED_MAX: usize = 16 << 10;
/// For so long.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// Who has a place, and who has shown a key.
#[derive(Debug, Default)]
struct Book {
    holders: Vec<IpAddr>,
    shown: Shown,
}

/// Who has shown a key lately: its address is proven, and its own key has opened a context, so that a FIRST with it
/// that comes late opens no second one.
#[derive(Debug, Default)]
struct Shown {
    addresses: HashMap<SocketAddr, Instant>,
    keys: HashSet<(SocketAddr, Key)>,
    /// In order of time; of an address that has shown one again since, an earlier time.
    since: VecDeque<(Instant, SocketAddr, Key)>,
}

impl Shown {
    fn add(&mut self, now: Instant, who: SocketAddr, key: Key) {
        if self.since.len() >= REMEMBERED_MAX {
            self.forget_oldest();
        }
        self.addresses.insert(who, now);
        self.keys.insert((who, key));
        self.since.push_back((now, who, key));
    }

    fn forget(&mut self, now: Instant) {
        while self.since.front().is_some_and(|(at, ..)| now - *at > REMEMBERED_FOR) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((at, who, key)) = self.since.pop_front() else { return };
        self.keys.remove(&(who, key));
        if self.addresses.get(&who) == Some(&at) {
            self.addresses.remove(&who);
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
    key: Key,
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

    /// Takes one for who calls itself by `key`, if less than `most` are, and less than half of them by this host.
    pub fn take(&self, most: usize, holder: SocketAddr, key: Key) -> Option<Place> {
        let holders = &mut self.book().holders;
        has_room(holders, most, holder.ip()).then(|| {
            holders.push(holder.ip());
            Place { of: self.clone(), holder, key }
        })
    }

    /// This address, which calls itself by `key`, has shown one of ours.
    pub fn note_shown(&self, now: Instant, who: SocketAddr, key: Key) {
        self.book().shown.add(now, who, key);
    }

    /// It has lately.
    pub fn is_proven(&self, now: Instant, who: SocketAddr) -> bool {
        let shown = &mut self.book().shown;
        shown.forget(now);
        shown.addresses.contains_key(&who)
    }

    /// A context was opened with this key lately, whether it is still there or not.
    pub fn has_opened(&self, now: Instant, who: SocketAddr, key: Key) -> bool {
        let shown = &mut self.book().shown;
        shown.forget(now);
        shown.keys.contains(&(who, key))
    }
}

impl Place {
    /// Who has it has shown its key.
    pub fn shown(self, now: Instant) {
        self.of.note_shown(now, self.holder, self.key);
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

    const KEY: Key = Key::new(5).unwrap();

    #[test]
    fn a_place_is_free_when_its_holder_is_gone() {
        let places = Places::default();
        let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|ip| SocketAddr::from((ip, 1)));
        let held: Vec<_> = [here, here, there].map(|at| places.take(3, at, KEY).unwrap()).into();
        assert!(places.take(3, there, KEY).is_none());
        drop(held);
        let held: Vec<_> = (0..4).map(|_| places.take(4, here, KEY)).collect();
        assert_eq!(held.iter().flatten().count(), 2, "half of them");
        drop(held);
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn who_has_shown_a_key_is_known_for_60_s_and_the_oldest_goes_first() {
        let places = Places::default();
        let at = |s: u64| Instant::from_ms(s * 1000);
        let who = |n: u16| SocketAddr::from(([10, 0, 0, 1], n));
        let other = Key::new(6).unwrap();
        places.take(1, who(1), KEY).unwrap().shown(at(0));
        assert_eq!(places.taken(), 0);
        places.note_shown(at(30), who(1), other);
        assert!(!places.is_proven(at(30), who(2)), "another port");
        assert!(!places.has_opened(at(30), who(2), KEY) && places.has_opened(at(60), who(1), KEY));
        assert!(places.is_proven(at(90), who(1)), "it has shown one again");
        assert!(
            !places.has_opened(at(90), who(1), KEY) && places.has_opened(at(90), who(1), other)
        );
        assert!(!places.is_proven(at(91), who(1)) && !places.has_opened(at(91), who(1), other));
        for n in 0..=REMEMBERED_MAX as u16 {
            places.note_shown(at(100), who(n), KEY);
        }
        assert!(!places.is_proven(at(100), who(0)) && places.is_proven(at(100), who(1)));
        let book = places.book();
        assert_eq!(
            (book.shown.addresses.len(), book.shown.keys.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
    }
}
