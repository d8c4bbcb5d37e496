//! Two outboards over a link that loses, delays, doubles and changes packets: bytes of streams are what was sent, both ways at once,
//! and each datagram that comes is one that was sent, by placeholders and by rings.

mod memory;
mod nonsense;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_device::Shared;
use fusewire_device::interface::memory::{Config, Memory, pair};
use fusewire_device::interface::{Interface, Link, TxPacket};
use fusewire_outboard::client::{self, Client, Rings, Way};
use fusewire_outboard::protocol::{Family, HEADING_LEN, Handle, Kind, Reply, Request, SocketType};
use fusewire_outboard::region::{self, BLOCKS_LEN, RINGS_LEN, Slot, places};
use fusewire_outboard::ring::{self, RING_BYTES};
use fusewire_stack::Clock;
use fusewire_testkit::Random;
use fusewire_testkit::content::Content;
use fusewire_testkit::link::{Counts, Impairments, Link as OneWay, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send};

use memory::Outboard;

const PORT: u16 = 7000;
/// Bytes each way.
const BULK: usize = 3_000_000;
/// Datagrams each way.
const DATAGRAMS: u64 = 2_000;
/// Of those, that are on their way at once.
const UNDER_WAY: u64 = 64;

fn at(host: u8) -> SocketAddr {
    ([10, 0, 0, host], PORT).into()
}

#[derive(Clone)]
struct Ip(Vec<u8>);

impl Packet for Ip {
    fn len_bytes(&self) -> usize {
        self.0.len()
    }
    fn corrupt(&mut self, random: &mut Random) {
        let at = random.below(self.0.len() as u64) as usize;
        self.0[at] ^= 1 << random.below(8);
    }
    fn mark(&mut self) -> bool {
        false
    }
}

/// All that goes wrong.
fn spoilt() -> Impairments {
    Impairments {
        delay: Duration::from_micros(100),
        loss: 0.05,
        reorder: 0.05,
        reorder_delay: Duration::from_micros(500),
        duplicate: 0.02,
        corrupt: 0.02,
        ..Impairments::default()
    }
}

/// Carries packets between the outer ends of two links until it is told to stop.
fn carry(
    mut ends: [Memory; 2],
    (seed, impairments): (u64, Impairments),
    stop: &AtomicBool,
) -> [Counts; 2] {
    let (clock, mut random) = (Clock::new(), Random::new(seed));
    let mut ways = [0, 1].map(|_| OneWay::new(impairments.clone(), random.fork()));
    while !stop.load(Ordering::Relaxed) {
        let mut next = Duration::from_millis(10);
        for from in [0, 1] {
            for at in 0..ends[from].receive().unwrap() {
                ways[from].send(clock.now(), Ip(ends[from].packet(at).bytes.to_vec()));
            }
            while let Some(Ip(packet)) = ways[from].poll(clock.now()) {
                let packet = TxPacket { header: &packet, ..TxPacket::default() };
                ends[1 - from].transmit(&[packet]).unwrap();
            }
            let due = ways[from].next_arrival().map(|at| at.saturating_since(clock.now()));
            next = next.min(due.unwrap_or(next));
        }
        let mut fds = ends
            .each_ref()
            .map(|end| PollFd::from_borrowed_fd(end.as_fd().unwrap(), PollFlags::IN));
        let patience = Timespec { tv_sec: 0, tv_nsec: next.as_nanos() as i64 };
        poll(&mut fds, Some(&patience)).unwrap();
    }
    ways.map(|way| *way.counts())
}

/// Two outboards, at 10.0.0.1 and 10.0.0.2, and what is between them.
struct Net {
    outboards: [Outboard; 2],
    stop: Arc<AtomicBool>,
    thread: JoinHandle<[Counts; 2]>,
}

impl Net {
    /// With a link that spoils packets.
    fn new(seed: u64) -> Net {
        Net::over(spoilt(), seed)
    }

