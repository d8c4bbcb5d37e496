//! Protocol processing alone: from the frame in memory to the application's buffer, Ethernet, IPv4, UDP with
//! its checksum and XDR's byte order on the way; in one loop, and with a pass for each.

use std::io;

use fusewire_base::Sum;
use fusewire_codec::pipeline::{Arrays, Placed};
use fusewire_codec::{SliceSource, Source};
use fusewire_device::interface::{Checksum, RxPacket, Segmentation};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stages::Swap;
use fusewire_stack::Clock;
use fusewire_stack::ip::{SocketId, Stack};
use fusewire_wire::{ethernet, ipv4, udp};

use super::alone::{self, AT, BATCH, Found, OURS, PORT, THEIRS, by_turns, differ, failed};
use super::{Processing, Protocol, Unmarshalling};
use crate::{Error, Result};

/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::MIN_HEADER_LEN + udp::HEADER_LEN;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Gives one frame again and again, so many at a time.
struct Same {
    frame: Vec<u8>,
    count: usize,
    gives: bool,
}

impl alone::Giver for Same {
    fn give(&mut self) -> usize {
        self.gives = !self.gives;
        if self.gives { self.count } else { 0 }
    }
    fn packet(&self, _: usize) -> RxPacket<'_> {
        RxPacket {
            bytes: &self.frame,
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        }
    }
}

/// An XDR array `double<>` of as many numbers as fit into `size` bytes.
fn doubles(size: usize) -> Vec<u8> {
    let count = size.saturating_sub(4) / 8;
    let numbers = (0..count).flat_map(|i| (i as f64 * 0.7).to_be_bytes());
    (count as u32).to_be_bytes().into_iter().chain(numbers).collect()
}

/// A frame with a datagram for us.
fn frame(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS + message.len()];
    let ethernet = ethernet::Header {
        destination: ethernet::Address(MAC),
        source: ethernet::Address([2, 0, 0, 0, 0, 9]),
        ethertype: ethernet::EtherType::IPV4,
        header_len: 0,
    };
    let at = ethernet.emit(&mut bytes);
    let len = udp::HEADER_LEN + message.len();
    let at = at + alone::ip_header(udp::NUMBER, len).emit(&mut bytes[at..]);
    bytes[HEADERS..].copy_from_slice(message);
    let mut header = udp::Header { src_port: PORT, dst_port: PORT, len: len as u16, checksum: 0 };
    header.emit(&mut bytes[at..]);
    let pseudo = ipv4::pseudo_header_sum(THEIRS, OURS, udp::NUMBER, len as u16);
    header.checksum = (pseudo + Sum::of(&bytes[at..])).checksum();
    header.emit(&mut bytes[at..]);
    bytes
}

pub(super) struct Alone {
    stack: Stack,
    id: SocketId,
    clock: Clock,
    level: Level,
    memory: Vec<u8>,
    work: Vec<u8>,
    size: usize,
}

impl Alone {
    /// So many packets at a time carry the message.
    pub(super) fn new(message: &[u8], count: usize) -> Result<Self> {
        let (size, clock) = (message.len(), Clock::new());
        let same = Same { frame: frame(message), count, gives: false };
        let mut stack = alone::stack(Some(MAC), same, &clock)?;
        let (id, level) = (stack.udp_bind(AT).map_err(failed)?, stack.config().level);
        let memory = vec![0; count * size];
        Ok(Alone { stack, id, clock, level, memory, work: vec![0; size], size })
    }

    /// Header, sum, byte order and store in one loop; or a pass for the sum, one for the copy, one for the byte order.
    /// Returns how many messages.
    pub(super) fn once(&mut self, way: usize) -> Result<usize> {
        let Alone { stack, id, clock, level, memory, work, size } = self;
        let (mut at, now) = (0, clock.now());
        if way == 0 {
            let taken = stack.udp_recv_with(now, *id, &Swap::<4>, memory, |_, _| {});
            return Ok(taken_of(taken)? / *size);
        }
        taken_of(stack.udp_recv_batch(now, *id, |messages| {
            for message in messages.iter() {
                work.copy_from_slice(message);
                let dst = &mut memory[at..at + *size];
                level.run(Integrated { stage: &Swap::<4>, src: &work[..], dst });
                at += *size;
            }
        }))
    }

