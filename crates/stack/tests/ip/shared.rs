//! Writes that leave the bytes with the application: the same stream, and memory that comes back.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fusewire_stack::ip::{Bytes, Config, Event, SocketId, Stack, TcpConfig};
use fusewire_testkit::Random;
use fusewire_testkit::link::Impairments;

use crate::lossy::{bad, lossy};
use crate::net::{Kind, Net, kinds, pattern};
use crate::tcp::connected;

/// Pieces of a stream that know how many of them somebody refers to.
#[derive(Clone, Default)]
struct Lent(Arc<AtomicUsize>);

struct Piece {
    bytes: Vec<u8>,
    lent: Lent,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.lent.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lent {
    /// Bytes of the stream at `at`, in memory of their own.
    fn piece(&self, at: usize, len: usize) -> Bytes {
        self.0.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Piece { bytes: pattern(3, at, len), lent: self.clone() })
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A length of any size that matters: of a few bytes, about what is copied, about a segment, more than the send buffer.
fn any_len(random: &mut Random) -> usize {
    let most = *random.pick(&[20, 600, 3000, 70_000, 400_000]);
    1 + random.below(most) as usize
}

/// Writes from a source that may have fewer bytes than there is room for, or none now.
fn filled(stack: &mut Stack, id: SocketId, bytes: &[u8], random: &mut Random) -> usize {
    let has = if random.chance(0.1) { 0 } else { 1 + random.below(bytes.len() as u64) as usize };
    let filled = stack.tcp_write_from(id, bytes.len(), |[a, b]| {
        assert!((1..=bytes.len()).contains(&(a.len() + b.len())));
        let (front, back) = bytes[..has.min(a.len() + b.len())].split_at(has.min(a.len()));
        a[..front.len()].copy_from_slice(front);
        b[..back.len()].copy_from_slice(back);
        if has == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(front.len() + back.len()) }
    });
    filled.unwrap().map_or(0, |filled| filled.unwrap_or(0))
}

/// Writes `len` bytes by every kind of call in any order, and checks what comes out of the other end.
fn mixture(net: &mut Net, ids: (SocketId, SocketId), len: usize, random: &mut Random) -> Lent {
    let lent = Lent::default();
    let (mut written, mut read) = (0, 0);
    let mut next: Option<Bytes> = None;
    let mut out = vec![0; 100_000];
    let end = net.now + Duration::from_secs(900);
    while read < len {
        while written < len {
            let taken = if let Some(piece) = &mut next {
                let taken = net.stacks[0].tcp_write_shared(ids.0, piece).unwrap();
                let _ = piece.split_to(taken);
                next.take_if(|piece| piece.is_empty());
                taken
            } else {
                let piece = any_len(random).min(len - written);
                if random.chance(0.6) {
                    next = Some(lent.piece(written, piece));
                    continue;
                }
                let bytes = pattern(3, written, piece);
                if random.chance(0.5) {
                    net.stacks[0].tcp_write(ids.0, &bytes).unwrap()
                } else {
                    filled(&mut net.stacks[0], ids.0, &bytes, random)
                }
            };
            written += taken;
            if taken == 0 {
                break;
            }
            if random.chance(0.3) {
                net.stacks[0].transmit(net.now).unwrap();
            }
            if random.chance(0.02) {
                net.stacks[0].tcp_keep(ids.0).unwrap();
                assert_eq!(lent.count(), usize::from(next.is_some()), "copied, and referred to");
            }
        }
        net.stacks[0].transmit(net.now).unwrap();
        let before = read;
        while let Some(n) = net.stacks[1].tcp_read(ids.1, &mut out).unwrap() {
            assert!(out[..n] == pattern(3, read, n), "the stream differs at {read}");
            read += n;
        }
        if read == before {
            net.step(Duration::from_secs(1))
        } else {
            net.settle()
        }
        assert!(net.now < end, "{read} of {len} bytes");
    }
    lent
}

/// Lets the last acknowledgement arrive.
fn acknowledged(net: &mut Net, id: SocketId, len: u64) {
    let end = net.now + Duration::from_secs(60);
    while net.stacks[0].tcp_machine(id).unwrap().snd_una_offset() < len && net.now < end {
        net.step(Duration::from_secs(1));
    }
}

#[test]
fn any_mixture_of_writes_is_one_stream() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let impairments = if seed % 5 == 0 { Impairments::default() } else { bad(&mut random) };
        let (v6, offload) = (seed % 2 == 1, seed % 4 < 2);
        let mtu = [1280, 1500, 9000][random.below(3) as usize];
        let mut net = lossy(v6, mtu, offload, &impairments, seed);
        let ids = connected(&mut net, 80);
        let lent = mixture(&mut net, ids, 1_500_000, &mut random);
        acknowledged(&mut net, ids.0, 1_500_000);
        assert_eq!(lent.count(), 0, "all is acknowledged, and nothing is referred to");
        // With a wrong byte, or a sum of other bytes, this counts.
        assert_eq!(net.wire.as_ref().unwrap().lock().unwrap().wrong, 0);
    }
}

