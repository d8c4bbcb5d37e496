//! Both ends in one process, over a path that is as long and as lossy as one between two hosts; and whether what the specification
//! asks for is seen there.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::app::{MINUTE, Outcome, send, sink};
use super::ends::{Allow, Identity, Sink, Source};
use super::path::{Way, carry};

/// What the path carries, and what of it the sink is to have: the rest are headers, what is sent again, and the beginning.
const BITS_PER_S: u64 = 20_000_000;
const LEAST: f64 = 0.6;
/// A block that fits one packet: longer ones wait for those before them.
const BLOCK: usize = 1200;

/// Runs it for so many seconds, and judges: by the clock only what runs for a minute.
pub fn run(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let listener = Sink::listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
    let key = identity.fingerprint();
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let at = sockets[0].local_addr()?;
    let way = Way {
        rate: Arc::new(BITS_PER_S.into()),
        delay: Duration::from_millis(10),
        queue: Duration::from_millis(40),
        loss: 0.01,
        row: 1,
    };
    carry(sockets, [None, Some(listener.local_addr())], &way)?;
    let sending = thread::spawn(move || send(Source::connect(at, identity, key)?, seconds, BLOCK));
    let seen = sink(listener.accept()?)?;
    sending.join().map_err(|_| "the source has panicked")??;
    let share = seen.bytes_per_s * 8.0 / BITS_PER_S as f64;
    println!(
        "over a path of {} Mbit/s that loses 1 %, 10 ms each way: {} blocks overtaken, {share:.2} of its rate",
        BITS_PER_S / 1_000_000,
        seen.overtaken,
    );
    match (seen.overtaken, share) {
        (0, _) => Err("no block was overtaken: each waited for those that were lost".into()),
        (_, share) if seconds >= MINUTE && share < LEAST => {
            Err(format!("less than {LEAST} of the path's rate").into())
        }
        _ => Ok(()),
    }
}
