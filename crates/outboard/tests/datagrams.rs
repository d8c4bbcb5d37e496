//! Datagrams by the rings of a lease, between two outboards over an interface in memory: every byte of them, what `poll` shows
//! meanwhile, leases that are taken back at any moment, and who means harm.

mod memory;
mod nonsense;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::Shared;
use fusewire_device::interface::Link;
use fusewire_device::interface::memory::{Config, pair};
use fusewire_outboard::client::{self, Client, Datagram, Leaving, Rings, Way};
use fusewire_outboard::protocol::{
    Family, HEADING_LEN, Handle, Heading, Kind, OptionName, Reply, Request, SocketType,
};
use fusewire_outboard::record::{HEAD_LEN, Head};
use fusewire_outboard::region::RINGS_LEN;
use fusewire_outboard::ring::RING_BYTES;
use fusewire_outboard::server::{Budget, Settings};
use fusewire_testkit::Random;
use fusewire_testkit::counting::{self, Counting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, send};

use memory::{Full, Outboard, link};
use nonsense::{WORDS_AT, WORDS_LEN, ask, nonsense, region};

#[global_allocator]
static COUNTING: Counting = Counting;

const DATAGRAM: SocketType = SocketType { family: Family::V4, kind: Kind::Datagram };
const PORT: u16 = 7000;
const NOTHING: SendFlags = SendFlags::NOSIGNAL;
/// Calls before a socket has its lease.
const BEFORE: usize = 8;

fn at(host: u8) -> SocketAddr {
    ([10, 0, 0, host], PORT).into()
}

/// Two outboards, at 10.0.0.1 and 10.0.0.2.
fn both(is_super: bool) -> [Outboard; 2] {
    let config =
        Config { link: Link::Ip, checksum: is_super, segmentation: is_super, ..Config::default() };
    let (near, far) = pair(config).unwrap();
    [Outboard::start(1, near, |settings| settings), Outboard::start(2, far, |settings| settings)]
}

/// A process's way to an outboard.
struct Process {
    client: Client,
    rings: Rings,
}

impl Process {
    fn at(outboard: &Outboard) -> Process {
        Process { client: outboard.client(), rings: Rings::new().unwrap() }
    }

    /// A socket at this address, whose calls end after a while.
    fn bound(&self, local: SocketAddr) -> Socket<'_> {
        let (p, handle) = self.client.socket(DATAGRAM).unwrap();
        self.client.bind(handle, local).unwrap();
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&p, direction, Some(Duration::from_secs(20))).unwrap();
        }
        Socket { process: self, p, handle, way: Way::default() }
    }

    fn socket(&self, local: SocketAddr, is_leased: bool) -> Socket<'_> {
        if is_leased { self.leased(local) } else { self.bound(local) }
    }

    fn leased(&self, local: SocketAddr) -> Socket<'_> {
        let socket = self.bound(local);
        self.rings.lease(&self.client, socket.p.as_fd(), socket.handle, &socket.way).unwrap();
        socket
    }
}

struct Socket<'a> {
    process: &'a Process,
    p: OwnedFd,
    handle: Handle,
    way: Way,
}

/// Messages of one length, one behind the other.
struct Equal<'a>(&'a [u8], usize, SocketAddr);

