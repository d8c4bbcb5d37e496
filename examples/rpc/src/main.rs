//! A store of values by key, and a client that asks for them one after the other and says how long it waits.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rpc::{Allow, AskServer, Client, Fingerprint, Get, Got, Identity, Server};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", at] => {
            let listener = Server::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("client {} {} 10", listener.local_addr(), identity.fingerprint());
            serve(listener.accept()?)
        }
        ["client", at, key, seconds] => ask(at.parse()?, identity, key.parse()?, seconds.parse()?),
        [] | [_] => {
            let seconds = words.first().map_or(Ok(10), |seconds| seconds.parse())?;
            let listener = Server::listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
            let (at, key) = (listener.local_addr(), identity.fingerprint());
            let asking = std::thread::spawn(move || ask(at, identity, key, seconds));
            serve(listener.accept()?)?;
            asking.join().map_err(|_| "the client has panicked")?
        }
        _ => Err("rpc-example [SECONDS] | server ADDRESS | client ADDRESS KEY SECONDS".into()),
    }
}

fn serve(mut server: Server) -> Outcome {
    let store: HashMap<Vec<u8>, Vec<u8>> =
        (0..1000u32).map(|n| (format!("key {n}").into_bytes(), vec![n as u8; 100])).collect();
    while let Some(AskServer::Get(get, answer)) = server.next_call()? {
        let value = store.get(&get.key[..]);
        answer.send(&Got { found: value.is_some(), value: value.map_or(&[][..], |v| v).into() })?;
    }
    Ok(server.finish()?)
}

fn ask(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint, seconds: u64) -> Outcome {
    let mut client = Client::connect(at, identity, key)?;
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(seconds) {
        let n = waits.len() % 1001;
        let (key, asked) = (format!("key {n}"), Instant::now());
        let got = client.get(&Get { key: key.as_bytes().into() })?;
        if got.found != (n < 1000) || got.found && got.value[..] != vec![n as u8; 100] {
            return Err(format!("another value than that of {key}").into());
        }
        waits.push(asked.elapsed());
    }
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{} answers, p50 {:.0} us, p99 {:.0} us", waits.len(), at(0.5), at(0.99));
    Ok(client.finish()?)
}
