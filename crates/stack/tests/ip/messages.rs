//! Values that are marshalled in the loop that sums, and unmarshalled in the one that verifies: the same bytes and values
//! with every level and execution, and nothing of a value before its checksum is judged.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_codec::pipeline::{Arrays, Fixed, Message, Placed};
use fusewire_codec::{Error as CodecError, Sink, Source, xdr};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_kernels::message::{Marshal, Opening, Sealing, Unmarshal};
use fusewire_kernels::stages::Swap;
use fusewire_kernels::{Execution, Level};
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, Error, Framing, SendFlags, SocketId, Stack};
use fusewire_testkit::Random;
use fusewire_testkit::link::Impairments;
use fusewire_wire::{ipv4, udp};

use crate::lossy::{bad, lossy};
use crate::net::{Kind, Net, kinds, pattern};
use crate::tcp::connected;

const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

/// `struct { unsigned int id; opaque key[5]; double samples<>; hyper *at; int words<>; }`, as a generator makes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub id: u32,
    pub key: [u8; 5],
    pub samples: Vec<f64>,
    pub at: Option<i64>,
    pub words: Vec<i32>,
}

impl xdr::Encode for Reading {
    fn encode<S: Sink>(&self, to: &mut xdr::Encoder<S>) -> Result<(), CodecError> {
        to.uint(self.id)?;
        to.opaque_fixed(&self.key)?;
        to.array(&self.samples, u32::MAX)?;
        to.optional_data(self.at.as_ref())?;
        to.array(&self.words, u32::MAX)
    }
}

impl<'a> xdr::Decode<'a> for Reading {
    fn decode<S: Source<'a>>(from: &mut xdr::Decoder<S>) -> Result<Self, CodecError> {
        Ok(Reading {
            id: from.uint()?,
            key: from.opaque_fixed()?,
            samples: from.array(u32::MAX)?,
            at: from.optional_data()?,
            words: from.array(u32::MAX)?,
        })
    }
}

impl Reading {
    /// One of about so many bytes.
    pub fn of(len: usize, seed: u32) -> Reading {
        let count = len / 12;
        Reading {
            id: seed,
            key: [1, 2, 3, 4, seed as u8],
            samples: (0..count).map(|i| (i as f64 - 7.0) * f64::from(seed) / 3.0).collect(),
            at: seed.is_multiple_of(2).then_some(i64::from(seed) << 33),
            words: (0..count).map(|i| (i as i32 * -77_777) ^ seed as i32).collect(),
        }
    }

    /// The slow, obvious encoding.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.id.to_be_bytes().to_vec();
        bytes.extend(self.key);
        bytes.extend([0; 3]);
        bytes.extend((self.samples.len() as u32).to_be_bytes());
        bytes.extend(self.samples.iter().flat_map(|sample| sample.to_be_bytes()));
        bytes.extend(u32::from(self.at.is_some()).to_be_bytes());
        bytes.extend(self.at.iter().flat_map(|at| at.to_be_bytes()));
        bytes.extend((self.words.len() as u32).to_be_bytes());
        bytes.extend(self.words.iter().flat_map(|word| word.to_be_bytes()));
        bytes
    }
}

/// Every level with every execution.
fn passes() -> Vec<(Level, Execution)> {
    let levels = Level::available();
    println!("levels: {levels:?}");
    levels.into_iter().flat_map(|level| EXECUTIONS.map(|execution| (level, execution))).collect()
}

const LENGTHS: [usize; 9] = [0, 12, 40, 100, 500, 1000, 1400, 3000, 40_000];

/// Takes one message, as soon as it comes.
fn take<U: Unmarshal>(net: &mut Net, id: SocketId, into: &mut U) -> usize {
    let mut got = None;
    for _ in 0..20 {
        let (now, stack) = (net.now, &mut net.stacks[1]);
        let taken = stack.udp_recv_messages(now, id, into, |received, _| {
            got = Some(received.len);
            false
        });
        if taken.unwrap().unwrap() > 0 {
            return got.unwrap();
        }
        // The neighbour may have to be asked first.
        net.settle();
    }
    panic!("nothing came")
}

