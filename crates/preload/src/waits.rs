//! Who waits for many sockets at once. An epoll that a program waits in looks at the rings of the streams that it watches, and
//! sleeps in the kernel when there is nothing: one bell wakes it for all of them ([`fusewire_outboard::waiter`]).
//!
//! ```text
//!  epoll_wait ─▶ leases marked? ─no──▶ sleep in the kernel, as long as the program says ─┐
//!                  │yes                                                                  ▼
//!                  └─▶ the kernel's events, at once ──────────────▶ and those of the leases that have something
//! ```
//! The kernel is asked each time, so that nothing else that is watched waits for a stream that is always ready, and the other
//! way: neither has all the room. Where one thread sleeps and another does something to what it watches, it is woken for each from
//! then on. What is waited for in any other way (`poll`, a second epoll, an epoll within another, a
//! duplicate, a thread beside another, a child) is not watched, but armed: its bell rings for each.
#![forbid(unsafe_code)]

use fusewire_outboard::client::{Result, Rings, Waiter, Waiting};
use libc::epoll_event;

use crate::library::{self, Library};
use crate::sys;
use crate::table::{Known, Socket, Watch, stage};

/// What a stream that has something to read shows.
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
/// Modes in which an event changes what the kernel shows next, which it has to show itself then.
const COUNTED: u32 = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE | libc::EPOLLWAKEUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;

/// A number may be waited for by something that is not seen here.
pub fn elsewhere(number: i32) {
    if let Some(library) = library::library() {
        library.wait_elsewhere(number);
    }
}

/// A number is a stream's that neither was connected nor listens, in whatever process.
pub fn is_fresh(number: i32) -> bool {
    let used = stage::CONNECTED | stage::CONNECTING | stage::LISTENING | stage::DEAD;
    let Some(library) = library::library().filter(|library| !library.is_confined()) else {
        return false;
    };
    let Known::Ours(socket) = library.table.known(number) else { return false };
    socket.is_stream() && !socket.is(used) && library.stage(&socket) & used == 0
}

/// Calls `each` with the descriptors that ancillary data hand over, as far as they are what they say.
pub fn rights(mut control: &[u8], mut each: impl FnMut(i32)) {
    // The length of an item with its head, level and kind, which is what it begins with.
    const HEAD: usize = 16;
    while let Some((head, _)) = control.split_first_chunk::<HEAD>() {
        let [a, b, c, d, e, f, g, h, ..] = *head;
        let len = usize::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let Some(item) = control.get(HEAD..len) else { return };
        let word = |at: usize| head[at..].first_chunk().map_or(0, |word| i32::from_ne_bytes(*word));
        if (word(8), word(12)) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            item.as_chunks().0.iter().for_each(|number| each(i32::from_ne_bytes(*number)));
        }
        control = control.get(len.next_multiple_of(align_of::<usize>())..).unwrap_or(&[]);
    }
}

/// An epoll that looks at rings, and a thread that waits there.
pub struct Set<'a> {
    library: &'a Library,
    waiting: Waiting<'a>,
    epoll: i32,
}

/// That of a number; `None`: the kernel alone knows what is ready there.
pub fn set(epoll: i32) -> Option<Set<'static>> {
    let library = library::library().filter(|library| !library.is_confined())?;
    let rings = library.rings.as_ref()?;
    let waiter = rings.waiter(u32::try_from(epoll).ok()?)?;
    match rings.wait(waiter) {
        Some(waiting) => Some(Set { library, waiting, epoll }),
        None => {
            // Each of them may be the one that is to be woken.
            library.refuse_waiter(rings, epoll);
            None
        }
    }
}

/// How long the kernel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// As long as the program says.
    Given,
}

impl Set<'_> {
    /// Fills the front of `events`; how many. `kernel` asks the kernel for some, that long; the program waits, or does not.
    pub fn wait(
        &self,
        events: &mut [epoll_event],
        waits: bool,
        mut kernel: impl FnMut(&mut [epoll_event], Patience) -> Result<usize>,
    ) -> Result<usize> {
        loop {
            let marked = self.waiting.marked();
            let sleeps = marked == 0 && waits && self.waiting.sleeps();
            let patience = if sleeps { Patience::Given } else { Patience::None };
            let most = match (marked, events.len()) {
                (0, room) => room,
                (_, 1) => usize::from(self.waiting.is_kernels_turn()),
                (_, room) => room - marked.min(room / 2),
            };
            let shown = if most == 0 { Ok(0) } else { kernel(&mut events[..most], patience) };
            if sleeps {
                self.waiting.wakes();
            }
            let all = self.add(events, shown.unwrap_or(0));
            match shown {
                _ if all > 0 => return Ok(all),
                Err(error) => return Err(error),
                Ok(_) if sleeps || !waits => return Ok(0),
                // There was nothing in those that were marked.
                Ok(_) => {}
            }
        }
    }

    /// Adds streams that have something to so many events.
    fn add(&self, events: &mut [epoll_event], shown: usize) -> usize {
        let (table, epoll) = (&self.library.table, self.epoll);
        let wanted = |number: i32| {
            let watch = table.watch(number).filter(|watch| watch.epoll == epoll)?;
            (watch.events & READABLE != 0).then_some(watch)
        };
        let way = |number: i32| {
            let watch = wanted(number)?;
            Some((table.way(number)?, watch.events & EDGE != 0))
        };
        let mut count = shown;
        self.waiting.look(way, |number| {
            let Some(Watch { events: asked, data, .. }) = wanted(number) else { return true };
            // The kernel tells a descriptor once.
            if let Some(event) = events[..shown].iter_mut().find(|event| { event.u64 } == data) {
                event.events |= asked & READABLE;
                return true;
            }
            let Some(place) = events.get_mut(count) else { return false };
            *place = epoll_event { events: asked & READABLE, u64: data };
            count += 1;
            true
        });
        count
    }
}

