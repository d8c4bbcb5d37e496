//! Descriptors that the threads of a process share without a lock: each is taken by one compare-and-swap and given back
//! by one store, so that a signal handler may take one too. They lie in memory that a forked child finds empty
//! ([`Wiped`]), for what they are connected to is its parent's.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::wiped::Wiped;

/// Places for descriptors.
const PLACES: usize = 8;
/// In a place's first word: somebody has it.
const IS_TAKEN: u64 = 1;

/// A few descriptors of sockets, for whoever is first. What closes them behind our back, as `closefrom` does, is noticed
/// by the socket's cookie, and nobody else's descriptor is touched.
#[derive(Debug)]
pub struct Descriptors {
    /// Of each place the first word is twice the descriptor's number plus one (0: none) and [`IS_TAKEN`], the second its
    /// cookie.
    page: Wiped,
}

impl Descriptors {
    /// Room for them, and none yet.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new() -> io::Result<Descriptors> {
        Ok(Descriptors { page: Wiped::new(2 * PLACES)? })
    }

    /// A place that nobody has, if there is one, with a descriptor rather than without.
    pub fn take(&self) -> Option<Place<'_>> {
        let places = self.page.words().as_chunks::<2>().0;
        let is_free = |word: u64, with: bool| word & IS_TAKEN == 0 && (word != 0) == with;
        for with in [true, false] {
            for place in places {
                let word = place[0].load(Ordering::Relaxed);
                let taken = word | IS_TAKEN;
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                if is_free(word, with)
                    && place[0].compare_exchange(word, taken, acquire, relaxed).is_ok()
                {
                    let number = (word >> 1) as i32 - 1;
                    let fd = (word != 0).then(|| known(number, place[1].load(relaxed))).flatten();
                    return Some(Place { words: place, fd });
                }
            }
        }
        None
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        for mut place in (0..PLACES).filter_map(|_| self.take()) {
            drop(place.remove());
        }
    }
}

/// Sockets that [`ParentOnly`] notes.
const NOTED: usize = 64;
/// First word of an entry that is being changed.
const IS_CHANGING: u64 = u64::MAX;

/// Sockets that a forked child closes, because they belong to its parent: a child that kept them open could use them with its
/// parent's name, and would hide from their peer that the parent has ended.
///
/// The list lies in ordinary memory, which the child inherits. Beside it lies a word that the child finds zero. After `vfork`
/// both are the parent's, and no socket is closed.
#[derive(Debug)]
pub struct ParentOnly {
    /// Descriptor number plus one (0: none, [`IS_CHANGING`]), and cookie.
    sockets: Box<[[AtomicU64; 2]; NOTED]>,
    /// Its first word is 1 in the process that noted the sockets.
    is_parent: Wiped,
}

impl ParentOnly {
    /// Makes an empty list.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new() -> io::Result<ParentOnly> {
        let is_parent = Wiped::new(1)?;
        is_parent.words()[0].store(1, Ordering::Relaxed);
        let sockets = Box::new([const { [const { AtomicU64::new(0) }; 2] }; NOTED]);
        Ok(ParentOnly { sockets, is_parent })
    }

    /// Notes a socket. It takes the place of one that is closed; if all are open, the child will not close it.
    pub fn note(&self, socket: BorrowedFd<'_>) {
        let Ok(cookie) = rustix::net::sockopt::socket_cookie(socket) else { return };
        for [number, noted] in self.sockets.iter() {
            let before = number.load(Ordering::Acquire);
            let is_open = || known(before as i32 - 1, noted.load(Ordering::Relaxed)).is_some();
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            if before == IS_CHANGING
                || before != 0 && is_open()
                || number.compare_exchange(before, IS_CHANGING, acquire, relaxed).is_err()
            {
                continue;
            }
            noted.store(cookie, Ordering::Relaxed);
            return number.store(socket.as_raw_fd() as u64 + 1, Ordering::Release);
        }
    }

    /// Closes the sockets that this process has inherited from its parent by `fork`. In the process that noted them it does
    /// nothing.
    #[inline]
    pub fn close_inherited(&self) {
        let is_parent = &self.is_parent.words()[0];
        if is_parent.load(Ordering::Relaxed) == 0
            && is_parent.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            for [number, cookie] in self.sockets.iter() {
                let noted = number.swap(0, Ordering::Relaxed);
                if noted != IS_CHANGING && noted != 0 {
                    let socket = known(noted as i32 - 1, cookie.load(Ordering::Relaxed));
                    drop(socket.map(ManuallyDrop::into_inner));
                }
            }
        }
    }
}