#[test]
fn datagrams_are_values_with_every_level_and_execution() {
    for kind in kinds() {
        for (level, execution) in passes() {
            let config = Config { level, execution, ..Config::default() };
            let mut net = Net::new(kind, 1500, config);
            let (from, to) = (net.addr(0, 7), net.addr(1, 9));
            let a = net.stacks[0].udp_bind(from).unwrap();
            let b = net.stacks[1].udp_bind(to).unwrap();
            for (seed, len) in (1..).zip(LENGTHS) {
                let value = Reading::of(len, seed);
                let (bytes, what) =
                    (value.bytes(), format!("{kind:?} {level} {execution:?} {len}"));
                let (now, stack) = (net.now, &mut net.stacks[0]);
                // A value to who reads bytes, bytes to who reads a value, and a value to a value.
                let message = Message::xdr(&value).unwrap();
                stack.udp_send_message(now, a, &message, Some(to)).unwrap().unwrap();
                let mut plain = vec![0; bytes.len()];
                assert_eq!(take(&mut net, b, &mut Raw(&mut plain)), bytes.len(), "{what}");
                assert!(plain == bytes, "{what}");
                for queued in [false, true] {
                    net.stacks[0].udp_send(now, a, &bytes, Some(to)).unwrap().unwrap();
                    if queued {
                        net.settle();
                    }
                    let mut found = None::<Reading>;
                    let mut placed = Placed::xdr(&mut found);
                    assert_eq!(take(&mut net, b, &mut placed), bytes.len(), "{what}");
                    placed.finish().unwrap();
                    assert_eq!(found.as_ref(), Some(&value), "{what}");
                }
                let stack = &mut net.stacks[0];
                stack.udp_send_message(now, a, &message, Some(to)).unwrap().unwrap();
                let mut found = None::<Reading>;
                let mut placed = Placed::xdr(&mut found);
                take(&mut net, b, &mut placed);
                placed.finish().unwrap();
                assert_eq!(found, Some(value), "{what}");
            }
            assert_eq!(net.stacks[1].counters().drops.of(Cause::Checksum), 0);
        }
    }
}

/// The bytes as they came.
struct Raw<'a>(&'a mut [u8]);

impl Unmarshal for Raw<'_> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let len = from.left().min(self.0.len());
        from.take(&mut self.0[..len]);
    }

    fn wipe(&mut self) {
        self.0.fill(0);
    }
}

#[test]
fn other_syntaxes_come_with_it() {
    let mut net = Net::new(kinds()[0], 1500, Config::default());
    let (from, to) = (net.addr(0, 7), net.addr(1, 9));
    let a = net.stacks[0].udp_bind(from).unwrap();
    let b = net.stacks[1].udp_bind(to).unwrap();
    let values: Vec<u32> = (0..77).collect();
    let message = Message::lws::<u32>(&values).unwrap();
    net.stacks[0].udp_send_message(net.now, a, &message, Some(to)).unwrap().unwrap();
    let mut found = None::<Vec<u32>>;
    let mut placed = Placed::lws::<u32>(&mut found);
    take(&mut net, b, &mut placed);
    placed.finish().unwrap();
    assert_eq!(found.as_ref(), Some(&values));
    let message = Message::oer(&values).unwrap();
    net.stacks[0].udp_send_message(net.now, a, &message, Some(to)).unwrap().unwrap();
    let mut placed = Placed::oer(&mut found);
    take(&mut net, b, &mut placed);
    placed.finish().unwrap();
    assert_eq!(found, Some(values));
}

