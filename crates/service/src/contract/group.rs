//! What the clauses of a group promise, observed between its sender and eight receivers over loopback: each of them on a link
//! of its own that loses, reorders, repeats and damages frames both ways.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::impair::Rules;
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_session::{Allow, Fingerprint, Identity, Terms};
use fusewire_stack as stack;
use fusewire_stack::group::{ReceiverConfig, SenderConfig};

use super::datagrams::judge_runs;
use super::link::{BAD, Link, MARK, Wire};
use super::{Broken, NUMBER_LEN, fill, identity, length, loopback, with_seeds};
use crate::group::{
    Counters, Event, Leaving, Place, Receiver, SILENCE, Sender, visit, visit_from, visitors,
};
use crate::profile::{self, Adu, Network, Order, Profile};
use crate::{Error, Result};

type Outcome<T = ()> = std::result::Result<T, Broken>;

/// Receivers, where the group may have so many.
const RECEIVERS: usize = 8;
/// Threads that receivers come from.
const VISITORS: usize = 4;
/// ADUs of each type, but for those of which the rate of their stream lets less than one a second: of these one in so many rounds.
const EACH: u32 = 30;
const ROUNDS: u32 = 10;
/// They are sent so far apart, at least and at most: what takes longer is not looked at.
const PACE: Duration = Duration::from_millis(2);
const ADU_MAX: Duration = Duration::from_secs(5);
/// Bytes around XTP's packets: headers of UDP and IPv4.
const AROUND: u64 = 28;
/// Bytes of the longest that is sent.
const TEST_LEN: usize = 1503;
/// Bytes of a packet to a group that are none of an ADU's.
const PACKET: usize = 160;
/// For how long more is made than may be sent, and what may leave at once.
const FLOOD: Duration = Duration::from_secs(2);
const BURST: u64 = 16 << 10;
/// How long it may take until all are there; until the end is known.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of what is sent once, a link loses 3 of 100 frames, damages 2, and lets 5 be passed by others: of 30 more than a half are lost
/// once in a hundred million.
const LOST_SHARE: u32 = 2;

/// A group of this process's, like no other of it.
fn place() -> Place {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let group = ([239, 255, (pid >> 8) as u8, pid as u8], 20_000 + next % 10_000 * 2);
    Place { interface: Some("lo".into()), ..Place::new(loopback(), group.into()) }
}

/// Where receivers find a sender.
struct Host<A> {
    sender: Sender<A>,
    place: Place,
    identity: Arc<Identity>,
    wire: Arc<Wire>,
    at: SocketAddr,
    key: Fingerprint,
}

impl<A: Profile> Host<A> {
    fn new() -> Result<Host<A>> {
        let (identity, wire) = (identity()?, Arc::new(Wire::default()));
        let (heard, place) = (Arc::clone(&wire), place());
        let sender = Sender::over(&place, identity.clone(), Allow::OwnKey, move |config| {
            let device: Box<dyn Device> = Box::new(config.udp_device()?);
            Ok(Box::new(Link::over(device, Rules::NONE, 0, heard.clone())))
        })?;
        let (at, key) = (sender.local_addr(), identity.fingerprint());
        Ok(Host { sender, place, identity, wire, at, key })
    }

    /// One more receiver, with these terms, on such a link.
    fn join<B: Profile>(&self, terms: &Terms, rules: Rules, seed: u64) -> Result<Receiver<B>> {
        self.join_over(terms, rules, seed, &self.wire)
    }

    fn join_over<B: Profile>(
        &self,
        terms: &Terms,
        rules: Rules,
        seed: u64,
        wire: &Arc<Wire>,
    ) -> Result<Receiver<B>> {
        let identity = self.identity.clone();
        Receiver::with_terms(self.at, Some("lo"), identity, self.key, terms.clone(), |config| {
            let device: Box<dyn Device> = Box::new(config.udp_device()?);
            Ok(Box::new(Link::over(device, rules, seed, wire.clone())))
        })
    }

