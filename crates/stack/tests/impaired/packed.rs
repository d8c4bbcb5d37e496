//! Segments of many records: which leave, and what becomes of their records when one of them, or the segment, is not what
//! was sent.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fusewire_base::Sum;
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::memory::{self, Network};
use fusewire_device::{Capabilities, Device, Ecn, Event as Told, TxFrame};
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{Cipher, RecordHeader, RecordType};
use fusewire_stack::{Adu, Application, ConnectionId, Event};
use fusewire_transport::either;

use crate::world::{A, B, C, World, carry, close, small};

/// What is done to each frame with payload that the client sends.
type Rule = Box<dyn FnMut(&TxFrame<'_>) -> Fate + Send>;

enum Fate {
    Passes,
    IsLost,
    /// The path carries no more than so many bytes, and says so.
    IsTooBig(usize),
    /// These come before it, as if it had been they.
    ComesAfter(Vec<Vec<u8>>),
}

/// A device under a rule, which notes what was sent.
struct Ruled {
    inner: memory::Memory,
    rule: Arc<Mutex<Option<Rule>>>,
    /// Bytes of each payload.
    sent: Arc<Mutex<Vec<usize>>>,
    too_big: Option<Told>,
    /// Not all of the path.
    caps: Capabilities,
}

impl Device for Ruled {
    fusewire_device::forward!(self => self.inner; local_addr receive wait waker as_fd);

    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            let mut rule = self.rule.lock().unwrap();
            let judge = rule.as_mut().filter(|_| !frame.payload.is_empty());
            let fate = judge.map_or(Fate::Passes, |rule| rule(frame));
            // A question about the path has no ACK.
            if !frame.payload.is_empty() && frame.header[13] & 0x10 != 0 {
                self.sent.lock().unwrap().push(frame.payload.len());
            }
            match fate {
                Fate::Passes => {}
                Fate::IsLost => continue,
                Fate::IsTooBig(max) if frame.header.len() + frame.payload.len() > max => {
                    let len = frame.header.len() + frame.payload.len();
                    self.too_big = Some(Told::TooBig { peer: frame.peer, len });
                    continue;
                }
                Fate::IsTooBig(_) => {}
                Fate::ComesAfter(others) => {
                    for other in &others {
                        let (header, payload) = other.split_at(frame.header.len());
                        let other = TxFrame { peer: frame.peer, header, payload, ecn: Ecn::NotEct };
                        self.inner.transmit(&[other])?;
                    }
                }
            }
            self.inner.transmit(&[*frame])?;
        }
        Ok(frames.len())
    }

    fn poll_event(&mut self) -> Option<Told> {
        self.too_big.take()
    }
}

/// A connection, its client under a rule that is still to be set, and what the client sends.
struct Bench {
    world: World,
    rule: Arc<Mutex<Option<Rule>>>,
    sent: Arc<Mutex<Vec<usize>>>,
    network: Network,
    got: usize,
}

/// Bytes of each ADU, and of its record.
const LEN: usize = 100;
const RECORD: usize = LEN + 32;
/// Records that a segment of 1452 - 32 bytes has room for.
const FIT: usize = 10;

fn body(n: usize) -> Vec<u8> {
    (0..LEN).map(|i| (i * 7 + n * 13) as u8).collect()
}

impl Bench {
    fn new() -> Bench {
        Bench::with(&small())
    }

    fn with(config: &fusewire_stack::Config) -> Bench {
        Bench::speaking(&Cipher::DEFAULT, config)
    }

    fn speaking(ciphers: &[Cipher], config: &fusewire_stack::Config) -> Bench {
        let network = Network::new(memory::Config {
            mailbox_bytes: 64 << 20,
            coalesce: true,
            ..memory::Config::default()
        });
        let (rule, sent): (Arc<Mutex<Option<Rule>>>, _) = Default::default();
        let inner = network.attach(A.parse().unwrap()).unwrap();
        let caps =
            Capabilities { is_whole_path: false, max_datagram: 1452, ..inner.caps().clone() };
        let (rule_of_client, sent_by_client) = (rule.clone(), Arc::clone(&sent));
        let client =
            Ruled { inner, rule: rule_of_client, sent: sent_by_client, too_big: None, caps };
        let server = network.attach(B.parse().unwrap()).unwrap();
        let ns = Arc::new(AtomicU64::new(1));
        let (client, server) = (Box::new(client), Box::new(server));
        let mut world = World::speaking(ciphers, None, client, server, ns, config);
        world.connect();
        // The window opens.
        carry(&mut world, 0..FIT, 1.0, body);
        sent.lock().unwrap().clear();
        Bench { world, rule, sent, network, got: FIT }
    }