/// Many messages of one call, and no more than are wanted: what came together is not lost.
#[test]
fn a_batch_ends_when_it_is_told_to() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let (from, to) = (net.addr(0, 7), net.addr(1, 9));
        let a = net.stacks[0].udp_bind(from).unwrap();
        let b = net.stacks[1].udp_bind(to).unwrap();
        for queued in [false, true] {
            let arrays: Vec<Vec<f64>> = (0..40).map(|i| vec![f64::from(i); 5]).collect();
            let bytes: Vec<u8> = arrays.iter().flat_map(|a| xdr::to_vec(a).unwrap()).collect();
            let mut sent = 0;
            for _ in 0..10 {
                let (now, stack) = (net.now, &mut net.stacks[0]);
                let left = &bytes[sent * 44..];
                if !left.is_empty() {
                    sent += stack.udp_send_batch(now, a, left, 44, Some(to)).unwrap().unwrap();
                }
            }
            assert_eq!(sent, 40);
            if queued {
                net.settle();
            }
            let mut memory = vec![0.0; 200];
            let mut placed = Arrays::new(&mut memory);
            let mut placed = Placed::xdr(&mut placed);
            let (mut got, mut calls) = (Vec::new(), 0);
            while got.len() < 40 {
                let before = got.len();
                let (now, stack) = (net.now, &mut net.stacks[1]);
                let taken = stack.udp_recv_messages(now, b, &mut placed, |received, placed| {
                    assert_eq!((received.from, received.len), (from, 44));
                    got.push(placed.placed().unwrap().keep());
                    !got.len().is_multiple_of(7)
                });
                assert_eq!(taken.unwrap().unwrap(), got.len() - before, "{kind:?}");
                calls += 1;
                net.settle();
                assert!(calls < 100, "{kind:?}: {} of 40", got.len());
            }
            let ranges: Vec<_> = (0..40).map(|i| i * 5..i * 5 + 5).collect();
            assert_eq!(got, ranges, "{kind:?}");
            assert_eq!(memory, arrays.concat(), "{kind:?}");
        }
    }
}

/// A stack, its socket, and the other end of its cable.
fn alone(execution: Execution) -> (Stack, SocketId, Memory) {
    let (ours, theirs) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let addresses = vec![Cidr::new(IpAddr::V4(OURS), 24).unwrap()];
    let net = NetConfig { addresses, duplicate_detection: false, ..Stack::net_config(&ours) };
    let config = Config { execution, ..Config::default() };
    let mut stack = Stack::new(Box::new(ours), net, config, [1; 32], Instant::from_ms(1));
    let id = stack.udp_bind(SocketAddr::new(IpAddr::V4(OURS), 9)).unwrap();
    (stack, id, theirs)
}

/// A packet whose checksum is to be verified; `forge` changes its bytes behind the headers afterwards.
fn deliver(cable: &mut Memory, message: &[u8], forge: impl FnOnce(&mut [u8])) {
    let len = udp::HEADER_LEN + message.len();
    let mut bytes = vec![0; ipv4::MIN_HEADER_LEN + len];
    let ip = ipv4::Header {
        tos: 0,
        total_len: bytes.len() as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 9,
        protocol: udp::NUMBER,
        source: THEIRS,
        destination: OURS,
        header_len: 0,
    };
    let at = ip.emit(&mut bytes);
    bytes[at + udp::HEADER_LEN..].copy_from_slice(message);
    let mut header = udp::Header { src_port: 7, dst_port: 9, len: len as u16, checksum: 0 };
    header.emit(&mut bytes[at..]);
    let pseudo = ipv4::pseudo_header_sum(THEIRS, OURS, udp::NUMBER, len as u16);
    header.checksum = (pseudo + Sum::of(&bytes[at..])).checksum();
    header.emit(&mut bytes[at..]);
    forge(&mut bytes[at + udp::HEADER_LEN..]);
    let packet = TxPacket {
        header: &bytes,
        payload: &[],
        checksum: Checksum::InPlace,
        segmentation: Segmentation::None,
    };
    assert_eq!(cable.transmit(&[packet]).unwrap(), 1);
}

