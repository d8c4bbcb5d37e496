//! Captures of another process, as they come out of its stream: however they are cut into pieces, the same whole
//! blocks come out, none longer than it may be, and packet and comment of each lie within it.

use fusewire_device::capture::Direction;
use fusewire_device::pcapng::read::{BLOCK_LEN_MAX, Block, Splitter};
use fusewire_device::pcapng::{self, Packet};

use crate::Choices;

const BLOCK_LEN_MIN: usize = 12;

/// Runs one input: how it is cut, and then the stream.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let piece = usize::from(choices.u8()).max(1);
    let stream = choices.rest();
    let whole = blocks([stream].into_iter());
    assert_eq!(blocks(stream.chunks(piece)), whole, "pieces of {piece}");
    let lens = whole.iter().map(|block| block.bytes().len());
    assert!(lens.sum::<usize>() <= stream.len());
    whole.into_iter().for_each(check);
}

/// The blocks up to the first place where there is none.
fn blocks<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Block> {
    let (mut splitter, mut all) = (Splitter::default(), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        loop {
            match splitter.next() {
                Ok(Some(block)) => all.push(block),
                Ok(None) => break,
                Err(_) => return all,
            }
        }
    }
    all
}

fn check(block: Block) {
    let bytes = block.bytes();
    let (len, kind) = (bytes.len(), block.kind());
    assert!((BLOCK_LEN_MIN..=BLOCK_LEN_MAX).contains(&len) && len.is_multiple_of(4));
    let end = bytes[..len - 4].as_ptr_range().end;
    if let Some((packet, comment)) = block.packet() {
        assert!(packet.as_ptr_range().end <= end, "a packet in what ends its block");
        let comment = comment.unwrap_or_default();
        assert!(comment.is_empty() || comment.as_bytes().as_ptr_range().end <= end);
    }
    let _ = block.interface();
    let before = bytes.to_vec();
    if let Some(moved) = block.renumbered(7) {
        let after = moved.bytes();
        assert_eq!((after.len(), moved.kind()), (len, kind));
        assert!(after[..8] == before[..8] && after[len - 4..] == before[len - 4..]);
    }
}

/// A section with an interface, packets with and without a comment, and statistics; cut in several ways.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    pcapng::section(&mut stream);
    pcapng::interface(&mut stream, 1, "fuzz", 96);
    for comment in ["", "dropped: tcp-paws"] {
        let (interface, time, direction) = (0, std::time::Duration::from_secs(1), Direction::In);
        let about = Packet { interface, time, direction, len: 9, comment };
        pcapng::packet(&mut stream, &about, |out| out.extend(b"seven b"));
    }
    pcapng::statistics(&mut stream, 0, std::time::Duration::from_secs(2), 5, 2);
    [0u8, 1, 7, 100, 255].iter().map(|piece| [&[*piece], &stream[..]].concat()).collect()
}