impl Leaving for Equal<'_> {
    fn count(&self) -> usize {
        self.0.len() / self.1
    }
    fn with<T>(
        &self,
        at: usize,
        f: impl FnOnce(&[IoSlice<'_>], Heading) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        f(&[IoSlice::new(&self.0[at * self.1..][..self.1])], Some(self.2).into())
    }
}

impl Socket<'_> {
    fn with(&self) -> (BorrowedFd<'_>, Handle, &Way) {
        (self.p.as_fd(), self.handle, &self.way)
    }

    fn send(&self, bytes: &[u8], to: SocketAddr, flags: SendFlags) -> Result<usize, Errno> {
        let (front, rest) = bytes.split_at(bytes.len() / 3);
        let pieces = [IoSlice::new(front), IoSlice::new(rest)];
        let Process { client, rings } = self.process;
        rings.send_to(client, self.with(), &pieces, (Some(to), true), flags | SendFlags::NOSIGNAL)
    }

    fn recv(&self, bytes: &mut [u8], flags: RecvFlags) -> Result<Option<Datagram>, Errno> {
        let (front, rest) = bytes.split_at_mut(bytes.len() / 3);
        let mut address = [0; HEADING_LEN];
        let mut pieces = [&mut address[..], front, rest].map(IoSliceMut::new);
        let Process { client, rings } = self.process;
        rings.recv_from(client, self.with(), &mut pieces, flags)
    }

    fn shown(&self, wanted: PollFlags, milliseconds: i64) -> PollFlags {
        let mut fds = [PollFd::new(&self.p, wanted)];
        let (tv_sec, tv_nsec) = (milliseconds / 1000, milliseconds % 1000 * 1_000_000);
        poll(&mut fds, Some(&Timespec { tv_sec, tv_nsec })).unwrap();
        fds[0].revents()
    }

    fn close(self) {
        self.process.rings.close(self.p.as_fd(), &self.way);
    }
}

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