#[test]
fn every_kind_of_interface_gathers_it() {
    let mut random = Random::new(7);
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let ids = connected(&mut net, 80);
        let lent = mixture(&mut net, ids, 800_000, &mut random);
        acknowledged(&mut net, ids.0, 800_000);
        assert_eq!(lent.count(), 0, "{kind:?}");
    }
}

/// A path that turns out narrow: what lies with the application is cut again, and summed again.
#[test]
fn pieces_are_cut_anew_for_a_narrow_path() {
    for offload in [false, true] {
        let delay = Duration::from_millis(5);
        let swallows = Impairments { delay, mtu_bytes: 1300, ..Impairments::default() };
        let mut net = lossy(false, 1500, offload, &swallows, 3);
        let ids = connected(&mut net, 80);
        let lent = mixture(&mut net, ids, 300_000, &mut Random::new(9));
        acknowledged(&mut net, ids.0, 300_000);
        assert_eq!(lent.count(), 0);
        assert_eq!(net.wire.as_ref().unwrap().lock().unwrap().wrong, 0);
    }
}

const FAR: Duration = Duration::from_millis(50);

/// Far enough apart that nothing is acknowledged before time passes.
fn apart(buffer: u32) -> (Net, SocketId, SocketId) {
    let mut net =
        lossy(false, 1500, true, &Impairments { delay: FAR, ..Impairments::default() }, 1);
    let listener = net.stacks[1].tcp_listen(net.addr(1, 80), 8).unwrap();
    let config = TcpConfig { send_buffer: buffer, ..net.stacks[0].config().tcp.clone() };
    let to = net.addr(1, 80);
    let client = net.stacks[0].tcp_connect_with(net.now, to, None, &config).unwrap();
    net.run(4 * FAR);
    assert!(net.had(0, client, Event::Connected));
    let (server, _) = net.stacks[1].tcp_accept(listener).unwrap().expect("a connection");
    (net, client, server)
}

#[test]
fn bytes_are_lent_until_they_are_acknowledged() {
    let (mut net, client, server) = apart(1 << 20);
    let lent = Lent::default();
    let pieces: Vec<_> = (0..4).map(|i| lent.piece(i * 1000, 1000)).collect();
    for piece in pieces {
        assert_eq!(net.stacks[0].tcp_write_shared(client, &piece), Ok(1000));
    }
    // Two segments leave, and what does not fill a third waits for their acknowledgement (Nagle).
    net.run(FAR + FAR / 2);
    assert_eq!((lent.count(), net.stacks[1].tcp_room(server).unwrap().0), (4, 2896), "arrived");
    assert!(!net.had(0, client, Event::Acked));
    net.run(FAR);
    assert!(net.had(0, client, Event::Acked));
    assert_eq!(lent.count(), 2, "the third is acknowledged in part, and stays");
    net.run(3 * FAR);
    assert_eq!((lent.count(), net.stacks[1].tcp_room(server).unwrap().0), (0, 4000));
    // A few bytes, and what is one reference too many, are copied at once.
    drop(lent.piece(0, 10));
    let small = lent.piece(4000, 500);
    assert_eq!(net.stacks[0].tcp_write_shared(client, &small), Ok(500));
    drop(small);
    assert_eq!(lent.count(), 0);
}

#[test]
fn references_and_bytes_are_bounded() {
    let (mut net, client, server) = apart(1 << 20);
    let lent = Lent::default();
    let (each, count) = (512, 1500);
    for i in 0..count {
        let piece = lent.piece(i * each, each);
        assert_eq!(net.stacks[0].tcp_write_shared(client, &piece), Ok(each), "{i}");
    }
    assert_eq!(lent.count(), 1024, "the others were copied");
    // The send buffer is what both kinds fill.
    let huge = lent.piece(each * count, 2 << 20);
    assert_eq!(net.stacks[0].tcp_write_shared(client, &huge), Ok((1 << 20) - each * count));
    assert_eq!(net.stacks[0].tcp_write_shared(client, &huge), Ok(0));
    assert_eq!(net.stacks[0].tcp_write(client, &[1]), Ok(0));
    drop(huge);
    let mut out = vec![0; 1 << 20];
    let mut read = 0;
    while read < 1 << 20 {
        net.run(FAR);
        while let Some(n) = net.stacks[1].tcp_read(server, &mut out).unwrap() {
            assert!(out[..n] == pattern(3, read, n), "at {read}");
            read += n;
        }
    }
    net.run(4 * FAR);
    assert!(net.had(0, client, Event::Writable));
    assert_eq!(lent.count(), 0);
}

