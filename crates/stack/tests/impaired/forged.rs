//! Beside the frames of both ends come those of somebody who forges the sender's address, and knows ports and
//! windows: the transfer goes on as if they had never come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fusewire_base::{Seq, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{RecordHeader, RecordType};
use fusewire_stack::Event;
use fusewire_testkit::Random;
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

use crate::world::{A, B, World, carry, close, small};

/// Sends forged frames, as if they were its own, before each frame.
struct Forging {
    inner: memory::Memory,
    random: Random,
    on: Arc<AtomicBool>,
    forged: Arc<AtomicU64>,
}

impl Forging {
    fn forge(&mut self, frame: &TxFrame<'_>) {
        let genuine = Header::parse(frame.header).expect("a header of ours");
        if genuine.flags.any(Flags::SYN | Flags::RST) || !genuine.flags.has(Flags::ACK) {
            return;
        }
        let mut h = genuine;
        let mut payload = frame.payload.to_vec();
        let random = &mut self.random;
        let anywhere = Seq(random.next_u32());
        match random.below(9) {
            0 => h.seq = h.seq + 0x1000_0000 + random.below(1 << 20) as u32,
            // What was received long ago, and that with a timestamp of any time.
            1 => {
                let below = payload.len() as u64 + random.below(20_000) + 1;
                h.seq = Seq(h.seq.0.wrapping_sub(below as u32));
            }
            2 => {
                h.seq = Seq(h.seq.0.wrapping_sub(5_000));
                h.options.timestamps =
                    h.options.timestamps.map(|(v, e)| (v.wrapping_add(random.next_u32() >> 1), e));
                payload.truncate(1 + random.below(500) as usize);
            }
            3 => h.ack = h.ack + 0x2000_0000 + random.below(1 << 30) as u32,
            4 => {
                (h.flags, h.ack) = (Flags::RST, anywhere);
                h.seq = h.seq + 1 + random.below(5_000) as u32;
                payload.clear();
            }
            5 => {
                h.flags = Flags::SYN;
                payload.clear();
            }
            // Questions about the path, and answers to some.
            6 => (h.flags, h.seq) = (Flags(0), anywhere),
            7 => (h.flags, h.seq, h.ack) = (Flags::PSH, anywhere, Seq(random.next_u32())),
            // Everything is right but the bytes. (One who knows all numbers, and makes a record look like a
            // piece of a longer one, ends the connection; that is known.)
            _ if is_record(&payload) => {
                let at = random.range(HEADER_LEN as u64..payload.len() as u64) as usize;
                payload[at] ^= 1 << random.below(8);
            }
            _ => return,
        }
        let mut head = [0; MAX_HEADER_LEN];
        h.checksum = 0;
        let len = h.emit(&mut head);
        let sum = pseudo_header_sum(6, len + payload.len()) + Sum::of(&head[..len]);
        head[16..18].copy_from_slice(&(sum + Sum::of(&payload)).checksum().to_be_bytes());
        let (peer, header) = (frame.peer, &head[..len]);
        let forged = TxFrame { peer, header, payload: &payload, ecn: Ecn::Ce };
        self.inner.transmit(&[forged]).unwrap();
        self.forged.fetch_add(1, Ordering::Relaxed);
    }
}

impl Device for Forging {
    fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            for _ in 0..4 {
                if self.on.load(Ordering::Relaxed) {
                    self.forge(frame);
                }
            }
            self.inner.transmit(&[*frame])?;
        }
        Ok(frames.len())
    }
}

/// All of one record, whose tag says that it is whole.
pub fn is_record(payload: &[u8]) -> bool {
    RecordHeader::parse(payload).is_ok_and(|h| {
        let len = HEADER_LEN + h.body_len as usize + 16;
        h.kind == RecordType::Adu && len == payload.len()
    })
}

/// One record each, in one segment.
fn body(n: usize) -> Vec<u8> {
    (0..900 + n % 300).map(|i| (i * 13 + n * 7) as u8).collect()
}

#[test]
fn forged_frames_change_nothing() {
    for seed in 1..=4 {
        // Room for all of them: nothing is lost.
        let config = memory::Config { mailbox_bytes: 64 << 20, ..memory::Config::default() };
        let network = Network::new(config);
        let (on, forged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut random = Random::new(seed);
        let mut end = |addr: &str| Forging {
            inner: network.attach(addr.parse().unwrap()).unwrap(),
            random: random.fork(),
            on: on.clone(),
            forged: forged.clone(),
        };
        let (a, b) = (Box::new(end(A)), Box::new(end(B)));
        let mut world = World::with(a, b, Arc::new(AtomicU64::new(1)), &small());
        world.connect();
        on.store(true, Ordering::Relaxed);
        // So nothing may wait for a timeout.
        carry(&mut world, 0..1000, 0.2, body);
        let infos = [
            world.client.info(world.id).unwrap(),
            world.server.info(world.served.unwrap()).unwrap(),
        ];
        for info in &infos {
            let c = &info.counters;
            assert_eq!((c.ecn_marks, c.ecn_echoes, c.retransmissions, c.timeouts), (0, 0, 0, 0));
            assert!(c.drops.total() > 50, "they were seen: {:?}", c.drops);
        }
        assert!(forged.load(Ordering::Relaxed) > 1000);
        let reset = |e: &Event| matches!(e, Event::Closed(_));
        assert!(!world.client_events.iter().chain(&world.server_events).any(reset));
        on.store(false, Ordering::Relaxed);
        close(&mut world);
    }
}
