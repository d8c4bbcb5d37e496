//! Packets of others, with each number wrong: they change nothing, and are counted by their cause.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_testkit::{Random, for_each_seed_of};
use fusewire_transport::machine::DropCause;
use fusewire_transport::xtp::group::{Sender, SenderConfig, SenderEvent, To};
use fusewire_transport::xtp::{Header, SPANS};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, JoinControl, Key, Options, Reason, Service, Span, SpanList,
    Traffic, TrafficControl,
};

use super::world::{Lie, SENDER, World};
use super::{loss, slow};
use crate::frame::Frame;
use crate::two_ends::Frame as _;

/// What is wrong with a forged packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Key,
    Source,
    NoRtn,
    NoMulti,
    NoCheck,
    Sync,
    Seq,
    SeqOfData,
    Echo,
    EchoOld,
    Rseq,
    Early,
    Span,
    Alloc,
    Xkey,
    Format,
    Diag,
    OfTheGroup,
}

/// What is forged for the sender, and the cause that it is counted by.
const TO_SENDER: [(Wrong, DropCause); 15] = [
    (Wrong::Key, DropCause::Closed),
    (Wrong::Source, DropCause::Closed),
    (Wrong::NoRtn, DropCause::Closed),
    (Wrong::NoMulti, DropCause::Protocol),
    (Wrong::NoCheck, DropCause::Protocol),
    (Wrong::Seq, DropCause::OutOfWindow),
    (Wrong::Echo, DropCause::BadAck),
    (Wrong::EchoOld, DropCause::BadAck),
    (Wrong::Rseq, DropCause::BadAck),
    (Wrong::Early, DropCause::BadAck),
    (Wrong::Span, DropCause::BadAck),
    (Wrong::Alloc, DropCause::Protocol),
    (Wrong::Format, DropCause::Protocol),
    (Wrong::OfTheGroup, DropCause::Protocol),
    (Wrong::Diag, DropCause::BlindReset),
];

/// The same for who is a member, or asks to be one.
const TO_RECEIVER: [(Wrong, DropCause); 12] = [
    (Wrong::Key, DropCause::Closed),
    (Wrong::Source, DropCause::Closed),
    (Wrong::NoRtn, DropCause::Closed),
    (Wrong::NoMulti, DropCause::Protocol),
    (Wrong::NoCheck, DropCause::Protocol),
    (Wrong::Sync, DropCause::Protocol),
    (Wrong::Seq, DropCause::OutOfWindow),
    (Wrong::SeqOfData, DropCause::OutOfWindow),
    (Wrong::Echo, DropCause::BadAck),
    (Wrong::Xkey, DropCause::Protocol),
    (Wrong::Format, DropCause::Protocol),
    (Wrong::Diag, DropCause::BlindReset),
];

fn stranger() -> SocketAddr {
    ([10, 9, 9, 9], 4000).into()
}

fn traffic(control: Control, xkey: Key) -> TrafficControl {
    let traffic = Traffic { service: Service::Multicast, limits: None };
    TrafficControl { control, delay_us: 0, xkey, traffic }
}