    fn over(impairments: Impairments, seed: u64) -> Net {
        let config =
            Config { link: Link::Ip, checksum: false, segmentation: false, ..Config::default() };
        let [(a, x), (y, b)] = [0, 1].map(|_| pair(config).unwrap());
        let outboards = [
            Outboard::start(1, a, |settings| settings),
            Outboard::start(2, b, |settings| settings),
        ];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || carry([x, y], (seed, impairments), &stopped));
        Net { outboards, stop, thread }
    }

    /// A process at each.
    fn processes(&self) -> [Process; 2] {
        self.outboards
            .each_ref()
            .map(|outboard| Process { client: outboard.client(), rings: Rings::new().unwrap() })
    }

    /// Ends it.
    fn stop(self) -> [Counts; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }

    /// Ends it; everything that goes wrong did.
    fn end(self) {
        for counts in self.stop() {
            let Counts { lost, reordered, duplicated, corrupted, .. } = counts;
            let least = [lost, reordered, duplicated, corrupted].into_iter().min();
            assert!(least > Some(10), "{counts:?}");
        }
    }
}

struct Process {
    client: Client,
    rings: Rings,
}

impl Process {
    fn socket(&self, kind: Kind) -> (OwnedFd, Handle) {
        self.client.socket(SocketType { family: Family::V4, kind }).unwrap()
    }

    fn with(&self, (p, handle): (OwnedFd, Handle), is_leased: bool) -> Socket<'_> {
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&p, direction, Some(Duration::from_secs(30))).unwrap();
        }
        let socket = Socket { process: self, p, handle, way: Way::default() };
        if is_leased {
            let Process { client, rings } = self;
            rings.lease(client, socket.p.as_fd(), handle, &socket.way).unwrap();
        }
        assert_eq!(socket.way.is_leased(), is_leased);
        socket
    }
}

struct Socket<'a> {
    process: &'a Process,
    p: OwnedFd,
    handle: Handle,
    way: Way,
}

impl Socket<'_> {
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Process { client, rings } = self.process;
        if !self.way.is_leased() {
            return send(&self.p, bytes, SendFlags::NOSIGNAL);
        }
        let with = (self.p.as_fd(), self.handle, &self.way);
        rings.send(client, with, &[IoSlice::new(bytes)], SendFlags::NOSIGNAL)
    }

    fn recv(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let Process { client, rings } = self.process;
        if !self.way.is_leased() {
            return recv(&self.p, bytes, RecvFlags::empty()).map(|(len, _)| len);
        }
        let with = (self.p.as_fd(), self.handle, &self.way);
        rings.recv(client, with, &mut [IoSliceMut::new(bytes)], RecvFlags::empty())
    }

    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<usize, Errno> {
        let Process { client, rings } = self.process;
        let (pieces, flags) = ([IoSlice::new(bytes)], SendFlags::NOSIGNAL);
        if !self.way.is_leased() {
            return client::send_to(&self.p, &pieces, Some(to), flags);
        }
        rings.send_to(
            client,
            (self.p.as_fd(), self.handle, &self.way),
            &pieces,
            (Some(to), true),
            flags,
        )
    }

    /// How long the next datagram is, and who sent it.
    fn recv_from(&self, bytes: &mut [u8]) -> Result<(usize, SocketAddr), Errno> {
        let Process { client, rings } = self.process;
        let mut heading = [0; HEADING_LEN];
        let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(bytes)];
        let came = match self.way.is_leased() {
            true => {
                let with = (self.p.as_fd(), self.handle, &self.way);
                rings.recv_from(client, with, &mut pieces, RecvFlags::empty())
            }
            false => {
                client.recv_from((self.p.as_fd(), self.handle), &mut pieces, RecvFlags::empty())
            }
        };
        came.map(|came| came.map(|came| (came.len, came.from)).expect("a datagram"))
    }

    fn close(self) {
        self.process.rings.close(self.p.as_fd(), &self.way);
    }
}