#[test]
fn datagrams_by_rings_are_what_was_sent() {
    for is_super in [false, true] {
        let outboards = both(is_super);
        let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
        let [a, b] = [near.bound(at(1)), far.bound(at(2))];
        let (mut random, mut bytes) = (Random::new(3), vec![0; 65_536]);
        for round in 0..600 {
            let most = if round % 16 == 0 { 65_508 } else { 300 };
            let len = if round % 7 == 0 { 0 } else { random.below(most) as usize };
            let sent = content(round, len);
            let (from, to, address) = if round % 2 == 0 { (&a, &b, 2) } else { (&b, &a, 1) };
            assert_eq!(from.send(&sent, at(address), SendFlags::empty()), Ok(len));
            if round % 5 == 0 {
                let peeked = to.recv(&mut bytes, RecvFlags::PEEK).unwrap().unwrap();
                assert_eq!((peeked.len, &bytes[..len]), (len, &sent[..]));
                let known = to.process.rings.next_len(&to.way);
                assert!(known == Some(len) || !to.way.is_leased());
            }
            let room = if round % 11 == 0 { len / 2 } else { bytes.len() };
            let came = to.recv(&mut bytes[..room], RecvFlags::empty()).unwrap().unwrap();
            assert_eq!((came.len, came.from), (len, at(3 - address)), "round {round}");
            assert_eq!(came.is_cut, len > room);
            assert_eq!(bytes[..len.min(room)], sent[..len.min(room)], "round {round}");
        }
        assert!(a.way.is_leased() && b.way.is_leased(), "after so many messages");
        assert_eq!(b.recv(&mut bytes, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        // It was told to ring.
        assert_eq!(b.shown(PollFlags::IN, 0), PollFlags::empty());
        a.send(b"rings", at(2), SendFlags::empty()).unwrap();
        assert_eq!(b.shown(PollFlags::IN, 5000), PollFlags::IN);
        assert_eq!(b.recv(&mut bytes, RecvFlags::DONTWAIT).unwrap().unwrap().len, 5);
        assert_eq!(b.shown(PollFlags::IN, 0), PollFlags::empty());
        a.close();
        b.close();
    }
}

/// Once the first of them have gone.
#[test]
fn nothing_is_allocated_for_a_datagram() {
    const MESSAGES: u64 = 10_000;
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    for is_leased in [true, false] {
        let [a, b] = [near.socket(at(1), is_leased), far.socket(at(2), is_leased)];
        let (sent, mut room) = ([7; 300], [0; HEADING_LEN + 400]);
        let mut one = |len: usize, is_peeked: bool| {
            if is_leased {
                assert_eq!(a.send(&sent[..len], at(2), SendFlags::empty()), Ok(len));
                let flags = if is_peeked { RecvFlags::PEEK } else { RecvFlags::empty() };
                let peeked = b.recv(&mut room, flags).unwrap().unwrap().len;
                assert!(!is_peeked || b.recv(&mut room, RecvFlags::empty()).is_ok());
                return assert_eq!(peeked, len);
            }
            let pieces = [IoSlice::new(&sent[..len])];
            client::send_to(&a.p, &pieces, Some(at(2)), SendFlags::NOSIGNAL).unwrap();
            let (heading, bytes) = room.split_at_mut(HEADING_LEN);
            let mut pieces = [IoSliceMut::new(heading), IoSliceMut::new(bytes)];
            let with = (b.p.as_fd(), b.handle);
            let came = far.client.recv_from(with, &mut pieces, RecvFlags::empty()).unwrap();
            assert_eq!(came.unwrap().len, len);
        };
        (0..100).for_each(|_| one(300, true));
        let asked = counting::during(|| {
            (0..MESSAGES).for_each(|n| one(n as usize % 300, n % 7 == 0));
        });
        assert_eq!(asked, 0, "by rings: {is_leased}");
        assert_eq!((a.way.is_leased(), b.way.is_leased()), (is_leased, is_leased));
        a.close();
        b.close();
    }
}

/// Two applications of one outboard meet by a group, unless who sends does not want it.
#[test]
fn what_goes_to_a_group_comes_to_other_applications() {
    let outboards = both(false);
    let [near, other, far] = [0, 0, 1].map(|which: usize| Process::at(&outboards[which]));
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let option = |name| OptionName { level: libc::IPPROTO_IP, name };
    for is_leased in [true, false] {
        let to = SocketAddr::from((group, PORT));
        let sender = near.socket(at(1), is_leased);
        let members = [&other, &far].map(|process| {
            let member = process.socket(to, is_leased);
            let join = [group.octets(), [0; 4]].concat();
            let name = option(libc::IP_ADD_MEMBERSHIP);
            process.client.set_option(member.handle, name, &join).unwrap();
            member
        });
        for (sent, loops) in [(&b"heard"[..], 1u8), (b"kept", 0), (b"again", 1)] {
            let name = option(libc::IP_MULTICAST_LOOP);
            near.client.set_option(sender.handle, name, &[loops]).unwrap();
            assert_eq!(sender.send(sent, to, SendFlags::empty()), Ok(sent.len()));
            for (member, hears) in members.iter().zip([loops == 1, true]) {
                let mut bytes = [0; 16];
                if hears {
                    let came = member.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
                    assert_eq!((&bytes[..came.len], came.from), (sent, at(1)), "{is_leased}");
                } else {
                    assert_eq!(member.shown(PollFlags::IN, 50), PollFlags::empty());
                }
            }
        }
        members.into_iter().for_each(Socket::close);
        sender.close();
    }
}

#[test]
fn many_a_call_keep_their_order_and_their_ends() {
    let outboards = both(true);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let [a, b] = [near.leased(at(1)), far.leased(at(2))];
    let (mut random, mut bytes) = (Random::new(4), vec![0; 2048]);
    for round in 0..200 {
        let len = 1 + random.below(1400) as usize;
        let all = content(round, len * (1 + random.below(100) as usize));
        let batch = Equal(&all, len, at(2));
        let Process { client, rings } = a.process;
        let sent = rings.send_datagrams(client, a.with(), &batch, SendFlags::empty());
        assert_eq!(sent, Ok(batch.count()), "who waits sends all of them");
        for message in all.chunks(len) {
            assert_eq!(b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap().len, len);
            assert_eq!(bytes[..len], *message, "round {round}");
        }
    }
    assert!(a.way.is_leased() && b.way.is_leased());
    let too_long = vec![0; 65_536];
    assert_eq!(a.send(&too_long, at(2), SendFlags::empty()), Err(Errno::MSGSIZE));
    a.close();
    b.close();
}

#[test]
fn who_finds_no_room_is_told_and_what_is_shown_is_true() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let [a, b] = [near.leased(at(1)), far.leased(at(2))];
    // Nobody reads: what has no room is lost there, and who sends goes on.
    let mut refused = 0;
    for at_message in 0..20_000u32 {
        let mut message = [0; 600];
        message[..4].copy_from_slice(&at_message.to_le_bytes());
        while let Err(error) = a.send(&message, at(2), SendFlags::DONTWAIT) {
            assert_eq!(error, Errno::AGAIN);
            refused += 1;
            // It is not true that there is room, and is when there is.
            assert_eq!(a.shown(PollFlags::OUT, 5000), PollFlags::OUT, "{at_message}");
        }
    }
    println!("{refused} were refused");
    let (mut bytes, mut last, mut count) = ([0; 2048], None, 0);
    while b.shown(PollFlags::IN, 200) == PollFlags::IN {
        let came = b.recv(&mut bytes, RecvFlags::DONTWAIT).unwrap().unwrap();
        assert_eq!(came.len, 600);
        let now = u32::from_le_bytes(*bytes.first_chunk().unwrap());
        assert!(last.is_none_or(|last| last < now), "{now} behind {last:?}");
        (last, count) = (Some(now), count + 1);
    }
    assert!((200..20_000).contains(&count), "{count} came");
    // There is room again.
    a.send(b"again", at(2), SendFlags::empty()).unwrap();
    assert_eq!(b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap().len, 5);
    assert!(a.way.is_leased() && b.way.is_leased());
    a.close();
    b.close();
}

#[test]
fn a_lease_that_is_taken_back_loses_no_datagram() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    for round in 0..30 {
        let [a, b] = [near.leased(at(1)), far.leased(at(2))];
        let when = Random::new(round).below(100) as u32;
        for message in 0..100u32 {
            if message == when {
                let taken = if round % 2 == 0 { &a } else { &b };
                let Process { client, rings } = taken.process;
                match round % 4 {
                    0 | 1 => drop(client.attach(taken.p.as_fd()).unwrap()),
                    _ => rings.give_up(taken.p.as_fd(), &taken.way),
                }
            }
            a.send(&message.to_le_bytes(), at(2), SendFlags::empty()).unwrap();
        }
        let mut bytes = [0; 64];
        for message in 0..100u32 {
            let came = b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
            assert_eq!(bytes[..came.len], message.to_le_bytes(), "round {round}");
        }
        assert!(!(a.way.is_leased() && b.way.is_leased()));
        a.close();
        b.close();
    }
}