/// What a member could say, but for one thing; and from where. `None`: there is nothing of which it could be wrong.
fn forge_report(
    random: &mut Random,
    world: &World,
    n: usize,
    wrong: Wrong,
) -> Option<(SocketAddr, Frame)> {
    let side = &world.sides[n];
    let member = world.sender.members().find(|member| Some(member.id) == side.id)?;
    let (rseq, sent) = (member.rseq, world.sender.sent().max(member.begins_at));
    let far = random.range(1..1 << 40);
    let control = Control { rseq, alloc: rseq + (1 << 20), echo: world.sync };
    let mut header = report(member.id, (rseq, world.sync), &[]);
    // It would be its last word, or its first.
    header.options |= *random.pick(&[Options::NONE, Options::END, Options::RCLOSE]);
    let mut from = member.addr;
    match wrong {
        Wrong::Key => header.key = Key::new(random.next_u64() | 1)?,
        Wrong::Source => from = stranger(),
        Wrong::NoRtn => {
            (header.returned, header.body) = (false, Body::Data { btag: None });
            header.key = *random.pick(&[member.id, world.sender.key()]);
        }
        Wrong::NoMulti => header.options = header.options.without(Options::MULTI),
        Wrong::NoCheck => header.options |= Options::NOCHECK,
        Wrong::Seq => header.seq = member.begins_at + far,
        Wrong::Echo => {
            let echo = world.sync.wrapping_add(random.range(1..1 << 31) as u32);
            header.body = Body::Cntl(Control { echo, ..control });
        }
        Wrong::EchoOld => {
            let echo = world.sync.wrapping_sub(random.range(1 << 16..1 << 31) as u32);
            header.body = Body::Cntl(Control { echo, ..control });
        }
        Wrong::Rseq => {
            header.body = Body::Cntl(Control { rseq: sent + far, alloc: sent + far, ..control });
        }
        Wrong::Early => {
            let rseq = member.begins_at.checked_sub(random.range(1..1000))?;
            header.body = Body::Cntl(Control { rseq, ..control });
        }
        Wrong::Span => {
            header =
                report(member.id, (rseq, world.sync), &[(rseq + 1, sent + far % (1 << 30) + 1)]);
        }
        Wrong::Alloc => header.body = Body::Cntl(Control { alloc: rseq + (1 << 32), ..control }),
        Wrong::Format => {
            let others = [Body::Data { btag: None }, Body::Tcntl(traffic(control, side.key))];
            header.body = *random.pick(&others);
        }
        Wrong::Diag => header.body = diag(Code::InvalidContext),
        Wrong::OfTheGroup => header.key = world.sender.key(),
        Wrong::Sync | Wrong::SeqOfData | Wrong::Xkey => return None,
    }
    Some((from, Frame::forged(&header, &[])))
}

fn diag(code: Code) -> Body<SpanList<SPANS>> {
    Body::Diag(Diag { code, reason: Reason::Unspecified })
}

/// The same of what the sender says to one, or to all.
fn forge_word(
    random: &mut Random,
    world: &World,
    n: usize,
    wrong: Wrong,
) -> Option<(SocketAddr, Frame)> {
    let side = &world.sides[n];
    let joins = side.machine.is_joining();
    if !joins && side.begins_at.is_none() || side.machine.is_over() {
        return None;
    }
    let at = side.machine.rcv_nxt();
    let control = Control { rseq: at, alloc: at, echo: side.sync };
    let other = Key::new(random.next_u64() | 1)?;
    let join = |control| {
        let (traffic, address) = (traffic(control, other), Address::in_udp(0));
        Body::Jcntl(JoinControl { traffic, address })
    };
    let mut header = Header {
        key: side.key,
        returned: true,
        sync: world.sync,
        seq: at,
        body: Body::Cntl(control),
        ..jcntl(side.key, 9)
    };
    header.options |= *random.pick(&[Options::NONE, Options::END, Options::WCLOSE]);
    let mut from = SENDER.into();
    let to_all = !joins && random.chance(0.5);
    let mut data = Vec::new();
    if to_all && matches!(wrong, Wrong::Key | Wrong::Source | Wrong::NoMulti | Wrong::Sync)
        || wrong == Wrong::SeqOfData
    {
        (header.key, header.returned) = (world.sender.key(), false);
        header.options = Options::MULTI | Options::EOM;
        header.body = Body::Data { btag: None };
        data.resize(100, 1);
    }
    match wrong {
        Wrong::Key => header.key = other,
        Wrong::Source => from = stranger(),
        Wrong::NoRtn => (header.returned, header.body) = (false, Body::Data { btag: None }),
        Wrong::NoMulti => header.options = header.options.without(Options::MULTI),
        Wrong::NoCheck => header.options |= Options::NOCHECK,
        Wrong::Sync => header.sync = world.sync.wrapping_add(random.range(1 << 17..1 << 31) as u32),
        Wrong::Seq => header.seq = at + random.range(1 << 32..1 << 40),
        // Once it knows the end there is nothing beyond.
        Wrong::SeqOfData if joins || world.sender.sent() == world.sender.queued() => return None,
        Wrong::SeqOfData => header.seq = at + random.range(1 << 22..1 << 40),
        Wrong::Echo => {
            let echo = side.sync.wrapping_add(random.range(1..1 << 31) as u32);
            header.body = join(Control { echo, ..control });
        }
        // Who asks takes any.
        Wrong::Xkey if joins => return None,
        Wrong::Xkey => {
            header.body = *random.pick(&[join(control), Body::Tcntl(traffic(control, other))])
        }
        Wrong::Format => {
            let mut spans = SpanList::new(at);
            spans.push(Span { left: at + 1, right: at + 2 });
            header.body = *random.pick(&[Body::Ecntl(control, spans), Body::Path]);
        }
        Wrong::Diag => {
            let wrong = if joins { Code::ContextAbandoned } else { Code::JoinRefused };
            header.body =
                diag(*random.pick(&[wrong, Code::InvalidContext, Code::MaximumPacketSize]));
        }
        Wrong::EchoOld
        | Wrong::Rseq
        | Wrong::Early
        | Wrong::Span
        | Wrong::Alloc
        | Wrong::OfTheGroup => return None,
    }
    header.data_len = data.len() as u32;
    Some((from, Frame::forged(&header, &data)))
}