    fn set(&self, rule: impl FnMut(&TxFrame<'_>) -> Fate + Send + 'static) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// Seals so many ADUs, which leave together.
    fn send(&mut self, count: usize) {
        for n in self.got..self.got + count {
            assert!(self.world.client.send(self.world.id, &body(n)).unwrap());
        }
        self.world.client.flush();
    }

    /// All ADUs that have come in order.
    fn receive(&mut self) -> usize {
        let before = self.got;
        let served = self.world.served.unwrap();
        while let Some((index, adu)) = self.world.server.recv(served) {
            assert_eq!((index as usize, &adu), (self.got, &body(self.got)));
            self.got += 1;
        }
        self.got - before
    }

    fn drops(&self, name: &str) -> u64 {
        let info = self.world.server.info(self.world.served.unwrap()).unwrap();
        info.counters.drops.named().find(|(known, _)| *known == name).map_or(0, |(_, n)| n)
    }

    /// What was dropped for a record that is none of the peer's, and for a wrong sum.
    fn refused(&self) -> [u64; 2] {
        // An index that is far off is not even looked at.
        let records = ["tag", "malformed", "no-memory"].map(|name| self.drops(name));
        [records.iter().sum(), self.drops("checksum")]
    }

    /// Payloads that have left since the last look.
    fn left(&self) -> Vec<usize> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    fn end(mut self, upto: usize) {
        let served = self.world.served.unwrap();
        let mut got = self.got;
        self.world.run(60.0, "the rest", |w| {
            while let Some((index, adu)) = w.server.recv(served) {
                assert_eq!((index as usize, &adu), (got, &body(got)));
                got += 1;
            }
            got == upto
        });
        assert!(!self.world.server_events.iter().any(|e| matches!(e, Event::Closed(_))));
        close(&mut self.world);
    }
}

/// The frame with `payload`, and a checksum that is right.
fn with_payload(frame: &TxFrame<'_>, payload: &[u8]) -> Vec<u8> {
    let mut all = [frame.header, payload].concat();
    let head = frame.header.len();
    all[16..18].fill(0);
    let sum = pseudo_header_sum(6, all.len()) + Sum::of(&all[..head]) + Sum::of(payload);
    all[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    all
}

#[test]
fn adus_that_wait_leave_together_and_one_alone_leaves_at_once() {
    let mut bench = Bench::new();
    bench.send(1);
    assert_eq!(bench.left(), [RECORD], "no time has passed");
    bench.world.step();
    assert_eq!(bench.receive(), 1);
    bench.send(2 * FIT + 3);
    assert_eq!(bench.left(), [FIT * RECORD, FIT * RECORD, 3 * RECORD]);
    bench.world.step();
    assert_eq!(bench.receive(), 2 * FIT + 3);
    // A long one stays for itself, whatever is beside it.
    let world = &mut bench.world;
    let long = vec![1; 1300];
    for adu in [&body(0), &long, &body(1), &body(2)] {
        assert!(world.client.send(world.id, adu).unwrap());
    }
    world.client.flush();
    assert_eq!(bench.left(), [RECORD, 1332, 2 * RECORD]);
}

#[test]
fn records_behind_a_hole_are_opened_by_themselves() {
    let mut bench = Bench::new();
    let first = Cell::new(true);
    bench.set(move |_| if first.take() { Fate::IsLost } else { Fate::Passes });
    bench.send(3 * FIT);
    let served = bench.world.served.unwrap();
    let before = bench.got;
    bench.world.ns.fetch_add(1000, Ordering::Relaxed);
    bench.world.server.poll(&mut fusewire_stack::Keep).unwrap();
    assert!(bench.world.server.recv(served).is_none(), "the first is missing");
    for n in before + FIT..before + 3 * FIT {
        let (index, adu) = bench.world.server.recv_any(served).expect("opened beyond the hole");
        assert_eq!((index as usize, adu), (n, body(n)));
    }
    bench.world.run(10.0, "the hole", |w| {
        w.server.recv(served).map(|(index, _)| index as usize) == Some(before + FIT - 1)
    });
    bench.got = before + 3 * FIT;
    close(&mut bench.world);
}

#[test]
fn a_smaller_path_cuts_between_records() {
    let config = fusewire_stack::Config { datagram_bytes: None, ..small() };
    let mut bench = Bench::with(&config);
    bench.world.run(10.0, "the path", |w| w.client.adu_len(w.id).unwrap().0 > 1380);
    bench.left();
    bench.set(|_| Fate::IsTooBig(1252));
    let before = bench.got;
    bench.send(60);
    let long = bench.left();
    assert!(long.iter().any(|len| *len > 1252 - 32), "{long:?}");
    bench.world.run(10.0, "the shorter ones", |w| w.client.info(w.id).unwrap().unacked == 0);
    let cut = bench.left();
    assert!(!cut.is_empty() && cut.iter().all(|len| len % RECORD == 0), "{cut:?}");
    bench.end(before + 60);
}

/// Each byte of a segment of three records, changed on its way: by accident, and by somebody who makes the sum right.
#[test]
fn nothing_is_believed_of_a_segment_with_a_wrong_byte() {
    for is_forged in [false, true] {
        let mut bench = Bench::new();
        let len = 3 * RECORD;
        for at in 0..len {
            // What is longer than the segment looks like a piece of a record, and one who forges that ends the connection.
            if is_forged && at < HEADER_LEN {
                continue;
            }
            let first = Cell::new(true);
            bench.set(move |frame| {
                if frame.payload.len() != len || !first.take() {
                    return Fate::Passes;
                }
                let mut payload = frame.payload.to_vec();
                payload[at] ^= 0x10;
                let other = match is_forged {
                    true => with_payload(frame, &payload),
                    false => [frame.header, &payload].concat(),
                };
                Fate::ComesAfter(vec![other])
            });
            let seen = bench.refused();
            bench.send(3);
            bench.world.step();
            assert_eq!(bench.receive(), 3, "byte {at}: the genuine one came too");
            let now = bench.refused();
            let more = [now[0] - seen[0], now[1] - seen[1]];
            assert_eq!(more, if is_forged { [1, 0] } else { [0, 1] }, "byte {at}");
            // What waits to be acknowledged is.
            bench.world.ns.fetch_add(30_000_000, Ordering::Relaxed);
            bench.world.step();
        }
        close(&mut bench.world);
    }
}

/// Of a segment whose second record is forged the first stands, and the others come again, each once.
#[test]
fn a_forged_record_takes_what_follows_it_along() {
    for lost in [false, true] {
        let mut bench = Bench::new();
        let first = Cell::new(true);
        bench.set(move |frame| {
            if frame.payload.len() != 4 * RECORD || !first.take() {
                return Fate::Passes;
            }
            let mut payload = frame.payload.to_vec();
            payload[RECORD + HEADER_LEN] ^= 1;
            Fate::ComesAfter(vec![with_payload(frame, &payload)])
        });
        let before = bench.got;
        if lost {
            // Beyond a hole.
            let (mut rule, is_first) =
                (bench.rule.lock().unwrap().take().unwrap(), Cell::new(true));
            bench.set(move |frame| match frame.payload.len() == FIT * RECORD && is_first.take() {
                true => Fate::IsLost,
                false => rule(frame),
            });
            bench.send(FIT);
            for n in before + FIT..before + FIT + 4 {
                assert!(bench.world.client.send(bench.world.id, &body(n)).unwrap());
            }
            bench.world.client.flush();
        } else {
            bench.send(4);
        }
        bench.world.step();
        assert_eq!(bench.drops("tag"), 1);
        let upto = before + 4 + if lost { FIT } else { 0 };
        bench.end(upto);
    }
}

/// Takes one ADU a call, into its own memory.
struct OneByOne {
    memory: Vec<u8>,
    got: Vec<u64>,
    enough: bool,
}

impl Application for OneByOne {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        assert!(!self.enough, "nothing is opened for who has enough");
        self.memory.get_mut(..adu.len)
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        assert_eq!(self.memory, body(adu.index as usize));
        self.got.push(adu.index);
        self.enough = true;
    }

    fn wants_more(&self) -> bool {
        !self.enough
    }
}

#[test]
fn who_wants_one_adu_finds_the_next_of_the_segment_later() {
    let mut bench = Bench::new();
    bench.send(FIT + 3);
    let mut app = OneByOne { memory: vec![0; LEN], got: Vec::new(), enough: false };
    let (first, served) = (bench.got as u64, bench.world.served.unwrap());
    let received =
        |world: &World| world.server.info(served).unwrap().counters.bytes_received as usize;
    let before = received(&bench.world);
    for n in 0..FIT + 3 {
        app.enough = false;
        bench.world.server.poll(&mut app).unwrap();
        assert_eq!(app.got, (first..=first + n as u64).collect::<Vec<_>>());
        // Until its last record is taken, a segment has not come.
        let whole = if n + 1 == FIT + 3 { n + 1 } else { (n + 1) / FIT * FIT };
        assert_eq!(received(&bench.world) - before, whole * RECORD);
    }
    bench.got += FIT + 3;
    let upto = bench.got;
    bench.send(5);
    bench.end(upto + 5);
}

/// More short ADUs than indices may be ahead, and nobody takes one: the rest comes again. A long one, whose pieces were
/// acknowledged, waits as it came, with the end behind it, until somebody takes others.
#[test]
fn more_adus_wait_than_indices_may_be_ahead() {
    // The first that is too far ahead is long, and the last, or one of those that come again.
    for (long, ends) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut config = small();
        if let either::Config::Tcp(tcp) = &mut config.transport {
            tcp.initial_recv_window = 4 << 20;
        }
        let mut bench = Bench::with(&config);
        let far = bench.got + (1 << 16) + 1;
        let upto = if long { far + 1 } else { bench.got + 70_000 };
        let adu = |n: usize| vec![n as u8; if long && n == far { 5_000 } else { n % 3 }];
        let (served, world) = (bench.world.served.unwrap(), &mut bench.world);
        let (mut sent, pause) = (bench.got, world.seconds() + 2.0);
        world.run(3.0, "nobody takes any", |w| {
            while sent < upto && w.client.send(w.id, &adu(sent)).unwrap() {
                sent += 1;
            }
            w.client.flush();
            w.seconds() > pause
        });
        if ends {
            assert_eq!(sent, upto);
            world.client.finish(world.id);
        }
        let mut got = bench.got;
        let again = bench.drops("no-memory") > 0;
        assert_eq!(again, !long, "what is short and too far ahead comes again");
        bench.world.run(60.0, "all of them", |w| {
            while sent < upto && w.client.send(w.id, &adu(sent)).unwrap() {
                sent += 1;
            }
            w.client.flush();
            while let Some((index, taken)) = w.server.recv(served) {
                assert_eq!((index as usize, &taken), (got, &adu(got)));
                got += 1;
            }
            got == upto
        });
        assert!(!bench.world.server_events.iter().any(|e| matches!(e, Event::Closed(_))));
        close(&mut bench.world);
    }
}

