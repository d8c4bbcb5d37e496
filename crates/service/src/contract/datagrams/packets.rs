//! Which packets leave, and how long they are.

use std::cell::Cell;
use std::time::Duration;

use fusewire_base::Instant;

use super::{Broken, Event, Kept, LEN, Profile, Rules, World, body, broken, lane_of, with_seeds};
use crate::datagram::End;
use crate::profile::Fec;

/// Headers of UDP and IPv6, the longer ones, and of UDP and IPv4, with which a path counts.
const AROUND_MAX: usize = 48;
const AROUND: usize = 28;
/// How many of the longest are sent.
const LONGEST: u64 = 4;
/// ADUs that are made at once where more are made than leave.
const FLOOD: f64 = 32.0;
/// For how long.
const LONG: Duration = Duration::from_secs(5);
/// Of what one type alone could send, how much it sends beside another one; and how much of that may be lost.
const SHARE: f64 = 0.9;
const LOST: f64 = 0.02;
/// ADUs that go before one that waits, at most, whatever is more important (`docs/service.md`: `patience`), with some that were under
/// way and those of other lanes.
const PATIENCE: u64 = 64 + 16;
/// Bytes of an ADU of one packet, whatever is around it.
const SHORT: usize = 100;
/// As many of what is more important wait: more than leave at once.
const STOCK: u64 = 24;

/// No datagram is longer than the network's packets, however long ADUs are, and with copies, parity and reports.
///
/// # Errors
/// What does not hold.
pub fn fits<A: Profile, B: Profile>() -> Kept {
    for (lane, adu) in A::SENDS.iter().enumerate() {
        let rules = Rules { delay: A::NETWORK.one_way, ..Rules::NONE };
        let mut world = World::<A, B>::new(rules, 1.0, 0)?;
        // Until a copy of one goes with another.
        let most = match adu.fec {
            Fec::Copy { distance } => LONGEST.max(u64::from(distance) + 2),
            _ => LONGEST,
        };
        let mut pushed = 0;
        world.run(
            Duration::from_secs(2),
            |now, end| {
                let bytes = body(lane, pushed, adu.len_max);
                pushed += u64::from(pushed < most && end.push(now, lane, &bytes).is_ok());
            },
            |_, _| {},
            |_, _| Ok(()),
        )?;
        for (longest, mtu) in [(world.forth.longest, B::MTU), (world.back.longest, A::MTU)] {
            let longest = longest + AROUND_MAX - AROUND;
            if longest > mtu || pushed < most {
                let what = format!("{pushed} make a packet of {longest} bytes, and {mtu} fit");
                return broken(adu, what);
            }
        }
    }
    Ok(())
}

/// Makes up to so many of a lane, and counts them; the number of the first.
fn make<A: Profile>(
    now: Instant,
    end: &mut End<A>,
    lane: usize,
    most: u64,
    made: &mut u64,
) -> Option<u64> {
    let len = A::SENDS[lane].len_max.min(LEN);
    let mut first = None;
    for _ in 0..most {
        let Ok(number) = end.push(now, lane, &body(lane, *made, len)) else { break };
        first = first.or(Some(number));
        *made += 1;
    }
    first
}

/// Where more is made than may be sent, what is most important goes as if it were alone, and the least important does not wait for all
/// of it.
///
/// # Errors
/// What does not hold.
pub fn puts_first<A: Profile, B: Profile>() -> Kept {
    with_seeds(|seed| {
        goes_first::<A, B>(seed)?;
        waits_for_some::<A, B>(seed)
    })
}

/// The lanes of the most and of the least important type that one takes, if they are not as important.
fn first_and_last<B: Profile>() -> Option<(usize, usize)> {
    let lanes = || B::TAKES.iter().enumerate();
    let (first, most) = lanes().min_by_key(|(_, adu)| adu.priority)?;
    let (last, least) = lanes().max_by_key(|(_, adu)| adu.priority)?;
    (most.priority < least.priority).then_some((first, last))
}

