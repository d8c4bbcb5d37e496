//! What is bounded, what is counted, and what happens when the interface goes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{
    Around, Change, Checksum, Interface, Link, Segmentation, TxPacket,
};
use fusewire_kernels::stages::Swap;
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{Packet, Route, Via};
use fusewire_stack::ip::{Config, Error, Event, Host, HostConfig, SocketId, SocketKind, Stack};
use fusewire_testkit::namespace::{Need, in_namespace};
use fusewire_wire::tcp::{self, Flags, Header};

use crate::host::Counting;
use crate::net::{Kind, Net, addr, kinds, net_config, pattern};
use crate::tcp::{connected, transfer};

const PLAIN: Kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: true };

/// A stack and the bare other end of its interface.
pub fn alone(config: Config) -> (Stack, Memory, Instant) {
    let link = Link::Ip;
    let (a, b) = pair(Pair { link, queue_packets: 100_000, ..Pair::default() }).unwrap();
    let now = Instant::from_ms(5);
    let mut net = net_config(&a, 1);
    net.routes.push(Route { destination: "0.0.0.0/0".parse().unwrap(), gateway: None });
    (Stack::new(Box::new(a), net, config, [7; 32], now), b, now)
}

/// From `source` to the stack, which is the next hop.
pub fn via(source: IpAddr) -> Via {
    Via {
        source,
        destination: addr(false, 1),
        next_hop: addr(false, 1),
        macs: None,
        mtu: 1500,
        may_fragment: false,
        hop_limit: 64,
        loops: false,
        is_shared: false,
        generation: 0,
    }
}

