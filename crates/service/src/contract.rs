//! What the clauses of a specification promise, observed from outside between two ends over loopback, on a link that loses,
//! reorders, repeats and damages frames: what generated contract tests call. The ends are those that the program has, with bytes
//! in place of its values.
//!
//! The link has one seed, or `FUSEWIRE_SEEDS` of them one after the other; `FUSEWIRE_SEED` is that of a failure.

pub mod datagrams;
pub mod group;
mod link;
mod path;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::impair::Rules;
use fusewire_session::{Allow, Identity, Terms};
use fusewire_stack::{self as stack, Connection};

use crate::profile::{self, Adu, Order, Profile};
use crate::stream::{self, Listener, Stream};
use crate::{Error, Result};
use link::{Link, MARK, Wire};

/// ADUs of each type that are sent.
const EACH: u32 = 100;

/// Bytes of an ADU that say which it is; types that are shorter are not looked at.
pub const NUMBER_LEN: usize = 4;

/// Types whose ADUs are worth something for longer are not waited for.
pub const DEADLINE_MAX: Duration = Duration::from_secs(10);

/// How long an end waits for the next call before it looks whether the contract is over.
const POLL: Duration = Duration::from_millis(20);

/// Calls that a contract repeats because the first ones expired on a busy machine.
const TRIES: usize = 20;

/// How much later than at its time something may happen here: threads wait for processors.
const SLACK: Duration = Duration::from_secs(2);

/// What does not hold.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Broken {
    /// An end failed.
    #[error(transparent)]
    End(#[from] Error),
    /// A clause is not kept.
    #[error("{adu}: {what}")]
    Clause {
        /// Of which type.
        adu: &'static str,
        /// How.
        what: String,
    },
    /// With this seed of the link.
    #[error("{broken} (FUSEWIRE_SEED={seed})")]
    Seed {
        /// Which.
        seed: u64,
        /// What does not hold.
        broken: Box<Broken>,
    },
    /// No type is one that the contract is about and that it can tell apart: longer than a few bytes, with a deadline of a few
    /// seconds.
    #[error("there is nothing to look at")]
    Nothing,
    /// The two talk although they are of different specifications.
    #[error("ends whose clause `{0}` differs do not refuse each other for it")]
    Accepted(&'static str),
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn identity() -> Result<Arc<Identity>> {
    let identity = Identity::ephemeral().map_err(fusewire_stack::Error::from)?;
    Ok(Arc::new(identity))
}

/// Looks at a contract with each seed.
fn with_seeds(
    contract: impl Fn(u64) -> std::result::Result<(), Broken>,
) -> std::result::Result<(), Broken> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("FUSEWIRE_SEED"), number("FUSEWIRE_SEEDS")) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, Some(count)) => 0..count,
        (None, None) => 19..20,
    };
    for seed in seeds {
        contract(seed).map_err(|broken| Broken::Seed { seed, broken: broken.into() })?;
    }
    Ok(())
}

/// A session of two ends, and the link between them.
struct Pair<A: Profile, B: Profile> {
    first: Stream<A>,
    second: Stream<B>,
    wire: Arc<Wire>,
}

impl<A: Profile, B: Profile> Pair<A, B> {
    /// Over loopback; the first says these terms, over a link with these rules.
    fn new(terms: &Terms, rules: Rules, seed: u64) -> Result<Pair<A, B>> {
        let identity = identity()?;
        let listener = Listener::<B>::bind(loopback(), identity.clone(), Allow::OwnKey)?;
        let (key, wire) = (identity.fingerprint(), Arc::new(Wire::default()));
        let device = Box::new(Link::new(loopback(), rules, seed, wire.clone())?);
        let at = listener.local_addr();
        let first = stream::open::<A>(device, at, identity, key, terms.clone())?;
        Ok(Pair { first, second: listener.accept_stream()?, wire })
    }

    fn of_one_specification(seed: u64) -> Result<Pair<A, B>> {
        Pair::new(&Terms::of(A::CLAUSES), link::BAD, seed)
    }
}

/// Closes both ends of a session when a contract leaves its scope early, by an error or a panic. A thread that waits at either end
/// then returns at once, whatever the link loses.
struct Closing {
    ends: Vec<Arc<Connection>>,
}

impl Closing {
    fn of<A: Profile, B: Profile>(first: &Stream<A>, second: &Stream<B>) -> Closing {
        Closing { ends: vec![first.sending.shared(), second.sending.shared()] }
    }