/// A piece of a long record begins with what looks like a record, and comes before what is missing. Without a tag
/// nothing tells that it is none.
#[test]
fn what_only_looks_like_a_record_behind_a_hole_is_none_without_a_tag() {
    let config = small();
    let mut bench = Bench::speaking(&[Cipher::NONE], &config);
    let piece = 1452 - 32;
    let mut body = vec![5; 3 * piece];
    let index = bench.got as u64;
    for (nth, within) in [(1, index + 1), (2, index + 2)] {
        let body_len = (piece - HEADER_LEN) as u32;
        let header = RecordHeader { kind: RecordType::Adu, body_len, index: within };
        body[nth * piece - HEADER_LEN..][..HEADER_LEN].copy_from_slice(&header.to_bytes());
    }
    let first = Cell::new(true);
    bench.set(move |_| if first.take() { Fate::IsLost } else { Fate::Passes });
    let served = bench.world.served.unwrap();
    assert!(bench.world.client.send(bench.world.id, &body).unwrap());
    bench.world.client.flush();
    assert_eq!(bench.left()[..3], [piece; 3]);
    let mut got = None;
    bench.world.run(10.0, "the hole", |w| {
        got = w.server.recv_any(served);
        got.is_some()
    });
    assert_eq!(got, Some((index, body)));
    close(&mut bench.world);
}

