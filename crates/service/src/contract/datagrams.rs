//! The same of ends over datagrams: between the two, on a virtual clock, over the worst network that their specification vouches
//! for, or one that meddles. Clauses are those of the end that does not do what is looked at: of what one takes by what the other
//! sends, and the other way round; so that what only one of them lacks is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::Rules;
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{Allow, Datagrams, Identity, Swap, Terms};
use fusewire_transport::media::{Made, Yields};

mod again;
mod beside;
mod packets;

pub use super::Broken;
use super::link::{Link, MARK, Wire};
use super::path::Path;
use super::{DEADLINE_MAX, identity, loopback, with_seeds};
use crate::datagram::session::{self, Listener, Session};
use crate::datagram::{End, Event};
use crate::lifetime::Why;
use crate::playout::Mode;
use crate::profile::{Adu, Beside, Network, Order, Profile};
use crate::{Error, Result};
pub use again::{gives_up, is_sure};
pub use beside::{arrives, tells_late};
pub use packets::{fits, puts_first};

type Kept = std::result::Result<(), Broken>;

/// How often the clock moves.
const TICK: Duration = Duration::from_millis(1);
/// ADUs a second of a type of which nobody says it.
const HZ: f64 = 20.0;
/// Bytes of an ADU of which nobody says how many.
const LEN: usize = 300;
/// How long the slowest hop's queue is (RFC 8867, section 5.1).
const QUEUE: Duration = Duration::from_millis(300);
/// What is not judged at the end of a run: it may be on its way.
const TAIL: Duration = Duration::from_secs(2);
/// How far what an end knows of ages may be off.
const SLACK: Duration = Duration::from_millis(20);
/// Of ADUs that begin a run of more that are lost than may be in a row, what the choice lets.
const RUN_SHARE: f64 = 0.001;
/// Of what is handed over evenly, so much apart from how it was sent, where nobody says how much.
const UNEVEN: Duration = Duration::from_millis(2);
/// ADUs behind the fastest, which may come later than the first, and as many as tell how even they are at least.
const SETTLED: usize = 50;
const EVEN_LEAST: usize = 20;
/// How long ADUs of a type are waited for at most: rarer ones are not looked at.
const LONG: f64 = 240.0;

fn broken<T>(adu: &Adu, what: String) -> std::result::Result<T, Broken> {
    Err(Broken::Clause { adu: adu.name, what })
}

/// What a session would give its two ends.
fn keys<A: Profile, B: Profile>() -> Result<[Datagrams; 2]> {
    let ends = [(1, 2, A::data_pass()), (2, 1, B::data_pass())];
    let [one, other] = ends.map(|(own, peer, pass)| {
        let secret = |byte| TrafficSecret::from_bytes([byte; 32]);
        let like = || RecordParams::new(A::CIPHERS[0], Swap::None, 1 << 16, pass);
        let sender = NumberedSender::new(like(), secret(own))?;
        let receiver = NumberedReceiver::new(like(), secret(peer))?;
        Ok::<_, fusewire_session::Error>(Datagrams { id: 0x1357_9bdf, sender, receiver })
    });
    let of = |error| fusewire_stack::Error::from(error);
    Ok([one.map_err(of)?, other.map_err(of)?])
}

fn end<P: Profile>(keys: Datagrams) -> Result<End<P>> {
    Ok(End::new(Instant::ZERO, keys).map_err(fusewire_stack::Error::from)?)
}

/// An end as its session makes it: to look at how much it holds.
///
/// # Errors
/// None of its cipher.
pub fn alone<P: Profile>() -> Result<End<P>> {
    let [keys, _] = keys::<P, P>()?;
    end(keys)
}

/// The network that an end's specification vouches for, at its worst.
fn worst<P: Profile>() -> Rules {
    let Network { one_way: delay, jitter, loss, rate, .. } = P::NETWORK;
    let rate = Some(rate).filter(|rate| *rate > 0);
    let queue = |rate: u64| (rate as f64 * QUEUE.as_secs_f64()) as usize;
    let queue_bytes = rate.map_or(Rules::NONE.queue_bytes, queue);
    Rules { loss, delay, jitter, rate, queue_bytes, ..Rules::NONE }
}

