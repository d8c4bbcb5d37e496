//! What a sender keeps of packets, and what it sends beside them.

use core::fmt;

use fusewire_base::Instant;
use reed_solomon_simd::ReedSolomonEncoder;

use super::{PACKETS_MAX, PREFIX, Repair, add, prefix, symbol_len};
use crate::lifetime::Lifetime;

/// Sends each packet again with the one that is so many later (as RFC 2198 has it of audio, but of sealed packets). A receiver
/// needs nothing for it: of the two that come it opens the first.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_service::fec::Copies;
/// use fusewire_service::lifetime::Lifetime;
///
/// let mut copies = Copies::new(2, 1200);
/// let mut push = |ms, packet| {
///     let now = Instant::from_ms(ms);
///     let copy = copies.push(now, packet, Lifetime::of(now, Duration::from_millis(100)));
///     copy.map(<[u8]>::to_vec)
/// };
/// assert_eq!(push(0, b"0"), None);
/// assert_eq!(push(20, b"1"), None);
/// assert_eq!(push(40, b"2").unwrap(), b"0");
/// assert_eq!(push(60, b"3").unwrap(), b"1");
/// assert_eq!(push(500, b"4"), None, "2 is of no use any more");
/// ```
#[derive(Clone, Debug)]
pub struct Copies {
    len_max: usize,
    memory: Box<[u8]>,
    lens: Box<[usize]>,
    lifetimes: Box<[Lifetime]>,
    next: usize,
}

impl Copies {
    /// Of packets of at most `len_max` bytes, each with the one that is `distance` later.
    ///
    /// # Panics
    /// If the distance is zero.
    pub fn new(distance: u8, len_max: usize) -> Copies {
        assert!(distance > 0);
        // One more, for that which is handed out while the newest is kept.
        let slots = usize::from(distance) + 1;
        Copies {
            len_max,
            memory: vec![0; slots * len_max].into(),
            lens: vec![0; slots].into(),
            lifetimes: vec![Lifetime::ENDLESS; slots].into(),
            next: 0,
        }
    }

    /// This packet is sent; what goes with it, unless its own lifetime is over.
    ///
    /// # Panics
    /// If it is empty, or longer than was said.
    pub fn push(&mut self, now: Instant, packet: &[u8], lifetime: Lifetime) -> Option<&[u8]> {
        assert!(!packet.is_empty());
        let at = self.next * self.len_max;
        self.memory[at..at + self.len_max][..packet.len()].copy_from_slice(packet);
        (self.lens[self.next], self.lifetimes[self.next]) = (packet.len(), lifetime);
        self.next = (self.next + 1) % self.lens.len();
        let at = self.next * self.len_max;
        let is_of_use = self.lens[self.next] > 0 && !self.lifetimes[self.next].is_over(now);
        is_of_use.then_some(&self.memory[at..at + self.lens[self.next]])
    }
}

/// Makes the repairs of one block after the other.
///
/// ```
/// use fusewire_service::fec::{Decoder, Encoder, Limits, Restored};
///
/// let limits = Limits { packets: 16, repairs: 4, blocks: 4, len_max: 1200 };
/// let (mut encoder, mut decoder) = (Encoder::new(&limits), Decoder::new(&limits));
/// let packets = [&b"of"[..], b"four", b"none", b"is lost"];
/// encoder.begin(7, 4, 2, 7);
/// for packet in packets {
///     encoder.push(packet);
/// }
/// // The first and the third do not arrive.
/// decoder.on_packet(7, 1, packets[1]);
/// decoder.on_packet(7, 3, packets[3]);
/// for index in 0..2 {
///     decoder.on_repair(&encoder.repair(index)).unwrap();
/// }
/// assert_eq!(decoder.poll(), Some(Restored { block: 7, index: 0, packet: b"of" }));
/// assert_eq!(decoder.poll(), Some(Restored { block: 7, index: 2, packet: b"none" }));
/// assert_eq!(decoder.poll(), None);
/// ```
pub struct Encoder {
    code: Option<ReedSolomonEncoder>,
    /// A symbol as it is made; and all repairs, one behind the other.
    symbol: Box<[u8]>,
    parity: Box<[u8]>,
    block: u32,
    packets: u8,
    repairs: u8,
    len: usize,
    pushed: u8,
}

