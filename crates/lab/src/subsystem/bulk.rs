//! Blocks from a source to a sink: when each is handed over, and how many in all.

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_service::stream;

use super::chosen::Bulk;
use super::world::World;
use super::{Path, Way, body, one_for_all, same};
use crate::Result;

/// Bytes of a datagram: with headers of UDP and IPv4 as long as Ethernet carries.
pub(super) const DATAGRAM: usize = 1472;
/// How long the last may take.
const TAIL: Duration = Duration::from_secs(120);

/// How blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// One each so long.
    Every(Duration),
    /// Whenever there is room.
    AsTaken,
}

/// What came of blocks.
pub struct Blocks {
    /// From when each was made, or taken, to when it was handed over: ms, the shortest first.
    pub delays_ms: Vec<f64>,
    /// Bits a second in millions, from the first block to the last one's arrival.
    pub mbits: f64,
    /// Bytes of packets, both ways, by bytes of blocks.
    pub wire: f64,
}

/// Blocks of so many bytes, made for so long.
///
/// # Errors
/// [`Error::Wrong`](crate::Error::Wrong) where what comes is not what was sent, or does not come;
/// [`Error::Stack`](crate::Error::Stack), [`Error::Session`](crate::Error::Session).
pub fn blocks(
    way: Way,
    path: &Path,
    offered: Offered,
    block_bytes: usize,
    time: Duration,
    seed: u64,
) -> Result<Blocks> {
    let config = match way {
        Way::One => one_for_all(),
        Way::Chosen => stream::config::<Bulk>(),
    };
    let mut world = World::new(path, config, DATAGRAM, seed)?;
    let (begun, before) = (world.link.now(), world.link.sent_bytes());
    let until = begun + time;
    // When each was made or taken.
    let mut made: Vec<Instant> = Vec::new();
    let mut delays_ms = Vec::new();
    world.run(time + TAIL, |[source, sink], ids, now| {
        let mut next = now + TAIL;
        loop {
            let number = made.len() as u64;
            let due = match offered {
                Offered::Every(time) => begun + time * number as u32,
                Offered::AsTaken => now,
            };
            if due >= until {
                break;
            }
            if due > now {
                next = due;
                break;
            }
            if !source.send(ids[0], &body(number, block_bytes))? {
                break;
            }
            made.push(due);
        }
        while let Some((number, block)) = match way {
            Way::One => sink.recv(ids[1]),
            Way::Chosen => sink.recv_any(ids[1]),
        } {
            same("the blocks", number, &block, block_bytes)?;
            delays_ms.push((now - made[number as usize]).as_secs_f64() * 1e3);
            sink.recycle(ids[1], block);
        }
        let is_all = now >= until && delays_ms.len() == made.len();
        Ok((!is_all).then_some(next))
    })?;
    let bytes = (delays_ms.len() * block_bytes) as f64;
    let seconds = (world.link.now() - begun).as_secs_f64();
    delays_ms.sort_by(f64::total_cmp);
    let wire = (world.link.sent_bytes() - before) as f64 / bytes;
    Ok(Blocks { delays_ms, mbits: bytes * 8e-6 / seconds, wire })
}