    fn join_alike<B: Profile>(&self, rules: Rules, seed: u64) -> Result<Receiver<B>> {
        self.join(&Terms::of(B::CLAUSES), rules, seed)
    }

    /// Waits until so many are there.
    fn wait_for(&self, count: usize) -> Outcome {
        let begun = Instant::now();
        while self.sender.receivers() < count {
            if begun.elapsed() > PATIENCE {
                return broken::<A>(format!("{} of {count} have come", self.sender.receivers()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends one; what finds no room is tried again.
    fn send(&self, n: u32, adu: &Adu) -> Outcome {
        let mut body = vec![0; length(n, adu)];
        fill(n, &mut body);
        self.send_bytes(adu, &body)
    }

    fn send_bytes(&self, adu: &Adu, body: &[u8]) -> Outcome {
        let begun = Instant::now();
        while !self.sender.send_message(adu, &body)? {
            if begun.elapsed() > PATIENCE {
                return clause(adu, "is not sent".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Streams of the group.
    fn streams(&self) -> usize {
        [true, false].iter().filter(|is| A::SENDS.iter().any(|adu| adu.is_resent == **is)).count()
    }

    /// Says again, from another port and again and again, how the sender announces its streams: as anybody can who listens to
    /// the group. `heard` is how many there are.
    fn pretends(&self, heard: &AtomicUsize, is_over: &AtomicBool) -> Outcome {
        let (mut both, mut batch) = (Vec::new(), RxBatch::new(4));
        for stream in 0..2 {
            let peer = Place::of(self.place.group, stream);
            let interface = Some("lo".to_owned());
            let says = SenderConfig { interface, local: loopback(), ..SenderConfig::new(peer) };
            let says = says.udp_device().map_err(Error::from)?;
            let interface = Some("lo".to_owned());
            let listens = ReceiverConfig { interface, ..ReceiverConfig::new(peer) };
            let listens = listens.udp_device().map_err(Error::from)?;
            both.push((peer, listens, says, None::<Vec<u8>>));
        }
        let failed = |error| Error::from(stack::Error::os("carrying a group's packets")(error));
        while !is_over.load(Ordering::Relaxed) {
            for (peer, listens, says, first) in &mut both {
                if first.is_none() && listens.receive(&mut batch).map_err(failed)? > 0 {
                    let frame = batch.iter().flat_map(|packet| packet.frames()).next();
                    *first = frame.map(<[u8]>::to_vec);
                    heard.fetch_add(1, Ordering::Relaxed);
                }
                let Some(first) = first else { continue };
                let frame = TxFrame { peer: *peer, header: first, payload: &[], ecn: Ecn::NotEct };
                says.transmit(&[frame]).map_err(failed)?;
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn clause<T>(adu: &Adu, what: String) -> Outcome<T> {
    Err(Broken::Clause { adu: adu.name, what })
}

fn broken<A: Profile>(what: String) -> Outcome {
    Err(Broken::Clause { adu: A::NAME, what })
}

/// Types that are looked at: not what is sent once in more than five seconds.
fn looked_at<A: Profile>() -> Vec<Adu> {
    let is_seen =
        |adu: &&Adu| adu.len_max >= NUMBER_LEN && seconds::<A>(adu) <= ADU_MAX.as_secs_f64();
    A::SENDS.iter().filter(is_seen).copied().collect()
}

/// How long the rate of what is sent once takes for one of a type.
fn seconds<A: Profile>(adu: &Adu) -> f64 {
    let bytes = adu.len_max.min(TEST_LEN) + 2 * PACKET;
    let rate = f64::from(A::CAST_RATES[1].max(1));
    if adu.is_resent { 0.0 } else { bytes as f64 / rate }
}

/// What is sent in turn: of which type each is, and again from the first.
#[derive(Debug)]
struct Turns {
    adus: Vec<Adu>,
    turns: Vec<usize>,
}

impl Turns {
    fn of<A: Profile>() -> Turns {
        let adus = looked_at::<A>();
        let is_slow = |at: &usize| seconds::<A>(&adus[*at]) > 1.0;
        let all = || 0..adus.len();
        let mut turns: Vec<usize> = all().collect();
        for _ in 1..ROUNDS {
            turns.extend(all().filter(|at| !is_slow(at)));
        }
        Turns { adus, turns }
    }

    fn adu(&self, n: u32) -> &Adu {
        &self.adus[self.turns[n as usize % self.turns.len()]]
    }

    /// The place behind so many of each type.
    fn end(&self, from: u32, each: u32) -> u32 {
        from + (each * self.turns.len() as u32 / ROUNDS).max(1)
    }
}

/// The type and place of an ADU, if it is one that was sent.
fn which<A: Profile>(number: u8, body: &[u8]) -> Option<u32> {
    let adu = profile::of_number(A::SENDS, number)?;
    let n = u32::from_be_bytes(*body.first_chunk()?);
    let mut whole = vec![0; length(n, adu)];
    fill(n, &mut whole);
    (whole == body).then_some(n)
}

/// What a receiver has: of each type, places in the order in which they came, and when.
#[derive(Debug, Default)]
struct Seen {
    came: BTreeMap<u8, Vec<(u32, Instant)>>,
    /// Of all types.
    places: Vec<u32>,
    counters: Counters,
}

/// Takes all up to the end.
fn take<A: Profile, B: Profile>(mut receiver: Receiver<B>) -> Outcome<Seen> {
    let mut seen = Seen::default();
    let is_one = |number, body: &[u8]| which::<A>(number, body).is_some();
    while let Some((number, body)) = receiver.recv(Some(PATIENCE), is_one)? {
        let n = which::<A>(number, body).unwrap_or(u32::MAX);
        seen.came.entry(number).or_default().push((n, Instant::now()));
        seen.places.push(n);
    }
    seen.counters = receiver.counters();
    Ok(seen)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    let panicked = |_| Broken::Clause { adu: "", what: "a receiver has panicked".into() };
    thread.join().map_err(panicked)?
}

/// When each was sent, by its place.
type Sent = Mutex<BTreeMap<u32, Instant>>;

/// Sends the same number of each type in turn, from this place on; how many there are now.
fn send_all<A: Profile>(host: &Host<A>, from: u32, each: u32, sent: &Sent) -> Outcome<u32> {
    let turns = Turns::of::<A>();
    let end = turns.end(from, each);
    for n in from..end {
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(n, Instant::now());
        let adu = turns.adu(n);
        host.send(n, adu)?;
        thread::sleep(takes::<A>(length(n, adu), adu.is_resent));
    }
    Ok(end)
}

/// How long the rate of its stream takes for one of so many bytes, and two milliseconds at least: nobody makes more than that.
fn takes<A: Profile>(len: usize, is_resent: bool) -> Duration {
    let rate = A::CAST_RATES[usize::from(!is_resent)].max(1);
    let bytes = len + len.div_ceil(A::MTU - PACKET).max(1) * PACKET;
    Duration::from_secs_f64(bytes as f64 / f64::from(rate)).clamp(PACE, ADU_MAX)
}

/// What must arrive does at each receiver, once, in its order, and in time; what may be lost is lost in bounds, and never comes
/// behind a newer one.
///
/// # Errors
/// What does not hold.
pub fn reaches<A: Profile, B: Profile>() -> Outcome {
    with_seeds(reaches_once::<A, B>)
}

fn reaches_once<A: Profile, B: Profile>(seed: u64) -> Outcome {
    let (all, end, sent) = take_each::<A, B>(BAD, seed)?;
    all.iter().try_for_each(|seen| has_all::<A>(seen, 0..end, &sent))
}

/// What each of as many receivers as may be has of what is sent over links that do this; how much was sent, and when.
fn take_each<A: Profile, B: Profile>(
    rules: Rules,
    seed: u64,
) -> Outcome<(Vec<Seen>, u32, BTreeMap<u32, Instant>)> {
    if looked_at::<A>().is_empty() {
        return Err(Broken::Nothing);
    }
    let (host, sent) = (Host::<A>::new()?, Sent::default());
    let count = RECEIVERS.min(A::RECEIVERS.1);
    let (all, end) = thread::scope(|scope| {
        let mut receivers = Vec::new();
        for n in 0..count as u64 {
            let receiver = host.join_alike::<B>(rules, seed * 100 + n)?;
            receivers.push(scope.spawn(|| take::<A, B>(receiver)));
        }
        host.wait_for(count)?;
        let end = send_all(&host, 0, EACH, &sent)?;
        host.sender.finish(PATIENCE)?;
        let all: Outcome<Vec<_>> = receivers.into_iter().map(joined).collect();
        let longest = host.wire.longest.load(Ordering::Relaxed) + AROUND;
        if longest > B::MTU as u64 {
            let what = format!("a packet has {longest} bytes, and {} may be", B::MTU);
            return Err(Broken::Clause { adu: A::NAME, what });
        }
        all.map(|all| (all, end))
    })?;
    Ok((all, end, sent.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Of what may be lost no more is than its clause lets, over a network that is as bad as it is vouched for.
///
/// # Errors
/// What does not hold.
pub fn loses_few<A: Profile, B: Profile>() -> Outcome {
    with_seeds(loses_few_once::<A, B>)
}

fn loses_few_once<A: Profile, B: Profile>(seed: u64) -> Outcome {
    let adus = looked_at::<A>();
    if adus.iter().all(|adu| adu.is_resent || adu.loss_max >= 1.0) {
        return Err(Broken::Nothing);
    }
    let Network { loss, one_way: delay, .. } = A::NETWORK;
    let (all, end, _) = take_each::<A, B>(Rules { loss, delay, ..Rules::NONE }, seed)?;
    has_lost_few(&Turns::of::<A>(), &all, end)
}

/// Whether receivers of so many ADUs, of these types in turn, have lost no more than they may.
fn has_lost_few(turns: &Turns, all: &[Seen], end: u32) -> Outcome {
    let adus = &turns.adus;
    let once = |adu: &&Adu| !adu.is_resent;
    let (newest, others): (Vec<_>, Vec<_>) =
        adus.iter().filter(once).partition(|adu| adu.order == Order::Newest);
    // Which of the newest were overtaken nobody counts: those are looked at together.
    let mut groups: Vec<_> = others.iter().map(std::slice::from_ref).collect();
    groups.extend((!newest.is_empty()).then_some(&newest[..]));
    for its in groups {
        let is_its = |n: &u32| its.contains(&turns.adu(*n));
        let should = (0..end).filter(is_its).count() * all.len();
        let came = |seen: &Seen| -> usize {
            let overtaken = match its[0].order {
                Order::Newest => seen.counters.overtaken as usize,
                _ => 0,
            };
            let came = its.iter().filter_map(|adu| seen.came.get(&adu.number)).map(Vec::len);
            came.sum::<usize>() + overtaken
        };
        let lost = should.saturating_sub(all.iter().map(came).sum());
        // Four deviations beyond the share, which one in 30,000 is by chance, and the last few.
        let share = its.iter().map(|adu| adu.loss_max).sum::<f64>() / its.len() as f64;
        let n = should as f64;
        let may_be = n * share + 4.0 * (n * share * (1.0 - share)).sqrt() + 2.0;
        if lost as f64 > may_be {
            return clause(its[0], format!("{lost} of {should} are lost, and {may_be:.0} may be"));
        }
    }
    for adu in adus.iter().filter(once) {
        for seen in all {
            let came: Vec<u32> =
                seen.came.get(&adu.number).into_iter().flatten().map(|(n, _)| *n).collect();
            let places: Vec<u32> = (0..end).filter(|n| turns.adu(*n) == adu).collect();
            let is_lost = |number: u64| !came.contains(&places[number as usize]);
            judge_runs(adu, places.len() as u64, is_lost)?;
        }
    }
    Ok(())
}

/// Whether nothing has come behind what its clauses say that it comes before.
fn has_come_in_order(turns: &Turns, places: &[u32]) -> Outcome {
    for (at, n) in places.iter().enumerate() {
        let adu = turns.adu(*n);
        let waits = |before: &Adu| {
            let is_in_row = before.is_resent == adu.is_resent && before.order != Order::Newest;
            adu.order == Order::All && is_in_row || adu.after >> before.number & 1 == 1
        };
        let behind = places[at + 1..].iter().find(|m| *m < n && waits(turns.adu(**m)));
        if let Some(behind) = behind {
            let what = format!("{behind}, a {}, has come behind {n}", turns.adu(*behind).name);
            return clause(adu, what);
        }
    }
    Ok(())
}

/// Whether a receiver has what it should of what was sent.
fn has_all<A: Profile>(
    seen: &Seen,
    places: std::ops::Range<u32>,
    sent: &BTreeMap<u32, Instant>,
) -> Outcome {
    let turns = Turns::of::<A>();
    for adu in &turns.adus {
        let none = Vec::new();
        let came = seen.came.get(&adu.number).unwrap_or(&none);
        if let Some(pair) = came.windows(2).find(|pair| pair[0].0 >= pair[1].0)
            && (adu.order != Order::None || pair[0].0 == pair[1].0)
        {
            return clause(adu, format!("{} has come behind {}", pair[1].0, pair[0].0));
        }
        let should = places.clone().filter(|n| turns.adu(*n) == adu).count() as u32;
        let has = came.iter().filter(|(n, _)| places.contains(n)).count() as u32;
        let late = |(n, at): &&(u32, Instant)| {
            let took = sent.get(n).map(|sent| at.saturating_duration_since(*sent));
            adu.deadline.is_some_and(|deadline| took.is_none_or(|took| took > deadline))
        };
        let late = came.iter().filter(late).count() as u32;
        let lost = should.saturating_sub(has);
        // A machine that has no time for us makes one or the other late.
        let may_be = if should < ROUNDS { 1 } else { EACH / 10 };
        if late > may_be {
            return clause(adu, format!("{late} of {should} were late"));
        }
        if adu.is_resent && lost > 0 {
            return clause(adu, format!("{has} of {should} have come: {:?}", seen.counters));
        }
        let overtaken = if adu.order == Order::Newest { seen.counters.overtaken } else { 0 };
        // Of a few all may be lost.
        if should >= ROUNDS && lost > should / LOST_SHARE + overtaken as u32 {
            return clause(adu, format!("{has} of {should} have come: {:?}", seen.counters));
        }
    }
    has_come_in_order(&turns, &seen.places)
}

/// However much is made of what is sent once, no more than its rate leaves.
///
/// # Errors
/// What does not hold.
pub fn keeps_rate<A: Profile, B: Profile>() -> Outcome {
    let longest = A::SENDS.iter().filter(|adu| !adu.is_resent).max_by_key(|adu| adu.len_max);
    let Some(adu) = longest else { return Err(Broken::Nothing) };
    let (host, wire) = (Host::<A>::new()?, Arc::new(Wire::default()));
    thread::scope(|scope| {
        let receiver = host.join_over::<B>(&Terms::of(B::CLAUSES), Rules::NONE, 0, &wire)?;
        let taking = scope.spawn(|| take_any(receiver));
        host.wait_for(1)?;
        let (begun, before) = (Instant::now(), host.wire.sent_bytes.load(Ordering::Relaxed));
        let body = vec![7; adu.len_max.min(TEST_LEN)];
        while begun.elapsed() < FLOOD {
            if !host.sender.send_message(adu, &&body[..])? {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let sent = host.wire.sent_bytes.load(Ordering::Relaxed) - before;
        let rate = u64::from(B::CAST_RATES[1]);
        // What waits leaves at once, and what says how the streams are.
        let may_be = (rate as f64 * 1.25 * begun.elapsed().as_secs_f64()) as u64 + BURST;
        host.sender.finish(PATIENCE)?;
        joined(taking)?;
        if sent > may_be {
            return clause(adu, format!("{sent} bytes are sent, and {may_be} may be"));
        }
        Ok(())
    })
}

/// One receiver that is frozen holds nobody: the others get what they should in time, and it is let go, and told so.
///
/// # Errors
/// What does not hold.
pub fn goes_on<A: Profile, B: Profile>() -> Outcome {
    with_seeds(goes_on_once::<A, B>)
}

fn goes_on_once<A: Profile, B: Profile>(seed: u64) -> Outcome {
    let (host, sent) = (Host::<A>::new()?, Sent::default());
    let count = RECEIVERS.min(A::RECEIVERS.1);
    if count < 2 || !looked_at::<A>().iter().any(|adu| adu.is_resent) {
        return Err(Broken::Nothing);
    }
    thread::scope(|scope| {
        let mut receivers = Vec::new();
        for n in 1..count as u64 {
            let receiver = host.join_alike::<B>(BAD, seed * 100 + n)?;
            receivers.push(scope.spawn(|| take::<A, B>(receiver)));
        }
        let mut frozen = host.join_alike::<B>(Rules::NONE, seed)?;
        while host.sender.receivers() < count {
            match frozen.recv(Some(Duration::from_millis(5)), |_, _| true) {
                Err(Error::Stack(stack::Error::Elapsed)) => {}
                other => return other.map_err(Broken::from).map(drop),
            }
        }
        while host.sender.next_event(Duration::ZERO)?.is_some() {}
        let begun = Instant::now();
        let mut end = send_all(&host, 0, EACH, &sent)?;
        let gone = loop {
            match host.sender.next_event(Duration::from_millis(50))? {
                Some(Event::Left { why, .. }) => break why,
                _ if begun.elapsed() > SILENCE + PATIENCE => {
                    return broken::<A>("who is frozen is not let go".into());
                }
                _ => end = send_all(&host, end, 1, &sent)?,
            }
        };
        if !matches!(gone, Leaving::Silent | Leaving::Slow) {
            return broken::<A>(format!("who is frozen has left: {gone:?}"));
        }
        end = send_all(&host, end, 2, &sent)?;
        host.sender.finish(PATIENCE)?;
        {
            let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            for receiver in receivers {
                has_all::<A>(&joined(receiver)?, 0..end, &sent)?;
            }
        }
        // It has what came until it was let go, and is told that this is not all.
        match take::<A, B>(frozen) {
            Err(Broken::End(Error::LetGo)) => Ok(()),
            other => broken::<A>(format!("who was let go is not told so: {other:?}")),
        }
    })
}

/// Who has left can read nothing that is sent from then on, though it hears it and has the keys that it was told; the others
/// go on.
///
/// # Errors
/// What does not hold.
pub fn forgets<A: Profile, B: Profile>() -> Outcome {
    with_seeds(forgets_once::<A, B>)
}

fn forgets_once<A: Profile, B: Profile>(seed: u64) -> Outcome {
    let (host, sent) = (Host::<A>::new()?, Sent::default());
    if A::RECEIVERS.1 < 2 || looked_at::<A>().is_empty() {
        return Err(Broken::Nothing);
    }
    thread::scope(|scope| {
        let stays = host.join_alike::<B>(Rules::NONE, seed)?;
        let stays = scope.spawn(|| take::<A, B>(stays));
        let wire = Arc::new(Wire::default());
        let terms = Terms::of(B::CLAUSES);
        let leaves = host.join_over::<B>(&terms, Rules::NONE, seed + 1, &wire)?;
        let listening = scope.spawn(move || overhears::<A, B>(leaves, &wire));
        host.wait_for(2)?;
        let first = send_all(&host, 0, EACH / 3, &sent)?;
        // It has left when the sender knows that its session has ended; keys are new before anything else is sent.
        loop {
            match host.sender.next_event(PATIENCE)? {
                Some(Event::Left { .. }) => break,
                Some(_) => {}
                None => return broken::<A>("nobody has left".into()),
            }
        }
        let from = send_all(&host, first, 1, &sent)?;
        let end = send_all(&host, from, EACH / 3, &sent)?;
        host.sender.finish(PATIENCE)?;
        let heard = joined(listening)?;
        match heard.iter().find(|n| (first..end).contains(n)) {
            Some(n) => {
                return broken::<A>(format!("{n} is read by who had left before it was sent"));
            }
            None if heard.is_empty() => return broken::<A>("nothing was heard before".into()),
            None => {}
        }
        let stays = joined(stays)?;
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        has_all::<A>(&stays, 0..end, &sent)
    })
}

/// Ends its session when it has something, and goes on to listen for four seconds; what it can read.
fn overhears<A: Profile, B: Profile>(mut receiver: Receiver<B>, wire: &Wire) -> Outcome<Vec<u32>> {
    // A sender that fails before it sends anything is not waited for without end.
    let begun = Instant::now();
    let (mut heard, mut end) = (Vec::new(), None);
    let is_one = |number, body: &[u8]| which::<A>(number, body).is_some();
    while end.map_or(begun.elapsed() < 3 * PATIENCE, |end| Instant::now() < end) {
        match receiver.recv(Some(Duration::from_millis(20)), is_one) {
            Ok(Some((number, body))) => heard.extend(which::<A>(number, body)),
            Ok(None) => break,
            // Its own session has ended, and what it listens to goes on.
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
        if !heard.is_empty() && end.is_none() {
            // It does not heed that it is a member no more.
            wire.is_deaf.store(true, Ordering::Relaxed);
            receiver.hang_up();
            end = Some(Instant::now() + Duration::from_secs(4));
        }
    }
    Ok(heard)
}

/// What a member has forged, or nobody has encoded so, ends nobody: it is passed over and counted. Nor does anybody who announces
/// the group's streams as his.
///
/// # Errors
/// What does not hold.
pub fn passes_over<A: Profile, B: Profile>() -> Outcome {
    let (host, sent) = (Host::<A>::new()?, Sent::default());
    let adus = looked_at::<A>();
    if adus.is_empty() {
        return Err(Broken::Nothing);
    }
    let (pretended, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let pretends = scope.spawn(|| host.pretends(&pretended, &is_over));
        let ends = Ends(&is_over);
        let begun = Instant::now();
        while pretended.load(Ordering::Relaxed) < host.streams() && !pretends.is_finished() {
            if begun.elapsed() > PATIENCE {
                return broken::<A>("no stranger announces its streams as his".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        let passed = passes_over_once::<A, B>(&host, &adus, &sent);
        drop(ends);
        joined(pretends)?;
        passed
    })
}

/// Whatever comes of the rest, it is over then.
struct Ends<'o>(&'o AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn passes_over_once<A: Profile, B: Profile>(host: &Host<A>, adus: &[Adu], sent: &Sent) -> Outcome {
    thread::scope(|scope| {
        let receiver = host.join_alike::<B>(Rules::NONE, 0)?;
        let receiver = scope.spawn(|| take::<A, B>(receiver));
        host.wait_for(1)?;
        let mut forged = 0;
        for adu in adus {
            let other = Adu { number: 63, ..*adu };
            let long = vec![7; adu.len_max + 1];
            // No encoding, none of the types, longer than one may be, and nothing at all.
            let bodies =
                [(adu, &[7; 3][..]), (&other, &[7; 8][..]), (adu, &long[..]), (adu, &[][..])];
            let longest = A::SENDS.iter().filter(|other| other.is_resent == adu.is_resent);
            let longest = longest.map(|other| other.len_max).max().unwrap_or(0);
            for (adu, body) in bodies.into_iter().filter(|(_, body)| body.len() <= longest) {
                let begun = Instant::now();
                while !host.sender.send_message(adu, &body)? && begun.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(5));
                }
                forged += 1;
            }
        }
        let end = send_all(host, 0, EACH / 3, sent)?;
        host.sender.finish_here(PATIENCE)?;
        let seen = joined(receiver)?;
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        has_all::<A>(&seen, 0..end, &sent)?;
        match seen.counters.refused {
            found if found >= forged => Ok(()),
            found => broken::<A>(format!("{found} of {forged} forged messages were refused")),
        }
    })
}

/// Nothing of an ADU is seen by who listens to the group.
///
/// # Errors
/// What does not hold.
pub fn hides<A: Profile, B: Profile>() -> Outcome {
    let host = Host::<A>::new()?;
    let mut adus = A::SENDS.iter().filter(|adu| adu.len_max >= MARK.len()).peekable();
    if adus.peek().is_none() {
        return Err(Broken::Nothing);
    }
    let receiver = host.join_alike::<B>(Rules::NONE, 0)?;
    thread::scope(|scope| {
        let taking = scope.spawn(|| take_any(receiver));
        host.wait_for(1)?;
        adus.try_for_each(|adu| host.send_bytes(adu, MARK))?;
        host.sender.finish(PATIENCE)?;
        let wire = &host.wire;
        if joined(taking)? == 0 {
            return broken::<A>("nothing was taken".into());
        }
        if wire.shown.load(Ordering::Relaxed) > 0 || wire.frames.load(Ordering::Relaxed) == 0 {
            return broken::<A>("is in the clear on the link".into());
        }
        Ok(())
    })
}

/// Takes whatever comes; how much.
fn take_any<B: Profile>(mut receiver: Receiver<B>) -> Outcome<usize> {
    let mut count = 0;
    while receiver.recv(Some(PATIENCE), |_, _| true)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// As many receivers come as may, and no more; a client that says nothing keeps none out.
///
/// # Errors
/// What does not hold.
pub fn admits<A: Profile, B: Profile>() -> Outcome {
    let host = Host::<A>::new()?;
    let silent = visit::<A>(host.at, host.identity.clone(), host.key, None)?;
    let count = B::RECEIVERS.1 as u64;
    // Some come at the same time: who is told keys, and does not join the group, is let go after a while.
    let inside = thread::scope(|scope| {
        let some = |from: u64| {
            let host = &host;
            move || {
                let endpoint = visitors::<A>(host.at)?;
                let mut inside = Vec::new();
                for n in (from..=count).step_by(VISITORS) {
                    let identity = host.identity.clone();
                    let one = visit_from::<A>(&endpoint, host.at, identity, host.key, Some(n))?;
                    one.recv_adu_timeout(PATIENCE).map_err(Error::from)?;
                    inside.push(one);
                }
                Ok::<_, Broken>(inside)
            }
        };
        let coming: Vec<_> = (1..=VISITORS as u64).map(|from| scope.spawn(some(from))).collect();
        coming.into_iter().map(joined).collect::<Outcome<Vec<_>>>()
    })?;
    match host.join_alike::<B>(Rules::NONE, 0) {
        Err(Error::Full) => {}
        Ok(_) => return broken::<A>("more receivers are let in than may be".into()),
        Err(error) => return Err(error.into()),
    }
    drop((silent, inside));
    Ok(())
}

/// A receiver that has all clauses alike but one is refused, and told which, whichever it is.
///
/// # Errors
/// What does not hold.
pub fn refuses<A: Profile, B: Profile>() -> Outcome {
    let host = Host::<A>::new()?;
    for at in 0..B::CLAUSES.len() {
        let mut clauses = B::CLAUSES.to_vec();
        clauses[at] = "another";
        match host.join::<B>(&Terms::of(&clauses), Rules::NONE, 0) {
            Err(Error::Differs { clause }) if clause == B::CLAUSES[at] => {}
            _ => return Err(Broken::Accepted(B::CLAUSES[at])),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
