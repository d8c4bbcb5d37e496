//! Whoever sends what he likes: nothing that fails is told, what was placed of it is wiped, and nothing grows.

use std::collections::HashSet;
use std::io::IoSlice;
use std::time::Duration;

use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_stack::TraceKind;
use fusewire_stack::context::{
    About, Check, Context, ControlBlock, Event, Facts, Kind, Placement, Scatter,
};
use fusewire_transport::machine::DropCause;
use fusewire_wire::xtp::{self, Address, Body, First, Header, Key, Limits, Options, Service};
use fusewire_wire::xtp::{SpanList, Traffic};

use crate::world::{SERVICE, World, addrs, block, content};

/// Memory that is not zero, and who has asked for it.
struct Marked {
    memory: Vec<u8>,
    asked: usize,
}

impl Placement for Marked {
    fn place<'a>(&'a mut self, _: Context, facts: &Facts, into: &mut Scatter<'a>) {
        self.asked += 1;
        into.push(&mut self.memory[facts.offset as usize..][..facts.len]);
    }
}

/// Packets with a bit that is wrong, of each kind and at each place: nothing of them stays where they were placed, and the
/// context's trace has each that it dropped, with the cause under which it was counted.
#[test]
fn what_fails_is_wiped_and_not_told() {
    for check in [Check::Internet, Check::Cxor] {
        let block = ControlBlock { check, tags: true, receive_bytes: 32 << 10, ..block() };
        let mut world = World::new();
        let context = world.open(block.clone(), block);
        world.ends[0].send(context, b"hello", About::default());
        world.run(5, |world| world.ends[1].messages.len() == 1);
        world.run_for(Duration::from_millis(10));
        world.ends[0].log.lock().unwrap().clear();
        world.ends[0].lose.store(1, std::sync::atomic::Ordering::Relaxed);
        let about = About { tag: Some(7), sort: None };
        let pieces = [IoSlice::new(b"some "), IoSlice::new(b"message")];
        assert!(world.ends[0].contexts.send(context, &pieces, about).unwrap());
        world.ends[0].contexts.flush();
        let packet = world.ends[0].log.lock().unwrap()[0].clone();
        // The first end goes, and somebody has its address.
        let (mut asked, mut causes) = (0, HashSet::new());
        let (network, called) = (world.network.clone(), world.called());
        let [first, mut second] = world.ends;
        drop(first);
        let mut forger = network.attach(addrs()[0]).unwrap();
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let frame =
                TxFrame { peer: addrs()[1], header: &forged, payload: &[], ecn: Ecn::NotEct };
            forger.transmit(&[frame]).unwrap();
            let mut marked = Marked { memory: vec![0xaa; 64 << 10], asked: 0 };
            let before = second.contexts.info(called).unwrap().counters.drops;
            second.poll(&mut marked);
            asked += marked.asked;
            let after = second.contexts.info(called).unwrap().counters.drops;
            let dropped =
                DropCause::ALL.iter().find(|cause| after.of(**cause) > before.of(**cause));
            if let Some(cause) = dropped {
                let trace = second.contexts.trace(called).unwrap();
                let is_drop = |kind: &TraceKind| matches!(kind, TraceKind::Dropped(_));
                let last = trace.iter().map(|entry| entry.kind).rfind(is_drop);
                assert_eq!(last, Some(TraceKind::Dropped(*cause)), "bit {bit}");
                causes.insert(cause.name());
            }
            assert_eq!(second.messages.len(), 1, "bit {bit}");
            let touched: Vec<u8> = marked.memory.iter().copied().filter(|b| *b != 0xaa).collect();
            assert!(touched.iter().all(|byte| *byte == 0), "bit {bit} left {touched:?}");
        }
        assert!(asked > 12 * 8, "data were placed before they were judged: {asked}");
        let some = ["checksum", "protocol"];
        assert!(some.iter().all(|cause| causes.contains(cause)), "{causes:?}");
        // The right one is still taken.
        let frame = TxFrame { peer: addrs()[1], header: &packet, payload: &[], ecn: Ecn::NotEct };
        forger.transmit(&[frame]).unwrap();
        let mut marked = Marked { memory: vec![0; 64 << 10], asked: 0 };
        second.poll(&mut marked);
        assert_eq!(second.messages[1].1.tag, Some(7));
        assert_eq!(marked.memory[5..17], *b"some message");
    }
}

