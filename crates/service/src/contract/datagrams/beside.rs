//! What must arrive, on the stream of the session that the datagrams are of.

use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::impair::Rules;
use fusewire_session::{Allow, Terms};
use fusewire_stack as stack;

use super::super::link::BAD;
use super::super::{Broken, EACH, Seen, fill, identity, length, loopback, messages, with_seeds};
use super::{Kept, LEN, body, broken, met};
use crate::datagram::session::{Arrived, Heard, Listener, Session, Told};
use crate::profile::{Adu, Beside, Profile, len_max};
use crate::{Error, Result};

/// How long is waited for what is held of datagrams when the peer has ended: nothing is under way any more.
const HELD: Duration = Duration::from_secs(1);
/// How long is waited for the last word of a peer that has ended: it may be lost, and who has said it gone.
const LAST_WORD: Duration = Duration::from_secs(5);
/// Between datagrams.
const LULL: Duration = Duration::from_millis(50);
/// How far an age may be off that is to be beyond a deadline.
const MARGIN: Duration = Duration::from_millis(100);
/// The longest deadline that is waited for.
const DEADLINE_MAX: Duration = Duration::from_secs(10);
/// How long all of it may take on a link that is bad: it takes less than a second on one that is not.
const LONG: Duration = Duration::from_secs(60);

/// What must arrive does, once, whole, and in the order of its clauses: by itself, and in one end with datagrams, which come too.
///
/// # Errors
/// What does not hold.
pub fn arrives<A: Profile, B: Profile>() -> Kept {
    super::super::arrives::<Beside<A>, Beside<B>>()?;
    with_seeds(both_ways::<A, B>)
}

/// What must arrive and has a deadline is handed over all the same when it is over, and said to be late; before that it is not. Those
/// whose deadlines are longer than a few seconds are not waited for.
///
/// # Errors
/// What does not hold.
pub fn tells_late<A: Profile, B: Profile>() -> Kept {
    let mut sessions = sessions::<A, B>(0, Rules::NONE)?;
    for adu in A::SENDS_BESIDE {
        let Some(deadline) = adu.deadline.filter(|deadline| *deadline <= DEADLINE_MAX) else {
            continue;
        };
        // Before the first nobody knows how long one takes.
        arrived(&mut sessions, adu, Duration::ZERO)?;
        for (waits, is_said) in [(Duration::ZERO, false), (deadline + MARGIN, true)] {
            let arrived = arrived(&mut sessions, adu, waits)?;
            // What has little time may be late on a machine that is busy.
            if arrived.is_late != is_said && (is_said || deadline >= MARGIN) {
                let said = if arrived.is_late { "late" } else { "in time" };
                return broken(adu, format!("is {:?} old, and said to be {said}", arrived.age));
            }
        }
    }
    Ok(())
}

/// One is sent, and asked for so much later.
fn arrived<A: Profile, B: Profile>(
    (from, to): &mut (Session<A>, Session<B>),
    adu: &Adu,
    waits: Duration,
) -> std::result::Result<Arrived, Broken> {
    from.send_bytes_beside(adu, &vec![7; adu.len_max.min(LEN)])?;
    thread::sleep(waits);
    let until = Instant::now() + LONG;
    loop {
        from.recv(Duration::ZERO)?;
        match to.recv(Duration::from_millis(1))? {
            Some(Heard::Beside(number, _, arrived)) if number == adu.number => return Ok(arrived),
            _ if Instant::now() > until => {
                return Err(Broken::Clause { adu: adu.name, what: "has not come".into() });
            }
            _ => {}
        }
    }
}

fn both_ways<A: Profile, B: Profile>(seed: u64) -> Kept {
    let (first, second) = sessions::<A, B>(seed, BAD)?;
    thread::scope(|scope| {
        let second = scope.spawn(move || End::new(second).run(B::SENDS, A::SENDS));
        let first = End::new(first).run(A::SENDS, B::SENDS);
        let broken = |_| Broken::Clause { adu: "", what: "an end has panicked".into() };
        first.and(second.join().map_err(broken)?)
    })
}

/// The two, whose session is on such a link.
fn sessions<A: Profile, B: Profile>(seed: u64, rules: Rules) -> Result<(Session<A>, Session<B>)> {
    let identity = identity()?;
    let listener = Listener::<B>::bind(loopback(), identity.clone(), Allow::OwnKey)?;
    let at = listener.local_addr();
    thread::scope(|scope| {
        let opening =
            scope.spawn(move || met::<A>(&at, identity, &Terms::of(A::CLAUSES), (rules, seed)));
        // A client that cannot open its session is not waited for without end.
        let second = listener.accept_session(Some(LONG))?;
        let first = opening.join().map_err(|_| Error::Unknown { number: u8::MAX })??;
        Ok((first, second))
    })
}

/// Something of datagrams has come, where the peer sends any.
fn has_heard(takes: &[Adu], hears: bool) -> Kept {
    match takes.first().filter(|_| !hears) {
        Some(adu) => broken(adu, "nothing of it has come".into()),
        None => Ok(()),
    }
}

/// An end that sends what its clauses say, and looks at what comes.
struct End<P: Profile> {
    session: Session<P>,
    sends: Vec<Adu>,
    /// How many of these are sent.
    sent: u32,
    until: Instant,
    /// How long the peer may take to end when this one has all.
    patience: Duration,
}

