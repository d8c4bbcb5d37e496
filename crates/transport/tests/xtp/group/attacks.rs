//! Packets of others, with each number wrong: they change nothing.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Random, for_each_seed_of};
use fusewire_transport::xtp::Header;
use fusewire_transport::xtp::group::{Sender, SenderConfig, SenderEvent, To};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, JoinControl, Key, Options, Reason, Service, Span, SpanList,
    Traffic, TrafficControl,
};

use super::world::{Lie, SENDER, World};
use super::{loss, slow};
use crate::frame::Frame;

/// A packet that was sent, with something in it that makes it nobody's; and whether it is to come from another address.
fn forge(random: &mut Random, frame: &Frame) -> Option<(Frame, bool)> {
    let (mut header, data) = frame.parse()?;
    let far = 1 << random.range(32..60);
    match random.below(7) {
        0 => return Some((frame.clone(), true)),
        1 => header.key = Key::new(random.next_u64() | 1)?,
        2 => header.returned = !header.returned,
        3 if header.body.control().is_none() => header.sync = header.sync.wrapping_add(1 << 20),
        4 if data.is_empty() => header.seq += far,
        5 if !data.is_empty() => header.seq += far,
        _ => match &mut header.body {
            Body::Cntl(control) | Body::Ecntl(control, _) => {
                *control = match random.below(3) {
                    0 => Control { echo: control.echo.wrapping_add(1 << 17), ..*control },
                    1 => Control { rseq: far, alloc: 2 * far, ..*control },
                    _ => Control { alloc: control.rseq + (1 << 40), ..*control },
                };
                if random.chance(0.3) {
                    let mut spans = SpanList::new(control.rseq);
                    spans.push(Span {
                        left: control.rseq + (1 << 30),
                        right: control.rseq + (1 << 31),
                    });
                    header.body = Body::Ecntl(*control, spans);
                }
            }
            Body::Jcntl(join) if !header.options.has(Options::SREQ) => {
                join.traffic.control.echo = join.traffic.control.echo.wrapping_add(9);
            }
            Body::Data { .. } => {
                let reason = Reason::Unspecified;
                header.body = Body::Diag(Diag { code: Code::ContextAbandoned, reason });
                (header.options, header.data_len) = (Options::NONE, 0);
                return Some((Frame::forged(&header, &[]), true));
            }
            _ => return None,
        },
    }
    // What is malformed by that is not read at all.
    Some((Frame::forged(&header, data), false)).filter(|(frame, _)| frame.parse().is_some())
}

#[test]
fn forged_packets_change_nothing() {
    for_each_seed_of(100, "group::attacks::forged_packets_change_nothing", |_, random| {
        let mut scenario = loss::scenario(random);
        scenario.limit = Duration::from_secs(36_000);
        let mut world = World::new(&scenario, random);
        world.keeps_packets = true;
        let mut random = random.fork();
        world.run_with(|world| {
            if world.packets.len() > 64 {
                world.packets.drain(..32);
            }
            if world.packets.is_empty() || !random.chance(0.3) {
                return;
            }
            let frame = world.packets[random.below(world.packets.len() as u64) as usize].clone();
            let Some((forged, elsewhere)) = forge(&mut random, &frame) else { return };
            let stranger = ([10, 9, 9, 9], 4000).into();
            let n = random.below(world.sides.len() as u64) as usize;
            let addr = world.sides[n].addr;
            let from = if elsewhere { stranger } else { addr };
            // What was a receiver's, and is told to come from another, may be the other's own.
            if forged.parse().is_some_and(|(h, _)| !matches!(h.body, Body::Jcntl(_))) {
                world.arrive_at_sender(from, &forged);
            }
            let from = if elsewhere { stranger } else { SENDER.into() };
            world.arrive_at_from(n, from, &forged);
        });
        world.assert_all_have_all();
    });
}

/// Who says that it has what it has not, or is another, is left behind; the others have all, and wait no longer than for
/// one that is slow.
#[test]
fn who_lies_about_what_has_come_harms_nobody_but_itself() {
    for lie in [Lie::HasAll, Lie::HasNothing, Lie::IsAnother] {
        for_each_seed_of(8, "group::attacks::who_lies_about_what_has_come", |_, random| {
            let mut scenario = slow::scenario(random, 0.01);
            scenario.plans[0].lies = Some(lie);
            slow::run(&scenario, random);
        });
    }
}

