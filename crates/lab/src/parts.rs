//! The paper's message parts B, C, A, for a length that is inside the encrypted part and known last,
//! beside the length-known-first way.
//!
//! Data comes either whole or in pieces, as marshalling makes it. Whole, both ways differ in the order of
//! the parts only. In pieces, the one takes each piece as it comes; the other has to collect them first,
//! which is a pass more.
//!
//! Over a transport each message crosses a connection between two stacks in memory ([`crate::joined`]), in a record without
//! a cipher, and is taken apart at its other end: the same bytes a second, of all that both ends do.

use fusewire_base::Sum;
use fusewire_experiments::parts::{self, PartsReceiver, PartsSender, message_len};
use fusewire_kernels::{Cipher, Level, Swap};
use serde::Serialize;
use std::hint::black_box;

use crate::joined::Joined;
use crate::kernels::{Effort, alternate};
use crate::transfer::Transport;
use crate::{Error, Result};

/// What is compared.
pub struct Plan<'a> {
    /// The CPU level.
    pub level: Level,
    /// The cipher: one with a block of 8 bytes.
    pub cipher: Cipher,
    /// Bytes of data in a message.
    pub sizes: &'a [usize],
    /// Bytes of a piece.
    pub piece_bytes: usize,
    /// What carries messages, a line each besides that of no transport.
    pub transports: &'a [Transport],
    /// How long to measure.
    pub effort: Effort,
}

/// What was measured at one length. Rates are bytes of data a second.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// `parts`.
    pub experiment: &'static str,
    /// The cipher.
    pub cipher: String,
    /// What carries the messages to where they are taken apart; `None`: they are put together, and nothing else.
    pub transport: Option<String>,
    /// Bytes of data.
    pub size_bytes: usize,
    /// Bytes of a piece.
    pub piece_bytes: usize,
    /// The CPU level.
    pub level: &'static str,
    /// Parts B, C, A; data whole.
    pub parts: f64,
    /// Parts A, B, C, the length known first; data whole.
    pub length_first: f64,
    /// Parts B, C, A; data in pieces, each passed as it comes.
    pub parts_pieces: f64,
    /// Parts A, B, C; data in pieces, which are collected until the length is known.
    pub length_first_pieces: f64,
    /// Taking the message apart, which is one for both, and no transport's.
    pub open: f64,
}

/// Measures each length and hands its line on.
///
/// # Errors
/// When the cipher cannot have parts, or two ways do not make the same message.
pub fn run(plan: &Plan<'_>, each: &mut dyn FnMut(&Line)) -> Result<()> {
    for &size in plan.sizes {
        each(&measure(plan, size, None)?);
        for &transport in plan.transports {
            each(&measure(plan, size, Some(transport))?);
        }
    }
    Ok(())
}

/// The ways, in the order of a line's rates.
const WAYS: [&str; 5] = ["parts", "length_first", "parts_pieces", "length_first_pieces", "open"];

struct Bench {
    sender: PartsSender,
    receiver: PartsReceiver,
    piece_bytes: usize,
    data: Vec<u8>,
    collected: Vec<u8>,
    message: Vec<u8>,
    opened: Vec<u8>,
    /// The way to where it is opened, and the memory there.
    joined: Option<(Joined, Vec<u8>)>,
}

impl Bench {
    fn new(plan: &Plan<'_>, size: usize, transport: Option<Transport>) -> Result<Bench> {
        let len = message_len(size);
        let join = |transport| Joined::new(transport, Cipher::NONE, len);
        let joined = transport.map(join).transpose()?.map(|joined| (joined, vec![0; len]));
        let (level, element, cipher) = (plan.level, Swap::Bytes32, plan.cipher);
        let key = *b"fusewire";
        Ok(Bench {
            sender: PartsSender::new(level, element, cipher, key)?,
            receiver: PartsReceiver::new(level, element, cipher, key)?,
            piece_bytes: plan.piece_bytes.max(1),
            data: (0..size).map(|i| (i * 131 + (i >> 8)) as u8).collect(),
            collected: vec![0; size],
            message: vec![0; len],
            opened: vec![0; size],
            joined,
        })
    }

    /// Does it once, to the other end. Gives the length of what it made, and the message's sum.
    fn once(&mut self, way: usize) -> Result<(usize, Sum)> {
        let made = self.make(way)?;
        if let Some((joined, came)) = self.joined.as_mut().filter(|_| WAYS[way] != "open") {
            let len = joined.carry(&self.message, came)?;
            self.receiver.open(&came[..len], &mut self.opened)?;
        }
        Ok(made)
    }