impl<P: Profile> End<P> {
    fn new(session: Session<P>) -> End<P> {
        let until = Instant::now() + LONG;
        let sends = messages(P::SENDS_BESIDE);
        End { session, sends, sent: 0, until, patience: LONG }
    }

    /// Until all of it has come, and something of datagrams, if there is any.
    fn run(mut self, sends: &[Adu], takes: &[Adu]) -> Kept {
        let adus = messages(P::TAKES_BESIDE);
        let mut seen = Seen::of(&adus);
        let mut hears = takes.is_empty();
        let (mut next, mut ended) = (Instant::now(), None);
        while self.is_sending() || seen.len() < EACH as usize * adus.len() || !hears {
            let now = Instant::now();
            if now > self.until {
                seen.complete()?;
                has_heard(takes, hears)?;
                return broken(&self.sends[0], format!("{} were sent", self.sent));
            }
            if now >= next {
                self.push(sends)?;
                next = now + LULL;
            }
            self.send()?;
            match self.session.recv(Duration::from_millis(1))? {
                Some(Heard::Beside(number, adu, _)) => seen.check(number, adu)?,
                Some(Heard::Adu(..)) => hears = true,
                // Who has all that it waits for may end before the other has.
                Some(Heard::Told(Told::Ended)) => {
                    seen.complete()?;
                    if hears || now >= *ended.get_or_insert(now) + HELD {
                        break;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                Some(Heard::Told(_)) | None => {}
            }
        }
        seen.complete()?;
        self.session.connection().finish_sending();
        self.await_end(sends, &mut seen, ended.is_some())?;
        match self.session.finish_timeout(LAST_WORD) {
            Ok(()) | Err(Error::Stack(stack::Error::Elapsed)) => has_heard(takes, hears),
            Err(error) => Err(error.into()),
        }
    }

    /// Until the peer has ended, who may still have something to send, or to wait for. Of what must arrive no more may come.
    fn await_end(&mut self, sends: &[Adu], seen: &mut Seen, mut has_ended: bool) -> Kept {
        let until = Instant::now() + self.patience;
        let mut next = Instant::now();
        while !has_ended {
            let now = Instant::now();
            if now > until {
                return Err(Broken::Clause { adu: "", what: "the peer does not end".into() });
            }
            if now >= next {
                self.push(sends)?;
                next = now + LULL;
            }
            match self.session.recv(next.saturating_duration_since(now))? {
                Some(Heard::Beside(number, adu, _)) => seen.check(number, adu)?,
                heard => has_ended = heard == Some(Heard::Told(Told::Ended)),
            }
        }
        Ok(())
    }

    fn is_sending(&self) -> bool {
        self.sent < EACH * self.sends.len() as u32
    }

    /// A datagram of each type.
    fn push(&mut self, sends: &[Adu]) -> Kept {
        for (lane, adu) in sends.iter().enumerate() {
            // Where there is no room, others have it.
            let _ = self.session.push(lane, &body(lane, 0, adu.len_max.min(LEN)))?;
        }
        Ok(())
    }

    /// One that must arrive, if there is room.
    fn send(&mut self) -> Kept {
        if !self.is_sending() {
            return Ok(());
        }
        let adu = &self.sends[self.sent as usize % self.sends.len()];
        let mut body = vec![0; len_max(&self.sends)];
        let len = length(self.sent, adu);
        fill(self.sent, &mut body[..len]);
        match self.session.send_bytes_beside(adu, &body[..len]) {
            Ok(()) => self.sent += 1,
            Err(Error::NoRoom { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::profile::Machine;

    struct Plain(#[expect(dead_code)] Session<Plain>);

    impl From<Session<Plain>> for Plain {
        fn from(session: Session<Plain>) -> Plain {
            Plain(session)
        }
    }

    impl Profile for Plain {
        const NAME: &'static str = "tested";
        const MACHINE: Machine = Machine::Datagram;
        const SENDS: &'static [Adu] = &[Adu::as_it_comes("Sample", 8)];
        const TAKES: &'static [Adu] = Self::SENDS;
        const RATES: (u64, u64) = (400_000, 400_000);
        const SENDS_BESIDE: &'static [Adu] = &[Adu { len_max: 64, ..Adu::new("Word", 2) }];
        const TAKES_BESIDE: &'static [Adu] = Self::SENDS_BESIDE;
    }

    #[test]
    fn an_end_that_never_finishes_is_found() {
        let (first, second) = sessions::<Plain, Plain>(1, BAD).unwrap();
        let (over, is_over) = mpsc::channel::<()>();
        let second = thread::spawn(move || {
            let mut end = End::new(second);
            while is_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                // The other leaves as soon as it has found this one.
                let heard = |end: &mut End<Plain>| end.session.recv(LULL).map(drop);
                if end.send().and_then(|()| end.push(Plain::SENDS)).is_err()
                    || heard(&mut end).is_err()
                {
                    break;
                }
            }
            end
        });
        let mut first = End::new(first);
        first.patience = Duration::from_secs(1);
        let kept = first.run(Plain::SENDS, Plain::TAKES);
        drop(over);
        drop(second.join().unwrap());
        let said = "the peer does not end";
        assert!(matches!(&kept, Err(Broken::Clause { what, .. }) if what == said), "{kept:?}");
    }
}