/// A connection of the second to the first.
fn connected(processes: &[Process; 2], is_leased: bool) -> [Socket<'_>; 2] {
    let [near, far] = processes;
    let (listener, handle) = near.socket(Kind::Stream);
    near.client.bind(handle, at(1)).unwrap();
    near.client.listen(handle, 8).unwrap();
    let (p, called) = far.socket(Kind::Stream);
    far.client.connect(p.as_fd(), called, Some(at(1))).unwrap();
    far.client.connected(p.as_fd(), called).unwrap();
    let accepted = client::accept(listener.as_fd(), true).unwrap();
    [near.with((accepted.p, accepted.handle), is_leased), far.with((p, called), is_leased)]
}

/// Sends all of it and finishes; and receives all that the other end sends.
fn exchange(socket: &Socket<'_>, sent: &[u8], wanted: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 0;
            while at < sent.len() {
                at += socket.send(&sent[at..sent.len().min(at + 50_000)]).unwrap();
            }
            let Process { rings, .. } = socket.process;
            rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
        });
        let (mut at, mut bytes) = (0, vec![0; 70_000]);
        loop {
            let len = socket.recv(&mut bytes).unwrap();
            if len == 0 {
                break;
            }
            assert!(wanted.get(at..at + len) == Some(&bytes[..len]), "{len} bytes at {at}");
            at += len;
        }
        assert_eq!(at, wanted.len(), "all before the end");
    });
}

#[test]
fn streams_are_what_was_sent_over_a_link_that_spoils_packets() {
    for is_leased in [true, false] {
        let net = Net::new(18);
        let processes = net.processes();
        let [near, far] = connected(&processes, is_leased);
        let contents = [1, 2].map(|seed| {
            let mut bytes = vec![0; BULK];
            Content::new(seed).fill(0, &mut bytes);
            bytes
        });
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&near, &contents[0], &contents[1]));
            exchange(&far, &contents[1], &contents[0]);
        });
        assert_eq!([near.way.is_leased(), far.way.is_leased()], [is_leased; 2]);
        near.close();
        far.close();
        drop(processes);
        net.end();
    }
}

/// Takes all that comes until the end, which is to be this.
fn takes(socket: &Socket<'_>, wanted: &[u8]) {
    let (mut at, mut bytes) = (0, vec![0; 70_000]);
    while at < wanted.len() {
        let len = socket.recv(&mut bytes).unwrap();
        assert_ne!(len, 0, "the end after {at} of {}", wanted.len());
        assert!(wanted.get(at..at + len) == Some(&bytes[..len]), "{len} bytes at {at}");
        at += len;
    }
    assert_eq!(socket.recv(&mut bytes), Ok(0));
}

fn contents<const N: usize>(len: usize) -> [Vec<u8>; N] {
    std::array::from_fn(|seed| {
        let mut bytes = vec![0; len];
        Content::new(seed as u64 + 1).fill(0, &mut bytes);
        bytes
    })
}

/// Whoever has the rings next writes over what the first has sent and its peer has not acknowledged.
#[test]
fn what_is_under_way_when_a_lease_is_taken_back_is_kept() {
    let (net, mut random) = (Net::new(21), Random::new(21));
    let processes = net.processes();
    let [sent, other] = contents(600_000);
    for round in 0..12 {
        let [near, far] = connected(&processes, true);
        let [next, next_far] = connected(&processes, false);
        let when = random.below(sent.len() as u64) as usize;
        let send_all = |socket: &Socket<'_>, mut bytes: &[u8]| {
            while !bytes.is_empty() {
                bytes = &bytes[socket.send(&bytes[..bytes.len().min(50_000)]).unwrap()..];
            }
        };
        let Process { client, rings } = &processes[0];
        let finish = |socket: &Socket<'_>| {
            rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send_all(&near, &sent[..when]);
                match round % 3 {
                    0 => drop(client.attach(near.p.as_fd()).unwrap()),
                    _ => rings.give_up(near.p.as_fd(), &near.way),
                }
                // Its rings, which are free as soon as nobody is in them.
                let end = Instant::now() + Duration::from_secs(30);
                while rings.lease(client, next.p.as_fd(), next.handle, &next.way).is_err() {
                    assert!(Instant::now() < end, "no lease");
                }
                send_all(&next, &other);
                finish(&next);
                if round % 3 < 2 {
                    send_all(&near, &sent[when..]);
                }
                finish(&near);
            });
            scope.spawn(|| takes(&next_far, &other));
            takes(&far, if round % 3 < 2 { &sent } else { &sent[..when] });
        });
        assert!(!near.way.is_leased() && next.way.is_leased(), "round {round}");
        [near, far, next, next_far].into_iter().for_each(Socket::close);
    }
    drop(processes);
    net.end();
}