fn goes_first<A: Profile, B: Profile>(seed: u64) -> Kept {
    let Some((first, last)) = first_and_last::<B>() else { return Ok(()) };
    let rules = Rules { delay: A::NETWORK.one_way, ..Rules::NONE };
    let mut world = World::<A, B>::new(rules, 1.0, seed)?;
    // Until the path's rate is known, and then to see how much goes.
    for _ in 0..2 {
        phase(&mut world, [(first, f64::INFINITY), (last, 0.0)])?;
    }
    let alone = phase(&mut world, [(first, f64::INFINITY), (last, 0.0)])?;
    let each_tick = SHARE * alone / LONG.as_millis() as f64;
    let went = phase(&mut world, [(first, each_tick), (last, f64::INFINITY)])?;
    let some = (2.0 * FLOOD).min(alone / 4.0);
    if went < (1.0 - LOST) * SHARE * alone - some {
        let what = format!(
            "{went} go beside {}, which is less important, and {alone} alone",
            B::TAKES[last].name
        );
        return broken(&B::TAKES[first], what);
    }
    Ok(())
}

/// For a while so many of two lanes are made each tick, the second's first; how many of the first lane's go, or are on their way.
fn phase<A: Profile, B: Profile>(
    world: &mut World<A, B>,
    [(first, most), (last, beside)]: [(usize, f64); 2],
) -> std::result::Result<f64, Broken> {
    let (mut made, mut lost, mut came) = ([0; 2], 0, 0);
    let mut due = 0.0;
    // Those that were made before are no loss of these.
    let begun: Cell<Option<u64>> = Cell::new(None);
    world.run(
        LONG,
        |now, end| {
            due += most.min(FLOOD);
            make(now, end, last, beside.min(FLOOD) as u64, &mut made[1]);
            let waiting = (due - made[0] as f64).min(FLOOD);
            let number = make(now, end, first, waiting as u64, &mut made[0]);
            begun.set(begun.get().or(number));
        },
        |_, event| {
            let is_of_these = |number| begun.get().is_some_and(|begun| number >= begun);
            if let Event::Lost { lane, number, .. } = event {
                lost += u64::from(lane == first && is_of_these(number));
            }
        },
        |_, event| {
            let is_gap = matches!(event, Event::Gap(_));
            came += u64::from(!is_gap && lane_of(&event) == Some(first));
            Ok(())
        },
    )?;
    // Those that are kept are told to be lost when they have been sent, too; of others some wait to be handed over.
    Ok(if A::SENDS[first].kept > 0 { came } else { made[0] - lost } as f64)
}

fn is_lost(event: &Event<'_>, of: usize) -> bool {
    matches!(event, Event::Lost { lane, .. } if *lane == of)
}

fn waits_for_some<A: Profile, B: Profile>(seed: u64) -> Kept {
    let Some((first, last)) = first_and_last::<B>() else { return Ok(()) };
    let mut world = World::<A, B>::new(Rules::NONE, 1.0, seed)?;
    let bytes = |lane: usize, number| body(lane, number, A::SENDS[lane].len_max.min(SHORT));
    let packets = 1 + u64::from(A::SENDS[first].fec.repairs(1));
    let (is_over, sent, mut pushed) = (Cell::new(false), Cell::new(0), 0);
    world.run(
        Duration::from_secs(20),
        |now, end| {
            if pushed == 0 {
                let _ = end.push(now, last, &bytes(last, 0));
            }
            // How long it is held where it comes is no matter.
            is_over.set(is_over.get() || pushed > 0 && !end.is_waiting(last));
            if is_over.get() {
                return;
            }
            sent.set(end.counters().sent);
            // As many wait as before.
            let most = STOCK + sent.get() / packets;
            while pushed < most && end.push(now, first, &bytes(first, pushed)).is_ok() {
                pushed += 1;
            }
        },
        // Where its time is over before its turn, that is told.
        |_, event| is_over.set(is_over.get() || is_lost(&event, last)),
        |_, _| Ok(()),
    )?;
    if sent.get() > PATIENCE * packets || !is_over.get() {
        let what = format!("one waits for {} packets of what is more important", sent.get());
        return broken(&B::TAKES[last], what);
    }
    Ok(())
}