/// Every byte of a value, forged: nobody is told of it, and nothing of it is left. So would somebody be who is told before
/// the checksum is judged.
#[test]
fn nothing_is_shown_before_the_checksum_holds() {
    for execution in EXECUTIONS {
        let (mut stack, id, mut cable) = alone(execution);
        let now = Instant::from_ms(2);
        let value = Reading::of(300, 4);
        let bytes = value.bytes();
        for at in 0..bytes.len() {
            deliver(&mut cable, &bytes, |payload| payload[at] ^= 1 << (at % 8));
            let mut found = None::<Reading>;
            let mut placed = Placed::xdr(&mut found);
            let told = |_, _: &mut _| panic!("it was told of what is wrong");
            let taken = stack.udp_recv_messages(now, id, &mut placed, told);
            assert_eq!(taken.unwrap().unwrap(), 0, "byte {at}");
            assert!(placed.finish().is_err() && found.is_none(), "byte {at}");
            let mut memory = vec![1.5; 8];
            let mut arrays = Arrays::new(&mut memory);
            deliver(&mut cable, &xdr::to_vec(&vec![2.5; 8]).unwrap(), |p| p[at % p.len()] ^= 0x80);
            let mut placed = Placed::xdr(&mut arrays);
            let taken = stack.udp_recv_messages(now, id, &mut placed, |_, _| panic!("told"));
            assert_eq!(taken.unwrap().unwrap(), 0, "byte {at}");
            assert!(memory.iter().all(|number| matches!(*number, 0.0 | 1.5)), "byte {at}");
        }
        let wrong = stack.counters().drops.of(Cause::Checksum);
        assert_eq!(wrong, 2 * bytes.len() as u64);
        deliver(&mut cable, &bytes, |_| {});
        let mut found = None::<Reading>;
        let mut placed = Placed::xdr(&mut found);
        let mut got = 0;
        let taken = stack.udp_recv_messages(now, id, &mut placed, |received, placed| {
            got = received.len;
            assert_eq!(placed.placed().unwrap().as_ref(), Some(&value));
            true
        });
        assert_eq!((taken.unwrap().unwrap(), got), (1, bytes.len()));
    }
}

/// What is genuine and no such value is told, and leaves nothing.
#[test]
fn what_is_no_such_value_leaves_nothing() {
    for execution in EXECUTIONS {
        let (mut stack, id, mut cable) = alone(execution);
        let now = Instant::from_ms(2);
        let bytes = Reading::of(200, 3).bytes();
        let mut longer = bytes.clone();
        longer.push(0);
        let mut huge = bytes.clone();
        huge[12..16].fill(0xff);
        let cuts = (0..bytes.len()).map(|cut| &bytes[..cut]);
        for message in cuts.chain([&longer[..], &huge]) {
            deliver(&mut cable, message, |_| {});
            let mut found = Some(Reading::default());
            let mut placed = Placed::xdr(&mut found);
            let mut told = 0;
            let taken = stack.udp_recv_messages(now, id, &mut placed, |received, placed| {
                told += 1;
                assert_eq!(received.len, message.len());
                assert!(placed.placed().is_err(), "{} bytes", message.len());
                true
            });
            assert_eq!((taken.unwrap().unwrap(), told), (1, 1));
            assert!(found.is_none(), "{} bytes", message.len());
        }
        // Arrays: of a length that is not true, too long, and of fixed length.
        let array = xdr::to_vec(&vec![1.0; 9]).unwrap();
        for (message, fits) in [(&array[..], false), (&array[..36], false), (&array[4..68], true)] {
            deliver(&mut cable, message, |_| {});
            let (mut memory, mut fixed) = ([0.0; 8], [0.0; 8]);
            let mut arrays = Arrays::new(&mut memory);
            let mut placed = Placed::xdr(&mut arrays);
            let mut is_one = true;
            let taken = stack.udp_recv_messages(now, id, &mut placed, |_, placed| {
                is_one = placed.placed().is_ok();
                true
            });
            assert_eq!((taken.unwrap().unwrap(), is_one, memory), (1, false, [0.0; 8]));
            deliver(&mut cable, message, |_| {});
            let mut array = Fixed(&mut fixed);
            let mut placed = Placed::xdr(&mut array);
            let taken = stack.udp_recv_messages(now, id, &mut placed, |_, _| true);
            assert_eq!((taken.unwrap().unwrap(), placed.finish().is_ok()), (1, fits));
            assert_eq!(fixed, [f64::from(u8::from(fits)); 8]);
        }
    }
}