/// One that does what no specification vouches for.
fn meddling<P: Profile>() -> Rules {
    let reorder_delay = Duration::from_millis(40);
    Rules {
        loss: 0.05,
        duplicate: 0.2,
        corrupt: 0.05,
        reorder: 0.2,
        reorder_delay,
        delay: P::NETWORK.one_way,
        ..Rules::NONE
    }
}

/// An ADU whose bytes follow from its number.
fn body(lane: usize, number: u64, len: usize) -> Vec<u8> {
    let of = |at: usize| (lane * 101 + number as usize * 31 + at * 7 + (at >> 8)) as u8;
    (0..len).map(of).collect()
}

/// Who makes ADUs as often as their clauses say, and as long.
struct Application {
    next: Vec<Instant>,
    made: Option<Made>,
    /// Of each lane: when each was pushed, and its length.
    pushed: Vec<Vec<(Instant, usize)>>,
}

impl Application {
    fn new(lanes: usize) -> Application {
        let (next, pushed) = (vec![Instant::ZERO; lanes], vec![Vec::new(); lanes]);
        Application { next, made: None, pushed }
    }

    fn push<P: Profile>(&mut self, now: Instant, end: &mut End<P>) {
        for (lane, adu) in P::SENDS.iter().enumerate() {
            if now < self.next[lane] {
                continue;
            }
            let hz = of_hz(adu);
            let (hz, len) = match (adu.adapted, self.made) {
                (Some(_), None) => continue,
                (Some(_), Some(made)) => (made.hz, made.bits as usize / 8),
                (None, _) if adu.fixed_bits > 0 && adu.hz > 0.0 => {
                    (hz, (adu.fixed_bits as f64 / 8.0 / hz) as usize)
                }
                (None, _) => (hz, LEN),
            };
            self.next[lane] = self.next[lane].max(now) + Duration::from_secs_f64(1.0 / hz);
            let (number, len) = (self.pushed[lane].len() as u64, len.clamp(1, adu.len_max));
            if end.push(now, lane, &body(lane, number, len)).is_ok() {
                self.pushed[lane].push((now, len));
            }
        }
    }
}

/// The two ends, the paths between them, and the time.
struct World<A: Profile, B: Profile> {
    from: End<A>,
    to: End<B>,
    forth: Path,
    back: Path,
    now: Instant,
}

impl<A: Profile, B: Profile> World<A, B> {
    fn new(rules: Rules, burst: f64, seed: u64) -> Result<World<A, B>> {
        let [one, other] = keys::<A, B>()?;
        // Reports go by a way that is as bad; but what meddles does so one way.
        let Rules { delay, jitter, .. } = rules;
        let loss = rules.loss.min(A::NETWORK.loss);
        let back = Rules { loss, delay, jitter, ..Rules::NONE };
        Ok(World {
            from: end(one)?,
            to: end(other)?,
            forth: Path::new(rules, burst, seed),
            back: Path::new(back, burst, seed ^ 1),
            now: Instant::ZERO,
        })
    }