/// However a connection ends, the application has its memory back.
#[test]
fn every_end_gives_the_bytes_back() {
    let start = || {
        let (mut net, client, server) = apart(1 << 20);
        let lent = Lent::default();
        for i in 0..8 {
            let piece = lent.piece(i * 50_000, 50_000);
            assert_eq!(net.stacks[0].tcp_write_shared(client, &piece), Ok(50_000));
        }
        net.stacks[0].transmit(net.now).unwrap();
        assert_eq!(lent.count(), 8);
        (net, client, server, lent)
    };
    // Reset by us: at once.
    let (mut net, client, _, lent) = start();
    net.stacks[0].abort(net.now, client).unwrap();
    assert_eq!(lent.count(), 0, "abort");
    // By the peer: when its reset arrives.
    let (mut net, _, server, lent) = start();
    net.stacks[1].abort(net.now, server).unwrap();
    net.run(2 * FAR);
    assert_eq!(lent.count(), 0, "reset");
    // Closed: all of it is sent first.
    let (mut net, client, server, lent) = start();
    net.stacks[0].close(net.now, client).unwrap();
    net.settle();
    assert_eq!(lent.count(), 8, "it is still to be sent");
    let (mut out, mut read) = (vec![0; 1 << 20], 0);
    loop {
        net.run(FAR);
        match net.stacks[1].tcp_read(server, &mut out).unwrap() {
            Some(0) => break,
            n => read += n.unwrap_or(0),
        }
    }
    assert_eq!(read, 400_000);
    net.run(2 * FAR);
    assert_eq!(lent.count(), 0, "close");
    // The peer is gone: when patience ends.
    let (mut net, client, _, lent) = start();
    net.stacks[0].tcp_machine(client).unwrap().set_user_timeout(Some(Duration::from_secs(20)));
    net.wire.as_ref().unwrap().lock().unwrap().ways[0].impairments_mut().loss = 1.0;
    net.run(Duration::from_secs(100));
    assert!(net.had(0, client, Event::Closed));
    assert_eq!(lent.count(), 0, "timed out");
    // The stack itself is dropped.
    let (net, _, _, lent) = start();
    drop(net);
    assert_eq!(lent.count(), 0, "drop");
}

/// Packets that were planned when the interface was full, of a connection that then ended: they do not leave, for their
/// bytes are no longer there.
#[test]
fn what_was_planned_does_not_leave_without_its_bytes() {
    let (mut net, client, server) = apart(1 << 20);
    let full = |net: &Net, full| net.wire.as_ref().unwrap().lock().unwrap().full = full;
    let lent = Lent::default();
    let piece = lent.piece(0, 10_000);
    assert_eq!(net.stacks[0].tcp_write_shared(client, &piece), Ok(10_000));
    drop(piece);
    full(&net, true);
    net.stacks[0].transmit(net.now).unwrap();
    assert!(net.stacks[0].is_blocked());
    net.stacks[0].abort(net.now, client).unwrap();
    assert_eq!(lent.count(), 0);
    full(&net, false);
    net.run(4 * FAR);
    let mut out = vec![0; 20_000];
    if let Ok(Some(n)) = net.stacks[1].tcp_read(server, &mut out) {
        assert!(out[..n] == pattern(3, 0, n), "{n} bytes that were never written");
    }
    assert!(net.had(1, server, Event::Closed), "and the peer hears of the reset");
}

const PLAIN: Kind = Kind {
    v6: false,
    link: fusewire_device::interface::Link::Ip,
    checksum: true,
    segmentation: true,
};

#[test]
fn a_stream_that_is_finished_takes_nothing() {
    let mut net = Net::new(PLAIN, 1500, Config::default());
    let (client, _) = connected(&mut net, 80);
    let lent = Lent::default();
    assert_eq!(net.stacks[0].tcp_write_shared(client, &Bytes::new()), Ok(0));
    net.stacks[0].tcp_finish(client).unwrap();
    assert!(net.stacks[0].tcp_write_shared(client, &lent.piece(0, 1000)).is_err());
    assert_eq!(lent.count(), 0);
}