#[test]
fn what_was_sent_before_the_last_close_leaves() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let b = far.leased(at(2));
    for round in 0..20u8 {
        let a = near.leased(at(1));
        for message in 0..50 {
            a.send(&[round, message], at(2), SendFlags::empty()).unwrap();
        }
        a.close();
        let mut bytes = [0; 16];
        for message in 0..50 {
            assert_eq!(b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap().len, 2);
            assert_eq!(bytes[..2], [round, message]);
        }
    }
    b.close();
}

#[test]
fn a_lease_begins_while_datagrams_come() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let [a, b] = [near.bound(at(1)), far.bound(at(2))];
    for message in 0..200u32 {
        a.send(&message.to_le_bytes(), at(2), SendFlags::empty()).unwrap();
    }
    let begun = Instant::now();
    while b.shown(PollFlags::IN, 0).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let mut bytes = [0; 64];
    for message in 0..200u32 {
        assert!(b.way.is_leased() || message as usize <= BEFORE, "after {message}");
        let came = b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!(bytes[..came.len], message.to_le_bytes());
    }
    assert_eq!(b.recv(&mut bytes, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
    a.close();
    b.close();
}

#[test]
fn where_no_record_begins_nothing_is_read_as_one() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let b = far.leased(at(2));
    let (control, key, files) = region(&outboards[0].path);
    let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
    let socket = near.bound(at(1));
    let Reply::Leased(slot) = ask(&control, &Request::Lease(socket.handle, key)) else {
        panic!("no lease");
    };
    // A message that has a record in it, where none may begin.
    let inner = Head { len: 6, heading: Some(at(7)).into() }.emit();
    let message = [&[0; 8][..], &inner, b"forged", &[0; 64]].concat();
    b.send(&message, at(1), SendFlags::empty()).unwrap();
    let ring = (16 << 10) + (slot as usize * 2 + 1) * RING_BYTES as usize;
    let end = Instant::now() + Duration::from_secs(10);
    while rings.load(ring + HEAD_LEN + 8) != 6 {
        assert!(Instant::now() < end, "it comes into the ring");
    }
    rings.store(WORDS_AT + slot as usize * WORDS_LEN + 64, HEAD_LEN as u64 + 8);
    near.client.attach(socket.p.as_fd()).unwrap();
    // What comes behind goes through the placeholder, and nothing before it.
    b.send(b"behind", at(1), SendFlags::empty()).unwrap();
    let mut bytes = [0; 64];
    let mut address = [0; HEADING_LEN];
    let mut pieces = [&mut address[..], &mut bytes].map(IoSliceMut::new);
    let with = (socket.p.as_fd(), socket.handle);
    let came = near.client.recv_from(with, &mut pieces, RecvFlags::empty()).unwrap().unwrap();
    assert_eq!((came.from, &bytes[..came.len]), (at(2), &b"behind"[..]));
    b.close();
}

