//! What the clauses of a specification promise, observed from outside between two ends over loopback, on a link that loses and
//! reorders: what generated contract tests call. The ends are those that the program has, with bytes in place of its values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::udp;
use fusewire_session::{Allow, Identity, Terms};

use crate::profile::{self, Adu, Order, Profile};
use crate::stream::{self, Listener, Stream};
use crate::{Error, Result};

/// ADUs of each type that are sent.
const EACH: u32 = 100;

/// The link between the two.
const LINK: Rules = Rules { loss: 0.03, reorder: 0.05, ..Rules::NONE };
const SEED: u64 = 19;

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

/// A session of the two, over loopback.
fn pair<A: Profile, B: Profile>(terms: &Terms) -> Result<(Stream<A>, Stream<B>)> {
    let identity = identity()?;
    let listener = Listener::<B>::bind(loopback(), identity.clone(), Allow::OwnKey)?;
    let key = identity.fingerprint();
    let device = udp::Udp::bind(loopback(), &udp::Config::default());
    let device = device.map_err(fusewire_stack::Error::os("binding the UDP socket"))?;
    let begun = std::time::Instant::now();
    let clock = move || Instant::from_us(begun.elapsed().as_micros() as u64);
    let device = Box::new(Impair::new(device, LINK, LINK, SEED, clock));
    let opened =
        stream::open::<A>(device, listener.local_addr(), identity, key, terms.clone())?;
    Ok((opened, listener.accept_stream()?))
}

/// Types that are sent by themselves, of those that a side sends: calls and their answers are not.
fn messages(adus: &[Adu]) -> Vec<Adu> {
    adus.iter().filter(|adu| adu.answered_by.is_none() && !adu.is_answer).copied().collect()
}

/// Each call is answered, by the answer to it, and the peer is asked once for each; both ways.
///
/// # Errors
/// What does not hold.
pub fn answers<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    let (mut first, mut second) = pair::<A, B>(&Terms::of(A::CLAUSES))?;
    asked(&mut first, &mut second, A::SENDS)?;
    asked(&mut second, &mut first, B::SENDS)
}

fn asked<A: Profile, B: Profile>(
    from: &mut Stream<A>,
    to: &mut Stream<B>,
    adus: &[Adu],
) -> std::result::Result<(), Broken> {
    let calls: Vec<Adu> = adus.iter().filter(|adu| adu.answered_by.is_some()).copied().collect();
    let count = EACH * calls.len() as u32;
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let mut asked = BTreeSet::new();
            for _ in 0..count {
                let Some((number, body, answer)) = to.next_call()? else { break };
                let by = adus.iter().find(|adu| adu.number == number).and_then(|a| a.answered_by);
                asked.insert(body.to_vec());
                answer.send_bytes(by.ok_or(Error::Unknown { number })?, body)?;
            }
            Ok::<_, Error>(asked.len())
        });
        for n in 0..count {
            let adu = &calls[n as usize % calls.len()];
            let mut body = vec![0; length(n, adu)];
            fill(n, &mut body);
            if from.call_bytes(adu, &body)? != body {
                let what = format!("{n} has another answer than its own");
                return Err(Broken::Clause { adu: adu.name, what });
            }
        }
        let name = adus.first().map_or("", |adu| adu.name);
        let broken = |what: String| Broken::Clause { adu: name, what };
        let asked = answering.join().map_err(|_| broken("was not answered".into()))??;
        match asked == count as usize {
            true => Ok(()),
            false => Err(broken(format!("{asked} of {count} calls have come"))),
        }
    })
}

/// Every ADU arrives once, whole, and in the order that its clauses say, both ways.
///
/// # Errors
/// What does not hold.
pub fn arrives<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    let (mut first, mut second) = pair::<A, B>(&Terms::of(A::CLAUSES))?;
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
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            let mut body = vec![0; profile::len_max(adus)];
            for n in 0..EACH * adus.len() as u32 {
                let adu = &adus[n as usize % adus.len()];
                let len = length(n, adu);
                fill(n, &mut body[..len]);
                from.send_bytes(adu.number, &body[..len])?;
            }
            Ok::<(), Error>(())
        });
        let mut seen = Seen { adus, all: BTreeSet::new(), last: BTreeMap::new() };
        for _ in 0..EACH * adus.len() as u32 {
            let Some((number, body)) = to.recv()? else { break };
            seen.check(number, body)?;
        }
        sent.join().map_err(|_| Broken::Clause { adu: adus[0].name, what: "was not sent".into() })??;
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

impl Seen<'_> {
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

/// An end that has all clauses alike but one is refused, and told which, whichever it is.
///
/// # Errors
/// What does not hold.
pub fn refuses<A: Profile, B: Profile>() -> std::result::Result<(), Broken> {
    for at in 0..A::CLAUSES.len() {
        let mut clauses = A::CLAUSES.to_vec();
        clauses[at] = "another";
        match pair::<A, B>(&Terms::of(&clauses)) {
            Err(Error::Differs { clause }) if clause == A::CLAUSES[at] => {}
            _ => return Err(Broken::Accepted(A::CLAUSES[at])),
        }
    }
    Ok(())
}