/// The descriptor of that number, if it is still the socket with that cookie. It is not closed with this.
pub fn known(number: i32, cookie: u64) -> Option<ManuallyDrop<OwnedFd>> {
    if number < 0 {
        return None;
    }
    // SAFETY: not -1. Whether it is open is what is asked next, and it is not closed here: an application that closes
    // descriptors which are not its own may have given the number to another file.
    let fd = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    let is_it = rustix::net::sockopt::socket_cookie(&*fd).is_ok_and(|found| found == cookie);
    is_it.then_some(fd)
}

/// A place that the caller has until it is dropped.
#[derive(Debug)]
pub struct Place<'a> {
    words: &'a [AtomicU64; 2],
    fd: Option<ManuallyDrop<OwnedFd>>,
}

impl Place<'_> {
    /// The descriptor in it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Takes the descriptor out.
    pub fn remove(&mut self) -> Option<OwnedFd> {
        self.fd.take().map(ManuallyDrop::into_inner)
    }

    /// Puts a socket in, in place of what was there.
    ///
    /// # Errors
    /// It is no socket.
    pub fn put(&mut self, fd: OwnedFd) -> io::Result<()> {
        let cookie = rustix::net::sockopt::socket_cookie(&fd)?;
        drop(self.remove());
        self.words[1].store(cookie, Ordering::Relaxed);
        // It is the place's from now on.
        let number = fd.into_raw_fd();
        // SAFETY: the number was just given up by its owner.
        self.fd = Some(ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) }));
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let word = self.fd.as_ref().map_or(0, |fd| (fd.as_raw_fd() as u64 + 1) << 1);
        self.words[0].store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn socket() -> OwnedFd {
        UnixStream::pair().unwrap().0.into()
    }

    #[test]
    fn each_place_has_one_owner_and_keeps_its_descriptor() {
        let all = Descriptors::new().unwrap();
        let mut taken: Vec<_> = std::iter::from_fn(|| all.take()).collect();
        assert_eq!(taken.len(), PLACES);
        let mut one = taken.pop().unwrap();
        assert!(one.fd().is_none());
        let (ours, theirs) = UnixStream::pair().unwrap();
        one.put(ours.into()).unwrap();
        let number = one.fd().unwrap().as_raw_fd();
        drop(one);
        assert_eq!(all.take().unwrap().fd().unwrap().as_raw_fd(), number);
        drop(taken);
        // With one rather than without.
        assert_eq!(all.take().unwrap().fd().unwrap().as_raw_fd(), number);
        drop(all);
        theirs.set_nonblocking(true).unwrap();
        assert_eq!((&theirs).read(&mut [0]).unwrap(), 0, "it is closed");
    }

    #[test]
    fn a_number_that_became_another_file_is_forgotten_and_stays_open() {
        let all = Descriptors::new().unwrap();
        let mut place = all.take().unwrap();
        place.put(socket()).unwrap();
        let number = place.fd().unwrap().as_raw_fd();
        drop(place);
        let other = socket();
        // SAFETY: the number is open; what `dup2` closes is what this test is about.
        let mut at = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
        rustix::io::dup2(&other, &mut at).unwrap();
        assert!(all.take().unwrap().fd().is_none());
        assert!(rustix::io::fcntl_getfd(&*at).is_ok());
        drop(ManuallyDrop::into_inner(at));
    }
}