#[test]
fn who_is_connected_is_told_once_of_what_became_of_what_he_sent() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    for is_leased in [false, true] {
        let piped = || Socket { way: Way::never(), ..near.bound(at(1)) };
        let a = if is_leased { near.leased(at(1)) } else { piped() };
        near.client.connect(a.p.as_fd(), a.handle, Some(at(2))).unwrap();
        let mut bytes = [0; 64];
        let mut recv = |flags| a.recv(&mut bytes, flags).map(|came| came.map(|came| came.len));
        let send = |to: Option<SocketAddr>| {
            near.rings.send_to(
                &near.client,
                a.with(),
                &[IoSlice::new(b"hello")],
                (to, true),
                NOTHING,
            )
        };
        let refused = || {
            assert_eq!(send(None), Ok(5), "rings: {is_leased}");
            assert_eq!(a.shown(PollFlags::IN, 5000), PollFlags::IN);
        };
        let is_over = || a.shown(PollFlags::IN, 0).is_empty();
        refused();
        assert_eq!(recv(RecvFlags::empty()), Err(Errno::CONNREFUSED));
        assert_eq!((recv(RecvFlags::DONTWAIT), is_over()), (Err(Errno::AGAIN), true));
        // Who looks has been told, and so has who sends, and who asks.
        refused();
        assert_eq!(recv(RecvFlags::PEEK), Err(Errno::CONNREFUSED));
        assert_eq!((recv(RecvFlags::DONTWAIT), is_over()), (Err(Errno::AGAIN), true));
        refused();
        assert_eq!((send(None), is_over()), (Err(Errno::CONNREFUSED), true));
        refused();
        assert!(near.rings.has_failed(a.p.as_fd(), &a.way));
        let error = || near.rings.take_error(&near.client, a.with());
        assert_eq!((error(), is_over(), error()), (Ok(Some(Errno::CONNREFUSED)), true, Ok(None)));
        assert!(!near.rings.has_failed(a.p.as_fd(), &a.way));
        // Whoever sends is told, to whomever.
        refused();
        assert_eq!((send(Some(at(2))), is_over()), (Err(Errno::CONNREFUSED), true));
        // One word, however often it fails; and what was told by another way is told no more.
        refused();
        let many = Equal(b"fails", 1, at(2));
        assert_eq!(
            near.rings.send_datagrams(&near.client, a.with(), &many, NOTHING),
            Err(Errno::CONNREFUSED)
        );
        refused();
        assert_eq!(near.client.error(a.handle), Ok(Some(Errno::CONNREFUSED)));
        assert_eq!((recv(RecvFlags::DONTWAIT), is_over()), (Err(Errno::AGAIN), true));
        // Who has no rings asks by the placeholder alone.
        if !is_leased {
            refused();
            let error = || near.client.take_error((a.p.as_fd(), a.handle));
            assert_eq!(
                (error(), is_over(), error()),
                (Ok(Some(Errno::CONNREFUSED)), true, Ok(None))
            );
        }
        // It goes with the lease.
        refused();
        assert_eq!(a.way.is_leased(), is_leased);
        near.client.attach(a.p.as_fd()).unwrap();
        assert_eq!(recv(RecvFlags::empty()), Err(Errno::CONNREFUSED));
        assert_eq!(recv(RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        // What comes comes.
        let b = far.bound(at(2));
        b.send(b"there", at(1), NOTHING).unwrap();
        assert_eq!(recv(RecvFlags::empty()), Ok(Some(5)));
        b.close();
        // Who is connected to nobody hears nothing.
        near.client.connect(a.p.as_fd(), a.handle, None).unwrap();
        assert_eq!(send(Some(at(2))), Ok(5));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((recv(RecvFlags::DONTWAIT), is_over()), (Err(Errno::AGAIN), true));
        a.close();
    }
}

/// Nobody answers for the first peer, so that nothing leaves for it.
#[test]
fn what_was_sent_to_one_peer_never_goes_to_the_next() {
    let (near, far) = pair(Config { link: Link::Ethernet, ..Config::default() }).unwrap();
    let near = Outboard::start(1, near, |settings| settings);
    let far = Outboard::start(2, far, |settings| settings);
    let [near, far] = [Process::at(&near), Process::at(&far)];
    let b = far.bound(at(2));
    for is_leased in [false, true] {
        let piped = || Socket { way: Way::never(), ..near.bound(at(1)) };
        let a = if is_leased { near.leased(at(1)) } else { piped() };
        let mut bytes = [0; 64];
        for round in 0..30u8 {
            near.client.connect(a.p.as_fd(), a.handle, Some(at(7))).unwrap();
            for _ in 0..600 {
                // Some are told that nobody is there.
                let sent = [IoSlice::new(b"for another")];
                let _ = near.rings.send_to(&near.client, a.with(), &sent, (None, true), NOTHING);
            }
            near.client.connect(a.p.as_fd(), a.handle, Some(at(2))).unwrap();
            let own = [round; 3];
            // It may be lost beside what waits for who does not answer, and goes again then.
            for again in 0u64.. {
                if again.is_multiple_of(100) {
                    let own = [IoSlice::new(&own)];
                    let _ = near.rings.send_to(&near.client, a.with(), &own, (None, true), NOTHING);
                }
                match b.recv(&mut bytes, RecvFlags::DONTWAIT) {
                    Ok(came) => {
                        let came = &bytes[..came.unwrap().len];
                        assert_ne!(came, b"for another", "by rings: {is_leased}, round {round}");
                        if came == own {
                            break;
                        }
                    }
                    Err(error) => assert_eq!(error, Errno::AGAIN),
                }
                assert!(again < 30_000, "by rings: {is_leased}, round {round}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        a.close();
    }
    b.close();
}

/// Two outboards of which the first sends slowly, so that most of it waits.
fn slow() -> [Outboard; 2] {
    let (near, far) = pair(Config { link: Link::Ip, ..Config::default() }).unwrap();
    let budget = Budget { packets: Some(400), ..Budget::default() };
    let near = Outboard::start(1, near, |settings| Settings { budget, ..settings });
    [near, Outboard::start(2, far, |settings| settings)]
}

/// What waits for its turn goes to whom the socket was connected to when it was sent, whatever came of later calls.
#[test]
fn what_waits_when_a_socket_is_connected_anew_goes_to_whom_it_was_for() {
    const EACH: u32 = 100;
    let outboards = slow();
    let [near, far] = outboards.each_ref().map(Process::at);
    let place = |port| SocketAddr::from(([10, 0, 0, 2], port));
    let all: Vec<_> = (7001..=7004).map(|port| far.bound(place(port))).collect();
    let nobody_reads = far.bound(place(7005));
    for is_leased in [false, true] {
        let any = ([10, 0, 0, 1], 0).into();
        let piped = || Socket { way: Way::never(), ..near.bound(any) };
        let a = if is_leased { near.leased(any) } else { piped() };
        let connect = |to| near.client.connect(a.p.as_fd(), a.handle, to);
        let send = |what: u32, to: Option<SocketAddr>| {
            let bytes = what.to_le_bytes();
            near.rings.send_to(&near.client, a.with(), &[IoSlice::new(&bytes)], (to, true), NOTHING)
        };
        for (nth, port) in (7001..=7003).enumerate() {
            connect(Some(place(port))).unwrap();
            for what in 0..EACH {
                assert_eq!(send(what, None), Ok(4));
            }
            // What names somebody is his, and what is refused or changes nothing is as if it had not been.
            assert_eq!(send(nth as u32, Some(place(7004))), Ok(4));
            assert_eq!(connect(Some(([192, 0, 2, 1], 7).into())), Err(Errno::NETUNREACH));
            connect(Some(place(port))).unwrap();
        }
        connect(None).unwrap();
        let mut bytes = [0; 64];
        for (b, count) in all.iter().zip([EACH, EACH, EACH, 3]) {
            for what in 0..count {
                let came = b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
                assert_eq!(bytes[..came.len], what.to_le_bytes(), "by rings: {is_leased}");
            }
            assert_eq!(b.recv(&mut bytes, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        }
        // Of those before there is a bound, which is reached later where something leaves meanwhile.
        connect(Some(place(7005))).unwrap();
        (0..2 * EACH).for_each(|what| assert_eq!(send(what, None), Ok(4)));
        let refused = (7100..8000).find_map(|port| {
            let refused = connect(Some(place(port))).err();
            for _ in 0..8 {
                let _ = send(0, None);
            }
            refused.map(|error| (port, error))
        });
        let is_right = |(port, error)| port >= 7116 && error == Errno::AGAIN;
        assert!(refused.is_some_and(is_right), "by rings: {is_leased}: {refused:?}");
        assert_eq!(a.way.is_leased(), is_leased);
        a.close();
    }
    all.into_iter().for_each(Socket::close);
    nobody_reads.close();
}

/// What is longer than any datagram counts as long as it is: what comes behind it goes to whom it is for.
#[test]
fn what_is_too_long_moves_no_others_to_an_earlier_peer() {
    const EACH: u32 = 100;
    let outboards = slow();
    let [near, far] = outboards.each_ref().map(Process::at);
    let place = |port| SocketAddr::from(([10, 0, 0, 2], port));
    let [first, second] = [7001, 7002].map(|port| far.bound(place(port)));
    let a = Socket { way: Way::never(), ..near.bound(([10, 0, 0, 1], 0).into()) };
    let connect = |port| near.client.connect(a.p.as_fd(), a.handle, Some(place(port)));
    let send_each = || {
        for what in 0..EACH {
            let bytes = what.to_le_bytes();
            let pieces = [IoSlice::new(&bytes)];
            near.rings.send_to(&near.client, a.with(), &pieces, (None, true), NOTHING).unwrap();
        }
    };
    connect(7001).unwrap();
    send_each();
    let too_long = [&Heading::default().emit()[..], &[0; 70_000]].concat();
    assert_eq!(send(&a.p, &too_long, SendFlags::NOSIGNAL), Ok(too_long.len()));
    connect(7002).unwrap();
    send_each();
    let mut bytes = [0; 64];
    for (b, name) in [(&first, "first"), (&second, "second")] {
        for what in 0..EACH {
            let came = b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
            assert_eq!(bytes[..came.len], what.to_le_bytes(), "{name}");
        }
    }
    assert_eq!(first.recv(&mut bytes, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
    // What was wrong with it was another peer's matter.
    assert_eq!(near.client.error(a.handle), Ok(None));
    [a, first, second].into_iter().for_each(Socket::close);
}

/// Who is connected to another by then hears nothing of what was wrong with a datagram that waited for the interface.
#[test]
fn what_waited_for_the_interface_is_told_while_its_peer_is_the_same() {
    for connects_anew in [false, true] {
        let ((inner, far), is_full) = (link(), Arc::new(AtomicBool::new(false)));
        let near =
            Outboard::start(1, Full { inner, is_full: is_full.clone() }, |settings| settings);
        let far = Outboard::start(2, far, |settings| settings);
        let [near, far] = [Process::at(&near), Process::at(&far)];
        let place = |port| SocketAddr::from(([10, 0, 0, 2], port));
        let peers = [7001, 7002].map(|port| far.bound(place(port)));
        let a = Socket { way: Way::never(), ..near.bound(([10, 0, 0, 1], 0).into()) };
        let connect = |port| near.client.connect(a.p.as_fd(), a.handle, Some(place(port)));
        let send_one = |bytes: &[u8]| {
            near.rings.send_to(
                &near.client,
                a.with(),
                &[IoSlice::new(bytes)],
                (None, true),
                NOTHING,
            )
        };
        connect(7001).unwrap();
        is_full.store(true, Ordering::Relaxed);
        send_one(b"first").unwrap();
        let too_long = [&Heading::default().emit()[..], &[0; 65_508]].concat();
        assert_eq!(send(&a.p, &too_long, SendFlags::NOSIGNAL), Ok(too_long.len()));
        if connects_anew {
            connect(7002).unwrap();
        }
        is_full.store(false, Ordering::Relaxed);
        let mut bytes = [0; 64];
        assert_eq!(peers[0].recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap().len, 5);
        if connects_anew {
            send_one(b"behind it").unwrap();
            assert_eq!(peers[1].recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap().len, 9);
            assert_eq!(near.client.error(a.handle), Ok(None));
        } else {
            let deadline = Instant::now() + Duration::from_secs(20);
            let told = std::iter::repeat_with(|| near.client.error(a.handle).unwrap());
            let told = told.take_while(|_| Instant::now() < deadline).flatten().next();
            assert_eq!(told, Some(Errno::MSGSIZE));
        }
        peers.into_iter().chain([a]).for_each(Socket::close);
    }
}

#[test]
fn who_lays_down_nonsense_breaks_his_own_socket_alone() {
    let outboards = both(false);
    let [near, far] = [Process::at(&outboards[0]), Process::at(&outboards[1])];
    let [a, b] = [near.leased(at(1)), far.leased(at(2))];
    let (mut random, mut bytes) = (Random::new(9), [0; 2048]);
    for round in 0..60u64 {
        let (control, key, files) = region(&outboards[0].path);
        let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
        let any = || near.bound(([10, 0, 0, 1], 0).into());
        let sockets = [any(), any(), any()];
        for socket in &sockets {
            assert!(matches!(ask(&control, &Request::Lease(socket.handle, key)), Reply::Leased(_)));
        }
        // Whole records of any contents, whose heads are often right but for a word; indices of any kind.
        for _ in 0..40 {
            let slot = random.below(3) as usize;
            let ring = (16 << 10) + slot * 2 * RING_BYTES as usize;
            let mut heading = Heading::from(Some(at(2)));
            if random.below(2) == 0 {
                heading.beside.hop_limit = Some(random.next_u64() as u8);
            }
            let mut head = Head { len: random.below(3000) as usize, heading }.emit().to_vec();
            if random.below(2) == 0 {
                let at = random.below(head.len() as u64) as usize;
                head[at] = random.next_u64() as u8;
            }
            rings.write(ring + 32 * random.below(8) as usize, &head);
            rings.store(WORDS_AT + slot * WORDS_LEN, 32 * random.below(1 << 12));
            nonsense(&rings, &mut random);
            if random.below(8) == 0 {
                let _ = send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL);
            }
        }
        if round % 2 == 0 {
            let _ = near.client.attach(sockets[0].p.as_fd());
        }
        a.send(&round.to_le_bytes(), at(2), SendFlags::empty()).unwrap();
        // What was well-formed of the others' arrives too.
        while {
            let came = b.recv(&mut bytes, RecvFlags::empty()).unwrap().unwrap();
            came.from != at(1) || bytes[..came.len] != round.to_le_bytes()
        } {}
    }
    // A record that is none ends its socket.
    let head = |len, address: Option<_>| Head { len, heading: address.into() }.emit().to_vec();
    let changed = |byte: usize, value| {
        let mut head = head(1, Some(at(2)));
        head[byte] = value;
        head
    };
    // The last has nothing beside it where something is said to be.
    for crafted in [head(65_000, None), vec![0xff; HEAD_LEN], changed(8, 7), changed(4, 1)] {
        let (control, key, files) = region(&outboards[0].path);
        let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
        let socket = near.bound(([10, 0, 0, 1], 0).into());
        let Reply::Leased(slot) = ask(&control, &Request::Lease(socket.handle, key)) else {
            panic!("no lease");
        };
        rings.write((16 << 10) + slot as usize * 2 * RING_BYTES as usize, &crafted);
        rings.store(WORDS_AT + slot as usize * WORDS_LEN, 64);
        rings.store(0, 1 << slot);
        send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
        assert!(socket.shown(PollFlags::empty(), 5000).contains(PollFlags::HUP));
        assert_eq!(near.client.error(socket.handle), Ok(Some(Errno::PROTO)));
    }
    a.close();
    b.close();
}