    /// Only this end: its peer takes all that was sent before.
    fn of_one<A: Profile>(first: &Stream<A>) -> Closing {
        Closing { ends: vec![first.sending.shared()] }
    }

    /// Leaves the session open: the contract goes on with it.
    fn keep(self) {
        self.end(true);
    }

    /// Leaves the session open if all went well.
    fn end(mut self, is_well: bool) {
        if is_well {
            self.ends.clear();
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.ends.iter().for_each(|end| end.close(0));
    }
}

/// Both outcomes of the two ends, or the error that is no consequence of the other one: the end that fails first closes the session.
fn both<T, U>(
    one: std::result::Result<T, Broken>,
    other: std::result::Result<U, Broken>,
) -> std::result::Result<(T, U), Broken> {
    let is_closed = |error: &Broken| {
        let Broken::End(Error::Stack(error)) = error else { return false };
        matches!(error, stack::Error::Closed | stack::Error::PeerClosed { .. })
    };
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(error), Err(cause)) if is_closed(&error) => Err(cause),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Types that are sent by themselves, of those that a side sends: calls and their answers are not.
fn messages(adus: &[Adu]) -> Vec<Adu> {
    let messages = adus.iter().filter(|adu| adu.answered_by.is_none() && !adu.is_answer);
    messages.filter(|adu| adu.len_max >= NUMBER_LEN).copied().collect()
}

/// Types that ask, of those that a side sends.
fn calls(adus: &[Adu]) -> Vec<Adu> {
    let calls = adus.iter().filter(|adu| adu.answered_by.is_some() && adu.len_max >= NUMBER_LEN);
    calls.copied().collect()
}

/// Each call is answered, by the answer to it, and the peer is asked once for each; both ways.
///
/// # Errors
/// What does not hold.
pub fn answers<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(answers_once::<A, B>)
}

fn answers_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    if calls(A::SENDS).is_empty() && calls(B::SENDS).is_empty() {
        return Err(Broken::Nothing);
    }
    let Pair { mut first, mut second, .. } = Pair::<A, B>::of_one_specification(seed)?;
    asked(&mut first, &mut second, A::SENDS)?;
    asked(&mut second, &mut first, B::SENDS)
}

fn asked<A: Profile, B: Profile>(
    from: &mut Stream<A>,
    to: &mut Stream<B>,
    adus: &[Adu],
) -> std::result::Result<(), Broken> {
    let calls = calls(adus);
    let count = EACH * calls.len() as u32;
    let broken = |what: String| Broken::Clause { adu: adus.first().map_or("", |a| a.name), what };
    let is_over = AtomicBool::new(false);
    let (expired, asked) = thread::scope(|scope| {
        let (ours, theirs) = (Closing::of(from, to), Closing::of(from, to));
        let is_over = &is_over;
        let answering = scope.spawn(move || {
            let asked = answer_all(to, adus, is_over)?;
            theirs.keep();
            Ok::<_, Error>(asked)
        });
        let expired = call_all(from, &calls, count);
        ours.end(expired.is_ok());
        is_over.store(true, Ordering::Relaxed);
        let asked = answering.join().map_err(|_| broken("was not answered".into()))?;
        both(expired, asked.map_err(Broken::from))
    })?;
    if let Some(times) = asked.values().find(|times| **times > 1) {
        return Err(broken(format!("a call has come {times} times")));
    }
    // The peer may have been asked what has expired, or not.
    let come = asked.len() as u32;
    match (count - expired..=count).contains(&come) && expired <= count / 2 {
        true => Ok(()),
        false => {
            Err(broken(format!("{come} of {count} calls have come, and {expired} have expired")))
        }
    }
}

/// Answers calls until `is_over`. Returns how often each has come.
fn answer_all<B: Profile>(
    to: &mut Stream<B>,
    adus: &[Adu],
    is_over: &AtomicBool,
) -> Result<BTreeMap<Vec<u8>, u32>> {
    let mut asked = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        let (number, body, answer) = match to.receiving.next(Some(POLL)) {
            Ok(Some(stream::Next::Call(number, body, answer))) => (number, body, answer),
            Ok(Some(stream::Next::Adu(number, _))) => return Err(Error::Unknown { number }),
            Ok(None) => break,
            Err(Error::Stack(stack::Error::Elapsed)) => continue,
            Err(error) => return Err(error),
        };
        *asked.entry(body.to_vec()).or_insert(0) += 1;
        let by = adus.iter().find(|adu| adu.number == number).and_then(answer_to::<B>);
        let by = by.ok_or(Error::Unknown { number })?;
        match answer.send_bytes(by.number, answering(by, body)) {
            // Its call has expired.
            Err(Error::Stack(_)) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(asked)
}

/// The type that answers one, of those that a role sends or takes.
fn answer_to<P: Profile>(adu: &Adu) -> Option<&'static Adu> {
    let number = adu.answered_by?;
    profile::of_number(P::TAKES, number).or(profile::of_number(P::SENDS, number))
}

