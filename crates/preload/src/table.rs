//! What is known of descriptors: a few words for each number, read and written without a lock, and all zeros in a forked
//! child, which asks again. A number that is closed behind our back may still be known here: whoever commands a socket
//! compares its cookie first, and whoever moves data is told by the kernel that it is none.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use fusewire_outboard::client::Way;
use fusewire_outboard::protocol::{
    ADDRESS_LEN, Family, Handle, Kind, SocketType, emit_address, parse_address,
};

use rustix::process::Pid;

use crate::sys;

/// Words of a descriptor.
const WORDS: usize = 16;
/// Most descriptors that are known; those of higher numbers are the kernel's.
const NUMBERS_MAX: usize = 1 << 20;

/// What a socket is, as far as this process has seen: bits of its first word.
pub mod stage {
    /// A stream with a peer; datagrams with an address to send to.
    pub const CONNECTED: u32 = 1 << 4;
    /// A stream that was told to connect.
    pub const CONNECTING: u32 = 1 << 5;
    /// It listens.
    pub const LISTENING: u32 = 1 << 6;
    /// It was bound by the program.
    pub const BOUND: u32 = 1 << 7;
    /// Its addresses are known and will not change.
    pub const NAMED: u32 = 1 << 8;
    /// Its connection failed; it may be told to connect again.
    pub const DEAD: u32 = 1 << 9;
    /// Datagrams were sent, or have come.
    pub const USED: u32 = 1 << 10;
    /// A child that shares this memory has closed the number: to others it is what it was.
    pub const DOUBTFUL: u32 = 1 << 11;
    /// It was bound to any port.
    pub const ANY_PORT: u32 = 1 << 12;
    /// Datagrams go to a peer of IPv4, whatever the socket's family.
    pub const TO_V4: u32 = 1 << 13;
    /// Its own address was noted, for when the outboard has forgotten it.
    pub const NOTED: u32 = 1 << 14;
    /// The program has ended what comes.
    pub const SHUT_READ: u32 = 1 << 15;
    /// The program has ended what goes.
    pub const SHUT_WRITE: u32 = 1 << 16;
    /// It was told to connect without waiting, and no such call has said yet that it is connected.
    pub const UNTOLD: u32 = 1 << 17;
    /// How long calls on it wait was set.
    pub const TIMED: u32 = 1 << 18;

    /// Its outboard is gone, and it waits for the next one to take it over.
    pub const LOST: u32 = 1 << 30;
    /// A stream whose outboard is gone, which was reported once.
    pub const ENDED: u32 = 1 << 31;

    /// Of datagrams that go to such a peer.
    pub fn of_peer(ip: std::net::IpAddr) -> u32 {
        CONNECTED | if ip.to_canonical().is_ipv4() { TO_V4 } else { 0 }
    }
}

// The first word: what it is, and how often that was said.
const OWNER: u32 = 3;
const UNKNOWN: u32 = 0;
const KERNEL: u32 = 1;
const OURS: u32 = 2;
const IS_V6: u32 = 1 << 2;
const IS_DATAGRAM: u32 = 1 << 3;

// Where the others are.
const HANDLE: usize = 1;
const COOKIE: usize = 4;
const LOCAL: usize = 5;
const PEER: usize = 8;
const WATCH: usize = 11;
/// Of the first of them: the socket is waited for in more ways than one.
const ELSEWHERE: u64 = 1 << 31;
const OPTIONS: usize = 13;
const WAY: usize = 14;
/// Of number 0: which process this is known to.
const PROCESS: usize = 15;

/// A socket of the outboard's, as it was known when it was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    /// Its number.
    pub number: i32,
    /// The right to command it.
    pub handle: Handle,
    /// Family and kind.
    pub of: SocketType,
    /// `SO_COOKIE` of its placeholder.
    pub cookie: u64,
    /// Bits of [`stage`].
    pub stage: u32,
    /// Its own and the peer's address, where they are known.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// How often something was said of the number before.
    pub said: u32,
}

impl Socket {
    /// As it is when it is learnt.
    pub fn new(number: i32, handle: Handle, of: SocketType, cookie: u64) -> Socket {
        Socket { number, handle, of, cookie, stage: 0, addresses: None, said: 0 }
    }

    /// Whether any of these bits is set.
    pub fn is(&self, stage: u32) -> bool {
        self.stage & stage != 0
    }

    /// It carries a stream.
    pub fn is_stream(&self) -> bool {
        self.of.kind == Kind::Stream
    }