/// A segment from `source` to the stack, on the wire.
pub fn segment(source: IpAddr, header: &Header, payload: &[u8], spoil: bool) -> Vec<u8> {
    let via = via(source);
    let mut out = [0; 200];
    let len = header.emit_len() + payload.len();
    let start = via.emit(&Packet::new(tcp::NUMBER, len), &mut out);
    let header_len = header.emit(&mut out[start..]);
    let head = Sum::of(&out[start..start + header_len]);
    let sum = via.pseudo_header_sum(tcp::NUMBER, len) + head + Sum::of(payload);
    let checksum = sum.checksum() ^ u16::from(spoil);
    out[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    [&out[..start + header_len], payload].concat()
}

pub fn send(from: &mut Memory, packet: &[u8]) {
    let packet = TxPacket {
        header: packet,
        payload: &[],
        checksum: Checksum::InPlace,
        segmentation: Segmentation::None,
    };
    assert_eq!(from.transmit(&[packet]).unwrap(), 1);
}

pub fn drive(stack: &mut Stack, now: Instant) {
    while stack.poll(now).unwrap() {}
}

#[test]
fn a_flood_of_syns_costs_cookies_and_nothing_else() {
    let (mut stack, mut other, mut now) = alone(Config { max_sockets: 64, ..Config::default() });
    let listener = stack.tcp_listen((addr(false, 1), 80).into(), 16).unwrap();
    let mut answers = 0;
    for i in 0..20_000u32 {
        let source = IpAddr::from((0x0a00_0000 + i).to_be_bytes());
        let header = Header {
            src_port: 1000 + (i % 50_000) as u16,
            dst_port: 80,
            seq: Seq(i),
            flags: Flags::SYN,
            window: 1000,
            ..Header::default()
        };
        send(&mut other, &segment(source, &header, &[], i % 10 == 9));
        if i % 50 == 0 {
            now += Duration::from_micros(100);
            drive(&mut stack, now);
            answers += other.receive().unwrap();
        }
    }
    drive(&mut stack, now);
    assert_eq!(stack.sockets(), 1, "no half-open connection is a socket");
    let counters = *stack.counters();
    assert_eq!(counters.drops.of(Cause::Checksum), 2000);
    assert!(counters.cookies > 15_000 && answers > 0, "{counters:?}");
    let snapshot = stack.snapshot();
    match &snapshot.sockets[..] {
        [one] if one.id == listener => match one.kind {
            SocketKind::Listener { half_open, .. } => assert!(half_open <= 16),
            _ => panic!("{one:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn strays_are_answered_within_limits() {
    let (mut stack, mut other, now) = alone(Config::default());
    for i in 0..20_000u16 {
        let header =
            Header { src_port: i.max(1), dst_port: 9, flags: Flags::ACK, ..Header::default() };
        send(&mut other, &segment(addr(false, 0), &header, b"x", false));
        if i % 50 == 0 {
            drive(&mut stack, now);
        }
    }
    drive(&mut stack, now);
    let mut answers = 0;
    while let n @ 1.. = other.receive().unwrap() {
        answers += n;
    }
    assert_eq!(stack.counters().drops.of(Cause::Stray), 20_000);
    assert!((1..=2000).contains(&answers), "{answers} resets in no time at all");
}

#[test]
fn a_socket_table_that_is_full_says_so() {
    let mut net = Net::new(PLAIN, 1500, Config { max_sockets: 4, ..Config::default() });
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 100).unwrap();
    let clients: Vec<_> =
        (0..4).map(|_| net.stacks[0].tcp_connect(net.now, net.addr(1, 80)).unwrap()).collect();
    assert_eq!(net.stacks[0].tcp_connect(net.now, net.addr(1, 80)), Err(Error::TooManySockets));
    net.settle();
    let reset =
        clients.iter().filter(|id| net.stacks[0].tcp_read(**id, &mut [0]) == Err(Error::Reset));
    assert_eq!(reset.count(), 1, "three fit beside the listener");
    assert_eq!(
        (net.stacks[1].counters().drops.of(Cause::TooManySockets), net.stacks[1].sockets()),
        (1, 4)
    );
    for _ in 0..3 {
        assert!(net.stacks[1].tcp_accept(listener).unwrap().is_some());
    }
}

#[test]
fn a_full_table_makes_room_of_what_waits_for_strays() {
    let mut net = Net::new(PLAIN, 1500, Config { max_sockets: 3, ..Config::default() });
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 100).unwrap();
    let connect = |net: &mut Net, close: bool| {
        let client = net.stacks[0].tcp_connect(net.now, net.addr(1, 80));
        net.settle();
        if let Some((server, _)) = net.stacks[1].tcp_accept(listener).unwrap()
            && close
        {
            net.stacks[0].close(net.now, client.unwrap()).unwrap();
            net.settle();
            net.stacks[1].close(net.now, server).unwrap();
            net.settle();
        }
        client
    };
    // One is over by its time, and one still waits in TIME-WAIT when there is no more room.
    connect(&mut net, true).unwrap();
    assert_eq!(net.stacks[0].sockets(), 1);
    net.run(Duration::from_secs(100));
    assert_eq!(net.stacks[0].sockets(), 0);
    connect(&mut net, true).unwrap();
    connect(&mut net, false).unwrap();
    connect(&mut net, false).unwrap();
    assert_eq!(net.stacks[0].sockets(), 3);
    connect(&mut net, false).expect("the one in TIME-WAIT makes room");
    assert_eq!(connect(&mut net, false), Err(Error::TooManySockets));
}

#[test]
fn a_udp_queue_that_is_full_drops_and_counts() {
    let config = Config { udp_queue_bytes: 64 << 10, udp_queue_entries: 8, ..Config::default() };
    // Twice as long where its owner wants it to be, and never shorter than its least memory.
    for (asked, kept) in [(None, 800), (Some(128 << 10), 1600), (Some(4096), 800)] {
        let mut net = Net::new(PLAIN, 1500, config.clone());
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        if let Some(bytes) = asked {
            net.stacks[1].udp_set_receive_buffer(server, bytes).unwrap();
        }
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let to = Some(net.addr(1, 7));
        for _ in 0..20 {
            net.stacks[0].udp_send_batch(net.now, client, &[1; 1000], 10, to).unwrap().unwrap();
        }
        net.settle();
        let counters = *net.stacks[1].counters();
        assert_eq!(
            (counters.drops.of(Cause::UdpOverflow), counters.udp_messages_received),
            (2000 - kept, kept)
        );
        let mut read = 0;
        while net.stacks[1].udp_recv(server, &mut [0; 10]).unwrap().is_some() {
            read += 1;
        }
        assert_eq!(read, kept);
    }
}

#[test]
fn who_asks_for_room_has_it_for_small_datagrams_too() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
    net.stacks[1].udp_set_receive_buffer(server, 64 << 10).unwrap();
    let to = Some(net.addr(1, 7));
    for _ in 0..200 {
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        assert_eq!(net.stacks[0].udp_send(net.now, client, &[1; 60], to).unwrap(), Ok(true));
    }
    net.settle();
    let counters = net.stacks[1].counters();
    assert_eq!((counters.drops.of(Cause::UdpOverflow), counters.udp_messages_received), (0, 200));
}

#[test]
fn pipelines_run_while_messages_move() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let to = Some(net.addr(1, 7));
        let (swap, sent) = (Swap::<4>, pattern(2, 0, 4000));
        let swapped: Vec<u8> = sent.chunks(4).flat_map(|w| [w[3], w[2], w[1], w[0]]).collect();
        for queued in [true, false] {
            // Through the pipeline when it leaves, and plain in a batch.
            for message in sent.chunks(400) {
                let (now, stack) = (net.now, &mut net.stacks[0]);
                stack.udp_send_with(now, client, &swap, message, to).unwrap().unwrap();
            }
            net.stacks[0].udp_send_batch(net.now, client, &sent, 400, to).unwrap().unwrap();
            if queued {
                net.settle();
            }
            let mut memory = vec![0; 8000];
            let mut places = Vec::new();
            let mut filled = 0;
            while filled < 8000 {
                let (now, stack) = (net.now, &mut net.stacks[1]);
                let more = stack
                    .udp_recv_with(now, server, &swap, &mut memory[filled..], |_, range| {
                        places.push(range);
                    })
                    .unwrap()
                    .unwrap();
                assert!(more > 0, "{kind:?}: {filled} bytes");
                filled += more;
            }
            assert_eq!(places.len(), 20, "{kind:?}");
            assert!(memory[..4000] == sent && memory[4000..] == swapped, "{kind:?}");
        }
    }
}