impl Encoder {
    /// For blocks within these limits. Where they have more than one repair, it costs some milliseconds once.
    ///
    /// # Panics
    /// If a limit is zero, or more than [`PACKETS_MAX`] packets or 65,535 bytes.
    pub fn new(limits: &super::Limits) -> Encoder {
        limits.check();
        let len = symbol_len(limits.len_max);
        let code = |packets: usize| ReedSolomonEncoder::new(packets, limits.repairs, len);
        let mut code = (limits.repairs > 1).then(|| code(limits.packets).expect("255 at most"));
        if let Some(code) = &mut code {
            // All that it will ever allocate, and the tables.
            for packets in [1, limits.packets] {
                code.reset(packets, limits.repairs, len).expect("255 at most");
                (0..packets).for_each(|_| code.add_original_shard(vec![0; len]).expect("counted"));
                drop(code.encode());
            }
        }
        Encoder {
            code,
            symbol: vec![0; len].into(),
            parity: vec![0; len * limits.repairs].into(),
            block: 0,
            packets: 0,
            repairs: 0,
            len: 0,
            pushed: 0,
        }
    }

    /// A block of so many packets, of which the longest has so many bytes, begins; the one before is forgotten.
    ///
    /// # Panics
    /// If one is zero, or more than was said.
    pub fn begin(&mut self, block: u32, packets: u8, repairs: u8, longest: usize) {
        self.len = symbol_len(longest);
        assert!(packets > 0 && repairs > 0 && longest > 0 && self.len <= self.symbol.len());
        assert!(self.len * usize::from(repairs) <= self.parity.len());
        (self.block, self.packets, self.repairs, self.pushed) = (block, packets, repairs, 0);
        match &mut self.code {
            Some(code) if repairs > 1 => {
                let counts = (usize::from(packets), usize::from(repairs));
                code.reset(counts.0, counts.1, self.len).expect("255 at most, of an even length");
            }
            _ => self.parity[..self.len].fill(0),
        }
    }

    /// The block's next packet.
    ///
    /// # Panics
    /// If there are as many as were said, or it is longer than the longest.
    pub fn push(&mut self, packet: &[u8]) {
        assert!(self.pushed < self.packets && PREFIX + packet.len() <= self.len);
        self.pushed += 1;
        if self.repairs == 1 {
            add(&mut self.parity[..PREFIX], &prefix(packet));
            add(&mut self.parity[PREFIX..self.len], packet);
            return;
        }
        let symbol = &mut self.symbol[..self.len];
        symbol[..PREFIX].copy_from_slice(&prefix(packet));
        symbol[PREFIX..][..packet.len()].copy_from_slice(packet);
        symbol[PREFIX + packet.len()..].fill(0);
        let code = self.code.as_mut().expect("there is more than one repair");
        code.add_original_shard(symbol).expect("as many as were said, as long as was said");
        if self.pushed == self.packets {
            let made = code.encode().expect("all are there");
            for (place, repair) in self.parity.chunks_exact_mut(self.len).zip(made.recovery_iter())
            {
                place.copy_from_slice(repair);
            }
        }
    }

    /// A repair of the block whose packets were all pushed.
    ///
    /// # Panics
    /// If they were not, or there are fewer repairs.
    pub fn repair(&self, index: u8) -> Repair<'_> {
        assert!(self.pushed == self.packets && index < self.repairs);
        let Encoder { block, packets, repairs, len, .. } = *self;
        let symbol = &self.parity[len * usize::from(index)..][..len];
        Repair { block, packets, repairs, index, symbol }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("block", &self.block).finish_non_exhaustive()
    }
}

/// Limits that blocks can keep.
impl super::Limits {
    pub(super) fn check(&self) {
        let super::Limits { packets, repairs, blocks, len_max } = *self;
        assert!((1..=PACKETS_MAX).contains(&packets) && (1..=PACKETS_MAX).contains(&repairs));
        assert!(blocks > 0 && (1..=usize::from(u16::MAX)).contains(&len_max));
    }
}