/// What answers a request here: as much of it as an answer may have.
fn answering<'a>(by: &Adu, request: &'a [u8]) -> &'a [u8] {
    &request[..request.len().min(by.len_max)]
}

/// Asks so often. Returns how many calls have expired; only those with a deadline may.
fn call_all<A: Profile>(
    from: &mut Stream<A>,
    calls: &[Adu],
    count: u32,
) -> std::result::Result<u32, Broken> {
    let mut expired = 0;
    for n in 0..count {
        let adu = &calls[n as usize % calls.len()];
        let mut body = vec![0; length(n, adu)];
        fill(n, &mut body);
        let by = answer_to::<A>(adu).ok_or(Error::Unknown { number: adu.number })?;
        match from.sending.call_bytes(adu, &body) {
            Ok(answer) if answer == answering(by, &body) => {}
            Ok(_) => {
                let what = format!("{n} has another answer than its own");
                return Err(Broken::Clause { adu: adu.name, what });
            }
            Err(Error::Expired { .. }) => expired += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(expired)
}

/// Every ADU arrives once, whole, and in the order that its clauses say, both ways.
///
/// # Errors
/// What does not hold.
pub fn arrives<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(arrives_once::<A, B>)
}

fn arrives_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    if messages(A::SENDS).is_empty() && messages(B::SENDS).is_empty() {
        return Err(Broken::Nothing);
    }
    let Pair { mut first, mut second, .. } = Pair::<A, B>::of_one_specification(seed)?;
    one_way(&first, &mut second, &messages(A::SENDS))?;
    one_way(&second, &mut first, &messages(B::SENDS))
}

fn one_way<A: Profile, B: Profile>(
    from: &Stream<A>,
    to: &mut Stream<B>,
    adus: &[Adu],
) -> std::result::Result<(), Broken> {
    if adus.is_empty() {
        return Ok(());
    }
    let (ours, theirs) = (Closing::of(from, to), Closing::of_one(from));
    thread::scope(|scope| {
        let sent = scope.spawn(move || {
            let mut body = vec![0; profile::len_max(adus)];
            for n in 0..EACH * adus.len() as u32 {
                let adu = &adus[n as usize % adus.len()];
                let len = length(n, adu);
                fill(n, &mut body[..len]);
                from.sending.send_bytes(adu, &body[..len])?;
            }
            theirs.keep();
            Ok::<(), Error>(())
        });
        let mut seen = Seen::of(adus);
        let found = seen.take_all(to);
        ours.end(found.is_ok());
        let sent = sent
            .join()
            .map_err(|_| Broken::Clause { adu: adus[0].name, what: "was not sent".into() })?;
        both(found, sent.map_err(Broken::from))?;
        seen.complete()
    })
}

/// The length of the ADU that is sent as the `n`th.
fn length(n: u32, adu: &Adu) -> usize {
    (4 + n as usize * 37 % 1500).min(adu.len_max.max(4))
}

/// Its bytes: its place, and what follows from that.
fn fill(n: u32, body: &mut [u8]) {
    body[..4].copy_from_slice(&n.to_be_bytes());
    for (at, byte) in body.iter_mut().enumerate().skip(4) {
        *byte = (n as usize * 31 + at) as u8;
    }
}

/// What has come, against what was sent.
struct Seen<'a> {
    adus: &'a [Adu],
    all: BTreeSet<u32>,
    /// The last of each type.
    last: BTreeMap<u8, u32>,
}

