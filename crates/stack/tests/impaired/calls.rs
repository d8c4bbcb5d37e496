//! Calls beside streams: what they cost, and that each is handed over once, and answered by its own answer.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Memory, Network};
use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_session::{Cipher, HeaderProtection};
use fusewire_stack::{CallId, Config, ConnectionId, Error, Event, Stack};
use fusewire_testkit::{Random, for_each_seed_of};
use fusewire_transport::either::{self, Protocol};
use fusewire_wire::xtp::{self, Packet};

use crate::calls_bounds::dropped;
use crate::world::{A, B, World};

/// All frames that an end sent.
#[derive(Clone, Default)]
pub struct Frames(pub Arc<Mutex<Vec<Vec<u8>>>>);

impl Frames {
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Shows what leaves; what lies in `more` leaves besides.
struct Tap {
    inner: Memory,
    sent: Frames,
    more: Frames,
    /// What leaves is shown, and goes no further.
    is_cut: Arc<AtomicBool>,
}

impl Device for Tap {
    fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            self.sent.0.lock().unwrap().push([frame.header, frame.payload].concat());
            if self.is_cut.load(Ordering::Relaxed) {
                continue;
            }
            for bytes in self.more.take() {
                let again =
                    TxFrame { peer: frame.peer, header: &bytes, payload: &[], ecn: Ecn::NotEct };
                self.inner.transmit(&[again])?;
            }
            self.inner.transmit(&[*frame])?;
        }
        Ok(frames.len())
    }
}

pub struct Taps {
    pub world: World,
    pub network: Network,
    pub up: Frames,
    pub down: Frames,
    /// More that leaves before the next, up and down.
    pub replayed: Frames,
    pub injected: Frames,
    /// Nothing arrives that goes up.
    pub is_cut: Arc<AtomicBool>,
    /// Nothing arrives that goes down.
    pub is_cut_down: Arc<AtomicBool>,
}

pub fn config(protocol: Protocol) -> Config {
    Config {
        transport: either::Config::of_records(protocol),
        datagram_bytes: Some(1452),
        ..Config::default()
    }
}

pub fn taps(protection: Option<HeaderProtection>, rules: Rules, seed: u64) -> Taps {
    let network = Network::new(memory::Config { coalesce: true, ..memory::Config::default() });
    let (up, down) = (Frames::default(), Frames::default());
    let (replayed, injected) = (Frames::default(), Frames::default());
    let (is_cut, is_cut_down) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let tap = |addr: &str, sent: &Frames, more: &Frames, is_cut: &Arc<AtomicBool>| Tap {
        inner: network.attach(addr.parse().unwrap()).unwrap(),
        sent: sent.clone(),
        more: more.clone(),
        is_cut: is_cut.clone(),
    };
    let ns = Arc::new(AtomicU64::new(1));
    let t = ns.clone();
    let (a, b) = (tap(A, &up, &replayed, &is_cut), tap(B, &down, &injected, &is_cut_down));
    let clock = move || Instant::from_ns(t.load(Ordering::Relaxed));
    let a = Impair::new(a, rules, rules, seed, clock);
    let mut world = World::asking(protection, Box::new(a), Box::new(b), ns, &config(Protocol::Xtp));
    world.connect();
    // What the handshake left behind.
    world.run(5.0, "rest", |w| w.seconds() > 3.0);
    up.take();
    down.take();
    Taps { world, network, up, down, replayed, injected, is_cut, is_cut_down }
}

/// What the server's application answers.
pub fn answer_to(request: &[u8]) -> Vec<u8> {
    let len = request.first().map_or(0, |first| match first % 4 {
        0 => 1,
        1 => 1000,
        2 => 5000,
        _ => 100_000,
    });
    let seed = request.iter().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    (0..len).map(|i| (i as u8).wrapping_mul(seed | 1) ^ seed).collect()
}

/// The server's application answers what has come; how many requests.
pub fn serve(world: &mut World, seen: &mut HashSet<Vec<u8>>) -> usize {
    let served = world.served.unwrap();
    let mut count = 0;
    while let Some((asked, request)) = world.server.next_call(served) {
        count += 1;
        assert!(seen.insert(request.clone()), "handed over twice");
        world.server.answer_call(served, asked, &answer_to(&request)[..]).unwrap();
    }
    count
}

const ROUND_TRIP: Duration = Duration::from_millis(20);

pub fn clean() -> Rules {
    Rules { delay: ROUND_TRIP / 2, ..Rules::default() }
}

