//! Both ends in one process, over a path that is as long and as lossy as one between two hosts; and whether what the specification
//! asks for is seen there.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::app::{MINUTE, Outcome, ask, serve};
use super::ends::{Allow, Client, Identity, Server};
use super::path::{Way, carry};

const DELAY: Duration = Duration::from_millis(10);
/// Half of the answers are to come within so many round trips.
const HALF: f64 = 1.5;
/// One in so many may be late: of half of these losses the specification vouches for one in 1,000.
const LATE_OF: u64 = 50;

/// Runs it for so many seconds, and judges: by the clock only what runs for a minute.
pub fn run(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let listener = Server::listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
    let key = identity.fingerprint();
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let at = sockets[0].local_addr()?;
    let rate = Arc::new(100_000_000.into());
    let way = Way { rate, delay: DELAY, queue: Duration::from_millis(40), loss: 0.01, row: 1 };
    carry(sockets, [None, Some(listener.local_addr())], &way)?;
    let asking = thread::spawn(move || ask(Client::connect(at, identity, key)?, seconds, None));
    let executed = serve(listener.accept()?)?;
    let asked = asking.join().map_err(|_| "the client has panicked")??;
    let [half, most] = [asked.half, asked.most].map(|wait| wait / (2.0 * DELAY.as_secs_f64()));
    println!(
        "over a path that loses 1 %, 10 ms each way: half within {half:.2} round trips, 99 of 100 within {most:.2}; \
         {executed} requests executed for {} answers",
        asked.answers
    );
    if executed != asked.answers {
        return Err("a request was executed twice, or not".into());
    }
    if seconds < MINUTE {
        return Ok(());
    }
    if half > HALF {
        return Err(format!("half of the answers took more than {HALF} round trips").into());
    }
    match asked.late * LATE_OF > asked.answers {
        true => Err(format!("more than one answer in {LATE_OF} was late").into()),
        false => Ok(()),
    }
}
