//! What somebody costs who has shown no key: no more than a handshake needs. Whoever has shown one waits for nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::impair::Rules;
use fusewire_device::memory::{self, Memory, Network};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_session::HANDSHAKE_LEN_MAX;
use fusewire_stack::{Config, Keep};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{Initial, Verdict};
use fusewire_transport::tcp;
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

use crate::world::{A, B, C, PORT, World, small};

/// Somebody with a transport and nothing else.
struct Stranger {
    device: Memory,
    batch: RxBatch,
    tcp: tcp::Connection,
}

impl Stranger {
    fn send(&mut self, mut header: Header, payload: &[u8]) {
        let mut head = [0; MAX_HEADER_LEN];
        header.checksum = 0;
        let len = header.emit(&mut head);
        let sum = pseudo_header_sum(6, len + payload.len()) + Sum::of(&head[..len]);
        head[16..18].copy_from_slice(&(sum + Sum::of(payload)).checksum().to_be_bytes());
        let frame =
            TxFrame { peer: B.parse().unwrap(), header: &head[..len], payload, ecn: Ecn::NotEct };
        assert_eq!(self.device.transmit(&[frame]).unwrap(), 1);
    }

    /// Headers that came.
    fn receive(&mut self) -> Vec<Header> {
        let mut headers = Vec::new();
        while self.device.receive(&mut self.batch).unwrap() > 0 {
            for packet in self.batch.iter() {
                headers.push(Header::parse(packet.bytes).unwrap());
            }
        }
        headers
    }
}

#[test]
fn a_stranger_fills_no_more_than_a_handshake_needs() {
    let network = Network::new(memory::Config { coalesce: false, ..memory::Config::default() });
    let a = network.attach(A.parse().unwrap()).unwrap();
    let b = network.attach(B.parse().unwrap()).unwrap();
    let device = network.attach(C.parse().unwrap()).unwrap();
    let ns = Arc::new(AtomicU64::new(1));
    let mut world = World::with(Box::new(a), Box::new(b), ns, &small());
    let start = Start { iss: Seq(1000), timestamp_offset: 0 };
    let now = Instant::ZERO;
    let tcp = tcp::Connection::connect(&tcp::Config::default(), 7, PORT, start, now);
    let mut stranger = Stranger { device, batch: RxBatch::new(8), tcp };
    let syn = stranger.tcp.poll_transmit(now).unwrap().header;
    stranger.send(syn, &[]);
    while world.server.poll(&mut Keep).unwrap() {}
    let syn_ack = stranger.receive().remove(0);
    assert!(usize::from(syn_ack.window) <= HANDSHAKE_LEN_MAX, "{}", syn_ack.window);
    let initial = stranger.tcp.handle_initial(now, &syn_ack, 0);
    assert_eq!(initial, Initial::Control);
    stranger.tcp.handle_final(now, &syn_ack, &initial, Verdict::Control, false);
    let ack = stranger.tcp.poll_transmit(now).unwrap().header;
    stranger.send(ack, &[]);
    // All but the first byte, as far as the server takes it.
    for at in (1..600_000).step_by(1000) {
        let header = Header { seq: ack.seq + at, flags: Flags::ACK, ..ack };
        stranger.send(header, &[0x16; 1000]);
        while world.server.poll(&mut Keep).unwrap() {}
    }
    let mut held = 0;
    for header in stranger.receive() {
        assert_eq!(header.ack, ack.seq, "the first byte is missing");
        let window = usize::from(header.window) << syn_ack.options.window_scale.unwrap_or(0);
        assert!(window <= HANDSHAKE_LEN_MAX, "a window of {window}");
        let end = header.options.sack_blocks().iter().map(|(_, end)| *end - ack.seq).max();
        held = held.max(end.unwrap_or(0));
    }
    assert!((1..=HANDSHAKE_LEN_MAX as u32).contains(&held), "{held} bytes are held");
}

#[test]
fn who_is_known_has_the_whole_window_within_a_round_trip() {
    // 20 ms for a round trip, and segments as on loopback: two of them were a handshake's window.
    let rules = Rules { delay: Duration::from_millis(10), ..Rules::default() };
    let config = Config { datagram_bytes: Some(9000), ..Config::default() };
    let mut world = World::new(rules, 3, &config);
    world.connect();
    let begun = world.seconds();
    let body: Vec<u8> = (0..8000u32).map(|i| i as u8).collect();
    let (mut sent, mut got) = (0, 0);
    world.run(5.0, "the first ADUs", |w| {
        while sent < 40 && w.client.send(w.id, &body).unwrap() {
            sent += 1;
        }
        w.client.flush();
        while let Some((_, received)) = w.server.recv(w.served.unwrap()) {
            assert!(received == body);
            w.server.recycle(w.served.unwrap(), received);
            got += 1;
        }
        got == 40
    });
    // 320 KB with an initial window of 10 segments: three or four round trips of slow start.
    let round_trips = (world.seconds() - begun) / 0.02;
    println!("{round_trips:.1} round trips");
    assert!(round_trips < 5.0, "{round_trips} round trips");
    assert!(world.client.info(world.id).unwrap().send_window_max >= 256 << 10);
    assert_eq!(world.client.info(world.id).unwrap().counters.probes, 0);
}
