//! One end's questions, and all that may come back.

use super::question::tests::pair;
use super::*;

const HERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 7);
const THERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 9)), 7);
const OTHER: SocketAddr = SocketAddr::new(THERE.ip(), 8);
const ROUND_TRIP: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

/// A path whose peer answers what it is asked.
struct World {
    path: Path,
    peer: Keys,
    nonces: Nonces,
    now: Instant,
}

impl World {
    fn new(max: Option<usize>) -> World {
        let (own, peer) = pair(1);
        let mut path = Path::new(max);
        path.open(own);
        World { path, peer, nonces: Nonces::new(&[1; 32]), now: Instant::from_ms(1) }
    }

    fn suspect(&mut self, at: SocketAddr, len: usize) -> Option<[Probe; 2]> {
        self.path.suspect(self.now, (at, HERE), len, &mut self.nonces)
    }

    /// What the peer says to a question.
    fn says(&self, probe: &Probe) -> Vec<u8> {
        let question = self.path.keys().unwrap().question(probe.kind, probe.nonce, probe.to);
        self.peer.answer(probe.nonce, &question).unwrap().to_vec()
    }

    fn hears(&mut self, from: SocketAddr, nonce: u64, answer: &[u8]) -> Option<Answered> {
        self.path.handle_answer(self.now, (from, HERE), nonce, answer, ROUND_TRIP)
    }
}

#[test]
fn finds_the_largest_datagram() {
    for limit in [1200usize, 1280, 1452, 1472, 8972, 65_507] {
        let mut w = World::new(Some(65_507));
        for _ in 0..200 {
            if let Some(probe) = w.path.poll_probe(w.now, HERE, &mut w.nonces)
                && probe.size <= limit
            {
                let answer = w.says(&probe);
                assert!(w.hears(HERE, probe.nonce, &answer).is_some());
                assert_eq!(w.hears(HERE, probe.nonce, &answer), None, "once");
            }
            w.now += Duration::from_millis(500);
        }
        let size = w.path.size().unwrap();
        assert!(size <= limit && size + 64 > limit, "{size} of {limit}");
    }
}

#[test]
fn nobody_is_asked_before_the_session_is_open() {
    let (mut path, mut nonces) = (Path::new(Some(9000)), Nonces::new(&[1; 32]));
    assert_eq!(path.poll_probe(Instant::ZERO, HERE, &mut nonces), None);
    assert_eq!(path.suspect(Instant::ZERO, (THERE, HERE), 1000, &mut nonces), None);
}

/// What follows from seen nonces by the rules of generators that are no secret: the one that was here, and
/// counters.
fn foretold(seen: &[u64]) -> Vec<u64> {
    let step =
        |n: u64| n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let mut all = vec![0, u64::MAX];
    for &nonce in seen {
        let mut next = nonce;
        for _ in 0..100 {
            next = step(next);
            all.push(next);
        }
        all.extend([nonce, nonce ^ 1, nonce.wrapping_add(1), nonce.wrapping_sub(1), !nonce]);
        all.extend([nonce.rotate_left(32), nonce.swap_bytes()]);
    }
    all
}

/// Somebody who is admitted, and therefore has all keys, names an address that is not his: he does not see
/// the question there, whatever he saw before.
#[test]
fn an_admitted_client_does_not_answer_for_an_address_where_he_is_not() {
    let mut w = World::new(Some(65_507));
    let mut seen = Vec::new();
    for _ in 0..20 {
        if let Some(probe) = w.path.poll_probe(w.now, HERE, &mut w.nonces) {
            seen.push(probe.nonce);
            let answer = w.says(&probe);
            if probe.size < 3000 {
                w.hears(HERE, probe.nonce, &answer);
            }
        }
        w.now += SECOND;
    }
    assert!(seen.len() > 5);
    let [_, old] = w.suspect(THERE, 1000).unwrap();
    // The question where he is he sees.
    seen.push(old.nonce);
    for nonce in foretold(&seen) {
        let asked = w.path.keys().unwrap().question(Kind::New, nonce, THERE);
        let answer = w.peer.answer(nonce, &asked).unwrap();
        assert_eq!(w.hears(THERE, nonce, &answer), None, "{nonce:x}");
    }
    w.now += 2 * SECOND;
    assert_eq!(w.path.poll_move(w.now), None);
}