#[test]
fn a_live_view_shows_what_there_is() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    transfer(&mut net, 0, (client, server), 100_000, 5000, false);
    net.run(Duration::from_millis(100));
    let snapshot = net.stacks[0].snapshot();
    let view = snapshot.sockets.iter().find(|view| view.id == client).unwrap();
    assert_eq!(view.remote, Some(net.addr(1, 80)));
    match &view.kind {
        SocketKind::Stream { info, closed: false, unread: 0, .. } => {
            assert_eq!(info.counters.bytes_acked, 100_000);
        }
        other => panic!("{other:?}"),
    }
    let trace = net.stacks[0].tcp_trace(client).unwrap();
    assert!(trace.len() > 10 && trace.windows(2).all(|pair| pair[0].at <= pair[1].at));
    net.stacks[0].abort(net.now, client).unwrap();
    assert!(net.had(0, client, Event::Connected));
}

/// A stack with a connection in TIME-WAIT from port 80 to 192.0.2.1:1000, its listener, and the segment that the peer
/// sends next.
fn in_time_wait() -> (Stack, Memory, Instant, SocketId, Header) {
    let (mut stack, mut other, now) = alone(Config::default());
    let listener = stack.tcp_listen((addr(false, 1), 80).into(), 16).unwrap();
    let mut header = Header {
        src_port: 1000,
        dst_port: 80,
        seq: Seq(5000),
        flags: Flags::SYN,
        window: 1000,
        ..Header::default()
    };
    let mut say = |stack: &mut Stack, header: &Header| -> Header {
        send(&mut other, &segment(addr(false, 0), header, &[], false));
        drive(stack, now);
        last_of(&mut other).unwrap_or_default()
    };
    let answer = say(&mut stack, &header);
    (header.seq, header.ack, header.flags) = (Seq(5001), answer.seq + 1, Flags::ACK);
    say(&mut stack, &header);
    let (server, _) = stack.tcp_accept(listener).unwrap().unwrap();
    stack.close(now, server).unwrap();
    drive(&mut stack, now);
    header.flags = Flags::FIN | Flags::ACK;
    header.ack += 1;
    say(&mut stack, &header);
    assert_eq!(stack.sockets(), 2, "the listener and one in TIME-WAIT");
    // It begins anew, beyond all that it sent before.
    let syn = Header { seq: Seq(900_000), ack: Seq(0), flags: Flags::SYN, ..header };
    (stack, other, now, listener, syn)
}

/// The last segment that came out.
fn last_of(other: &mut Memory) -> Option<Header> {
    let mut last = None;
    while let n @ 1.. = other.receive().unwrap() {
        for i in 0..n {
            last = Header::parse(&other.packet(i).bytes[20..]).ok();
        }
    }
    last
}