/// Says another length than it gives.
struct Liar(usize);

impl Marshal for Liar {
    fn marshalled_len(&self) -> usize {
        10
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&vec![7; self.0]);
    }
}

#[test]
fn what_is_not_as_long_as_it_says_does_not_leave() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let to = net.addr(1, 9);
        let a = net.stacks[0].udp_bind(net.addr(0, 7)).unwrap();
        let (client, server) = connected(&mut net, 80);
        for given in [9, 11] {
            let sent = net.stacks[0].udp_send_message(net.now, a, &Liar(given), Some(to));
            assert!(matches!(sent, Ok(Err(Error::Misuse(_)))), "{kind:?}");
            let flags = SendFlags::default();
            let stack = &mut net.stacks[0];
            let sent = stack.tcp_send_message(client, Framing::Marked, &Liar(given), flags);
            assert!(matches!(sent, Err(Error::Misuse(_))), "{kind:?}");
        }
        // And what follows is right.
        let stack = &mut net.stacks[0];
        let sent =
            stack.tcp_send_message(client, Framing::Each(10), &Liar(10), SendFlags::default());
        assert_eq!(sent, Ok(true));
        net.settle();
        let mut out = [0; 20];
        assert_eq!(net.stacks[1].tcp_read(server, &mut out), Ok(Some(10)));
        assert_eq!(out[..10], [7; 10]);
    }
}

// ---- streams

/// The next message of the stream, as soon as it comes.
fn next(
    net: &mut Net,
    (id, framing): (SocketId, Framing),
    into: &mut dyn Unmarshal,
    queued: bool,
) -> Option<usize> {
    let end = net.now + Duration::from_secs(900);
    loop {
        net.stacks[0].transmit(net.now).unwrap();
        if queued {
            net.settle();
        }
        let (now, stack) = (net.now, &mut net.stacks[1]);
        let polled = stack.tcp_recv_message(now, id, framing, into).unwrap();
        if let Poll::Ready(got) = polled.unwrap() {
            return got;
        }
        net.stacks[1].transmit(net.now).unwrap();
        net.step(Duration::from_secs(1));
        assert!(net.now < end, "no message");
    }
}

#[test]
fn streams_are_values_with_every_level_and_execution() {
    for kind in kinds() {
        for (level, execution) in passes() {
            let config = Config { level, execution, ..Config::default() };
            let mut net = Net::new(kind, 1500, config);
            let (client, server) = connected(&mut net, 80);
            for (seed, len) in (1..).zip(LENGTHS) {
                let value = Reading::of(len, seed);
                let (bytes, what) =
                    (value.bytes(), format!("{kind:?} {level} {execution:?} {len}"));
                for framing in [Framing::Marked, Framing::Each(bytes.len())] {
                    for queued in [false, true] {
                        let message = Message::xdr(&value).unwrap();
                        let (stack, flags) = (&mut net.stacks[0], SendFlags::default());
                        assert_eq!(
                            stack.tcp_send_message(client, framing, &message, flags),
                            Ok(true)
                        );
                        let mut found = None::<Reading>;
                        let mut placed = Placed::xdr(&mut found);
                        let got = next(&mut net, (server, framing), &mut placed, queued);
                        assert_eq!(got, Some(bytes.len()), "{what}");
                        placed.finish().unwrap();
                        assert_eq!(found.as_ref(), Some(&value), "{what}");
                        net.settle();
                    }
                }
                // What leaves is the mark and the bytes.
                let (stack, flags) = (&mut net.stacks[0], SendFlags::default());
                let message = Message::xdr(&value).unwrap();
                assert_eq!(
                    stack.tcp_send_message(client, Framing::Marked, &message, flags),
                    Ok(true)
                );
                let mut plain = vec![0; 4 + bytes.len()];
                let each = Framing::Each(plain.len());
                next(&mut net, (server, each), &mut Raw(&mut plain), false);
                assert_eq!(plain[..4], (1 << 31 | bytes.len() as u32).to_be_bytes(), "{what}");
                assert!(plain[4..] == bytes, "{what}");
            }
            net.stacks[0].tcp_finish(client).unwrap();
            let mut found = None::<Reading>;
            let mut placed = Placed::xdr(&mut found);
            assert_eq!(next(&mut net, (server, Framing::Marked), &mut placed, false), None);
            let info = net.stacks[0].tcp_info(client).unwrap();
            assert_eq!(info.counters.timeouts, 0, "{kind:?} {level} {execution:?}");
        }
    }
}