fn first(key: u64, service: u16, data: &[u8]) -> Vec<u8> {
    first_with(Options::SREQ, Service::Stream, key, service, data)
}

fn first_with(options: Options, kind: Service, key: u64, service: u16, data: &[u8]) -> Vec<u8> {
    let limits = Limits { maxdata: 1368, ..Limits::default() };
    let header = Header::<SpanList<1>> {
        key: Key::new(key).unwrap(),
        returned: false,
        options,
        check: 0,
        sort: 0,
        sync: 1,
        seq: 0,
        data_len: data.len() as u32,
        body: Body::First(First {
            address: Address::in_udp(service),
            traffic: Traffic { service: kind, limits: Some(limits) },
            xkey: None,
            btag: None,
        }),
    };
    let mut packet = vec![0; header.emit_len()];
    header.emit(&mut packet);
    packet.extend(data);
    xtp::seal(&mut packet);
    packet
}

/// A flood of FIRSTs of one address: contexts that are half open have a bound, beyond it there are cookies; and of who
/// asks for what nobody has no more than 100 a second are told so.
#[test]
fn a_flood_makes_no_more_contexts_than_the_bound() {
    let mut world = World::new();
    world.listen(block());
    let network = world.network.clone();
    let mut flood = network.attach(([192, 0, 2, 9], 9).into()).unwrap();
    let mut send = |packet: &[u8]| {
        let frame = TxFrame { peer: addrs()[1], header: packet, payload: &[], ecn: Ecn::NotEct };
        flood.transmit(&[frame]).unwrap();
    };
    for key in 1..5000 {
        send(&first(key << 20 | key, SERVICE, &content(1, 900)));
        if key % 50 == 0 {
            world.ends[1].poll(&mut fusewire_stack::context::Kept);
        }
    }
    let take_all = |world: &mut World| {
        for _ in 0..1000 {
            world.ends[1].poll(&mut fusewire_stack::context::Kept);
        }
    };
    take_all(&mut world);
    let open = world.ends[1].contexts.count();
    assert!((1..=256).contains(&open), "{open} contexts");
    let before = world.ends[1].log.lock().unwrap().len();
    for key in 1..1000 {
        send(&first(key << 40 | key, 99, &[]));
        send(&{
            // DATA to keys that nobody has.
            let mut packet = vec![0; 64];
            packet[..8].copy_from_slice(&(key | 1 << 63).to_be_bytes());
            packet[8..16].copy_from_slice(&[0, 0, 0, 0x20, 0, 0, 0, 32]);
            xtp::seal(&mut packet);
            packet
        });
    }
    take_all(&mut world);
    let told = world.ends[1].log.lock().unwrap().len() - before;
    assert_eq!(told, 100, "DIAGs");
    // Half-open contexts end.
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.ends[1].contexts.count(), 0);
}

/// Sends these to the second end, as somebody whom it does not know, and lets it look.
fn tell(world: &mut World, packets: &[Vec<u8>]) {
    let mut other = world.network.attach(([192, 0, 2, 9], 9).into()).unwrap();
    for packet in packets {
        let frame = TxFrame { peer: addrs()[1], header: packet, payload: &[], ecn: Ecn::NotEct };
        other.transmit(&[frame]).unwrap();
    }
    world.ends[1].poll(&mut fusewire_stack::context::Kept);
}

/// A FIRST whose check is wrong, in its head or in its data, and one to many: no context, no event, no word. As it should
/// be it opens one.
#[test]
fn who_asks_wrongly_opens_nothing_and_is_told_nothing() {
    for service in [SERVICE, 99] {
        let mut world = World::new();
        world.listen(block());
        let right = first(77, service, b"some data");
        let broken = [17, right.len() - 1].map(|at| {
            let mut broken = right.clone();
            broken[at] ^= 4;
            broken
        });
        let many = Options::SREQ | Options::MULTI;
        let many = first_with(many, Service::Stream, 78, service, b"some data");
        for packet in broken.into_iter().chain([many]) {
            tell(&mut world, &[packet]);
            let end = &world.ends[1];
            assert_eq!((end.contexts.count(), end.heard.len()), (0, 0), "service {service}");
            assert!(end.log.lock().unwrap().is_empty(), "service {service}");
        }
        // An address of a format that nobody has is refused for its form, whoever listens.
        let mut unfit = right.clone();
        unfit[35] = 2;
        xtp::seal(&mut unfit);
        tell(&mut world, &[unfit]);
        let end = &world.ends[1];
        let told = std::mem::take(&mut *end.log.lock().unwrap());
        assert_eq!((end.contexts.count(), told.len()), (0, 1), "service {service}");
        let malformed =
            end.contexts.drops().named().find(|(name, _)| *name == "transport-malformed");
        // It, and the one to many.
        assert_eq!(malformed.map(|(_, n)| n), Some(2), "service {service}");
        tell(&mut world, &[right]);
        let end = &world.ends[1];
        assert_eq!(end.contexts.count(), usize::from(service == SERVICE));
        assert_eq!(end.log.lock().unwrap().len(), 1, "an answer, or a refusal");
    }
}