/// Somebody who sees and forges everything but the tags.
#[test]
fn forged_answers_do_nothing() {
    let mut w = World::new(Some(9000));
    let size = w.path.poll_probe(w.now, HERE, &mut w.nonces).unwrap();
    let [new, old] = w.suspect(THERE, 1000).unwrap();
    let asked = [(size, HERE), (new, THERE), (old, HERE)];
    for (probe, from) in asked {
        let right = w.says(&probe);
        for (other, _) in asked.iter().filter(|(other, _)| *other != probe) {
            // The answer to another question, with its nonce and with this one's.
            let answer = w.says(other);
            assert_eq!(w.hears(from, probe.nonce, &answer), None);
            let mut relabelled = answer;
            relabelled[0] = probe.kind as u8;
            assert_eq!(w.hears(from, probe.nonce, &relabelled), None);
            assert_eq!(w.hears(from, other.nonce, &right), None);
        }
        for bit in 0..8 * right.len() {
            let mut forged = right.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(w.hears(from, probe.nonce, &forged), None, "bit {bit}");
        }
        for bit in 0..64 {
            assert_eq!(w.hears(from, probe.nonce ^ 1 << bit, &right), None, "nonce, bit {bit}");
        }
        for len in 0..right.len() {
            assert_eq!(w.hears(from, probe.nonce, &right[..len]), None);
        }
        // The right answer from where nobody was asked, as of somebody who copies it.
        for elsewhere in [OTHER, if from == HERE { THERE } else { HERE }] {
            assert_eq!(w.hears(elsewhere, probe.nonce, &right), None, "{:?}", probe.kind);
        }
        // Of another session, and the question sent back.
        let question = w.path.keys().unwrap().question(probe.kind, probe.nonce, probe.to);
        assert!(pair(2).1.answer(probe.nonce, &question).is_none());
        assert_eq!(w.hears(from, probe.nonce, &question), None);
    }
    assert_eq!(w.path.size(), Some(1200));
    // The peer's own count all the same.
    let answer = w.says(&size);
    assert!(matches!(w.hears(HERE, size.nonce, &answer), Some(Answered::Size { .. })));
    let answer = w.says(&new);
    assert!(matches!(w.hears(THERE, new.nonce, &answer), Some(Answered::Moved(_))));
}

#[test]
fn who_answers_at_the_new_address_alone_is_followed() {
    let mut w = World::new(None);
    let [new, old] = w.suspect(THERE, 100).unwrap();
    assert_eq!((new.to, old.to), (THERE, HERE));
    let answer = w.says(&new);
    assert_eq!(w.hears(THERE, new.nonce, &answer), Some(Answered::Moved(old)));
    assert_eq!(w.hears(THERE, new.nonce, &answer), None, "once");
    assert_eq!(w.path.poll_move(w.now), None, "the old address has its time");
    let at = w.path.poll_timeout().unwrap();
    assert_eq!(at, w.now + 2 * ROUND_TRIP + OLD_ADDRESS_TIME);
    // Another that comes meanwhile does not take its place.
    w.now = at;
    assert_eq!(w.suspect(OTHER, 1000), None);
    assert_eq!(w.path.poll_move(w.now), Some(THERE));
    assert_eq!((w.path.poll_move(w.now), w.path.poll_timeout()), (None, None), "once");
}

#[test]
fn who_answers_where_he_was_stays_there() {
    for new_first in [false, true] {
        let mut w = World::new(None);
        let [new, old] = w.suspect(THERE, 100).unwrap();
        let (there, here) = (w.says(&new), w.says(&old));
        if new_first {
            assert!(w.hears(THERE, new.nonce, &there).is_some());
            w.now += ROUND_TRIP;
        }
        assert_eq!(w.hears(HERE, old.nonce, &here), Some(Answered::Stays));
        assert_eq!(w.hears(THERE, new.nonce, &there), None, "too late");
        assert_eq!(w.suspect(THERE, 100), None, "one question a second");
        w.now += 2 * SECOND;
        assert_eq!((w.path.poll_move(w.now), w.path.poll_timeout()), (None, None));
    }
}

#[test]
fn an_address_that_is_not_proven_gets_three_times_what_came_from_it() {
    let least = QUESTION_TPDU_LEN.div_ceil(3);
    for len in [1, least - 1, least, 40, 1000] {
        let mut w = World::new(None);
        let (mut came, mut went) = (0, 0);
        for _ in 0..100 {
            came += len;
            if w.suspect(THERE, len).is_some() {
                went += QUESTION_TPDU_LEN;
            }
            assert!(went <= 3 * came, "{went} bytes for {came}");
            w.now += SECOND / 3;
        }
        // A shortest segment is enough for a question.
        assert_eq!(went > 0, len >= least, "{len}");
        assert!(went <= 34 * QUESTION_TPDU_LEN, "at most one question a second");
    }
}