/// Written by kinds of calls that alternate, over a network that loses and forges: every segment has the sum of what is in
/// it, wherever it was cut.
#[test]
fn every_kind_of_write_is_summed_as_it_is_cut() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let impairments = if seed % 2 == 0 { Impairments::default() } else { bad(random) };
        let mut net = lossy(seed % 3 == 0, 1500, seed % 4 == 3, &impairments, seed);
        let (client, server) = connected(&mut net, 80);
        let (mut stream, mut read, mut wanted) = (Vec::new(), 0, 400_000);
        let mut out = vec![0; 70_000];
        let end = net.now + Duration::from_secs(3000);
        let mut finished = false;
        while read < stream.len() || !finished {
            let stack = &mut net.stacks[0];
            if stream.len() >= wanted {
                finished = true;
            } else {
                let most = *random.pick(&[20, 600, 3000, 30_000]);
                let len = 1 + random.below(most) as usize;
                let bytes = pattern(seed, stream.len(), len);
                match random.below(3) {
                    0 => {
                        let n = stack.tcp_write(client, &bytes).unwrap();
                        stream.extend_from_slice(&bytes[..n]);
                    }
                    1 => {
                        let n = stack.tcp_write_with(client, &Swap::<4>, &bytes).unwrap();
                        assert!(n == len || n.is_multiple_of(4));
                        let words = bytes[..n].chunks(4);
                        stream.extend(words.flat_map(|word| -> Vec<u8> {
                            match word.len() {
                                4 => word.iter().rev().copied().collect(),
                                _ => word.to_vec(),
                            }
                        }));
                    }
                    _ => {
                        let value = Reading::of(len, len as u32);
                        let message = Message::xdr(&value).unwrap();
                        let end_of_record = random.below(2) == 0;
                        let flags = SendFlags { end_of_record, ..SendFlags::default() };
                        let sent = stack.tcp_send_message(client, Framing::Marked, &message, flags);
                        if sent.unwrap() {
                            let bytes = value.bytes();
                            stream.extend((1 << 31 | bytes.len() as u32).to_be_bytes());
                            stream.extend(bytes);
                        }
                    }
                }
            }
            net.stacks[0].transmit(net.now).unwrap();
            let (now, stack) = (net.now, &mut net.stacks[1]);
            let got = stack.tcp_read_into(now, server, &mut out).unwrap().unwrap().unwrap_or(0);
            assert!(out[..got] == stream[read..read + got], "seed {seed}: from {read} on");
            read += got;
            net.step(Duration::from_millis(20));
            assert!(net.now < end, "seed {seed}: {read} of {} bytes", stream.len());
            wanted = wanted.max(1);
        }
        let wrong = net.wire.as_ref().unwrap().lock().unwrap().wrong;
        assert_eq!(wrong, 0, "seed {seed}: wrong checksums were sent");
    }
}

