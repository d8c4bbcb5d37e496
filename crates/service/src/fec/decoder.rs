//! What a receiver keeps of blocks, and the packets that it restores.

use core::fmt;
use std::collections::VecDeque;

use reed_solomon_simd::ReedSolomonDecoder;

use super::{Bits, PREFIX, Repair, add, prefix, symbol_len};

/// What blocks have at most, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets of a block.
    pub packets: usize,
    /// Repairs of a block.
    pub repairs: usize,
    /// Blocks that a receiver keeps: of the one that came last and as many below it.
    pub blocks: usize,
    /// Bytes of a packet.
    pub len_max: usize,
}

/// A packet that was lost, and is here again. It has yet to prove itself: who opens it finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// Its block.
    pub block: u32,
    /// Its place in it.
    pub index: u8,
    /// Its bytes.
    pub packet: &'a [u8],
}

/// Why a repair is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its block is no longer kept, is whole, or has this repair.
    Useless,
    /// It is more than the limits allow, or not as the block's other repairs: a peer that keeps the rules sends none such.
    Wrong,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were restored.
    pub restored: u64,
    /// Blocks whose repairs do not fit together: what they gave were no packets.
    pub broken: u64,
}

/// Of one block, what has come.
#[derive(Clone, Debug)]
struct Block {
    number: u32,
    /// Something of it came.
    is_used: bool,
    /// All is there, or can never be.
    is_done: bool,
    packets: Bits,
    lens: Box<[u16]>,
    /// As the first repair says; 0 before.
    packets_all: usize,
    repairs_all: usize,
    symbol_len: usize,
    repairs: Bits,
    /// Packets, and then repairs, one behind the other.
    memory: Box<[u8]>,
}

/// Restores packets of the blocks that came last. It holds [`Limits::blocks`] of them, and allocates nothing after it was made.
pub struct Decoder {
    limits: Limits,
    code: Option<ReedSolomonDecoder>,
    blocks: Box<[Block]>,
    symbol: Box<[u8]>,
    /// Place of the block, and index in it.
    restored: VecDeque<(usize, u8)>,
    /// Blocks that may still be restored by more than an exclusive or.
    allowed: u32,
    counters: Counters,
}

impl Decoder {
    /// For blocks within these limits.
    ///
    /// # Panics
    /// As [`Encoder::new`](super::Encoder::new).
    pub fn new(limits: &Limits) -> Decoder {
        limits.check();
        let len = symbol_len(limits.len_max);
        let code = |packets: usize| ReedSolomonDecoder::new(packets, limits.repairs, len);
        let mut code = (limits.repairs > 1).then(|| code(limits.packets).expect("255 at most"));
        if let Some(code) = &mut code {
            for packets in [1, limits.packets] {
                code.reset(packets, limits.repairs, len).expect("255 at most");
                for at in 1..packets {
                    code.add_original_shard(at, vec![0; len]).expect("of these");
                }
                code.add_recovery_shard(0, vec![0; len]).expect("of these");
                drop(code.decode());
            }
        }
        let block = || Block {
            number: 0,
            is_used: false,
            is_done: false,
            packets: Bits::default(),
            lens: vec![0; limits.packets].into(),
            packets_all: 0,
            repairs_all: 0,
            symbol_len: 0,
            repairs: Bits::default(),
            memory: vec![0; limits.packets * limits.len_max + limits.repairs * len].into(),
        };
        Decoder {
            limits: *limits,
            code,
            blocks: core::iter::repeat_with(block).take(limits.blocks).collect(),
            symbol: vec![0; len].into(),
            restored: VecDeque::with_capacity(limits.blocks * limits.packets),
            allowed: u32::MAX,
            counters: Counters::default(),
        }
    }

    /// What became of packets.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// From now on so many blocks are restored where that takes more than an exclusive or, which costs as much for two packets of a
    /// byte as for many: the peer says how often. Without this any number is.
    pub fn allow(&mut self, blocks: u32) {
        self.allowed = blocks;
    }

    /// How many may still be restored.
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// A packet that is what it seems has come. One that was restored before changes nothing, nor does one of a block that is
    /// no longer kept, or beyond the limits.
    pub fn on_packet(&mut self, block: u32, index: u8, packet: &[u8]) {
        let at = usize::from(index);
        if at >= self.limits.packets || packet.is_empty() || packet.len() > self.limits.len_max {
            return;
        }
        let Some(place) = self.place(block) else { return };
        let len_max = self.limits.len_max;
        let block = &mut self.blocks[place];
        if block.is_done || block.packets.has(at) {
            return;
        }
        block.packets.set(at);
        block.lens[at] = packet.len() as u16;
        block.memory[at * len_max..][..packet.len()].copy_from_slice(packet);
        self.restore(place);
    }

    /// A repair that is what it seems has come.
    ///
    /// # Errors
    /// [`Refused`]: it changes nothing.
    pub fn on_repair(&mut self, repair: &Repair<'_>) -> Result<(), Refused> {
        let Limits { packets, repairs, len_max, .. } = self.limits;
        let (packets_all, repairs_all) = (repair.packets.into(), repair.repairs.into());
        let (index, len) = (usize::from(repair.index), repair.symbol.len());
        if packets_all > packets
            || !(index + 1..=repairs).contains(&repairs_all)
            || !(PREFIX + 1..=symbol_len(len_max)).contains(&len)
            || !len.is_multiple_of(2)
            || packets_all == 0
        {
            return Err(Refused::Wrong);
        }
        let place = self.place(repair.block).ok_or(Refused::Useless)?;
        let block = &mut self.blocks[place];
        if block.is_done || block.repairs.has(index) {
            return Err(Refused::Useless);
        }
        let said = (packets_all, repairs_all, len);
        if block.packets_all == 0 {
            (block.packets_all, block.repairs_all, block.symbol_len) = said;
        } else if (block.packets_all, block.repairs_all, block.symbol_len) != said {
            return Err(Refused::Wrong);
        }
        block.repairs.set(index);
        let at = packets * len_max + index * symbol_len(len_max);
        block.memory[at..][..len].copy_from_slice(repair.symbol);
        self.restore(place);
        Ok(())
    }