/// All of a machine but its counters.
fn state_of(machine: &impl core::fmt::Debug) -> String {
    let mut text = format!("{machine:?}");
    text.truncate(text.rfind("counters:").expect("it counts"));
    text
}

#[test]
fn forged_packets_change_nothing() {
    let mut forged = BTreeMap::new();
    for_each_seed_of(100, "group::attacks::forged_packets_change_nothing", |_, random| {
        let mut scenario = loss::scenario(random);
        scenario.limit = Duration::from_secs(36_000);
        let mut world = World::new(&scenario, random);
        let mut random = random.fork();
        world.run_with(|world| {
            // Joining is soon over.
            let joins = world.sides.iter().position(|side| side.machine.is_joining());
            if !random.chance(if joins.is_some() { 0.3 } else { 0.01 }) {
                return;
            }
            let n = joins.unwrap_or(random.below(world.sides.len() as u64) as usize);
            let to_sender = joins.is_none() && random.chance(0.5);
            let (wrong, cause) =
                *random.pick(if to_sender { &TO_SENDER[..] } else { &TO_RECEIVER });
            let made = match to_sender {
                true => forge_report(&mut random, world, n, wrong),
                false => forge_word(&mut random, world, n, wrong),
            };
            let Some((from, frame)) = made else { return };
            assert!(frame.parse().is_some() && frame.verifies(), "{wrong:?}: {frame}");
            let look = |world: &World| match to_sender {
                true => (state_of(&world.sender), world.sender.counters().drops),
                false => {
                    (state_of(&world.sides[n].machine), world.sides[n].machine.counters().drops)
                }
            };
            let (before, drops) = look(world);
            match to_sender {
                true => world.arrive_at_sender(from, &frame),
                false => world.arrive_at_from(n, from, &frame),
            }
            let (after, dropped) = look(world);
            assert!(before == after, "{wrong:?} {frame}\n{before}\n{after}");
            let by_cause = dropped.of(cause) - drops.of(cause);
            assert_eq!((by_cause, dropped.total() - drops.total()), (1, 1), "{wrong:?} {frame}");
            let joins = !to_sender && world.sides[n].machine.is_joining();
            *forged.entry((to_sender, joins, format!("{wrong:?}"))).or_insert(0) += 1;
        });
        world.assert_all_have_all();
    });
    println!("{forged:?}");
    if std::env::var_os("FUSEWIRE_SEED").is_some() {
        // Few seeds do not make each.
        return;
    }
    for (to_sender, joins, kinds) in
        [(true, false, &TO_SENDER[..]), (false, false, &TO_RECEIVER), (false, true, &TO_RECEIVER)]
    {
        for (wrong, _) in kinds {
            // What is said to all, and by whom who asks does not know yet.
            let is_made = !joins || !matches!(wrong, Wrong::SeqOfData | Wrong::Xkey);
            let count = forged.get(&(to_sender, joins, format!("{wrong:?}"))).copied().unwrap_or(0);
            assert_eq!(
                count > 0,
                is_made,
                "{wrong:?}: {count} to the sender: {to_sender}, who joins: {joins}"
            );
        }
    }
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