/// A request of which no more comes is forgotten, and nobody hears of it.
#[test]
fn a_request_that_stays_a_piece_is_never_told() {
    let mut world = World::new();
    world.listen(ControlBlock { kind: Kind::Transaction, ..block() });
    let piece = first_with(Options::SREQ, Service::Transaction, 79, SERVICE, &content(1, 900));
    tell(&mut world, &[piece]);
    assert_eq!(world.ends[1].contexts.count(), 1);
    world.run_for(Duration::from_secs(60));
    assert_eq!((world.ends[1].contexts.count(), world.ends[1].heard.len()), (0, 0));
}

/// The key of a context that is gone finds nothing, though another context has its place.
#[test]
fn a_key_goes_with_its_context() {
    let mut world = World::new();
    let before = world.open(block(), block());
    world.ends[0].send(before, b"hello", About::default());
    world.run(5, |world| world.ends[0].heard(&Event::Open) == 1);
    let called = world.called();
    world.ends[1].send(called, &content(1, 500), About::default());
    world.run(5, |world| world.ends[0].messages.len() == 1);
    let log = world.ends[1].log.lock().unwrap().clone();
    let late = log.into_iter().rfind(|packet| packet.len() > 500).unwrap();
    assert!(late[0] & 0x80 != 0, "under the key of whom it is for");
    world.ends[0].contexts.abort(before);
    world.run(5, |world| world.ends[0].contexts.count() == 0);
    let after = world.connect(block());
    world.run(5, |world| world.ends[0].heard(&Event::Open) == 2);
    world.run_for(Duration::from_millis(10));
    let seen = |world: &World| world.ends[0].contexts.trace(after).unwrap().len();
    let entries = seen(&world);
    let network = world.network.clone();
    let [mut first, second] = world.ends;
    drop(second);
    let mut forger = network.attach(addrs()[1]).unwrap();
    let frame = TxFrame { peer: addrs()[0], header: &late, payload: &[], ecn: Ecn::NotEct };
    forger.transmit(&[frame]).unwrap();
    first.poll(&mut fusewire_stack::context::Kept);
    assert_eq!(first.contexts.trace(after).unwrap().len(), entries);
}

/// Anything at all, from anybody, with keys that are right.
#[test]
fn any_bytes_are_survived() {
    let mut random = 88_172_645_463_325_252u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut world = World::new();
    let context = world.open(block(), block());
    world.ends[0].send(context, &content(1, 3000), About::default());
    world.run(5, |world| world.ends[1].messages.len() == 1);
    let network = world.network.clone();
    let mut other = network.attach(([192, 0, 2, 9], 9).into()).unwrap();
    for _ in 0..20_000 {
        let seen = world.ends[0].log.lock().unwrap().clone();
        let mut packet = seen[next() as usize % seen.len()].clone();
        packet.truncate(40 + next() as usize % 100);
        for _ in 0..next() % 4 {
            let at = 8 + next() as usize % (packet.len() - 8);
            packet[at] = next() as u8;
        }
        let dlen = (packet.len() - 32) as u32;
        packet[12..16].copy_from_slice(&dlen.to_be_bytes());
        xtp::seal(&mut packet);
        let frame = TxFrame { peer: addrs()[1], header: &packet, payload: &[], ecn: Ecn::NotEct };
        other.transmit(&[frame]).unwrap();
        world.ends[1].poll(&mut fusewire_stack::context::Kept);
    }
    // From another address a key is nothing.
    world.ends[0].send(context, &content(2, 9000), About::default());
    world.run(60, |world| {
        world.ends[1].messages.iter().filter(|m| m.2 == content(2, 9000)).count() == 1
    });
}