#[test]
fn a_call_is_a_packet_each_way_and_one_round_trip() {
    for protection in [None, HeaderProtection::with_padding(64)] {
        let Taps { mut world, up, down, .. } = taps(protection, clean(), 1);
        for (request, answer_len) in [(vec![4, 1, 2], 1), (vec![1; 1200], 1000), (vec![5], 1000)] {
            let begun = world.ns.load(Ordering::Relaxed);
            let call = world.client.begin_call(world.id, &request[..]).unwrap().unwrap();
            let (mut seen, mut answer) = (HashSet::new(), None);
            world.run(1.0, "a call", |w| {
                serve(w, &mut seen);
                answer = answer.take().or_else(|| w.client.take_answer(w.id, Some(call)));
                answer.is_some()
            });
            let took = Duration::from_nanos(world.ns.load(Ordering::Relaxed) - begun);
            assert!(took < ROUND_TRIP + Duration::from_millis(1), "{took:?}");
            let answer = answer.unwrap().1.unwrap();
            assert_eq!((answer.len(), &answer), (answer_len, &answer_to(&request)));
            let (up, down) = (up.take(), down.take());
            assert_eq!((up.len(), down.len()), (1, 1));
            // Neither shows what is said.
            for frame in [&up[0], &down[0]] {
                let packet = Packet::parse(frame).unwrap();
                assert!(
                    packet.data.windows(16).all(|bytes| !request.windows(16).any(|r| r == bytes))
                );
                assert!(!packet.header.checks_all(), "the tag proves it");
            }
        }
    }
}

#[test]
fn either_end_calls_and_the_stream_goes_on() {
    let Taps { mut world, .. } = taps(None, clean(), 2);
    let served = world.served.unwrap();
    let call = world.server.begin_call(served, &b"from the server"[..]).unwrap().unwrap();
    assert!(world.client.send(world.id, b"an ADU").unwrap());
    let (mut answer, mut adu) = (None, None);
    world.run(1.0, "both", |w| {
        while let Some((asked, request)) = w.client.next_call(w.id) {
            assert_eq!(request, b"from the server");
            w.client.answer_call(w.id, asked, &b"to the server"[..]).unwrap();
        }
        answer = answer.take().or_else(|| w.server.take_answer(served, Some(call)));
        adu = adu.take().or_else(|| w.server.recv(served));
        answer.is_some() && adu.is_some()
    });
    assert_eq!(answer.unwrap().1.unwrap(), b"to the server");
}

/// Who asks and who is asked, each with its connection.
fn asker_and_asked(world: &mut World, from_server: bool) -> [(&mut Stack, ConnectionId); 2] {
    let ends = (world.id, world.served.unwrap());
    let (client, server) = ((&mut world.client, ends.0), (&mut world.server, ends.1));
    if from_server { [server, client] } else { [client, server] }
}

/// Bytes of a request behind its header which say how long and fast packets of its answer may be: they are taken as they come.
const LIMITS: std::ops::Range<usize> = 20..40;

/// A request whose service, address or btag was damaged, which the check of its header says nothing of, is refused by neither
/// end, whether it listens or not: what was sent comes again, and is answered.
#[test]
fn a_damaged_request_is_not_refused() {
    for from_server in [false, true] {
        let Taps { mut world, up, down, replayed, injected, is_cut, is_cut_down, .. } =
            taps(None, clean(), 12);
        let (sent, answers, more, cut) = match from_server {
            false => (&up, &down, &replayed, &is_cut),
            true => (&down, &up, &injected, &is_cut_down),
        };
        let (mut at, mut len) = (0, 1);
        while at < len {
            cut.store(true, Ordering::Relaxed);
            let [(asker, id), _] = asker_and_asked(&mut world, from_server);
            let call = asker.begin_call(id, &b"a request"[..]).unwrap().unwrap();
            let mut damaged = None;
            world.run(1.0, "it leaves", |_| {
                let is_request = |frame: &Vec<u8>| {
                    matches!(Packet::parse(frame).unwrap().header.body, xtp::Body::First(_))
                };
                damaged = damaged.take().or_else(|| sent.take().into_iter().find(is_request));
                damaged.is_some()
            });
            let mut damaged = damaged.unwrap();
            let head = damaged.len() - Packet::parse(&damaged).unwrap().data.len();
            len = head - xtp::HEADER_LEN;
            damaged[xtp::HEADER_LEN + at] ^= 1 << (at % 8);
            more.0.lock().unwrap().push(damaged);
            cut.store(false, Ordering::Relaxed);
            let mut answer = None;
            world.run(5.0, "an answer", |w| {
                let [(asker, id), (asked, by)] = asker_and_asked(w, from_server);
                while let Some((call, request)) = asked.next_call(by) {
                    assert_eq!(request, b"a request");
                    asked.answer_call(by, call, &b"an answer"[..]).unwrap();
                }
                answer = answer.take().or_else(|| asker.take_answer(id, Some(call)));
                answer.is_some()
            });
            let (_, answer) = answer.unwrap();
            assert!(answer.is_ok(), "from the server: {from_server}, byte {at}: {answer:?}");
            sent.take();
            answers.take();
            at += if at + 1 == LIMITS.start { LIMITS.len() + 1 } else { 1 };
        }
        let [_, (asked, _)] = asker_and_asked(&mut world, from_server);
        let strays = dropped(asked, "call-stray");
        assert!(len > LIMITS.end && strays > 8, "{len} {:?}", asked.dropped());
    }
}