/// While others' frames keep coming, acknowledgements of bulk wait for no more than a millisecond.
#[test]
fn a_busy_stack_acknowledges_within_a_millisecond() {
    let mut bench = Bench::new();
    bench.world.run(1.0, "quiet", |w| w.client.info(w.id).unwrap().unacked == 0);
    bench.send(3 * FIT);
    let (served, world) = (bench.world.served.unwrap(), &mut bench.world);
    let to = world.server.local_addr();
    let noise = TxFrame { peer: to, header: &[0; 20], payload: &[], ecn: Ecn::NotEct };
    let mut stranger = bench.network.attach(C.parse().unwrap()).unwrap();
    let mut waited_us = 0;
    while world.client.info(world.id).unwrap().unacked > 0 {
        // Each look of the server's finds something.
        stranger.transmit(&[noise]).unwrap();
        world.ns.fetch_add(50_000, Ordering::Relaxed);
        world.server.poll(&mut fusewire_stack::Keep).unwrap();
        world.client.poll(&mut fusewire_stack::Keep).unwrap();
        waited_us += 50;
        assert!(waited_us <= 1100, "still waits after {waited_us} us");
    }
    assert!(waited_us >= 900, "it does wait for what comes with it: {waited_us} us");
    assert!(world.server.recv(served).is_some());
}