/// What a pipeline makes of a stream, wherever segments end.
#[test]
fn pipelines_run_over_streams() {
    fn swapped(bytes: &[u8]) -> Vec<u8> {
        let words = bytes.chunks(8);
        let word = |w: &[u8]| match w.len() {
            8 => w.iter().rev().copied().collect::<Vec<u8>>(),
            _ => w.to_vec(),
        };
        words.flat_map(word).collect()
    }
    for kind in kinds() {
        for (level, direct) in Level::available().into_iter().flat_map(|l| [(l, true), (l, false)])
        {
            let mut net = Net::new(kind, 1500, Config { level, ..Config::default() });
            let (client, server) = connected(&mut net, 80);
            let sent = pattern(5, 0, 200_003);
            let (mut written, mut got) = (0, Vec::new());
            let mut memory = vec![0; 5000];
            let mut turn = 0usize;
            loop {
                turn += 1;
                let len = (1 + turn * 7919 % 2999).min(sent.len() - written);
                if len > 0 {
                    let piece = &sent[written..written + len];
                    written += net.stacks[0].tcp_write(client, piece).unwrap();
                } else {
                    net.stacks[0].tcp_finish(client).unwrap();
                }
                net.stacks[0].transmit(net.now).unwrap();
                let (now, stack) = (net.now, &mut net.stacks[1]);
                let room = &mut memory[..8 + turn * 31 % 4900];
                let read = match direct {
                    true => stack.tcp_recv_with(now, server, &Swap::<8>, room).unwrap().unwrap(),
                    false => {
                        net.settle();
                        net.stacks[1].tcp_read_with(server, &Swap::<8>, room).unwrap()
                    }
                };
                match read {
                    Some(0) => break,
                    Some(read) => got.extend_from_slice(&memory[..read]),
                    None => net.step(Duration::from_millis(200)),
                }
                net.stacks[1].transmit(net.now).unwrap();
                net.stacks[0].poll(net.now).unwrap();
                assert!(turn < 5000, "{kind:?} {level}: {} bytes", got.len());
            }
            assert!(got == swapped(&sent), "{kind:?} {level} {direct}");
            let short = net.stacks[1].tcp_recv_with(net.now, server, &Swap::<8>, &mut [0; 7]);
            assert!(matches!(short, Ok(Err(Error::Misuse(_)))));
        }
    }
}

/// A network that forges: what is wrong is not shown, and comes again.
#[test]
fn forged_segments_show_nothing_of_a_message() {
    let mut wrong = 0;
    for seed in 0..10 {
        let impairments = Impairments { corrupt: 0.2, ..Impairments::default() };
        let mut net = lossy(false, 1500, false, &impairments, seed);
        let (client, server) = connected(&mut net, 80);
        for turn in 0..60 {
            let value = Reading::of(100 + turn as usize * 37, turn);
            let (stack, flags) = (&mut net.stacks[0], SendFlags::default());
            let message = Message::xdr(&value).unwrap();
            assert_eq!(stack.tcp_send_message(client, Framing::Marked, &message, flags), Ok(true));
            let mut found = None::<Reading>;
            let mut placed = Placed::xdr(&mut found);
            let got = next(&mut net, (server, Framing::Marked), &mut placed, false);
            assert_eq!(got, Some(value.bytes().len()));
            placed.finish().unwrap();
            assert_eq!(found, Some(value), "seed {seed}");
        }
        let info = net.stacks[1].tcp_info(server).unwrap();
        wrong += info.counters.dropped(fusewire_transport::machine::DropCause::Checksum);
    }
    assert!(wrong > 50, "only {wrong} segments were forged");
}

