//! Blocks from a source to a sink, in whatever order they come; over loopback in one process, or between two hosts.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bulk::{Allow, Block, Done, Fingerprint, Identity, Sink, Source, ToSink};

const BLOCK: usize = 64 << 10;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", at] => {
            let listener = Sink::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("source {} {} 10", listener.local_addr(), identity.fingerprint());
            sink(listener.accept()?)
        }
        ["source", at, key, seconds] => source(at.parse()?, identity, key.parse()?, seconds.parse()?),
        [] | [_] => {
            let seconds = words.first().map_or(Ok(10), |seconds| seconds.parse())?;
            let listener = Sink::listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
            let (at, key) = (listener.local_addr(), identity.fingerprint());
            let sending = std::thread::spawn(move || source(at, identity, key, seconds));
            sink(listener.accept()?)?;
            sending.join().map_err(|_| "the source has panicked")?
        }
        _ => Err("bulk-example [SECONDS] | sink ADDRESS | source ADDRESS KEY SECONDS".into()),
    }
}

fn source(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint, seconds: u64) -> Outcome {
    let source = Source::connect(at, identity, key)?;
    let data: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
    let (end, mut bytes) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < end {
        source.send_block(&Block { offset: bytes, data: data[..].into() })?;
        bytes += BLOCK as u64;
    }
    source.send_done(&Done { bytes })?;
    Ok(source.finish()?)
}

fn sink(mut sink: Sink) -> Outcome {
    let (begun, mut second, mut bytes, mut early) = (Instant::now(), 1, 0u64, 0);
    let mut next = 0;
    while let Some(adu) = sink.recv()? {
        match adu {
            ToSink::Block(block) => {
                early += u64::from(block.offset != next);
                next = block.offset + BLOCK as u64;
                bytes += block.data.len() as u64;
            }
            // Behind all of the blocks, whatever their order was.
            ToSink::Done(done) if done.bytes == bytes => println!("all {bytes} bytes are here"),
            ToSink::Done(done) => return Err(format!("{bytes} of {} bytes", done.bytes).into()),
        }
        if begun.elapsed() >= Duration::from_secs(second) {
            let rate = bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!("{second:3} s  {rate:7.0} MB/s  {early} blocks out of order");
            second += 1;
        }
    }
    Ok(sink.finish()?)
}
