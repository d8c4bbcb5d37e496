//! Over XTP whole records leave without a check over their bytes, since their tags prove them: what is damaged on the way
//! is seen all the same, wherever it lies, and comes again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fusewire_base::Sum;
use fusewire_device::TxFrame;
use fusewire_device::memory::{self, Network};
use fusewire_session::Cipher;
use fusewire_stack::{Config, Event};
use fusewire_transport::either::{self, Protocol};
use fusewire_wire::xtp::{Body, CHECK_AT, HEADER_LEN, Options, Packet};

use crate::world::{A, Altered, B, World, carry, close, small};

/// Bytes of a tag.
const TAG: usize = 16;

/// Where a bit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Nowhere,
    /// The packet's header.
    Header,
    /// The record's.
    RecordHeader,
    Ciphertext,
    Tag,
    /// A piece of a long record: and its packet says that the check does not cover it.
    UncoveredPiece,
}

/// What passed.
#[derive(Default)]
struct Seen {
    on: AtomicBool,
    covered: AtomicU64,
    uncovered: AtomicU64,
    damaged: AtomicU64,
}

/// Damages every tenth packet with data that left for the first time.
struct Damages {
    at: Where,
    seen: Arc<Seen>,
}

impl Damages {
    /// The frame with one bit changed, if that is to be.
    fn damaged(&self, frame: &TxFrame<'_>) -> Option<Vec<u8>> {
        let mut bytes = [frame.header, frame.payload].concat();
        let header = Packet::parse(&bytes).expect("a packet of ours").header;
        let is_data = matches!(header.body, Body::Data { .. }) && !frame.payload.is_empty();
        if !is_data || !self.seen.on.load(Ordering::Relaxed) {
            return None;
        }
        let uncovered = header.options.has(Options::NOCHECK);
        let count = if uncovered { &self.seen.uncovered } else { &self.seen.covered };
        let nth = count.fetch_add(1, Ordering::Relaxed);
        let piece = self.at == Where::UncoveredPiece;
        if nth % 10 != 3 || uncovered == piece {
            return None;
        }
        let len = bytes.len();
        let bit = nth as usize % 8;
        let byte = match self.at {
            Where::Nowhere => return None,
            Where::Header => [9, 21, 30][nth as usize % 3],
            Where::RecordHeader => HEADER_LEN + nth as usize % 16,
            Where::Ciphertext => HEADER_LEN + 16 + nth as usize % 500,
            Where::Tag => len - 1 - nth as usize % TAG,
            Where::UncoveredPiece => HEADER_LEN + 700 % frame.payload.len(),
        };
        bytes[byte] ^= 1 << bit;
        if piece {
            bytes[8] |= 0x40;
            bytes[CHECK_AT..CHECK_AT + 2].fill(0);
            let check = Sum::of(&bytes[..HEADER_LEN]).checksum();
            bytes[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        self.seen.damaged.fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }
}

/// ADUs `0..count` cross, of so many bytes; packets with and without a check over their data, damaged ones, and what the
/// receiver dropped.
fn cross(
    cipher: Cipher,
    at: Where,
    count: usize,
    len: usize,
) -> ([u64; 3], Vec<(&'static str, u64)>) {
    let network =
        Network::new(memory::Config { mailbox_bytes: 64 << 20, ..memory::Config::default() });
    let seen = Arc::new(Seen::default());
    let inner = network.attach(A.parse().unwrap()).unwrap();
    let damages = Damages { at, seen: seen.clone() };
    let a = Box::new(Altered { inner, alter: move |frame: &TxFrame<'_>| damages.damaged(frame) });
    let b = Box::new(network.attach(B.parse().unwrap()).unwrap());
    let transport = either::Config::of_records(Protocol::Xtp);
    let config = Config { transport, ..small() };
    let mut world = World::speaking(&[cipher], None, a, b, Arc::new(AtomicU64::new(1)), &config);
    world.connect();
    // The server's first words say that it has keys.
    carry(&mut world, 0..1, 10.0, |_| vec![1]);
    seen.on.store(true, Ordering::Relaxed);
    carry(&mut world, 1..count, 600.0, |n| (0..len + n % 7).map(|i| (i * 13 + n) as u8).collect());
    let drops = world.server.info(world.served.unwrap()).unwrap().counters.drops;
    let drops = drops.named().filter(|(_, n)| *n > 0).collect();
    let closed = |e: &Event| matches!(e, Event::Closed(_));
    assert!(!world.client_events.iter().chain(&world.server_events).any(closed));
    seen.on.store(false, Ordering::Relaxed);
    close(&mut world);
    let counts = [&seen.covered, &seen.uncovered, &seen.damaged];
    (counts.map(|count| count.load(Ordering::Relaxed)), drops)
}

#[test]
fn whole_records_leave_without_a_check_over_them_and_pieces_with_one() {
    for cipher in [Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305, Cipher::AEGIS_128L] {
        let ([covered, uncovered, _], drops) = cross(cipher, Where::Nowhere, 300, 1000);
        assert!(uncovered >= 250 && covered < 10, "{cipher}: {covered}, {uncovered}");
        assert_eq!(drops, []);
        let ([covered, uncovered, _], drops) = cross(cipher, Where::Nowhere, 100, 5000);
        assert!(covered >= 350 && uncovered < 10, "{cipher}: {covered}, {uncovered}");
        assert_eq!(drops, []);
    }
}

#[test]
fn who_has_no_tag_checks_everything() {
    let ([covered, uncovered, _], _) = cross(Cipher::NONE, Where::Nowhere, 100, 1000);
    assert!(covered >= 90 && uncovered == 0, "{covered}, {uncovered}");
}

#[test]
fn a_changed_bit_is_seen_wherever_it_lies() {
    for (at, len, causes) in [
        (Where::Header, 1000, &["checksum", "protocol"][..]),
        (Where::RecordHeader, 1000, &["checksum", "tag", "no-memory"]),
        (Where::Ciphertext, 1000, &["tag"]),
        (Where::Tag, 1000, &["tag"]),
        (Where::UncoveredPiece, 5000, &["checksum"]),
    ] {
        let ([_, _, damaged], drops) = cross(Cipher::AES_256_GCM, at, 300, len);
        let counted: u64 =
            drops.iter().filter(|(name, _)| causes.contains(name)).map(|d| d.1).sum();
        println!("{at:?}: {damaged} damaged, {drops:?}");
        assert!(damaged >= 20, "{at:?}: {damaged}");
        assert_eq!(counted, damaged, "{at:?}: {drops:?}");
    }
}