    /// For so long: `push` is asked each tick for what is sent, `told` told what the sender is told, and `heard` what comes.
    fn run(
        &mut self,
        long: Duration,
        mut push: impl FnMut(Instant, &mut End<A>),
        mut told: impl FnMut(Instant, Event<'_>),
        mut heard: impl FnMut(Instant, Event<'_>) -> Kept,
    ) -> Kept {
        let mut out = vec![0; A::MTU.max(B::MTU)];
        let until = self.now + long;
        let sealing = |error| Broken::End(fusewire_stack::Error::from(error).into());
        while self.now < until {
            let now = self.now;
            while let Some(datagram) = self.back.poll(now) {
                self.from.handle_datagram(now, &datagram, 0);
            }
            self.from.handle_timeout(now);
            while let Some(event) = self.from.poll_event(now) {
                told(now, event);
            }
            push(now, &mut self.from);
            while let Some(len) = self.from.poll_transmit(now, &mut out).map_err(sealing)? {
                self.forth.send(now, &out[..len]);
            }
            while let Some(datagram) = self.forth.poll(now) {
                self.to.handle_datagram(now, &datagram, 0);
            }
            self.to.handle_timeout(now);
            while let Some(event) = self.to.poll_event(now) {
                heard(now, event)?;
            }
            while let Some(len) = self.to.poll_transmit(now, &mut out).map_err(sealing)? {
                self.back.send(now, &out[..len]);
            }
            self.now += TICK;
        }
        Ok(())
    }
}

/// What came of a lane, and what was told not to.
#[derive(Default)]
struct Came {
    adus: BTreeMap<u64, Instant>,
    gone: BTreeSet<u64>,
    late: BTreeSet<u64>,
}

impl Came {
    fn hears(
        &mut self,
        now: Instant,
        adu: &Adu,
        application: &Application,
        event: &Event<'_>,
    ) -> Kept {
        match *event {
            Event::Adu { lane, number, bytes, is_late, .. } => {
                let Some((_, len)) = application.pushed[lane].get(number as usize) else {
                    return broken(adu, format!("{number} has come, which was not sent"));
                };
                if bytes != body(lane, number, *len) {
                    return broken(adu, format!("the bytes of {number} have come changed"));
                }
                let last = self.adus.last_key_value().map(|(last, _)| *last);
                if adu.order != Order::None && last.is_some_and(|last| last > number) {
                    return broken(adu, format!("{number} has come behind {last:?}"));
                }
                if self.adus.insert(number, now).is_some() {
                    return broken(adu, format!("{number} has come twice"));
                }
                if self.gone.contains(&number) {
                    return broken(adu, format!("{number} has come, and was told not to"));
                }
                if is_late {
                    self.late.insert(number);
                }
            }
            Event::Gap(skip) => {
                for number in skip.first..skip.first + skip.count {
                    if !self.gone.insert(number) || self.adus.contains_key(&number) {
                        return broken(
                            adu,
                            format!("{number} is told not to come, and was told of"),
                        );
                    }
                }
            }
            Event::Late { number, .. } => {
                self.late.insert(number);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The lane that an event of a receiver's is of.
fn lane_of(event: &Event<'_>) -> Option<usize> {
    match event {
        Event::Adu { lane, .. } | Event::Late { lane, .. } => Some(*lane),
        Event::Gap(skip) => Some(skip.lane),
        _ => None,
    }
}

/// A run of ADUs of all types, one way: what was pushed, what came.
fn stream<A: Profile, B: Profile>(
    rules: Rules,
    burst: f64,
    seed: u64,
    long: Duration,
) -> std::result::Result<(Application, Vec<Came>), Broken> {
    let mut world = World::<A, B>::new(rules, burst, seed)?;
    let application = std::cell::RefCell::new(Application::new(A::SENDS.len()));
    let mut came: Vec<Came> = A::SENDS.iter().map(|_| Came::default()).collect();
    // The last ADU arrives, however long its path is.
    let tail = TAIL + 2 * A::NETWORK.one_way + A::NETWORK.jitter;
    for (sends, long) in [(true, long), (false, tail)] {
        world.run(
            long,
            |now, end| {
                if sends {
                    application.borrow_mut().push(now, end);
                }
            },
            |_, event| {
                if let Event::Target { made, .. } = event {
                    application.borrow_mut().made = Some(made);
                }
            },
            |now, event| {
                let Some(lane) = lane_of(&event) else { return Ok(()) };
                came[lane].hears(now, &A::SENDS[lane], &application.borrow(), &event)
            },
        )?;
    }
    Ok((application.into_inner(), came))
}

/// What is sent comes whole, once, in the order of its clauses, and no more of it is lost than may be, nor in a row; what does not
/// come is told once. Over the worst network that is vouched for; and but for the share, over one that meddles.
///
/// # Errors
/// What does not hold.
pub fn carries<A: Profile, B: Profile>() -> Kept {
    with_seeds(|seed| {
        let long = |adu: &Adu| {
            let hz = of_hz(adu);
            Duration::from_secs_f64((30.0 / adu.loss_max.max(1e-3) / hz).clamp(10.0, 120.0))
        };
        let long = B::TAKES.iter().map(long).max().unwrap_or_default();
        let (sent, came) = stream::<A, B>(worst::<A>(), A::NETWORK.loss_burst, seed, long)?;
        for (lane, adu) in B::TAKES.iter().enumerate() {
            judge_loss(adu, sent.pushed[lane].len(), &came[lane])?;
            let is_lost = |n| !came[lane].adus.contains_key(&n) || came[lane].late.contains(&n);
            judge_runs(adu, sent.pushed[lane].len() as u64, is_lost)?;
        }
        stream::<A, B>(meddling::<A>(), 1.0, seed, Duration::from_secs(10)).map(drop)
    })
}

/// Four deviations beyond what a share of losses makes, which one in 30,000 is by chance, and the last few.
fn judge_loss(adu: &Adu, sent: usize, came: &Came) -> Kept {
    let (n, share) = (sent as f64, adu.loss_max);
    let may_be = n * share + 4.0 * (n * share * (1.0 - share)).sqrt() + 2.0;
    let in_time = came.adus.len() - came.adus.keys().filter(|n| came.late.contains(n)).count();
    let lost = sent.saturating_sub(in_time);
    if sent == 0 || lost as f64 > may_be {
        return broken(adu, format!("{lost} of {sent} are lost, and {may_be:.0} may be"));
    }
    // Where missing ones are waited for without end they are told when the window is full.
    let last = came.adus.last_key_value().map_or(0, |(last, _)| *last);
    let is_told = |number: &u64| came.adus.contains_key(number) || came.gone.contains(number);
    if (adu.order == Order::Newest || adu.deadline.is_some())
        && let Some(untold) = (0..last).find(|number| !is_told(number))
    {
        return broken(adu, format!("{untold} has not come, and is not told"));
    }
    Ok(())
}

/// No more begin a run of more that are lost than there may be in a row, but for one in a thousand (`docs/generate.md`, section The
/// choice) and, as with shares, what chance makes.
pub(super) fn judge_runs(adu: &Adu, sent: u64, is_lost: impl Fn(u64) -> bool) -> Kept {
    let Some(run) = adu.loss_run else { return Ok(()) };
    let (mut long, mut lost) = (0, 0);
    for number in 0..sent {
        lost = if is_lost(number) { lost + 1 } else { 0 };
        long += u64::from(lost == run + 1);
    }
    let n = sent as f64;
    let may_be = n * RUN_SHARE + 4.0 * (n * RUN_SHARE).sqrt() + 2.0;
    if long as f64 > may_be {
        let what =
            format!("{long} of {sent} begin a run of more than {run} lost, and {may_be:.0} may");
        return broken(adu, what);
    }
    Ok(())
}

/// What waits for longer than its deadline at the sender is not sent, and told.
///
/// # Errors
/// What does not hold.
pub fn expires<A: Profile, B: Profile>() -> Kept {
    for (lane, adu) in B::TAKES.iter().enumerate() {
        let Some(deadline) = adu.deadline.filter(|_| adu.drops_late) else { continue };
        let mut end = alone::<A>()?;
        let (len, mut out) = (adu.len_max.min(LEN), vec![0; A::MTU]);
        for number in 0..3 {
            let _ = end.push(Instant::ZERO, lane, &body(lane, number, len));
        }
        let now = Instant::ZERO + deadline + TICK;
        end.handle_timeout(now);
        let mut expired = BTreeSet::new();
        while let Some(event) = end.poll_event(now) {
            if let Event::Lost { lane: of, number, why: Why::Expired } = event
                && of == lane
            {
                expired.insert(number);
            }
        }
        if expired.len() != 3 {
            return broken(adu, format!("{} of 3 are told to have expired", expired.len()));
        }
        if matches!(end.poll_transmit(now, &mut out), Ok(Some(_))) {
            return broken(adu, "is sent although it has expired".into());
        }
    }
    Ok(())
}

/// What comes after its deadline is dropped and told, or handed over and said to be late, by its clauses.
///
/// # Errors
/// What does not hold.
pub fn judges_late<A: Profile, B: Profile>() -> Kept {
    with_seeds(judges_late_once::<A, B>)
}

fn judges_late_once<A: Profile, B: Profile>(seed: u64) -> Kept {
    let is_seen = |adu: &&Adu| {
        adu.deadline.is_some_and(|long| long <= DEADLINE_MAX) && 2.0 / of_hz(adu) <= LONG
    };
    let deadlines = A::SENDS.iter().filter(is_seen).filter_map(|adu| adu.deadline);
    let Some(longest) = deadlines.max() else { return Ok(()) };
    // Two of each type are made, and what is made last may still come.
    let rarest = A::SENDS.iter().filter(is_seen).map(|adu| 2.0 / of_hz(adu)).fold(0.0, f64::max);
    let delay = A::NETWORK.one_way;
    let made = Duration::from_secs(3).max(Duration::from_secs_f64(rarest)) + delay;
    let good = Rules { delay, ..Rules::NONE };
    let mut world = World::<A, B>::new(good, 1.0, seed)?;
    let application = std::cell::RefCell::new(Application::new(A::SENDS.len()));
    let mut told = vec![0; A::SENDS.len()];
    let worse = Rules { delay: delay + longest + 10 * SLACK, ..good };
    for (rules, long) in [(good, made), (worse, made + longest + 10 * SLACK)] {
        world.forth.rules = rules;
        world.run(
            long,
            |now, end| application.borrow_mut().push(now, end),
            |_, event| {
                if let Event::Target { made, .. } = event {
                    application.borrow_mut().made = Some(made);
                }
            },
            |now, event| {
                let Some(lane) = lane_of(&event) else { return Ok(()) };
                let adu = &A::SENDS[lane];
                match event {
                    Event::Adu { number, is_late, .. } => {
                        let pushed = application.borrow().pushed[lane][number as usize].0;
                        let is_over =
                            adu.deadline.is_some_and(|long| now - pushed > long + 2 * SLACK);
                        if is_over && (adu.drops_late || !is_late) {
                            let age = now - pushed;
                            return broken(
                                adu,
                                format!("{number} is {age:?} old, and not told to be late"),
                            );
                        }
                        told[lane] += u32::from(is_late);
                    }
                    Event::Late { .. } => told[lane] += 1,
                    _ => {}
                }
                Ok(())
            },
        )?;
    }
    let silent = A::SENDS.iter().zip(&told).find(|(adu, told)| is_seen(adu) && **told == 0);
    match silent {
        Some((adu, _)) => broken(adu, "nothing is told to be late".into()),
        None => Ok(()),
    }
}

/// What comes unevenly is handed over as it was sent: times do not vary by more than they may, from one to the next nor, where
/// the time that they are held is fixed, among nineteen of twenty.
///
/// # Errors
/// What does not hold.
pub fn evens<A: Profile, B: Profile>() -> Kept {
    with_seeds(|seed| {
        let rules = Rules { loss: 0.0, ..worst::<A>() };
        let takes = || A::SENDS.iter().zip(B::TAKES).enumerate();
        let is_even = |(_, (sent, taken)): &(usize, (&Adu, &Adu))| {
            sent.playout != Mode::None || taken.jitter.is_some()
        };
        let least = (SETTLED + EVEN_LEAST) as f64;
        let long = |(_, (sent, _)): (usize, (&Adu, &Adu))| least / of_hz(sent) + 1.0;
        let long = takes().filter(is_even).map(long).fold(10.0, f64::max).min(LONG);
        let (sent, came) = stream::<A, B>(rules, 1.0, seed, Duration::from_secs_f64(long))?;
        for (lane, (sends, adu)) in takes().filter(is_even) {
            if sent.pushed[lane].len() < SETTLED + EVEN_LEAST {
                continue;
            }
            let ages = came[lane].adus.iter().skip(SETTLED);
            let ages: Vec<_> = ages.map(|(n, at)| *at - sent.pushed[lane][*n as usize].0).collect();
            let may_be = adu.jitter.unwrap_or(UNEVEN).max(TICK);
            let uneven = ages.windows(2).filter(|two| two[0].abs_diff(two[1]) > may_be).count();
            if ages.len() < EVEN_LEAST / 2 || uneven * 20 > ages.len() {
                return broken(adu, format!("{uneven} of {} come unevenly", ages.len()));
            }
            let varies = spread(ages);
            let is_fixed = |of: &Adu| !matches!(of.playout, Mode::Adaptive { .. });
            if is_fixed(sends) && is_fixed(adu) && varies > may_be + TICK {
                let what = format!("they come unevenly by {varies:?}, and may by {may_be:?}");
                return broken(adu, what);
            }
        }
        Ok(())
    })
}

/// ADUs a second of a type.
fn of_hz(adu: &Adu) -> f64 {
    if adu.hz > 0.0 { adu.hz } else { HZ }
}

/// How far apart nineteen of twenty are.
fn spread(mut ages: Vec<Duration>) -> Duration {
    ages.sort_unstable();
    let cut = ages.len() / 40;
    ages[ages.len() - 1 - cut] - ages[cut]
}

/// On a path that carries less than is asked for, what adapts is told to yield in the order of its clause, and fits.
///
/// # Errors
/// What does not hold.
pub fn adapts<A: Profile, B: Profile>() -> Kept {
    with_seeds(adapts_once::<A, B>)
}

fn adapts_once<A: Profile, B: Profile>(seed: u64) -> Kept {
    let adapted = B::TAKES.iter().find_map(|adu| Some((adu, adu.adapted?)));
    let Some((adu, adapted)) = adapted else { return Ok(()) };
    // As much as the least takes, and as much again.
    let rate = 2 * A::RATES.0;
    let queue_bytes = (rate * 3 / 80) as usize;
    let rules =
        Rules { delay: A::NETWORK.one_way, rate: Some(rate / 8), queue_bytes, ..Rules::NONE };
    let mut world = World::<A, B>::new(rules, 1.0, seed)?;
    let application = std::cell::RefCell::new(Application::new(A::SENDS.len()));
    let (mut targets, long) = (Vec::new(), Duration::from_secs(20));
    let mut through = [0; 2];
    for through in &mut through {
        let before = world.forth.carried_bytes;
        world.run(
            long,
            |now, end| application.borrow_mut().push(now, end),
            |_, event| {
                if let Event::Target { made, .. } = event {
                    targets.push(made);
                    application.borrow_mut().made = Some(made);
                }
            },
            |_, _| Ok(()),
        )?;
        *through = (world.forth.carried_bytes - before) * 8 / long.as_secs();
    }
    let (bits_min, bits_max) =
        (adapted.bits.0 as f64 / adapted.hz.0, adapted.bits.1 as f64 / adapted.hz.1);
    for Made { bits, hz, .. } in &targets {
        let (bits, hz) = (*bits as f64, *hz);
        let is_first_at_least = match adapted.order.first() {
            Some(Yields::Quality) => {
                hz > adapted.hz.1 - 0.01 || bits <= bits_min.min(bits_max) + 1.0
            }
            Some(Yields::Frequency) => bits > bits_max - 1.0 || hz <= adapted.hz.0 + 0.01,
            None => true,
        };
        if !is_first_at_least {
            let what = format!("{bits} bits at {hz:.1} Hz: not what its clause has yield first");
            return broken(adu, what);
        }
    }
    let share = through[1] as f64 / rate as f64;
    if !(0.5..1.02).contains(&share) {
        return broken(adu, format!("{share:.2} of {rate} bit/s are used"));
    }
    Ok(())
}

/// However much is made, no more bits a second are sent than these, and what the path is told of.
///
/// # Errors
/// What does not hold.
pub fn keeps_rate<A: Profile, B: Profile>(bits: u64) -> Kept {
    with_seeds(|seed| {
        let Some(first) = A::SENDS.first() else { return Ok(()) };
        let rules = Rules { delay: A::NETWORK.one_way, ..Rules::NONE };
        let mut world = World::<A, B>::new(rules, 1.0, seed)?;
        let long = Duration::from_secs(5);
        let mut number = 0;
        world.run(
            long,
            |now, end| {
                for (lane, adu) in A::SENDS.iter().enumerate() {
                    // More than may be sent, however often it is.
                    let len = adu.len_max.min(bits as usize / 8 / 50 + 1);
                    let _ = end.push(now, lane, &body(lane, number, len));
                    number += 1;
                }
            },
            |_, _| {},
            |_, _| Ok(()),
        )?;
        let sent = world.from.counters().sent_bytes * 8 / long.as_secs();
        let carried = world.forth.carried_bytes * 8 / long.as_secs();
        // Reports are not held back: a datagram for each of 100 ms.
        let may_be = bits + bits / 20 + 10 * A::MTU as u64 * 8;
        if carried > may_be || sent == 0 {
            return broken(
                first,
                format!("{carried} bit/s are sent with what else is, and {bits} may be"),
            );
        }
        Ok(())
    })
}

/// An ADU that is longer than its clauses let it be is refused by who would send it, or does not come.
///
/// # Errors
/// What does not hold.
pub fn bounds<A: Profile, B: Profile>() -> Kept {
    if !A::SENDS_BESIDE.is_empty() {
        super::bounds::<Beside<A>, Beside<B>>()?;
    }
    for (lane, adu) in B::TAKES.iter().enumerate() {
        let rules = Rules { delay: B::NETWORK.one_way, ..Rules::NONE };
        let mut world = World::<A, B>::new(rules, 1.0, 0)?;
        let (mut pushed, mut came) = (None, false);
        world.run(
            Duration::from_secs(2),
            |now, end| {
                let push = || end.push(now, lane, &body(lane, 0, adu.len_max + 1)).is_ok();
                pushed = Some(pushed.unwrap_or_else(push));
            },
            |_, _| {},
            |_, event| {
                came |= matches!(event, Event::Adu { .. });
                Ok(())
            },
        )?;
        if pushed != Some(false) || came {
            return broken(adu, "is sent although it is too long".into());
        }
    }
    Ok(())
}

/// The datagrams that a short ADU of a lane takes, which has this in it.
fn datagrams<A: Profile>(end: &mut End<A>, lane: usize, adu: &[u8]) -> Vec<Vec<u8>> {
    let (mut out, mut all) = (vec![0; A::MTU], Vec::new());
    if end.push(Instant::ZERO, lane, adu).is_err() {
        return all;
    }
    // What the bucket holds back goes a little later.
    for tick in 0..50 {
        while let Ok(Some(len)) = end.poll_transmit(Instant::ZERO + TICK * tick, &mut out) {
            all.push(out[..len].to_vec());
        }
    }
    all
}

/// Nothing of an ADU is seen by who listens to the link.
///
/// # Errors
/// What does not hold.
pub fn hides<A: Profile, B: Profile>() -> Kept {
    if A::SENDS_BESIDE.iter().any(|adu| adu.len_max >= MARK.len()) {
        super::hides::<Beside<A>, Beside<B>>()?;
    }
    for (lane, adu) in A::SENDS.iter().enumerate().filter(|(_, adu)| adu.len_max >= MARK.len()) {
        let sent = datagrams(&mut alone::<A>()?, lane, MARK);
        let shows = |bytes: &Vec<u8>| bytes.windows(MARK.len()).any(|part| part == MARK);
        if sent.is_empty() || sent.iter().any(shows) {
            return broken(adu, "is in the clear on the link, or is not sent".into());
        }
    }
    Ok(())
}

/// A datagram of which any bit was changed is nothing; as it was, it is an ADU.
///
/// # Errors
/// What does not hold.
pub fn judges_forged<A: Profile, B: Profile>() -> Kept {
    for (lane, adu) in A::SENDS.iter().enumerate() {
        let [one, other] = keys::<A, B>()?;
        let mut from = end::<A>(one)?;
        let mut to = end::<B>(other)?;
        let len = adu.len_max.min(MARK.len());
        let sent = datagrams(&mut from, lane, &body(lane, 0, len));
        let Some(datagram) = sent.first() else { return broken(adu, "is not sent".into()) };
        for bit in 0..datagram.len() * 8 {
            let mut forged = datagram.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            to.handle_datagram(Instant::ZERO, &forged, 0);
            if to.counters().opened > 0 {
                return broken(adu, format!("is taken with bit {bit} changed"));
            }
        }
        to.handle_datagram(Instant::ZERO, datagram, 0);
        if to.counters().opened != 1 {
            return broken(adu, "is not taken as it was sent".into());
        }
    }
    Ok(())
}

/// The session of an end with the one at an address that has the same identity, over a link with these rules and this seed.
fn met<A: Profile>(
    at: &SocketAddr,
    identity: Arc<Identity>,
    terms: &Terms,
    (rules, seed): (Rules, u64),
) -> Result<Session<A>> {
    let device = Box::new(Link::new(loopback(), rules, seed, Arc::new(Wire::default()))?);
    let key = identity.fingerprint();
    session::open::<A>(device, *at, identity, key, terms.clone())
}

/// An end that has all clauses alike but one is refused, and told which, whichever it is.
///
/// # Errors
/// What does not hold.
pub fn refuses<A: Profile, B: Profile>() -> Kept {
    for at in 0..A::CLAUSES.len() {
        let mut clauses = A::CLAUSES.to_vec();
        clauses[at] = "another";
        let identity = identity()?;
        let listener = Listener::<B>::bind(loopback(), identity.clone(), Allow::OwnKey)?;
        match met::<A>(&listener.local_addr(), identity, &Terms::of(&clauses), (Rules::NONE, 0)) {
            Err(Error::Differs { clause }) if clause == A::CLAUSES[at] => {}
            _ => return Err(Broken::Accepted(A::CLAUSES[at])),
        }
    }
    Ok(())
}