impl Library {
    fn waiters(&self) -> Option<&Rings> {
        self.rings.as_ref().filter(|rings| rings.has_waiters())
    }

    /// Something may be watched by who waits for it.
    pub fn has_waiters(&self) -> bool {
        self.waiters().is_some()
    }

    /// An epoll watches a socket so, or no longer.
    pub fn watched(&self, socket: &Socket, watch: Option<Watch>) {
        let number = socket.number;
        let before = self.table.watch(number);
        let (Some(rings), true) = (&self.rings, socket.is_stream()) else {
            return self.table.set_watch(number, watch);
        };
        let is_same = |other: Watch| watch.is_none_or(|watch| watch.epoll == other.epoll);
        if !before.is_none_or(is_same) {
            self.table.wait_elsewhere(number);
        }
        self.table.set_watch(number, watch);
        if let Some(watch) = watch {
            rings.add_waiter(watch.epoll as u32);
        }
        let Some((_, way)) = self.rings(socket).filter(|(_, way)| way.is_leased()) else { return };
        self.disturb(number);
        match self.plain_watch(number) {
            Some(_) => rings.watch_again(socket.p(), way),
            None => rings.unwatch(socket.p(), way),
        }
    }

    /// How an epoll watches a stream that it may look at itself.
    fn plain_watch(&self, number: i32) -> Option<Watch> {
        let watch = self.table.watch(number)?;
        let is_plain = watch.events & COUNTED == 0 && watch.events & READABLE != 0;
        (is_plain && !self.table.waits_elsewhere(number)).then_some(watch)
    }

    /// Something is done to a socket: who sleeps and waits for it and others may not be woken for all of them any more, but for
    /// each.
    pub fn disturb(&self, number: i32) {
        if let Some(rings) = self.waiters()
            && let Some(way) = self.table.way(number)
            && let Some(name) = rings.disturbed(way)
        {
            self.refuse_waiter(rings, name as i32);
        }
    }

    /// Something of a stream was read: who waits for it looks at it himself from now on, if he may.
    pub fn watch(&self, socket: &Socket) {
        self.disturb(socket.number);
        if let Some(rings) = self.waiters()
            && let Some(watch) = self.plain_watch(socket.number)
            && let Some((_, way)) = self.rings(socket)
        {
            rings.watch(socket.p(), way, watch.epoll as u32, socket.number);
        }
    }

    /// A number may be waited for by something that is not seen here.
    pub fn wait_elsewhere(&self, number: i32) {
        let Some(rings) = self.waiters() else { return };
        if self.table.watch(number).is_some() && !self.table.waits_elsewhere(number) {
            self.table.wait_elsewhere(number);
            self.disturb(number);
            self.unwatch(rings, number);
        }
        if rings.waiter(number as u32).is_some() {
            self.refuse_waiter(rings, number);
        }
    }

    fn unwatch(&self, rings: &Rings, number: i32) {
        if let (Some(p), Some(way)) = (sys::borrow(number), self.table.way(number)) {
            rings.unwatch(p, way);
        }
    }

    fn unwatch_all(&self, rings: &Rings, waiter: Option<Waiter>) {
        rings.watched(waiter).for_each(|number| self.unwatch(rings, number));
    }

    /// Nothing is watched for this epoll from now on.
    fn refuse_waiter(&self, rings: &Rings, epoll: i32) {
        if let Some(waiter) = rings.refuse_waiter(epoll as u32) {
            self.unwatch_all(rings, Some(waiter));
        }
    }

    /// A number is closed, or another's; an epoll, maybe.
    pub fn close_waiter(&self, number: i32) {
        let Some(rings) = self.waiters() else { return };
        if number < 0 || matches!(self.table.known(number), Known::Ours(_)) {
            return;
        }
        if rings.has_waiter(number as u32)
            // A child between `vfork` and `exec` closes its own.
            && !self.table.is_of_another(rustix::process::getpid())
            && let Some(waiter) = rings.refuse_waiter(number as u32)
        {
            self.unwatch_all(rings, Some(waiter));
            rings.remove_waiter(waiter);
        }
    }

    /// This process is about to have a child, which has its epolls too: the placeholders show what is true.
    pub fn prepare_child(&self) {
        if let Some(rings) = self.waiters() {
            self.unwatch_all(rings, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(len: u64, level: i32, kind: i32, numbers: &[i32]) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(
            [level, kind].into_iter().chain(numbers.iter().copied()).flat_map(i32::to_ne_bytes),
        );
        bytes
    }

    #[test]
    fn descriptors_are_found_in_what_is_no_ancillary_data_too() {
        let all = |control: &[u8]| {
            let mut all = Vec::new();
            rights(control, |number| all.push(number));
            all
        };
        let (socket, passed) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let two = [item(20, 0, 1, &[9, 0]), item(24, socket, passed, &[5, 6])].concat();
        assert_eq!(all(&two), [5, 6]);
        let odd = [item(20, socket, passed, &[7, 0]), item(28, socket, passed, &[8, 9, 10, 11])];
        assert_eq!(all(&odd.concat()), [7, 8, 9, 10]);
        for len in [0, 15, 25, u64::MAX, u64::MAX - 7, 1 << 63] {
            assert!(all(&item(len, socket, passed, &[5, 6])).is_empty(), "{len}");
        }
        (0..two.len()).for_each(|len| assert!(all(&two[..len]).len() < 2, "{len}"));
    }
}
