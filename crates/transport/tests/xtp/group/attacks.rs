//! Packets of others, with each number wrong: they change nothing.

use core::time::Duration;

use fusewire_testkit::{Random, for_each_seed_of};
use fusewire_wire::xtp::{Body, Code, Control, Diag, Key, Options, Reason, Span, SpanList};

use super::loss;
use super::world::{SENDER, World};
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
