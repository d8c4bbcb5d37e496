//! What is sent again as long as it comes in time, by what reports say of the way: handed over by hand, so that each case is itself.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::{End, Event};
use fusewire_service::lifetime::Why;
use fusewire_service::profile::{Adu, Machine, Profile};

use crate::world::{adu, keys};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Instant {
    Instant::from_ms(ms)
}

/// Ends of one type, which is sent again until so many ms have passed, at so many bits a second.
struct Again<const DEADLINE: u64, const BITS: u64>;

impl<const DEADLINE: u64, const BITS: u64> Profile for Again<DEADLINE, BITS> {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] =
        &[Adu { deadline: Some(ms(DEADLINE)), kept: 8, ..Adu::as_it_comes("tested", 20_000) }];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (BITS, BITS);
}

/// But for the units in which reports tell times.
fn is_about(time: Duration, of: u64) -> bool {
    time.abs_diff(ms(of)) <= ms(2)
}

struct Pair<P: Profile> {
    from: End<P>,
    to: End<P>,
}

impl<P: Profile> Pair<P> {
    /// Two ends, one of which has heard of the other that the way takes 50 ms.
    fn new() -> Pair<P> {
        let [from, to] = keys().map(|keys| End::new(Instant::ZERO, keys).unwrap());
        let mut pair = Pair { from, to };
        pair.push(at(0), 100);
        let sent = pair.sends(at(0));
        pair.take(at(0), &sent);
        pair.hear(at(100), at(200));
        assert!(is_about(pair.from.seen().rtt_least, 100), "{:?}", pair.from.seen());
        pair
    }

    fn push(&mut self, now: Instant, len: usize) {
        self.from.push(now, 0, &adu(1, len)).unwrap();
    }

    fn sends(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut out = [0; 1200];
        self.from.handle_timeout(now);
        let next =
            || self.from.poll_transmit(now, &mut out).unwrap().map(|len| out[..len].to_vec());
        core::iter::from_fn(next).collect()
    }

    fn take(&mut self, now: Instant, datagrams: &[Vec<u8>]) {
        datagrams.iter().for_each(|datagram| self.to.handle_datagram(now, datagram, 0));
    }

    /// The report that is due is made, and heard.
    fn hear(&mut self, made: Instant, heard: Instant) {
        let report = self.report(made).expect("due");
        self.from.handle_datagram(heard, &report, 0);
    }

    fn report(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut out = [0; 1200];
        let len = self.to.poll_transmit(now, &mut out).unwrap()?;
        Some(out[..len].to_vec())
    }

    /// Of one's own, why it is told to be lost.
    fn lost(&mut self, now: Instant) -> Option<Why> {
        let told = core::iter::from_fn(|| match self.from.poll_event(now)? {
            Event::Lost { why, .. } => Some(Some(why)),
            _ => Some(None),
        });
        told.flatten().next()
    }
}

/// Of a long one a part is known to be missing while the rest is still being sent: when it cannot come in time any more, the rest is not
/// sent either.
#[test]
fn the_rest_of_what_cannot_come_in_time_is_not_sent() {
    let mut pair = Pair::<Again<300, 300_000>>::new();
    pair.push(at(1000), 20_000);
    let (mut report, mut sent) = (None, 0);
    for now in (1000..1260).map(at) {
        let mut datagrams = pair.sends(now);
        if sent == 0 {
            datagrams.remove(0);
        }
        sent += datagrams.len();
        pair.take(now, &datagrams);
        report = report.or_else(|| pair.report(now));
    }
    assert!((5..15).contains(&sent), "{sent}");
    assert_eq!(pair.lost(at(1260)), None);
    // 50 ms on its way it would come behind 1,300.
    pair.from.handle_datagram(at(1260), &report.expect("a gap is told of"), 0);
    assert!((1260..1300).all(|now| pair.sends(at(now)).is_empty()));
    assert_eq!(pair.lost(at(1299)), Some(Why::Expired));
}

/// A queue of which nobody has told since drains: what would have come too late through all of it goes again.
#[test]
fn a_queue_that_is_not_told_of_drains() {
    let mut pair = Pair::<Again<960, 10_000_000>>::new();
    pair.push(at(1000), 100);
    let sent = pair.sends(at(1000));
    pair.take(at(1300), &sent);
    pair.hear(at(1400), at(1500));
    let seen = *pair.from.seen();
    assert!(is_about(seen.queue, 300) && is_about(seen.rtt, 400), "{seen:?}");
    pair.push(at(1500), 100);
    assert_eq!(pair.sends(at(1500)).len(), 1, "it is lost");
    // It is of use until 2,460. Two reports, a round trip and 25 ms later it goes again, through what is left of the queue.
    let again: Vec<u64> = (1501..2460).filter(|now| !pair.sends(at(*now)).is_empty()).collect();
    assert!(matches!(again[..], [2120..2130]), "{again:?}");
}