    /// Its placeholder.
    pub fn p(&self) -> BorrowedFd<'_> {
        sys::borrow(self.number).expect("it was looked up by its number, which is not negative")
    }
}

/// What is known of a number.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// Nothing.
    Unknown,
    /// It is the kernel's, or nothing at all.
    Kernel,
    /// The outboard's.
    Ours(Socket),
}

/// How an epoll watches a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Number of the epoll.
    pub epoll: i32,
    /// What for.
    pub events: u32,
    /// What it says then.
    pub data: u64,
}

/// Numbers and what they are.
pub struct Table {
    words: &'static [AtomicU64],
    /// No number that is higher was ever known.
    highest: AtomicUsize,
}

impl Table {
    /// For as many descriptors as this process may ever have; `None` where there is no memory that a child does not inherit.
    pub fn new() -> Option<Table> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let count = limit.map_or(NUMBERS_MAX, |max| NUMBERS_MAX.min(max as usize));
        Some(Table { words: sys::words(count * WORDS)?, highest: AtomicUsize::new(0) })
    }

    fn place(&self, number: i32) -> Option<&[AtomicU64; WORDS]> {
        self.words.as_chunks::<WORDS>().0.get(usize::try_from(number).ok()?)
    }

    /// Whether a number can be known.
    pub fn has(&self, number: i32) -> bool {
        self.place(number).is_some()
    }

    /// What is known of a number.
    pub fn known(&self, number: i32) -> Known {
        let Some(place) = self.place(number) else { return Known::Kernel };
        let word = place[0].load(Ordering::Acquire);
        let bits = word as u32;
        match bits & OWNER {
            UNKNOWN => return Known::Unknown,
            KERNEL => return Known::Kernel,
            _ => {}
        }
        let at = |index: usize| place[index].load(Ordering::Relaxed);
        let mut token = [0; 16];
        token[..8].copy_from_slice(&at(HANDLE + 1).to_le_bytes());
        token[8..].copy_from_slice(&at(HANDLE + 2).to_le_bytes());
        let family = if bits & IS_V6 != 0 { Family::V6 } else { Family::V4 };
        let kind = if bits & IS_DATAGRAM != 0 { Kind::Datagram } else { Kind::Stream };
        let is_named = bits & stage::NAMED != 0;
        let socket = Socket {
            number,
            handle: Handle { socket: at(HANDLE), token },
            of: SocketType { family, kind },
            cookie: at(COOKIE),
            stage: bits,
            addresses: is_named
                .then(|| Some((address(place, LOCAL)?, address(place, PEER)?)))
                .flatten(),
            said: (word >> 32) as u32,
        };
        fence(Ordering::Acquire);
        match place[0].load(Ordering::Relaxed) >> 32 == word >> 32 {
            true => Known::Ours(socket),
            // It is being closed, or made, by another thread.
            false => Known::Unknown,
        }
    }

    /// A number is a socket of the outboard's. False: such a number cannot be known.
    pub fn learn(&self, socket: &Socket) -> bool {
        let Some(place) = self.place(socket.number) else { return false };
        let said = self.say(place, UNKNOWN);
        fence(Ordering::Release);
        let put = |index: usize, word: u64| place[index].store(word, Ordering::Relaxed);
        let (low, high) = socket.handle.token.split_at(8);
        put(HANDLE, socket.handle.socket);
        put(HANDLE + 1, word(low));
        put(HANDLE + 2, word(high));
        put(COOKIE, socket.cookie);
        [WATCH, WATCH + 1, OPTIONS, WAY].into_iter().for_each(|index| put(index, 0));
        let mut bits =
            OURS | socket.stage & !(OWNER | IS_V6 | IS_DATAGRAM | stage::NAMED | stage::NOTED);
        if let Some((local, peer)) = socket.addresses {
            bits |= stage::NAMED;
            for (first, address) in [(LOCAL, local), (PEER, peer)] {
                let bytes = emit_address(Some(address));
                bytes.chunks(8).enumerate().for_each(|(at, bytes)| put(first + at, word(bytes)));
            }
        }
        bits |= if socket.of.family == Family::V6 { IS_V6 } else { 0 };
        bits |= if socket.is_stream() { 0 } else { IS_DATAGRAM };
        place[0].store(u64::from(said) << 32 | u64::from(bits), Ordering::Release);
        self.highest.fetch_max(socket.number as usize, Ordering::Relaxed);
        let process = rustix::process::getpid().as_raw_nonzero().get() as u64;
        self.words[PROCESS].store(process, Ordering::Relaxed);
        true
    }

    /// A number is the kernel's.
    pub fn note_kernel(&self, number: i32) {
        if let Some(place) = self.place(number) {
            self.say(place, KERNEL);
            self.highest.fetch_max(number as usize, Ordering::Relaxed);
        }
    }

    /// A number is closed, or becomes something else.
    pub fn forget(&self, number: i32) {
        if let Some(place) = self.place(number)
            && place[0].load(Ordering::Relaxed) as u32 & OWNER != UNKNOWN
        {
            self.say(place, UNKNOWN);
        }
    }

    /// No number that is higher is known.
    pub fn highest(&self) -> usize {
        self.highest.load(Ordering::Relaxed)
    }

    /// A child that shares this memory closes a number.
    pub fn doubt(&self, number: i32) {
        if let Some(place) = self.place(number) {
            place[0].fetch_or(u64::from(stage::DOUBTFUL), Ordering::Release);
        }
    }

    /// What is known is that process's own, and not its parent's, whose memory it shares.
    pub fn is_of(&self, process: Pid) -> bool {
        let known = self.words.get(PROCESS).map(|word| word.load(Ordering::Relaxed));
        known == Some(process.as_raw_nonzero().get() as u64)
    }

    /// What is known is another process's, whose memory this one shares.
    pub fn is_of_another(&self, process: Pid) -> bool {
        let known = self.words.get(PROCESS).map_or(0, |word| word.load(Ordering::Relaxed));
        known != 0 && !self.is_of(process)
    }

    fn say(&self, place: &[AtomicU64; WORDS], owner: u32) -> u32 {
        let said = ((place[0].load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        place[0].store(u64::from(said) << 32 | u64::from(owner), Ordering::Release);
        said
    }

    /// Sets and clears bits of [`stage`], unless the number became something else meanwhile.
    pub fn change(&self, socket: &mut Socket, set: u32, clear: u32) {
        socket.stage = (socket.stage | set) & !clear;
        let Some(place) = self.place(socket.number) else { return };
        let same = |word: u64| {
            let bits = (word as u32 | set) & !clear;
            ((word >> 32) as u32 == socket.said).then(|| word >> 32 << 32 | u64::from(bits))
        };
        let _ = place[0].fetch_update(Ordering::Release, Ordering::Relaxed, same);
    }

    /// Notes a stream's own address, for when the outboard has forgotten it.
    pub fn note_local(&self, socket: &mut Socket, local: SocketAddr) {
        let Some(place) = self.place(socket.number) else { return };
        if place[0].load(Ordering::Acquire) >> 32 != u64::from(socket.said)
            || socket.is(stage::NAMED | stage::NOTED)
        {
            return;
        }
        let bytes = emit_address(Some(local));
        let words = bytes.chunks(8).map(word).enumerate();
        words.for_each(|(at, word)| place[LOCAL + at].store(word, Ordering::Relaxed));
        self.change(socket, stage::NOTED, 0);
    }

    /// The address that was noted.
    pub fn noted_local(&self, socket: &Socket) -> Option<SocketAddr> {
        let place = self.place(socket.number).filter(|_| socket.is(stage::NOTED))?;
        address(place, LOCAL)
    }

    /// How a socket's bytes go: by the placeholder, or by rings.
    pub fn way(&self, number: i32) -> Option<&Way> {
        Some(sys::way(&self.place(number)?[WAY]))
    }

    /// How an epoll watches a socket, as far as it is known; `None` when it does no longer.
    pub fn set_watch(&self, number: i32, watch: Option<Watch>) {
        let Some(place) = self.place(number) else { return };
        let (word, data) = watch.map_or((0, 0), |watch| {
            ((watch.epoll as u64 + 1) | u64::from(watch.events) << 32, watch.data)
        });
        let word = word | place[WATCH].load(Ordering::Relaxed) & ELSEWHERE;
        place[WATCH + 1].store(data, Ordering::Relaxed);
        place[WATCH].store(word, Ordering::Relaxed);
    }

    /// What [`Table::set_watch`] was told.
    pub fn watch(&self, number: i32) -> Option<Watch> {
        let place = self.place(number)?;
        let word = place[WATCH].load(Ordering::Relaxed);
        let epoll = ((word & !ELSEWHERE) as u32).checked_sub(1)? as i32;
        let data = place[WATCH + 1].load(Ordering::Relaxed);
        Some(Watch { epoll, events: (word >> 32) as u32, data })
    }

    /// A socket is waited for by something else than the epoll that watches it.
    pub fn wait_elsewhere(&self, number: i32) {
        if let Some(place) = self.place(number) {
            place[WATCH].fetch_or(ELSEWHERE, Ordering::Relaxed);
        }
    }

    /// [`Table::wait_elsewhere`] was told so, since the number is what it is.
    pub fn waits_elsewhere(&self, number: i32) -> bool {
        self.place(number).is_none_or(|place| place[WATCH].load(Ordering::Relaxed) & ELSEWHERE != 0)
    }

    /// Options that the program has set, bits of a list.
    pub fn options(&self, number: i32) -> u64 {
        self.place(number).map_or(0, |place| place[OPTIONS].load(Ordering::Relaxed))
    }

    /// One more.
    pub fn add_option(&self, number: i32, bit: u32) {
        if let Some(place) = self.place(number) {
            place[OPTIONS].fetch_or(1 << bit, Ordering::Relaxed);
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn address(place: &[AtomicU64; WORDS], first: usize) -> Option<SocketAddr> {
    let mut bytes = [0; ADDRESS_LEN];
    for (at, bytes) in bytes.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&place[first + at].load(Ordering::Relaxed).to_le_bytes());
    }
    parse_address(&bytes).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: SocketType = SocketType { family: Family::V6, kind: Kind::Stream };

    fn socket(number: i32) -> Socket {
        Socket::new(number, Handle { socket: 9, token: *b"0123456789abcdef" }, STREAM, 77)
    }

    fn ours(table: &Table, number: i32) -> Socket {
        match table.known(number) {
            Known::Ours(socket) => socket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_learnt_is_known_until_it_is_closed() {
        let table = Table::new().unwrap();
        assert!(matches!(table.known(3), Known::Unknown));
        let (local, peer) = ("[fd00::1]:80".parse().unwrap(), "192.0.2.1:81".parse().unwrap());
        let addresses = Some((local, peer));
        assert!(table.learn(&Socket { addresses, stage: stage::CONNECTED, ..socket(3) }));
        let mut found = ours(&table, 3);
        assert_eq!((found.handle, found.of, found.cookie), (socket(3).handle, STREAM, 77));
        assert!(found.is(stage::CONNECTED) && found.addresses == addresses);
        table.change(&mut found, stage::DEAD, stage::CONNECTED);
        assert!(ours(&table, 3).is(stage::DEAD) && !ours(&table, 3).is(stage::CONNECTED));
        table.forget(3);
        assert!(matches!(table.known(3), Known::Unknown));
        table.learn(&socket(3));
        // Of what the number was before, nothing is left, and what was known then changes nothing.
        table.change(&mut found, stage::LISTENING, 0);
        let now = ours(&table, 3);
        assert!(now.addresses.is_none() && !now.is(stage::DEAD | stage::LISTENING));
        table.note_kernel(4);
        assert!(
            matches!(table.known(4), Known::Kernel) && matches!(table.known(-1), Known::Kernel)
        );
        table.forget(3);
        table.forget(4);
        assert!(matches!((table.known(3), table.known(4)), (Known::Unknown, Known::Unknown)));
        assert!(!table.learn(&socket(i32::MAX)));
    }

    #[test]
    fn what_watches_it_and_its_options_go_with_the_socket() {
        let table = Table::new().unwrap();
        table.learn(&socket(5));
        assert_eq!((table.watch(5), table.options(5)), (None, 0));
        let watch = Some(Watch { epoll: 0, events: 0x8000_0001, data: u64::MAX });
        table.set_watch(5, watch);
        table.add_option(5, 3);
        assert_eq!((table.watch(5), table.options(5)), (watch, 8));
        table.learn(&socket(5));
        assert_eq!((table.watch(5), table.options(5)), (None, 0));
    }

    #[test]
    fn a_forked_child_knows_nothing() {
        let table = Table::new().unwrap();
        table.learn(&socket(6));
        // What a child would find is what the kernel was told of the memory.
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let at = table.words.as_ptr() as usize;
        // The kernel joins it with its neighbours of the same flags, which other tests map.
        let holds = |line: &str| {
            let (from, rest) = line.split_once('-')?;
            let to = rest.split(' ').next()?;
            let [from, to] = [from, to].map(|digits| usize::from_str_radix(digits, 16).ok());
            Some((from?..to?).contains(&at))
        };
        let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
        let flags = lines.find(|line| line.starts_with("VmFlags"));
        assert!(flags.is_some_and(|flags| flags.contains("wf")), "{flags:?}");
    }
}