/// At each cut of a message into two segments, and in fragments of any length.
#[test]
fn a_message_is_whole_wherever_it_is_cut() {
    let kind = Kind { v6: false, link: Link::Ip, checksum: false, segmentation: false };
    let mut net = Net::new(kind, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    net.stacks[0].tcp_machine(client).unwrap().set_nagle(false);
    let value = Reading::of(130, 6);
    let bytes = value.bytes();
    let mut marked = (1 << 31 | bytes.len() as u32).to_be_bytes().to_vec();
    marked.extend(&bytes);
    for cut in 0..=marked.len() {
        let mut found = None::<Reading>;
        for (part, ends) in [(&marked[..cut], cut == marked.len()), (&marked[cut..], true)] {
            if part.is_empty() {
                continue;
            }
            net.stacks[0].tcp_write(client, part).unwrap();
            net.stacks[0].transmit(net.now).unwrap();
            let mut placed = Placed::xdr(&mut found);
            let (now, stack) = (net.now, &mut net.stacks[1]);
            let polled = stack.tcp_recv_message(now, server, Framing::Marked, &mut placed);
            match polled.unwrap().unwrap() {
                Poll::Pending => assert!(!ends && placed.finish().is_err() && found.is_none()),
                Poll::Ready(got) => {
                    assert!(ends && got == Some(bytes.len()), "{cut}");
                    placed.finish().unwrap();
                    assert_eq!(found.as_ref(), Some(&value), "{cut}");
                }
            }
            net.settle();
        }
    }
    for each in [1, 3, 4, 50, 1000] {
        let count = bytes.len().div_ceil(each);
        for (i, fragment) in bytes.chunks(each).enumerate() {
            let last = if i + 1 == count { 1 << 31 } else { 0u32 };
            let mark = (last | fragment.len() as u32).to_be_bytes();
            net.stacks[0].tcp_write(client, &mark).unwrap();
            net.stacks[0].tcp_write(client, fragment).unwrap();
        }
        let mut found = None::<Reading>;
        let mut placed = Placed::xdr(&mut found);
        let got = next(&mut net, (server, Framing::Marked), &mut placed, false);
        assert_eq!(got, Some(bytes.len()), "fragments of {each}");
        placed.finish().unwrap();
        assert_eq!(found.as_ref(), Some(&value), "fragments of {each}");
        net.settle();
    }
}

#[test]
fn bounds_of_messages_are_told() {
    let kind = Kind { v6: false, link: Link::Ip, checksum: false, segmentation: false };
    let mut net = Net::new(kind, 1500, Config::default());
    let max = Config::default().tcp.recv_window as usize;
    let (client, server) = connected(&mut net, 80);
    let mut none = Raw(&mut []);
    let stack = &mut net.stacks[1];
    let polled = stack.tcp_read_message(server, Framing::Each(max + 1), &mut none);
    assert_eq!(polled, Err(Error::TooLong { len: max + 1, max }));
    assert_eq!(stack.tcp_read_message(server, Framing::Each(max), &mut none), Ok(Poll::Pending));
    // A mark that promises too much, and more fragments than are taken.
    net.stacks[0].tcp_write(client, &[0xff; 4]).unwrap();
    net.settle();
    let polled = net.stacks[1].tcp_read_message(server, Framing::Marked, &mut none);
    assert!(matches!(polled, Err(Error::TooLong { .. })), "{polled:?}");
    let (client, server) = connected(&mut net, 81);
    for _ in 0..10 {
        net.stacks[0].tcp_write(client, &[0; 1000]).unwrap();
        net.settle();
        net.run(Duration::from_secs(1));
    }
    let polled = net.stacks[1].tcp_read_message(server, Framing::Marked, &mut none);
    assert!(matches!(polled, Err(Error::TooLong { .. })), "{polled:?}");
    // The end within a message.
    let (client, server) = connected(&mut net, 82);
    net.stacks[0].tcp_write(client, &[0x80, 0, 0, 9, 1, 2]).unwrap();
    net.stacks[0].tcp_finish(client).unwrap();
    net.settle();
    let polled = net.stacks[1].tcp_read_message(server, Framing::Marked, &mut none);
    assert_eq!(polled, Err(Error::CutShort));
    let (stack, flags) = (&mut net.stacks[1], SendFlags::default());
    let sent = stack.tcp_send_message(server, Framing::Each(3), &[1, 2][..], flags);
    assert!(matches!(sent, Err(Error::Misuse(_))), "{sent:?}");
}
