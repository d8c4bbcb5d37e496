//! What was only late and what was lost (`docs/xtp.md`, section 10): a recovery is taken back where all that went again in it
//! had been late, and stays where one of it was lost.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::Cut;
use fusewire_transport::xtp::{Config, Connection};
use fusewire_wire::xtp::{Body, Control, Key, Span, SpanList};

use crate::hot_path::take;
use crate::rules::{called, packet};

/// Milliseconds of a round trip.
const ROUND: u64 = 40;
/// Bytes of each packet.
const EACH: u64 = 1000;

/// Who sends, over a path of [`ROUND`], and what its peer would say.
struct Path {
    a: Connection,
    /// The peer's latest sync.
    sync: u32,
    /// Our latest.
    asked: u32,
}

impl Path {
    fn new() -> Path {
        let at = Instant::from_ms;
        let cfg = Config { pacing: false, initial_recv_window: 1 << 20, ..Config::default() };
        let mut a = Connection::connect(&cfg, Key::new(77).expect("not zero"), 7, at(1));
        let mut b = called(&cfg, &a.poll_transmit(at(1)).expect("FIRST").header);
        let answer = b.poll_transmit(at(1)).expect("TCNTL").header;
        take(&mut a, at(1 + ROUND), &answer);
        let shows = a.poll_transmit(at(1 + ROUND)).expect("it shows the key").header;
        let mut path = Path { a, sync: answer.sync, asked: shows.sync };
        path.reports((1 + 2 * ROUND, shows.sync), 0, &[]);
        assert_eq!(path.a.info().min_rtt, Duration::from_millis(ROUND));
        path
    }

    /// So many packets more are queued; those that leave now, by their numbers.
    fn sends(&mut self, at: u64, more: u64) -> Vec<u64> {
        for _ in 0..more {
            let reservation = self.a.reserve(EACH as u32).expect("room");
            self.a.commit(reservation, Cut::Record);
        }
        let mut left = Vec::new();
        while let Some(t) = self.a.poll_transmit(Instant::from_ms(at)) {
            self.asked = t.header.sync;
            if t.header.data_len > 0 {
                assert_eq!((t.header.seq % EACH, u64::from(t.header.data_len)), (0, EACH));
                left.push(t.header.seq / EACH);
            }
        }
        left
    }

    /// The peer answers a question: all packets below `have` have come, and these.
    fn reports(&mut self, (at, echo): (u64, u32), have: u64, beyond: &[(u64, u64)]) {
        let rseq = have * EACH;
        let control = Control { rseq, alloc: rseq + (1 << 20), echo };
        let mut spans = SpanList::new(rseq);
        for (left, right) in beyond {
            spans.push(Span { left: left * EACH, right: right * EACH });
        }
        let header = packet(&self.a, self.sync, 0, 0, Body::Ecntl(control, spans));
        take(&mut self.a, Instant::from_ms(at), &header);
    }

    /// Recoveries, those that were taken back, and the window.
    fn state(&self) -> (u64, u64, u64) {
        let counters = self.a.counters();
        (counters.recoveries.into(), counters.spurious.into(), self.a.info().cwnd)
    }
}

/// Ten packets leave, and the first two are not there when the others are: both go again.
fn two_go_again() -> (Path, u32, u64) {
    let mut path = Path::new();
    assert_eq!(path.sends(100, 10), (0..10).collect::<Vec<_>>());
    let (_, _, whole) = path.state();
    let first = path.asked;
    path.reports((100 + ROUND, first), 0, &[(2, 10)]);
    assert_eq!(path.sends(100 + ROUND, 0), [0, 1]);
    let (recoveries, spurious, _) = path.state();
    assert_eq!((recoveries, spurious), (1, 0));
    (path, first, whole)
}

#[test]
fn a_recovery_from_what_was_late_alone_is_taken_back() {
    let (mut path, first, whole) = two_go_again();
    path.reports((104 + ROUND, first), 1, &[(2, 10)]);
    assert_eq!(path.state().1, 0, "the other may be lost");
    path.reports((108 + ROUND, first), 10, &[]);
    let (recoveries, spurious, window) = path.state();
    assert_eq!((recoveries, spurious), (1, 1));
    assert!(window >= whole, "{window} of {whole}");
}

#[test]
fn a_recovery_stays_where_one_was_late_and_one_was_lost() {
    let (mut path, first, whole) = two_go_again();
    path.reports((104 + ROUND, first), 1, &[(2, 10)]);
    // What went again has come, a round trip after it did.
    let again = path.asked;
    path.reports((100 + 2 * ROUND, again), 10, &[]);
    let (recoveries, spurious, window) = path.state();
    assert_eq!((recoveries, spurious), (1, 0));
    assert!(window < whole, "{window} of {whole}");
}

/// What went again before this recovery, and turns out in it to have been late, says nothing of what was lost in it.
#[test]
fn what_went_again_before_takes_back_no_recovery() {
    let mut path = Path::new();
    path.sends(100, 10);
    let (first, (_, _, whole)) = (path.asked, path.state());
    path.reports((140, first), 0, &[(1, 10)]);
    let left = path.sends(140, 20);
    assert!(left.starts_with(&[0, 10, 11, 12, 13, 14]), "{left:?}");
    // 10 is taken for lost by the report that ends the first recovery.
    path.reports((180, first), 10, &[(11, 12)]);
    assert!(path.sends(180, 0).contains(&10));
    assert_eq!(path.state().0, 1);
    // 12 is lost: a second one begins.
    path.reports((184, first), 10, &[(11, 12), (13, 15)]);
    assert!(path.sends(184, 0).contains(&12));
    assert_eq!((path.state().0, path.state().1), (2, 0));
    // 10 had only been late.
    path.reports((186, first), 12, &[(13, 15)]);
    let (recoveries, spurious, window) = path.state();
    assert_eq!((recoveries, spurious), (2, 0));
    assert!(window < whole, "{window} of {whole}");
}