#[test]
fn what_is_refused_is_told_and_other_transports_have_no_calls() {
    let Taps { mut world, .. } = taps(None, clean(), 3);
    let call = world.client.begin_call(world.id, &b"no"[..]).unwrap().unwrap();
    let mut answer = None;
    world.run(1.0, "a refusal", |w| {
        while let Some((asked, _)) = w.server.next_call(w.served.unwrap()) {
            w.server.refuse_call(asked);
        }
        answer = answer.take().or_else(|| w.client.take_answer(w.id, Some(call)));
        answer.is_some()
    });
    assert!(matches!(answer.unwrap().1, Err(Error::Reset(_))));

    let mut world = World::new(clean(), 3, &config(Protocol::Tcp));
    world.connect();
    let none = world.client.begin_call(world.id, &b"over TCP"[..]);
    assert!(matches!(none, Err(Error::Misuse(why)) if why.contains("XTP")), "{none:?}");
}

/// One call, from the beginning to its answer.
pub fn call(world: &mut World, request: &[u8], seen: &mut HashSet<Vec<u8>>) {
    let call = world.client.begin_call(world.id, request).unwrap().unwrap();
    let mut answer = None;
    world.run(3.0, "a call", |w| {
        serve(w, seen);
        answer = answer.take().or_else(|| w.client.take_answer(w.id, Some(call)));
        answer.is_some()
    });
    assert_eq!(answer.unwrap().1.unwrap(), answer_to(request));
}

/// What was seen on the way is sent again, at once and after the table has forgotten it, as it was or under another key.
#[test]
fn a_replayed_request_is_not_handed_over() {
    let Taps { mut world, up, replayed, .. } = taps(None, clean(), 4);
    let mut seen = HashSet::new();
    call(&mut world, b"4 the first", &mut seen);
    let first = up.take().remove(0);
    let mut other = first.clone();
    other[0] ^= 1;
    xtp::seal(&mut other);
    for pause_s in [0.0, 70.0] {
        world.run(100.0, "a pause", |w| w.seconds() > pause_s);
        replayed.0.lock().unwrap().extend([first.clone(), other.clone()]);
        call(&mut world, format!("4 after {pause_s}").as_bytes(), &mut seen);
        let dropped = world.server.dropped();
        let strays = if pause_s == 0.0 { 1 } else { 3 };
        assert!(dropped.contains(&("call-stray", strays)), "{dropped:?}");
        assert!(dropped.iter().all(|(name, _)| *name != "call-tag"), "{dropped:?}");
    }
}

/// The answer to one call, said to another: who stands between the ends cannot give it.
#[test]
fn an_answer_answers_its_own_call_alone() {
    let Taps { mut world, up, down, injected, .. } = taps(None, clean(), 5);
    let mut seen = HashSet::new();
    call(&mut world, b"4 the first", &mut seen);
    up.take();
    let mut forged = down.take().remove(0);
    let second = world.client.begin_call(world.id, &b"5 the second"[..]).unwrap().unwrap();
    world.run(1.0, "the request", |_| !up.0.lock().unwrap().is_empty());
    forged[..8].copy_from_slice(&up.take()[0][..8]);
    forged[0] |= 0x80;
    xtp::seal(&mut forged);
    injected.0.lock().unwrap().push(forged);
    let mut answer = None;
    world.run(3.0, "the second", |w| {
        serve(w, &mut seen);
        answer = answer.take().or_else(|| w.client.take_answer(w.id, Some(second)));
        answer.is_some()
    });
    assert_eq!(answer.unwrap().1.unwrap(), answer_to(b"5 the second"));
    let dropped = world.client.dropped();
    assert!(dropped.contains(&("call-tag", 1)), "{dropped:?}");
}