impl<'a> Seen<'a> {
    fn of(adus: &'a [Adu]) -> Seen<'a> {
        Seen { adus, all: BTreeSet::new(), last: BTreeMap::new() }
    }

    /// How many have come.
    fn len(&self) -> usize {
        self.all.len()
    }

    fn take_all<B: Profile>(&mut self, from: &mut Stream<B>) -> std::result::Result<(), Broken> {
        for _ in 0..EACH * self.adus.len() as u32 {
            let Some((number, body)) = from.receiving.recv()? else { break };
            self.check(number, body)?;
        }
        Ok(())
    }

    fn check(&mut self, number: u8, body: &[u8]) -> std::result::Result<(), Broken> {
        let Some(adu) = self.adus.iter().find(|adu| adu.number == number) else {
            return Err(Error::Unknown { number }.into());
        };
        let broken = |what: String| Err(Broken::Clause { adu: adu.name, what });
        let Some(n) = body.first_chunk().map(|n| u32::from_be_bytes(*n)) else {
            return broken(format!("{} bytes have come", body.len()));
        };
        let mut whole = vec![0; length(n, adu)];
        fill(n, &mut whole);
        if self.adus[n as usize % self.adus.len()].number != number || body != whole {
            return broken(format!("the bytes of {n} have come changed"));
        }
        if !self.all.insert(n) {
            return broken(format!("{n} has come twice"));
        }
        let last = self.last.insert(number, n);
        if adu.order != Order::None && last.is_some_and(|last| last > n) {
            return broken(format!("{n} has come behind {last:?} of its type"));
        }
        let missing = (0..n).find(|before| {
            let of = &self.adus[*before as usize % self.adus.len()];
            let waits = adu.order == Order::All || adu.after >> of.number & 1 == 1;
            waits && !self.all.contains(before)
        });
        match missing {
            Some(before) => broken(format!("{n} has come before {before}")),
            None => Ok(()),
        }
    }

    fn complete(&self) -> std::result::Result<(), Broken> {
        for (at, adu) in self.adus.iter().enumerate() {
            let of = |n: &&u32| **n as usize % self.adus.len() == at;
            let count = self.all.iter().filter(of).count();
            if count != EACH as usize {
                let what = format!("{count} of {EACH} have come");
                return Err(Broken::Clause { adu: adu.name, what });
            }
        }
        Ok(())
    }
}

/// What a type is whose ADUs are worth something for a time, if one of these is.
fn with_deadline(adus: &[Adu], is_call: bool, drops: bool) -> Option<(Adu, Duration)> {
    let is_so = |adu: &&Adu| adu.answered_by.is_some() == is_call && adu.drops_late == drops;
    let mut found = adus.iter().filter(is_so).filter(|adu| !adu.is_answer);
    found.find_map(|adu| Some((*adu, adu.deadline.filter(|deadline| *deadline <= DEADLINE_MAX)?)))
}

/// What is worth nothing any more is dropped where it waits, and its sender told: on a link that is cut.
///
/// # Errors
/// What does not hold.
pub fn expires<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(expires_once::<A, B>)
}