/// A member's report to the sender's key for it: what it has below `rseq`, and beyond it.
pub fn report(id: Key, (rseq, echo): (u64, u32), spans: &[(u64, u64)]) -> Header {
    let control = Control { rseq, alloc: rseq + (1 << 21), echo };
    let mut named = SpanList::new(rseq);
    for (left, right) in spans {
        named.push(Span { left: *left, right: *right });
    }
    let body = if spans.is_empty() { Body::Cntl(control) } else { Body::Ecntl(control, named) };
    Header { options: Options::MULTI, body, ..jcntl(id, 9) }
}

/// A JCNTL with a key of its own.
pub fn jcntl(sender: Key, key: u64) -> Header {
    let traffic = TrafficControl {
        control: Control { rseq: 0, alloc: 0, echo: 0 },
        delay_us: 0,
        xkey: Key::new(key).expect("not zero"),
        traffic: Traffic { service: Service::Multicast, limits: None },
    };
    Header {
        key: sender,
        returned: true,
        options: Options::MULTI | Options::SREQ,
        check: 0,
        sort: 0,
        sync: key as u32,
        seq: 0,
        data_len: 0,
        body: Body::Jcntl(JoinControl { traffic, address: Address::in_udp(0) }),
    }
}

/// Ten thousand that want to join, at addresses that nobody has: who is a member notices nothing, they are told little,
/// and what is kept of them is bounded, also where nobody looks at who asks.
#[test]
fn a_flood_of_joins_changes_nothing() {
    for_each_seed_of(5, "group::attacks::a_flood_of_joins_changes_nothing", |_, random| {
        let scenario = slow::scenario(random, 0.01);
        let mut world = World::new(&scenario, random);
        let (key, start) = (world.sender.key(), world.now);
        let mut left = 10_000;
        world.run_with(|world| {
            for _ in 0..left.min(100) {
                let from = ([172, 16, left as u8, (left >> 8) as u8], 1000).into();
                world.sender.handle(world.now, from, &jcntl(key, 2 * left + 1));
                world.sender.assert_invariants();
                left -= 1;
            }
        });
        world.assert_all_have_all();
        assert!(world.sides.iter().all(|side| side.left.is_none()), "{}", world.describe());
        let seconds = (world.now - start).as_secs() + 1;
        assert!(left == 0 && world.to_strangers > 0);
        assert!(world.to_strangers <= 100 * seconds, "{} in {seconds} s", world.to_strangers);
    });
    let key = Key::new(77).expect("not zero");
    let now = Instant::from_ms(5);
    let mut sender = Sender::new(&SenderConfig::default(), key, now);
    for n in 0..10_000 {
        sender.handle(
            now,
            ([172, 16, n as u8, (n >> 8) as u8], 1000).into(),
            &jcntl(key, 2 * n + 1),
        );
    }
    sender.assert_invariants();
    let mut asked = 0;
    while let Some(event) = sender.poll_event() {
        asked += u64::from(matches!(event, SenderEvent::Asked { .. }));
    }
    assert_eq!(asked, SenderConfig::default().members_max as u64);
}

/// One that joins ten thousand times, by a new key each time, and leaves or does not: there are never more members than
/// there may be, and then nobody else gets in; with those that say nothing dropped, there is room again.
#[test]
fn who_joins_ten_thousand_times_is_a_member_no_more_often_than_there_may_be() {
    let key = Key::new(77).expect("not zero");
    let mut now = Instant::from_ms(5);
    let config = SenderConfig { members_max: 16, ..SenderConfig::default() };
    let most = config.members_max;
    let from = |n: u64| ([172, 16, n as u8, (n >> 8) as u8], 1000).into();
    let mut sender = Sender::new(&config, key, now);
    let (mut accepted, mut told) = (0, 0);
    for n in 0..10_000 {
        let own = Key::new(2 * n + 1).expect("not zero");
        sender.handle(now, from(n), &jcntl(key, own.bits()));
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Asked { key: ask, .. } = event {
                let id = Key::new(1 << 40 | n).expect("not zero");
                accepted += u64::from(sender.accept(now, ask, id).is_some());
                if n % 2 == 0 {
                    sender.remove(now, id);
                }
            }
        }
        assert!(sender.members().count() <= most);
        sender.assert_invariants();
        now += Duration::from_millis(1);
        sender.handle_timeout(now);
        while let Some((to, _)) = sender.poll_transmit(now) {
            told += u64::from(to != To::Group);
        }
    }
    // All but those that came while it was full.
    assert!(accepted >= most as u64 && accepted < 10_000, "{accepted}");
    // An answer and a last word for each; questions to who says nothing; refusals have their bound.
    assert!(told < 10 * 10_000, "{told}");
    // Two seconds of silence are over, and another one.
    for _ in 0..40 {
        now += Duration::from_millis(100);
        sender.handle_timeout(now);
        while sender.poll_transmit(now).is_some() {}
    }
    assert_eq!(sender.members().count(), 0);
}