/// RFC 6191 lets a SYN end TIME-WAIT for a new connection: one that is what it says, and that somebody takes.
#[test]
fn a_syn_ends_time_wait_only_when_it_begins_a_connection() {
    let (mut stack, mut other, now, _, syn) = in_time_wait();
    send(&mut other, &segment(addr(false, 0), &syn, &[], true));
    drive(&mut stack, now);
    assert_eq!(stack.sockets(), 2, "a wrong checksum is as though nothing had come");
    assert_eq!(last_of(&mut other), None);
    send(&mut other, &segment(addr(false, 0), &syn, &[], false));
    drive(&mut stack, now);
    assert_eq!(stack.sockets(), 1, "the new handshake is the listener's");
    let answer = last_of(&mut other).unwrap();
    assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, Seq(900_001)));

    let (mut stack, mut other, now, listener, syn) = in_time_wait();
    stack.close(now, listener).unwrap();
    send(&mut other, &segment(addr(false, 0), &syn, &[], false));
    drive(&mut stack, now);
    assert_eq!(stack.sockets(), 1, "nobody listens: it stays in TIME-WAIT");
    let answer = last_of(&mut other);
    assert!(answer.is_none_or(|answer| !answer.flags.has(Flags::RST)), "{answer:?}");
}

/// What an interface that is gone says.
const GONE: io::ErrorKind = io::ErrorKind::NotFound;

/// An interface that can go.
struct Mortal {
    inner: Memory,
    gone: Arc<AtomicBool>,
    /// It says so, and gives no error.
    tells: bool,
    error: io::ErrorKind,
    /// To sleep on, in place of its own.
    fd: Option<OwnedFd>,
}

impl Mortal {
    fn check(&self) -> io::Result<()> {
        if self.gone.load(Ordering::Acquire) && !self.tells {
            return Err(self.error.into());
        }
        Ok(())
    }
}

impl Around for Mortal {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.check()?;
        self.inner.transmit(packets)
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.check()?;
        self.inner.receive()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).or_else(|| self.inner.as_fd())
    }

    fn poll_change(&mut self) -> Option<Change> {
        (self.tells && self.gone.swap(false, Ordering::AcqRel)).then_some(Change::Gone)
    }
}

#[test]
fn a_link_that_is_said_to_be_deleted_is_an_error_though_it_gives_none() {
    let (inner, _other) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let net = net_config(&inner, 1);
    let mortal = Mortal { inner, gone: gone.clone(), tells: true, error: GONE, fd: None };
    let mut now = Instant::from_ms(5);
    let mut stack = Stack::new(Box::new(mortal), net, Config::default(), [7; 32], now);
    drive(&mut stack, now);
    gone.store(true, Ordering::Release);
    now += Duration::from_millis(20);
    assert_eq!(stack.poll(now).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_link_that_is_down_loses_what_is_sent_and_comes_back() {
    let (inner, mut other) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let down = Arc::new(AtomicBool::new(true));
    let (net, error) = (net_config(&inner, 1), io::ErrorKind::NetworkDown);
    let mortal = Mortal { inner, gone: down.clone(), tells: false, error, fd: None };
    let now = Instant::from_ms(5);
    let mut stack = Stack::new(Box::new(mortal), net, Config::default(), [7; 32], now);
    let socket = stack.udp_bind((addr(false, 1), 7).into()).unwrap();
    let peer = Some((addr(false, 0), 7).into());
    assert_eq!(stack.udp_send(now, socket, b"lost", peer).unwrap(), Ok(true));
    drive(&mut stack, now);
    assert_eq!(other.receive().unwrap(), 0);
    down.store(false, Ordering::Release);
    assert_eq!(stack.udp_send(now, socket, b"sent", peer).unwrap(), Ok(true));
    assert_eq!(other.receive().unwrap(), 1);
    assert!(other.packet(0).bytes.ends_with(b"sent"));
}

#[test]
fn nothing_hangs_when_the_interface_goes() {
    let (a, mut b) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let net = net_config(&a, 1);
    let mortal = Mortal { inner: a, gone: gone.clone(), tells: false, error: GONE, fd: None };
    let host = Host::new(Box::new(mortal), net, HostConfig::default()).unwrap();
    let socket = host.udp_bind((addr(false, 1), 7).into()).unwrap();
    let listener = host.tcp_listen((addr(false, 1), 80).into(), 8).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| socket.recv_from(&mut [0; 8]).map(|_| ()));
        let accepts = scope.spawn(|| listener.accept().map(|_| ()));
        std::thread::sleep(Duration::from_millis(50));
        gone.store(true, Ordering::Release);
        // Whoever sleeps on it is woken, as by a TAP that was deleted.
        let pieces = [IoSlice::new(&[])];
        let packet = TxPacket {
            header: &[0x45; 20],
            payload: &pieces,
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        };
        b.transmit(&[packet]).unwrap();
        for result in [waits.join().unwrap(), accepts.join().unwrap()] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    });
    assert!(host.udp_bind((addr(false, 1), 8).into()).is_err());
}