    /// The next packet that was restored.
    pub fn poll(&mut self) -> Option<Restored<'_>> {
        let (place, index) = self.restored.pop_front()?;
        let block = &self.blocks[place];
        let at = usize::from(index);
        let packet = &block.memory[at * self.limits.len_max..][..block.lens[at].into()];
        Some(Restored { block: block.number, index, packet })
    }

    /// Where a block is kept; those that it displaces are forgotten. `None`: it is older than what is kept.
    fn place(&mut self, number: u32) -> Option<usize> {
        let place = number as usize % self.blocks.len();
        let block = &mut self.blocks[place];
        if block.is_used && block.number == number {
            return Some(place);
        }
        if block.is_used && number < block.number {
            return None;
        }
        (block.number, block.is_used, block.is_done) = (number, true, false);
        (block.packets, block.repairs) = Default::default();
        (block.packets_all, block.repairs_all, block.symbol_len) = (0, 0, 0);
        self.restored.retain(|(at, _)| *at != place);
        Some(place)
    }

    /// Restores what is missing in a block, if enough is there.
    fn restore(&mut self, place: usize) {
        let block = &mut self.blocks[place];
        let all = block.packets_all;
        if all == 0 {
            return;
        }
        let came = block.packets.count(all);
        if came < all && came + block.repairs.count(block.repairs_all) < all {
            return;
        }
        if came < all && block.repairs_all > 1 {
            if self.allowed == 0 {
                return;
            }
            self.allowed -= 1;
        }
        block.is_done = true;
        if came == all {
            return;
        }
        // Of a peer's that keeps the rules none is longer than the symbols that it said.
        let fits = |at: usize| PREFIX + usize::from(block.lens[at]) <= block.symbol_len;
        let fits = (0..all).filter(|&at| block.packets.has(at)).all(fits);
        let is_restored = fits
            && match block.repairs_all {
                1 => self.restore_one(place),
                _ => self.restore_many(place).is_some(),
            };
        self.counters.broken += u64::from(!is_restored);
    }

    /// The one that is missing is what the others are not.
    fn restore_one(&mut self, place: usize) -> bool {
        let Limits { packets, len_max, .. } = self.limits;
        let block = &mut self.blocks[place];
        let symbol = &mut self.symbol[..block.symbol_len];
        symbol.copy_from_slice(&block.memory[packets * len_max..][..block.symbol_len]);
        let mut missing = 0;
        for at in 0..block.packets_all {
            if !block.packets.has(at) {
                missing = at;
                continue;
            }
            let packet = &block.memory[at * len_max..][..block.lens[at].into()];
            add(&mut symbol[..PREFIX], &prefix(packet));
            add(&mut symbol[PREFIX..], packet);
        }
        take(block, &mut self.restored, (place, missing), symbol, len_max, &mut self.counters)
    }

    fn restore_many(&mut self, place: usize) -> Option<()> {
        let Limits { packets, len_max, .. } = self.limits;
        let block = &mut self.blocks[place];
        let (all, len) = (block.packets_all, block.symbol_len);
        let code = self.code.as_mut()?;
        code.reset(all, block.repairs_all, len).ok()?;
        for at in (0..all).filter(|&at| block.packets.has(at)) {
            let packet = &block.memory[at * len_max..][..block.lens[at].into()];
            let symbol = &mut self.symbol[..len];
            symbol[..PREFIX].copy_from_slice(&prefix(packet));
            symbol[PREFIX..][..packet.len()].copy_from_slice(packet);
            symbol[PREFIX + packet.len()..].fill(0);
            code.add_original_shard(at, symbol).ok()?;
        }
        for at in (0..block.repairs_all).filter(|&at| block.repairs.has(at)) {
            let at_byte = packets * len_max + at * symbol_len(len_max);
            code.add_recovery_shard(at, &block.memory[at_byte..][..len]).ok()?;
        }
        let made = code.decode().ok()?;
        let mut is_whole = true;
        for (at, symbol) in made.restored_original_iter() {
            let (restored, counters) = (&mut self.restored, &mut self.counters);
            is_whole &= take(block, restored, (place, at), symbol, len_max, counters);
        }
        is_whole.then_some(())
    }
}

/// A restored symbol becomes a packet; false where it is none.
fn take(
    block: &mut Block,
    restored: &mut VecDeque<(usize, u8)>,
    (place, index): (usize, usize),
    symbol: &[u8],
    len_max: usize,
    counters: &mut Counters,
) -> bool {
    let Some((len, rest)) = symbol.split_first_chunk::<PREFIX>() else { return false };
    let len = usize::from(u16::from_be_bytes(*len));
    let Some(packet) = rest.get(..len).filter(|packet| (1..=len_max).contains(&packet.len()))
    else {
        return false;
    };
    block.packets.set(index);
    block.lens[index] = len as u16;
    block.memory[index * len_max..][..len].copy_from_slice(packet);
    restored.push_back((place, index as u8));
    counters.restored += 1;
    true
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decoder { limits, counters, .. } = self;
        f.debug_struct("Decoder")
            .field("limits", limits)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}