    fn make(&mut self, way: usize) -> std::result::Result<(usize, Sum), parts::Error> {
        match WAYS[way] {
            "parts" => self.sender.seal(&self.data, &mut self.message),
            "length_first" => self.sender.seal_in_order(&self.data, &mut self.message),
            "parts_pieces" => {
                let mut parts = self.sender.begin(&mut self.message);
                for piece in self.data.chunks(self.piece_bytes) {
                    parts.push(piece)?;
                }
                parts.finish()
            }
            "length_first_pieces" => {
                let pieces = self.data.chunks(self.piece_bytes);
                for (piece, to) in pieces.zip(self.collected.chunks_mut(self.piece_bytes)) {
                    to.copy_from_slice(piece);
                }
                self.sender.seal_in_order(&self.collected, &mut self.message)
            }
            _ => self.receiver.open(&self.message, &mut self.opened),
        }
    }

    /// All ways make the same message, and opened it is the data again.
    fn check(&mut self) -> Result<()> {
        let wrong = |way: usize, what: &str| Error::Wrong {
            method: WAYS[way].to_owned(),
            what: what.to_owned(),
        };
        let mut first = None;
        for (way, name) in WAYS.iter().enumerate() {
            if *name != "open" {
                self.message.fill(0);
            }
            self.opened.fill(0);
            let found = (self.once(way)?.1, self.message.clone());
            if *first.get_or_insert_with(|| found.clone()) != found {
                return Err(wrong(way, "another message, or another sum"));
            }
            let opens = self.joined.is_some() || *name == "open";
            if opens && self.opened != self.data {
                return Err(wrong(way, "other data"));
            }
        }
        Ok(())
    }
}

fn measure(plan: &Plan<'_>, size: usize, transport: Option<Transport>) -> Result<Line> {
    let mut bench = Bench::new(plan, size, transport)?;
    bench.check()?;
    let mut failed = None;
    let rates = alternate(size, plan.effort, WAYS.len(), &mut |way, turns| {
        for _ in 0..turns {
            match bench.once(way) {
                Ok(found) => drop(black_box(found)),
                Err(error) => failed = Some(error),
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(Line {
        experiment: "parts",
        cipher: plan.cipher.to_string(),
        transport: transport.map(|transport| transport.to_string()),
        size_bytes: size,
        piece_bytes: plan.piece_bytes,
        level: plan.level.name(),
        parts: rates[0],
        length_first: rates[1],
        parts_pieces: rates[2],
        length_first_pieces: rates[3],
        open: rates[4],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_makes_the_same_message() {
        for cipher in [Cipher::PES, Cipher::SAFER_SIMPLIFIED, Cipher::SAFER_K64] {
            let plan = Plan {
                level: Level::detect(),
                cipher,
                sizes: &[1, 4, 5, 12, 100, 1024, 4099],
                piece_bytes: 37,
                transports: &[],
                effort: Effort::SMOKE,
            };
            let mut lines = 0;
            run(&plan, &mut |line| {
                lines += 1;
                assert!(line.parts > 0.0 && line.length_first_pieces > 0.0 && line.open > 0.0);
            })
            .unwrap();
            assert_eq!(lines, plan.sizes.len());
        }
    }

    /// Each with its check, and messages that several packets carry.
    #[test]
    fn every_transport_brings_the_same_message() {
        use fusewire_session::Check;
        use fusewire_stack::transport::{Protocol, Retransmission};
        let ways = [Retransmission::default()];
        let transports = Transport::each(&Protocol::ALL, &ways, &Check::ALL).unwrap();
        let plan = Plan {
            level: Level::detect(),
            cipher: Cipher::SAFER_SIMPLIFIED,
            sizes: &[4, 1408, 200_000],
            piece_bytes: 128,
            transports: &transports,
            effort: Effort::SMOKE,
        };
        let mut names = Vec::new();
        run(&plan, &mut |line| names.push(line.transport.clone())).unwrap();
        assert_eq!(names.len(), 3 * 5);
        let names: Vec<_> = names[..5].iter().map(|name| name.as_deref()).collect();
        let of_xtp = [Some("xtp"), Some("xtp cxor"), Some("xtp no check")];
        assert_eq!((&names[..2], &names[2..]), (&[None, Some("tcp")][..], &of_xtp[..]));
    }

    #[test]
    fn a_cipher_with_a_tag_has_no_parts() {
        let (level, effort) = (Level::detect(), Effort::SMOKE);
        let plan = Plan {
            level,
            cipher: Cipher::AES_256_GCM,
            sizes: &[64],
            piece_bytes: 8,
            transports: &[],
            effort,
        };
        assert!(run(&plan, &mut |_| {}).is_err());
    }
}