/// Processor time that this process has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Async callers are told too, and nothing runs on for a device that is gone while its descriptor is readable for ever.
#[test]
fn tasks_hear_that_the_interface_is_gone_and_nothing_burns() {
    let test = "bounds::tasks_hear_that_the_interface_is_gone_and_nothing_burns";
    in_namespace(test, Need::Namespace, "", || {
        let (a, mut b) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let net = net_config(&a, 1);
        let mortal = Mortal { inner: a, gone: gone.clone(), tells: false, error: GONE, fd: None };
        let host = Host::new(Box::new(mortal), net, HostConfig::default()).unwrap();
        let socket = host.udp_bind((addr(false, 1), 7).into()).unwrap();
        let listener = host.tcp_listen((addr(false, 1), 80).into(), 8).unwrap();
        let [alive, woken] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let waker = Counting::waker(&alive, &woken);
        let context = &mut Context::from_waker(&waker);
        let mut out = [0; 8];
        let (mut waits, mut accepts) =
            (pin!(socket.recv_from_async(&mut out)), pin!(listener.accept_async()));
        assert!(waits.as_mut().poll(context).is_pending());
        assert!(accepts.as_mut().poll(context).is_pending());
        gone.store(true, Ordering::Release);
        send(&mut b, &[0x45; 20]);
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while woken.load(Ordering::SeqCst) < 2 {
            assert!(std::time::Instant::now() < end, "both are woken");
            std::thread::sleep(Duration::from_millis(1));
        }
        for result in [waits.poll(context).map_ok(|_| ()), accepts.poll(context).map_ok(|_| ())] {
            let Poll::Ready(Err(error)) = result else { panic!("{result:?}") };
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        let before = used();
        std::thread::sleep(Duration::from_millis(300));
        let used = used() - before;
        assert!(used < Duration::from_millis(50), "{used:?} of 300 ms");
    });
}

/// A descriptor that is in error for ever, though the interface gives none: what comes is taken all the same, and nothing
/// burns.
#[test]
fn a_descriptor_in_error_burns_nothing() {
    in_namespace("bounds::a_descriptor_in_error_burns_nothing", Need::Namespace, "", || {
        for waiting in [false, true] {
            let (inner, mut other) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
            let (hung_up, _) = io::pipe().unwrap();
            let net = net_config(&inner, 1);
            let fd = Some(OwnedFd::from(hung_up));
            let mortal = Mortal { inner, gone: Arc::default(), tells: false, error: GONE, fd };
            let host = Host::new(Box::new(mortal), net, HostConfig::default()).unwrap();
            let socket = host.udp_bind((addr(false, 1), 7).into()).unwrap();
            std::thread::scope(|scope| {
                let waits = waiting.then(|| scope.spawn(|| socket.recv_from(&mut [0; 8]).unwrap()));
                std::thread::sleep(Duration::from_millis(50));
                let before = used();
                std::thread::sleep(Duration::from_millis(300));
                let used = used() - before;
                assert!(used < Duration::from_millis(100), "{used:?} of 300 ms");
                let via = via(addr(false, 0));
                let mut datagram = [0; 28];
                via.emit(&Packet::new(17, 8), &mut datagram);
                datagram[20..].copy_from_slice(&[0, 9, 0, 7, 0, 8, 0, 0]);
                send(&mut other, &datagram);
                let got = waits.map(|waits| waits.join().unwrap());
                let got = got.unwrap_or_else(|| socket.recv_from(&mut [0; 8]).unwrap());
                assert_eq!(got.len, 0);
            });
        }
    });
}
