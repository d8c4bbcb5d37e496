//! Taking blocks apart again, as they come out of a stream that another process writes: nothing in it is
//! believed.

use std::fmt;

use super::{BLOCK_LEN_MIN, INTERFACE, NAMES, PACKET, SECTION, STATISTICS};

/// Longest block that is taken: a packet with its comment.
pub const BLOCK_LEN_MAX: usize = 1 << 18;

/// What does not look like a block: its claimed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What stands where the length should.
    pub len: u32,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no pcapng block of ours: length {} (12 to {BLOCK_LEN_MAX} expected)", self.len)
    }
}

impl std::error::Error for Malformed {}

/// One whole block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block(Vec<u8>);

/// Cuts a stream of bytes into blocks.
#[derive(Debug, Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    /// Bytes before it are done.
    at: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl Splitter {
    /// More of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend(bytes);
    }

    /// The next block that is whole.
    ///
    /// # Errors
    /// What comes next is no block; nothing after it can be found.
    #[expect(clippy::should_implement_trait, reason = "it fails, and goes on after nothing")]
    pub fn next(&mut self) -> Result<Option<Block>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(claimed) = word(rest, 4) else { return Ok(None) };
        let len = claimed as usize;
        if !(BLOCK_LEN_MIN..=BLOCK_LEN_MAX).contains(&len) || !len.is_multiple_of(4) {
            return Err(Malformed { len: claimed });
        }
        let Some(block) = rest.get(..len) else { return Ok(None) };
        if word(block, len - 4) != Some(claimed) {
            return Err(Malformed { len: claimed });
        }
        self.at += len;
        Ok(Some(Block(block.to_vec())))
    }
}

impl Block {
    /// Its type.
    pub fn kind(&self) -> u32 {
        word(&self.0, 0).unwrap_or_default()
    }

    /// As it stands in a file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same in a section where its interface has another number; `None` for a block that such a section
    /// has already, or that nobody needs.
    pub fn renumbered(mut self, interface: u32) -> Option<Block> {
        match self.kind() {
            PACKET | STATISTICS if self.0.len() >= BLOCK_LEN_MIN + 4 => {
                self.0[8..12].copy_from_slice(&interface.to_le_bytes());
                Some(self)
            }
            INTERFACE | NAMES => Some(self),
            SECTION => None,
            _ => None,
        }
    }

    /// Link type and snap length of an interface's block.
    pub fn interface(&self) -> Option<(u16, u32)> {
        if self.kind() != INTERFACE || self.0.len() < 20 {
            return None;
        }
        Some((word(&self.0, 8)? as u16, word(&self.0, 12)?))
    }

    /// The packet of a packet block, as far as it was kept, and its comment.
    pub fn packet(&self) -> Option<(&[u8], Option<&str>)> {
        if self.kind() != PACKET {
            return None;
        }
        // Its length stands behind it once more.
        let body = &self.0[..self.0.len() - 4];
        let len = word(body, 20)? as usize;
        let packet = body.get(28..28usize.checked_add(len)?)?;
        let mut at = 28 + len.next_multiple_of(4);
        while at + 4 <= body.len() {
            let head = word(body, at)?;
            let (code, len) = (head & 0xffff, (head >> 16) as usize);
            let value = body.get(at + 4..at + 4 + len)?;
            match code {
                0 => break,
                1 => return Some((packet, std::str::from_utf8(value).ok())),
                _ => at += 4 + len.next_multiple_of(4),
            }
        }
        Some((packet, None))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Direction, Packet, packet, section, statistics};
    use super::*;

    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        section(&mut out);
        let (interface, time, direction) = (0, Duration::from_secs(1), Direction::In);
        let about = Packet { interface, time, direction, len: 9, comment: "dropped: tcp-paws" };
        packet(&mut out, &about, |out| out.extend(b"seven b"));
        statistics(&mut out, 0, time, 5, 2);
        out
    }

    #[test]
    fn blocks_come_whole_however_the_stream_is_cut() {
        let stream = stream();
        for piece in 1..stream.len() {
            let (mut splitter, mut kinds) = (Splitter::default(), Vec::new());
            for bytes in stream.chunks(piece) {
                splitter.push(bytes);
                while let Some(block) = splitter.next().unwrap() {
                    kinds.push(block.kind());
                    if let Some((packet, comment)) = block.packet() {
                        assert_eq!((packet, comment), (&b"seven b"[..], Some("dropped: tcp-paws")));
                        let moved = block.renumbered(3).unwrap();
                        assert_eq!(word(moved.bytes(), 8), Some(3));
                    }
                }
            }
            assert_eq!(kinds, [SECTION, PACKET, STATISTICS]);
        }
    }

    #[test]
    fn no_byte_of_it_can_do_harm() {
        let stream = stream();
        for at in 0..stream.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = stream.clone();
                bad[at] = value;
                let mut splitter = Splitter::default();
                splitter.push(&bad);
                while let Ok(Some(block)) = splitter.next() {
                    let _ = block.packet();
                    let _ = block.renumbered(1);
                }
            }
        }
        let mut splitter = Splitter::default();
        splitter.push(&[6, 0, 0, 0, 0xfc, 0xff, 0xff, 0x7f]);
        assert_eq!(splitter.next(), Err(Malformed { len: 0x7fff_fffc }));
    }
}
