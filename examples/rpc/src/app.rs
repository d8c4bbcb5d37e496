//! A store of values by key, and a client that asks for them one after the other and says how long it waits; between two hosts, or
//! in one process over a path that loses.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alone;
use super::ends::{Allow, AskServer, Client, Get, Got, Identity, Server};

const USAGE: &str = "rpc-example [SECONDS] | server ADDRESS | client ADDRESS KEY [SECONDS [BYTES]]";
/// Lengths of the values that are there, each under its length; nothing is under the last.
const LENGTHS: [usize; 6] = [64, 256, 1024, 4096, 16_384, 0];
pub const MINUTE: u64 = 60;

/// What becomes of it.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a client has had.
pub struct Asked {
    pub answers: u64,
    /// So many of them came after their deadline.
    pub late: u64,
    /// In so many seconds half of them came, and 99 of 100.
    pub half: f64,
    pub most: f64,
}

/// As the command's words say.
pub fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    let seconds = |word: Option<&&str>| word.map_or(Ok(MINUTE), |word| word.parse());
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", at] => {
            let listener = Server::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("client {} {}", listener.local_addr(), identity.fingerprint());
            serve(listener.accept()?).map(|_| ())
        }
        ["client", at, key, ref rest @ ..] => {
            let bytes = rest.get(1).map(|bytes| bytes.parse()).transpose()?;
            let client = Client::connect(at.parse()?, identity, key.parse()?)?;
            ask(client, seconds(rest.first())?, bytes).map(|_| ())
        }
        [] | [_] => {
            let word = words.first().map(String::as_str);
            alone::run(identity, seconds(word.as_ref()).map_err(|_| USAGE)?)
        }
        _ => Err(USAGE.into()),
    }
}

/// What is stored under a length.
fn value(len: usize) -> Option<Vec<u8>> {
    (len > 0).then(|| vec![len.ilog2() as u8; len])
}

/// The key of a length.
fn key_of(len: usize) -> Vec<u8> {
    format!("key {len}").into_bytes()
}

/// Answers until the client has ended; how many requests there were.
pub fn serve(mut server: Server) -> Outcome<u64> {
    let mut executed = 0;
    let store: HashMap<Vec<u8>, Vec<u8>> =
        LENGTHS.into_iter().filter_map(|len| Some((key_of(len), value(len)?))).collect();
    while let Some(AskServer::Get(get, answer)) = server.next_call()? {
        let value = store.get(&get.key[..]).map(|value| value[..].into());
        answer.send(&Got { version: 1, value })?;
        executed += 1;
    }
    server.finish()?;
    Ok(executed)
}

/// Asks for so long, for values of all lengths or of one.
pub fn ask(mut client: Client, seconds: u64, bytes: Option<usize>) -> Outcome<Asked> {
    let lengths = bytes.map_or(LENGTHS.to_vec(), |bytes| vec![bytes]);
    let (end, mut waits) = (Instant::now() + Duration::from_secs(seconds), Vec::new());
    let (mut late, asks) = (0, lengths.iter().map(|len| (key_of(*len), value(*len))));
    for (key, value) in asks.collect::<Vec<_>>().iter().cycle() {
        let asked = Instant::now();
        if asked >= end {
            break;
        }
        let got = client.ask_get(&Get { key: key[..].into() })?;
        waits.push(asked.elapsed());
        if got.value.as_deref() != value.as_deref() {
            return Err("another value than that of the key".into());
        }
        late += u64::from(client.is_late());
    }
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64();
    let (answers, half, most) = (waits.len() as u64, at(0.5), at(0.99));
    println!(
        "{answers} answers, half within {:.1} us, 99 of 100 within {:.1} us, {late} late",
        half * 1e6,
        most * 1e6
    );
    client.finish()?;
    Ok(Asked { answers, late, half, most })
}