fn expires_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    let found = [false, true].map(|is_call| with_deadline(B::TAKES, is_call, true));
    if found.iter().all(Option::is_none) {
        return Err(Broken::Nothing);
    }
    for (adu, deadline) in found.into_iter().flatten() {
        let adu = profile::of_number(A::SENDS, adu.number).unwrap_or(&adu);
        let Pair { mut first, second, wire } = Pair::<A, B>::of_one_specification(seed)?;
        wire.is_cut.store(true, Ordering::Relaxed);
        let expired = expired_after(&mut first, adu, deadline + 2 * SLACK)?;
        drop(second);
        let broken = |what| Err(Broken::Clause { adu: adu.name, what });
        match expired {
            None => return broken(format!("is not dropped when {deadline:?} are over")),
            Some(expired) if expired < deadline || expired > deadline + SLACK => {
                return broken(format!("expired after {expired:?}, and not after {deadline:?}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// How long it takes until one of a type has expired whose peer hears nothing; `None`: longer than this.
fn expired_after<A: Profile>(
    first: &mut Stream<A>,
    adu: &Adu,
    most: Duration,
) -> std::result::Result<Option<Duration>, Broken> {
    let (is_call, body) = (adu.answered_by.is_some(), vec![7; adu.len_max]);
    let (asked, connection) = (Mutex::new(Some(Instant::now())), first.sending.clone());
    thread::scope(|scope| {
        // Who is not told waits for ever.
        scope.spawn(|| {
            let is_waiting = || {
                asked
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .is_some_and(|at| at.elapsed() <= most)
            };
            while is_waiting() {
                thread::sleep(Duration::from_millis(20));
            }
            connection.connection().close(0);
        });
        // As many as lie in memory until they have arrived, and then one that has no room.
        let expired = loop {
            let begun = Instant::now();
            *asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
            let sent = match is_call {
                true => first.sending.call_bytes(adu, &body).map(drop),
                false => first.sending.send_bytes(adu, &body),
            };
            match sent {
                Ok(()) if is_call => {
                    let what = "was answered by nobody".into();
                    break Err(Broken::Clause { adu: adu.name, what });
                }
                Ok(()) => {}
                Err(Error::Expired { .. }) => break Ok(Some(begun.elapsed())),
                Err(_) if begun.elapsed() >= most => break Ok(None),
                Err(error) => break Err(error.into()),
            }
        };
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        expired
    })
}

/// An answer behind its deadline is handed over, and said to be late; one before it is not.
///
/// # Errors
/// What does not hold.
pub fn tells_late<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(tells_late_once::<A, B>)
}

fn tells_late_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    let Some((adu, deadline)) = with_deadline(B::TAKES, true, false) else {
        return Err(Broken::Nothing);
    };
    let adu = profile::of_number(A::SENDS, adu.number).unwrap_or(&adu);
    let Pair { mut first, mut second, .. } = Pair::<A, B>::of_one_specification(seed)?;
    let by = answer_to::<A>(adu).ok_or(Error::Unknown { number: adu.number })?;
    thread::scope(|scope| {
        // Whatever comes of the calls, the other thread ends with them.
        let _closing = Closing::of(&first, &second);
        let second = &mut second;
        scope.spawn(move || {
            let mut count = 0;
            while let Ok(Some((_, body, answer))) = second.receiving.next_call() {
                count += 1;
                // Calls without a byte say nothing: every second one is late.
                if body.first().map_or(count % 2 == 0, |first| *first == LATE) {
                    thread::sleep(deadline + deadline / 8);
                }
                let _ = answer.send_bytes(by.number, answering(by, body));
            }
        });
        for kind in [IN_TIME, LATE] {
            let body = &[kind; NUMBER_LEN][..NUMBER_LEN.min(adu.len_max)];
            let took = asked_again(&mut first, adu, body)?;
            let is_said = first.sending.is_late();
            // A machine that is busy makes the first late as well.
            let is_late = kind == LATE || took > deadline;
            if is_said != is_late {
                let what = format!("its answer is late: {is_late}, which it does not say");
                return Err(Broken::Clause { adu: adu.name, what });
            }
        }
        Ok(())
    })
}

/// First bytes of calls that are answered at once, and late.
const IN_TIME: u8 = 7;
/// See [`IN_TIME`].
const LATE: u8 = 8;

/// Asks until there is an answer: a call may expire on a machine that is busy. Returns how long the last call took.
fn asked_again<A: Profile>(
    first: &mut Stream<A>,
    adu: &Adu,
    body: &[u8],
) -> std::result::Result<Duration, Broken> {
    for _ in 0..TRIES {
        let asked = Instant::now();
        match first.sending.call_bytes(adu, body) {
            Ok(_) => return Ok(asked.elapsed()),
            Err(Error::Expired { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Broken::Clause { adu: adu.name, what: format!("{TRIES} calls have expired") })
}

/// An ADU that is longer than its clauses let it be is refused by who would send it, and by who gets it all the same.
///
/// # Errors
/// What does not hold.
pub fn bounds<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(bounds_once::<A, B>)
}

fn bounds_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    let Pair { mut first, mut second, .. } = Pair::<A, B>::of_one_specification(seed)?;
    for adu in A::SENDS.iter().filter(|adu| !adu.is_answer) {
        let body = vec![7; adu.len_max + 1];
        let sent = match adu.answered_by {
            Some(_) => first.sending.call_bytes(adu, &body).map(drop),
            None => first.sending.send_bytes(adu, &body),
        };
        let broken = |what: &str| Err(Broken::Clause { adu: adu.name, what: what.into() });
        if !matches!(sent, Err(Error::TooLong { .. })) {
            return broken("is sent although it is too long");
        }
        // The session itself has a bound, that of the longest type.
        if adu.answered_by.is_none()
            && first.sending.send_unchecked(adu, &body).is_ok()
            && second.receiving.recv().is_ok()
        {
            return broken("is taken although it is too long");
        }
    }
    Ok(())
}

/// Nothing of an ADU is seen by who listens to the link.
///
/// # Errors
/// What does not hold.
pub fn hides<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    with_seeds(hides_once::<A, B>)
}

fn hides_once<A: Profile, B: Profile>(seed: u64) -> std::result::Result<(), Broken> {
    let Pair { mut first, mut second, wire } = Pair::<A, B>::of_one_specification(seed)?;
    let fits = |adu: &&Adu| !adu.is_answer && adu.len_max >= MARK.len();
    if !A::SENDS.iter().any(|adu| fits(&adu)) {
        return Err(Broken::Nothing);
    }
    for adu in A::SENDS.iter().filter(fits) {
        let broken = |what: &str| Broken::Clause { adu: adu.name, what: what.into() };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (ours, theirs) = (Closing::of(&first, &second), Closing::of(&first, &second));
            let (second, is_over) = (&mut second, &is_over);
            let taking = scope.spawn(move || {
                match adu.answered_by {
                    Some(_) => answer_all(second, A::SENDS, is_over).map(drop),
                    None => second.receiving.recv().map(drop),
                }?;
                theirs.keep();
                Ok::<_, Error>(())
            });
            let sent = match adu.answered_by {
                Some(_) => asked_again(&mut first, adu, MARK).map(drop),
                None => first.sending.send_bytes(adu, MARK).map_err(Broken::from),
            };
            ours.end(sent.is_ok());
            is_over.store(true, Ordering::Relaxed);
            let taken = taking.join().map_err(|_| broken("was not taken"))?;
            both(sent, taken.map_err(Broken::from))
        })?;
        if wire.shown.load(Ordering::Relaxed) > 0 || wire.frames.load(Ordering::Relaxed) == 0 {
            return Err(broken("is in the clear on the link"));
        }
    }
    Ok(())
}

/// An end that has all clauses alike but one is refused, and told which, whichever it is.
///
/// # Errors
/// What does not hold.
pub fn refuses<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    for at in 0..A::CLAUSES.len() {
        let mut clauses = A::CLAUSES.to_vec();
        clauses[at] = "another";
        match Pair::<A, B>::new(&Terms::of(&clauses), Rules::NONE, 0) {
            Err(Error::Differs { clause }) if clause == A::CLAUSES[at] => {}
            _ => return Err(Broken::Accepted(A::CLAUSES[at])),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cipher;
    use crate::profile::Machine;

    const LINE: Adu = Adu { len_max: 100, ..Adu::new("Line", 0) };

    macro_rules! aloud {
        ($name:ident: $machine:ident, $sends:expr, $takes:expr) => {
            struct $name;
            impl Profile for $name {
                const NAME: &'static str = "without encryption";
                const MACHINE: Machine = Machine::$machine;
                const CIPHERS: &'static [Cipher] = &[Cipher::NONE];
                const SENDS: &'static [Adu] = $sends;
                const TAKES: &'static [Adu] = $takes;
            }
        };
    }

    /// A contract that ends early leaves no thread in a call that waits without end.
    #[test]
    fn contract_ends_when_a_call_fails() {
        // Without a cipher each call fails at once, and the other end waits for one.
        const ASK: Adu = Adu {
            len_max: 8,
            answered_by: Some(1),
            deadline: Some(Duration::from_secs(5)),
            drops_late: false,
            ..Adu::new("Ask", 0)
        };
        const SAY: Adu = Adu { len_max: 8, is_answer: true, ..Adu::new("Say", 1) };
        aloud!(Asks: Xtp, &[ASK], &[SAY]);
        aloud!(Says: Xtp, &[SAY], &[ASK]);
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || tell.send(tells_late::<Asks, Says>()));
        let outcome = told.recv_timeout(Duration::from_secs(60)).expect("the contract ends");
        let broken = outcome.unwrap_err().to_string();
        assert!(broken.starts_with("misuse: calls need a cipher"), "{broken}");
    }

    #[test]
    fn without_encryption_all_is_seen() {
        aloud!(Says: Tcp, &[LINE], &[]);
        aloud!(Hears: Tcp, &[], &[LINE]);
        let broken = hides::<Says, Hears>().unwrap_err().to_string();
        assert!(broken.starts_with("Line: is in the clear"), "{broken}");
        aloud!(SaysOverXtp: Xtp, &[LINE], &[]);
        aloud!(HearsOverXtp: Xtp, &[], &[LINE]);
        let broken = hides::<SaysOverXtp, HearsOverXtp>().unwrap_err().to_string();
        assert!(broken.starts_with("Line: is in the clear"), "{broken}");
    }
}
