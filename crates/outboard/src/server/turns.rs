//! Whose turn it is: of each user one application, of that one socket that has something to do, all in turn. An application
//! is a process; sockets that it has by another's hand stay that one's. So a user with a thousand processes has as many
//! turns as one with one, and a process with a thousand sockets as many as another of the same user.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A process, and the user whose expense it is.
type Application = (u32, i32);

/// Sockets by place, and who of them waits for a turn.
#[derive(Default)]
pub struct Turns {
    by_name: HashMap<Application, u32>,
    applications: Vec<Waiting>,
    free: Vec<u32>,
    users: BTreeMap<u32, User>,
    places: Vec<Place>,
    /// Users with a socket that waits.
    order: VecDeque<u32>,
    count: usize,
}

/// A user's applications.
#[derive(Default)]
struct User {
    applications: usize,
    /// Those with a socket that waits.
    order: VecDeque<u32>,
}

/// An application's sockets.
#[derive(Default)]
struct Waiting {
    name: Application,
    sockets: usize,
    ready: VecDeque<u32>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    application: u32,
    is_used: bool,
    is_ready: bool,
}

impl Turns {
    /// A socket of an application's.
    pub fn insert(&mut self, index: u32, uid: u32, pid: i32) {
        let Turns { by_name, applications, free, places, users, .. } = self;
        let application = *by_name.entry((uid, pid)).or_insert_with(|| {
            users.entry(uid).or_default().applications += 1;
            free.pop().unwrap_or_else(|| {
                applications.push(Waiting::default());
                applications.len() as u32 - 1
            })
        });
        let waiting = &mut applications[application as usize];
        waiting.name = (uid, pid);
        waiting.sockets += 1;
        if places.len() <= index as usize {
            places.resize(index as usize + 1, Place::default());
        }
        places[index as usize] = Place { application, is_used: true, is_ready: false };
    }

    /// It is gone.
    pub fn remove(&mut self, index: u32) {
        let Place { application, is_ready, .. } = std::mem::take(&mut self.places[index as usize]);
        let waiting = &mut self.applications[application as usize];
        let uid = waiting.name.0;
        let user = self.users.entry(uid).or_default();
        if is_ready {
            waiting.ready.retain(|ready| *ready != index);
            self.count -= 1;
            if waiting.ready.is_empty() {
                user.order.retain(|waits| *waits != application);
                if user.order.is_empty() {
                    self.order.retain(|waits| *waits != uid);
                }
            }
        }
        waiting.sockets -= 1;
        if waiting.sockets == 0 {
            self.by_name.remove(&waiting.name);
            self.free.push(application);
            user.applications -= 1;
            if user.applications == 0 {
                self.users.remove(&uid);
            }
        }
    }

    /// It waits for a turn, if it does not already.
    pub fn mark(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize).filter(|place| place.is_used) else {
            return;
        };
        if std::mem::replace(&mut place.is_ready, true) {
            return;
        }
        let Waiting { name: (uid, _), ready, .. } =
            &mut self.applications[place.application as usize];
        if ready.is_empty() {
            let user = self.users.entry(*uid).or_default();
            if user.order.is_empty() {
                self.order.push_back(*uid);
            }
            user.order.push_back(place.application);
        }
        ready.push_back(index);
        self.count += 1;
    }

    /// Whose turn it is.
    pub fn next(&mut self) -> Option<u32> {
        let uid = self.order.pop_front()?;
        let user = self.users.get_mut(&uid)?;
        let application = user.order.pop_front()?;
        let ready = &mut self.applications[application as usize].ready;
        let index = ready.pop_front()?;
        if !ready.is_empty() {
            user.order.push_back(application);
        }
        if !user.order.is_empty() {
            self.order.push_back(uid);
        }
        self.places[index as usize].is_ready = false;
        self.count -= 1;
        Some(index)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_comes_once_and_in_turn() {
        let mut turns = Turns::default();
        (0..3).for_each(|index| turns.insert(index, 7, 1));
        [0, 1, 1, 2].into_iter().for_each(|index| turns.mark(index));
        assert_eq!((turns.len(), turns.next()), (3, Some(0)));
        turns.mark(0);
        assert_eq!(std::array::from_fn(|_| turns.next()), [Some(1), Some(2), Some(0), None]);
        // Nobody's place.
        turns.mark(9);
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn applications_have_as_many_turns_each_whatever_their_sockets() {
        let (mut turns, mut owner) = (Turns::default(), Vec::new());
        for application in 0..8 {
            // 1, 2, 4, … 128 sockets.
            for _ in 0..1 << application {
                turns.insert(owner.len() as u32, 1000 + application / 2, application as i32);
                owner.push(application);
            }
        }
        (0..owner.len() as u32).for_each(|index| turns.mark(index));
        let mut had = [0; 8];
        for _ in 0..8000 {
            let index = turns.next().unwrap();
            had[owner[index as usize] as usize] += 1;
            turns.mark(index);
        }
        assert_eq!(had, [1000; 8]);
    }

    #[test]
    fn users_have_as_many_turns_each_whatever_their_applications() {
        let mut turns = Turns::default();
        // One with 50 processes, one with one, which has two sockets.
        (0..50).for_each(|index| turns.insert(index, 7, index as i32));
        (50..52).for_each(|index| turns.insert(index, 8, 9));
        (0..52).for_each(|index| turns.mark(index));
        let mut had = [0; 52];
        for _ in 0..1000 {
            let index = turns.next().unwrap();
            had[index as usize] += 1;
            turns.mark(index);
        }
        assert_eq!((had[..50].iter().sum::<i32>(), &had[50..]), (500, &[250, 250][..]));
        assert!(had[..50].iter().all(|had| *had == 10));
        (0..52).for_each(|index| turns.remove(index));
        assert!(turns.users.is_empty() && turns.order.is_empty() && turns.next().is_none());
    }

    #[test]
    fn who_is_gone_has_no_turn() {
        let mut turns = Turns::default();
        for index in 0..4 {
            turns.insert(index, 7, index as i32 / 2);
            turns.mark(index);
        }
        turns.remove(0);
        turns.remove(2);
        turns.remove(3);
        assert_eq!((turns.len(), turns.next(), turns.next()), (1, Some(1), None));
        turns.remove(1);
        assert!(turns.by_name.is_empty() && turns.free.len() == 2);
        turns.insert(0, 8, 9);
        turns.mark(0);
        assert_eq!(turns.next(), Some(0));
    }
}