/// What it has written is sent though nobody has its memory any more.
#[test]
fn what_is_under_way_when_an_application_ends_arrives() {
    let net = Net::new(22);
    let [sent] = contents(300_000);
    for _ in 0..8 {
        let processes = net.processes();
        let [near, far] = connected(&processes, true);
        std::thread::scope(|scope| {
            let came = scope.spawn(|| takes(&far, &sent));
            let mut at = 0;
            while at < sent.len() {
                at += near.send(&sent[at..]).unwrap();
            }
            drop(near);
            came.join().unwrap();
        });
        far.close();
    }
    assert!(net.stop().iter().all(|counts| counts.lost > 0));
}

/// What the stack has of what lies in the ring is not said to be both's; how much was sent.
fn what_is_under_way_is_counted_once(socket: &Socket<'_>, bytes: &[u8]) -> usize {
    let Process { client, rings } = socket.process;
    let mut sent = 0;
    for part in bytes.chunks(40_000).take(20) {
        assert_eq!(socket.send(part), Ok(part.len()));
        sent += part.len();
        loop {
            let untaken = rings.untaken(socket.p.as_fd(), &socket.way).unwrap();
            match (untaken, client.unsent(socket.handle).unwrap()) {
                (0, 1..) => return sent,
                // It was acknowledged before anybody has looked.
                (0, 0) => break,
                _ => std::thread::yield_now(),
            }
        }
    }
    panic!("what was acknowledged alone is taken");
}

/// The windows of a long path let more under way than a ring holds.
#[test]
fn a_ring_full_of_what_is_not_acknowledged_bounds_no_stream() {
    let long = Impairments { delay: Duration::from_millis(60), ..Impairments::default() };
    let net = Net::over(long, 23);
    let processes = net.processes();
    let [near, far] = connected(&processes, true);
    let [sent] = contents(6_000_000);
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| takes(&far, &sent));
        let sent = &sent[what_is_under_way_is_counted_once(&near, &sent)..];
        for part in sent.chunks(50_000) {
            let mut at = 0;
            while at < part.len() {
                at += near.send(&part[at..]).unwrap();
            }
            let mut info = [0; 256];
            if processes[0].rings.tcp_info(&near.way, &mut info).is_some() {
                let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
                // `tcpi_snd_mss`, `tcpi_unacked`
                most = most.max(u64::from(word(16)) * u64::from(word(24)));
            }
        }
        let Process { rings, .. } = near.process;
        rings.shutdown(near.p.as_fd(), &near.way, Shutdown::Write).unwrap();
    });
    assert!(near.way.is_leased());
    assert!(most > 2 * RING_BYTES, "{most} bytes under way at most");
    [near, far].into_iter().for_each(Socket::close);
    drop(processes);
    net.stop();
}

