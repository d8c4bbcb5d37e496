//! A file of any size from a source to a sink, in blocks that arrive in whatever order they come; between two hosts, or in one
//! process over a path that loses.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alone;
use super::ends::{Allow, Block, Done, Identity, Sink, Source, ToSink};

const USAGE: &str = "bulk-example [SECONDS] | sink ADDRESS | source ADDRESS KEY [SECONDS [BYTES]]";
const BLOCK: usize = 64 << 10;
pub const MINUTE: u64 = 60;

/// What becomes of it.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the sink has had.
pub struct Seen {
    /// Blocks that came behind one that was sent after them.
    pub overtaken: u64,
    pub bytes_per_s: f64,
}

/// As the command's words say.
pub fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    let seconds = |word: Option<&&str>| word.map_or(Ok(MINUTE), |word| word.parse());
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", at] => {
            let listener = Sink::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("source {} {}", listener.local_addr(), identity.fingerprint());
            sink(listener.accept()?).map(|_| ())
        }
        ["source", at, key, ref rest @ ..] => {
            let bytes = rest.get(1).map_or(Ok(BLOCK), |bytes| bytes.parse()).ok();
            let bytes = bytes.filter(|bytes| (1..=BLOCK).contains(bytes)).ok_or(USAGE)?;
            let source = Source::connect(at.parse()?, identity, key.parse()?)?;
            send(source, seconds(rest.first())?, bytes)
        }
        [] | [_] => {
            let word = words.first().map(String::as_str);
            alone::run(identity, seconds(word.as_ref()).map_err(|_| USAGE)?)
        }
        _ => Err(USAGE.into()),
    }
}

/// The byte that lies at an offset of the file.
fn content(offset: u64) -> u8 {
    (offset ^ offset >> 16) as u8
}

/// Takes a block into the file's hash, which asks for no order: a sum of what tells blocks apart.
fn hash(hash: &mut [u8; 32], offset: u64, first: u8) {
    let mixed = (offset + u64::from(first)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (at, word) in hash.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sum = u64::from_be_bytes(*word).wrapping_add(mixed.rotate_left(16 * at as u32));
        *word = sum.to_be_bytes();
    }
}

/// Sends blocks of so many bytes for so long, and that they were all.
pub fn send(source: Source, seconds: u64, block: usize) -> Outcome {
    let (end, mut size) = (Instant::now() + Duration::from_secs(seconds), 0);
    let mut sum = [0; 32];
    let mut block: Vec<u8> = (0..block as u64).map(content).collect();
    while Instant::now() < end {
        block[0] = content(size);
        source.send_block(&Block { offset: size, bytes: block[..].into() })?;
        hash(&mut sum, size, block[0]);
        size += block.len() as u64;
    }
    source.send_done(&Done { size, hash: sum[..].into() })?;
    source.finish()?;
    Ok(())
}

/// Takes blocks until all have come.
pub fn sink(mut sink: Sink) -> Outcome<Seen> {
    let (begun, mut second, mut bytes, mut overtaken, mut next) = (Instant::now(), 1, 0, 0, 0);
    let (mut sum, mut bytes_per_s) = ([0; 32], 0.0);
    while let Some(adu) = sink.recv()? {
        match adu {
            ToSink::Block(block) => {
                hash(&mut sum, block.offset, block.bytes[0]);
                overtaken += u64::from(block.offset < next);
                next = next.max(block.offset + block.bytes.len() as u64);
                bytes += block.bytes.len() as u64;
            }
            // Behind all of the blocks, whatever their order was.
            ToSink::Done(done) if done.size == bytes && done.hash[..] == sum => {
                bytes_per_s = bytes as f64 / begun.elapsed().as_secs_f64();
                println!("all {bytes} bytes are here, at {:.0} MB/s", bytes_per_s / 1e6);
            }
            ToSink::Done(done) => {
                return Err(format!("{bytes} of {} bytes, or others", done.size).into());
            }
        }
        if begun.elapsed() >= Duration::from_secs(second) {
            let rate = bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!("{second:3} s  {rate:7.0} MB/s  {overtaken} blocks overtaken");
            second += 1;
        }
    }
    sink.finish()?;
    Ok(Seen { overtaken, bytes_per_s })
}
