//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng-05), appended to memory. Little-endian, times in
//! nanoseconds.

pub mod read;

use std::time::Duration;

/// Packets begin with an Ethernet header.
pub const LINKTYPE_ETHERNET: u16 = 1;
/// Packets begin with an IPv4 or IPv6 header.
pub const LINKTYPE_RAW: u16 = 101;

/// Types of blocks.
pub const SECTION: u32 = 0x0a0d_0d0a;
/// See [`SECTION`].
pub const INTERFACE: u32 = 1;
/// See [`SECTION`].
pub const NAMES: u32 = 4;
/// See [`SECTION`].
pub const STATISTICS: u32 = 5;
/// See [`SECTION`].
pub const PACKET: u32 = 6;

/// Says that a section is written in this byte order.
pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Block type, length, and the length again at the end.
pub const BLOCK_LEN_MIN: usize = 12;
/// A reader's comment longer than this is cut.
const COMMENT_MAX: usize = 400;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the local side.
    In = 1,
    /// From the local side.
    Out = 2,
}

/// A section header: what every file begins with.
pub fn section(out: &mut Vec<u8>) {
    // Byte order, version 1.0, section of unknown length.
    block(out, SECTION, |out| {
        out.extend(BYTE_ORDER.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend([0xff; 8]);
        option(out, 4, b"fusewire");
        end_of_options(out);
    });
}

/// An interface; the first of a section is number 0. `snap_len` 0: packets are whole.
pub fn interface(out: &mut Vec<u8>, link_type: u16, name: &str, snap_len: u32) {
    block(out, INTERFACE, |out| {
        out.extend(link_type.to_le_bytes());
        out.extend([0; 2]);
        out.extend(snap_len.to_le_bytes());
        option(out, 2, cut(name).as_bytes());
        option(out, 9, &[9]);
        end_of_options(out);
    });
}

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Number of the interface in its section.
    pub interface: u32,
    /// Since the start of 1970.
    pub time: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes of it before it was cut.
    pub len: usize,
    /// Words for its reader; none when empty.
    pub comment: &'a str,
}

/// A packet; `body` appends its bytes.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>, body: impl FnOnce(&mut Vec<u8>)) {
    let time = u64::try_from(packet.time.as_nanos()).unwrap_or(u64::MAX);
    block(out, PACKET, |out| {
        out.extend(packet.interface.to_le_bytes());
        out.extend(((time >> 32) as u32).to_le_bytes());
        out.extend((time as u32).to_le_bytes());
        let lengths = out.len();
        out.extend([0; 4]);
        out.extend(u32::try_from(packet.len).unwrap_or(u32::MAX).to_le_bytes());
        let begin = out.len();
        body(out);
        let captured = u32::try_from(out.len() - begin).unwrap_or(u32::MAX);
        out[lengths..lengths + 4].copy_from_slice(&captured.to_le_bytes());
        out.resize(begin + (captured as usize).next_multiple_of(4), 0);
        if !packet.comment.is_empty() {
            option(out, 1, cut(packet.comment).as_bytes());
        }
        option(out, 2, &(packet.direction as u32).to_le_bytes());
        end_of_options(out);
    });
}

/// The name of an IPv6 address.
pub fn name(out: &mut Vec<u8>, address: [u8; 16], name: &str) {
    block(out, NAMES, |out| {
        let name = cut(name);
        out.extend(2u16.to_le_bytes());
        out.extend((16 + name.len() as u16 + 1).to_le_bytes());
        let begin = out.len();
        out.extend(address);
        out.extend(name.as_bytes());
        out.push(0);
        let len = out.len() - begin;
        out.resize(begin + len.next_multiple_of(4), 0);
        out.extend([0; 4]);
    });
}

/// What became of an interface's packets: those seen, and those that found no room.
pub fn statistics(out: &mut Vec<u8>, interface: u32, time: Duration, seen: u64, missed: u64) {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    block(out, STATISTICS, |out| {
        out.extend(interface.to_le_bytes());
        out.extend(((time >> 32) as u32).to_le_bytes());
        out.extend((time as u32).to_le_bytes());
        option(out, 4, &seen.to_le_bytes());
        option(out, 5, &missed.to_le_bytes());
        end_of_options(out);
    });
}

/// One block around what `body` appends.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let len = u32::try_from(out.len() - begin + 4).unwrap_or(u32::MAX).to_le_bytes();
    out[begin + 4..begin + 8].copy_from_slice(&len);
    out.extend(len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    let begin = out.len();
    out.extend(value);
    out.resize(begin + value.len().next_multiple_of(4), 0);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(COMMENT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