/// Says that something is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Who writes over what he has sent harms his own stream alone.
#[test]
fn who_changes_what_he_has_sent_harms_himself_alone() {
    let net = Net::new(24);
    let processes = net.processes();
    let (control, key, files) = nonsense::region(&net.outboards[0].path);
    let memory = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
    let blocks = Shared::adopt(files[1].as_fd(), BLOCKS_LEN, false).unwrap();
    let [hostile, deceived] = connected(&processes, false);
    let leased = nonsense::ask(&control, &Request::Lease(hostile.handle, key));
    let Reply::Leased(slot) = leased else { panic!("{leased:?}") };
    let slot = Slot { rings: &memory, blocks: &blocks, index: slot as usize };
    let [near, far] = connected(&processes, true);
    let (contents, is_over) = (contents::<2>(BULK), AtomicBool::new(false));
    let came = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut random, mut taken) = (Random::new(24), 0);
            while !is_over.load(Ordering::Relaxed) {
                let (position, room) = ring::room(&slot, &mut taken, RING_BYTES).unwrap();
                ring::commit(&slot, position, room).unwrap();
                if slot.tell() {
                    send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
                }
                // Of what he changes from the beginning on nothing may come.
                let is_begun = came.load(Ordering::Relaxed) > 0;
                for _ in 0..if is_begun { 1000 } else { 0 } {
                    let at = random.below(RING_BYTES - 8);
                    let [(at, _), _] = places(slot.index, region::Way::Out, at, 8);
                    memory.write(at, &random.next_u64().to_le_bytes());
                }
            }
        });
        scope.spawn(|| {
            // Whatever it is.
            let mut bytes = vec![0; 70_000];
            while !is_over.load(Ordering::Relaxed) {
                let flags = RecvFlags::DONTWAIT;
                let len = recv(&deceived.p, &mut bytes, flags).map_or(0, |(len, _)| len);
                came.fetch_add(len, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // However it ends.
        let _over = Over(&is_over);
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&near, &contents[0], &contents[1]));
            exchange(&far, &contents[1], &contents[0]);
        });
    });
    assert_ne!(came.into_inner(), 0);
    assert_eq!([near.way.is_leased(), far.way.is_leased()], [true; 2]);
    [near, far, hostile, deceived].into_iter().for_each(Socket::close);
    drop(processes);
    net.end();
}

/// The datagram of a number: some go in fragments.
fn datagram(number: u64) -> Vec<u8> {
    let len = match number % 16 {
        0 => 5_000,
        short => 8 + short * 60,
    };
    let mut bytes = vec![0; len as usize];
    Content::new(number).fill(0, &mut bytes);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn datagrams_that_come_were_sent_over_a_link_that_spoils_packets() {
    for is_leased in [true, false] {
        let net = Net::new(20);
        let processes = net.processes();
        let sockets = [0, 1].map(|which: usize| {
            let (p, handle) = processes[which].socket(Kind::Datagram);
            processes[which].client.bind(handle, at(1 + which as u8)).unwrap();
            processes[which].with((p, handle), is_leased)
        });
        // The highest number that each has received.
        let received = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for (which, socket) in sockets.iter().enumerate() {
                let peer = at(2 - which as u8);
                let [own, his] = [which, 1 - which].map(|which| &received[which]);
                scope.spawn(move || {
                    for number in 0..DATAGRAMS {
                        let sent = datagram(number);
                        assert_eq!(socket.send_to(&sent, peer), Ok(sent.len()));
                        // No more are under way than queues hold, however slow the other is; a lost one is not waited for.
                        let paced = Instant::now();
                        while his.load(Ordering::Relaxed) + UNDER_WAY < number
                            && paced.elapsed() < Duration::from_secs(1)
                        {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                    // The last of them say that it is over: of a hundred one comes.
                    for _ in 0..100 {
                        socket.send_to(b"over", peer).unwrap();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                scope.spawn(move || {
                    let (mut came, mut copies, mut bytes) = (BTreeSet::new(), 0, vec![0; 9_000]);
                    loop {
                        let (len, from) = socket.recv_from(&mut bytes).unwrap();
                        assert_eq!(from, peer);
                        if &bytes[..len] == b"over" {
                            break;
                        }
                        let number = bytes[..len].first_chunk().map(|at| u64::from_le_bytes(*at));
                        let number = number.filter(|number| *number < DATAGRAMS).expect("a number");
                        assert!(bytes[..len] == datagram(number), "{number}");
                        own.fetch_max(number, Ordering::Relaxed);
                        copies += u64::from(!came.insert(number));
                    }
                    let count = came.len() as u64;
                    assert!(count > DATAGRAMS * 8 / 10 && count < DATAGRAMS, "{count} came");
                    assert!(copies > 0);
                });
            }
        });
        assert!(sockets.iter().all(|socket| socket.way.is_leased() == is_leased));
        sockets.into_iter().for_each(Socket::close);
        drop(processes);
        net.end();
    }
}