/// Calls over a bad link, beside a stream, with frames of others' between them.
#[test]
fn every_call_is_handed_over_once_and_gets_its_own_answer() {
    let name = "every_call_is_handed_over_once_and_gets_its_own_answer";
    for_each_seed_of(8, name, |seed, _| {
        let rules = Rules {
            loss: 0.03 * (seed % 4) as f64,
            duplicate: 0.05,
            corrupt: 0.02,
            reorder: 0.1,
            reorder_delay: Duration::from_millis(3),
            delay: Duration::from_millis(2),
            ..Rules::default()
        };
        let protection = HeaderProtection::with_padding(16).filter(|_| seed % 2 == 0);
        let Taps { mut world, up, replayed, .. } = taps(protection, rules, seed);
        let mut random = Random::new(seed);
        let (mut waiting, mut seen) = (HashMap::<CallId, Vec<u8>>::new(), HashSet::new());
        let (mut begun, mut right, mut failed) = (0u32, 0, 0);
        let mut ended = false;
        world.run(200.0, "calls", |w| {
            // Who forges packets may end a connection, and with it its calls.
            let over = w.client_events.iter().find_map(|event| match event {
                Event::Closed(cause) => Some(cause),
                _ => None,
            });
            if let Some(cause) = over {
                // By what both ends say at a dispute, and never in silence.
                let told = matches!(cause, Some(Error::Closed | Error::Reset(_)));
                assert!(told && right > 0, "{right} right, then {cause:?}");
                ended = true;
                return true;
            }
            while begun < 120 && waiting.len() < 10 {
                let mut request = begun.to_be_bytes().to_vec();
                request[0] = random.next_u32() as u8;
                request.resize(4 + random.below(3000) as usize, random.next_u32() as u8);
                let call = w.client.begin_call(w.id, &request[..]).unwrap().unwrap();
                waiting.insert(call, request);
                begun += 1;
            }
            serve(w, &mut seen);
            while let Some((call, answer)) = w.client.take_answer(w.id, None) {
                let request = waiting.remove(&call).expect("told once");
                match answer {
                    Ok(answer) => {
                        assert!(answer == answer_to(&request), "another's answer");
                        right += 1;
                    }
                    Err(_) => failed += 1,
                }
            }
            // What passed is seen again, changed or not.
            let mut frames = up.take();
            for bytes in &mut frames {
                if random.chance(0.3) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                    if bytes.len() >= xtp::HEADER_LEN {
                        xtp::seal(bytes);
                    }
                }
            }
            let forged = frames.into_iter().filter(|_| random.chance(0.2));
            replayed.0.lock().unwrap().extend(forged.filter(|bytes| bytes.len() >= 32));
            waiting.is_empty() && begun == 120
        });
        println!("seed {seed}: {right} right, {failed} failed, ended: {ended}");
        assert!(right >= 100 || ended, "{right} of 120, {failed} failed");
    });
}

/// What a lost packet costs a call: a probe's time, and not that of a retransmission.
#[test]
fn a_call_of_which_a_packet_is_lost_is_answered_soon() {
    let Taps { mut world, .. } = taps(None, Rules { loss: 0.01, ..clean() }, 9);
    let (mut seen, mut times) = (HashSet::new(), Vec::new());
    for n in 0..500u32 {
        let begun = world.ns.load(Ordering::Relaxed);
        call(&mut world, &[&[4][..], &n.to_be_bytes()].concat(), &mut seen);
        times.push(Duration::from_nanos(world.ns.load(Ordering::Relaxed) - begun));
    }
    times.sort();
    let (median, p99) = (times[250], times[495]);
    println!("1 % lost, {ROUND_TRIP:?}: median {median:?}, 99 of 100 at most {p99:?}");
    assert!(median < ROUND_TRIP + Duration::from_millis(1));
    assert!(p99 > 2 * ROUND_TRIP, "nothing was lost");
    assert!(p99 < 4 * ROUND_TRIP + Duration::from_millis(15), "{p99:?}");
}

#[test]
fn ciphers_without_a_tag_have_no_calls() {
    let network = Network::new(memory::Config::default());
    let [a, b] = [A, B].map(|at| network.attach(at.parse().unwrap()).unwrap());
    let ns = Arc::new(AtomicU64::new(1));
    let insecure = Cipher::ALL.iter().copied().find(|cipher| cipher.tag_len == 0).unwrap();
    let config = config(Protocol::Xtp);
    let mut world = World::speaking(&[insecure], None, Box::new(a), Box::new(b), ns, &config);
    world.connect();
    let none = world.client.begin_call(world.id, &b"in the clear"[..]);
    assert!(matches!(none, Err(Error::Misuse(_))), "{none:?}");
}