    /// What the application has got.
    fn hash(&mut self, way: usize) -> Result<blake3::Hash> {
        self.memory.fill(0);
        // The first `receive` gives, the second does not.
        match self.once(way)? + self.once(way)? {
            BATCH => Ok(blake3::hash(&self.memory)),
            count => Err(failed(format!("{count} of {BATCH} messages arrived"))),
        }
    }
}

fn taken_of<T, E: std::fmt::Display>(taken: io::Result<std::result::Result<T, E>>) -> Result<T> {
    taken.map_err(Error::os("receiving"))?.map_err(failed)
}

/// Measures messages of one size, both ways alternately; both give the same bytes.
///
/// # Errors
/// What the stack says, or that the two ways do not agree.
pub fn measure(size: usize, rounds: usize) -> Result<Processing> {
    let mut alone = Alone::new(&alone::message(size), BATCH)?;
    if alone.hash(0)? != alone.hash(1)? {
        return Err(differ("processing", "one loop and a pass for each"));
    }
    let found = by_turns(rounds, |way| alone.once(way))?;
    Ok(Processing::new(Protocol::Udp, size, &found))
}

/// Measures a message that is an XDR array of doubles, of at most `size` bytes, both ways alternately; both give
/// the same numbers. `None` when not even one fits.
///
/// # Errors
/// What the stack says, or that the two ways do not agree.
pub fn unmarshalling(size: usize, rounds: usize) -> Result<Option<Unmarshalling>> {
    let message = doubles(size);
    let each = message.len() / 8;
    if each == 0 {
        return Ok(None);
    }
    let mut alone = Alone::new(&message, BATCH)?;
    let mut numbers = [vec![0.0f64; BATCH * each], vec![0.0f64; BATCH * each]];
    let mut once = |way: usize| {
        let (now, [one, two]) = (alone.clock.now(), &mut numbers);
        if way == 0 {
            let mut arrays = Arrays::new(one);
            let mut placed = Placed::xdr(&mut arrays);
            let mut count = 0;
            taken_of(alone.stack.udp_recv_messages(now, alone.id, &mut placed, |_, placed| {
                let is_whole = placed.placed().is_ok_and(|arrays| arrays.keep().len() == each);
                count += usize::from(is_whole);
                true
            }))?;
            return Ok(count);
        }
        let (mut rest, mut count) = (&mut two[..], 0);
        taken_of(alone.stack.udp_recv_batch(now, alone.id, |messages| {
            for message in messages.iter() {
                let (here, after) = std::mem::take(&mut rest).split_at_mut(each);
                let elements = bytemuck::cast_slice_mut(here);
                let is_whole = message.split_first_chunk().is_some_and(|(count, numbers)| {
                    u32::from_be_bytes(*count) as usize == each
                        && numbers.len() == elements.len()
                        && SliceSource::new(numbers).take_elements(elements, 8).is_ok()
                });
                (rest, count) = (after, count + usize::from(is_whole));
            }
        }))?;
        Ok(count)
    };
    // The first `receive` gives, the second does not.
    let counts = [once(0)? + once(0)?, once(1)? + once(1)?];
    let found = by_turns(rounds, &mut once)?;
    if counts != [BATCH; 2] || numbers[0] != numbers[1] {
        return Err(differ("unmarshalling", "one loop and two passes"));
    }
    let Found { ns, cycles, ratio } = found;
    Ok(Some(Unmarshalling {
        protocol: Protocol::Udp,
        xdr: "double<>",
        size_bytes: message.len(),
        integrated_ns: ns[0],
        two_passes_ns: ns[1],
        integrated_cycles: cycles[0],
        two_passes_cycles: cycles[1],
        ratio,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_application_the_same() {
        for size in [1, 10, 1400, 65_000] {
            let line = measure(size, 1).unwrap();
            assert!(line.integrated_ns > 0.0 && line.sequential_ns > 0.0);
        }
    }

    #[test]
    fn one_loop_and_two_passes_unmarshal_the_same() {
        for (size, len) in [(12, 12), (50, 44), (1400, 1396), (65_000, 64_996)] {
            assert_eq!(unmarshalling(size, 1).unwrap().unwrap().size_bytes, len);
        }
        assert!(unmarshalling(10, 1).unwrap().is_none());
    }
}
