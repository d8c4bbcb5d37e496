//! A plant and its viewers: what must arrive goes to a group of XTP's that asks again for what it misses, what may be lost to one
//! that does not. The keys of both are told within a session with each viewer.
#![forbid(unsafe_code)]

mod keys;
mod plant;
mod viewer;

/// The types of `Plant.asn1`.
#[allow(missing_docs)]
mod types {
    include!(concat!(env!("OUT_DIR"), "/plant.rs"));
}

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fusewire_session::{Allow, ClientConfig, Fingerprint, Identity, ServerConfig, Trust};
use fusewire_stack::{Endpoint, Listener};

use keys::Keys;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Alone, how many look at it, and what share of packets the last of them loses.
const VIEWERS: u64 = 3;
const LOSS: f64 = 0.05;

/// The groups of alarms and of samples, by their first port.
fn groups(port: u16) -> [SocketAddr; 2] {
    [port, port + 1].map(|port| ([239, 255, 19, 4], port).into())
}

/// The wall's clock.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plant", at, seconds] => {
            let at: SocketAddr = at.parse()?;
            let keys = Keys::draw()?;
            let told = *keys.told();
            let (listener, endpoint) = listen(at, identity.clone(), Allow::Public)?;
            println!("viewer {} {} 1", endpoint.local_addr(), identity.fingerprint());
            std::thread::spawn(move || tell(&listener, &told, u64::MAX));
            let long = Duration::from_secs(seconds.parse()?);
            plant::run(groups(9300), at.ip(), &keys, 1, long).map(|_| ())
        }
        ["viewer", at, key, name] => {
            let (at, key): (SocketAddr, Fingerprint) = (at.parse()?, key.parse()?);
            let keys = hear(at, identity, key)?;
            let seen = viewer::run(groups(9300), name.parse()?, &keys, 0.0, at.ip().is_loopback())?;
            println!("{} alarms, {} samples", seen.alarms, seen.samples);
            Ok(())
        }
        [] => alone(identity, 60),
        [seconds] => alone(identity, seconds.parse()?),
        _ => {
            Err("telemetry-example [SECONDS] | plant ADDRESS SECONDS | viewer ADDRESS KEY NAME"
                .into())
        }
    }
}

fn listen(at: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Outcome<(Listener, Endpoint)> {
    let endpoint = Endpoint::udp(at)?;
    let mut server = ServerConfig::new(identity);
    server.allow = allow;
    Ok((endpoint.listen(server)?, endpoint))
}

/// Tells so many viewers the keys.
fn tell(listener: &Listener, told: &[u8], viewers: u64) -> Outcome {
    for _ in 0..viewers {
        let session = listener.accept()?;
        session.send(told)?;
        session.finish()?;
    }
    Ok(())
}

/// Hears the keys from the plant with this key.
fn hear(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint) -> Outcome<Keys> {
    let any: SocketAddr = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let session =
        Endpoint::udp(any)?.connect(at, &ClientConfig::new(identity, Trust::Pinned(key)))?;
    let told = session.recv_adu()?.ok_or("the plant has ended")?;
    session.finish()?;
    Ok(Keys::heard(&told).ok_or("the plant speaks of something else")?)
}

/// All of it in this process; the last viewer's path is bad.
fn alone(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let groups = groups(10_000 + std::process::id() as u16 % 20_000);
    let keys = Keys::draw()?;
    let (listener, endpoint) = listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
    let (at, key) = (endpoint.local_addr(), identity.fingerprint());
    let viewers: Vec<_> = (1..=VIEWERS)
        .map(|name| {
            let identity = identity.clone();
            let loss = if name == VIEWERS { LOSS } else { 0.0 };
            std::thread::spawn(move || {
                viewer::run(groups, name, &hear(at, identity, key)?, loss, true)
            })
        })
        .collect();
    tell(&listener, keys.told(), VIEWERS)?;
    let from = IpAddr::from([127, 0, 0, 1]);
    let long = Duration::from_secs(seconds);
    let [alarms, samples] = plant::run(groups, from, &keys, VIEWERS as usize, long)?;
    for (name, viewer) in viewers.into_iter().enumerate() {
        let seen = viewer.join().map_err(|_| "a viewer has panicked")??;
        println!(
            "viewer {}: {} of {alarms} alarms, the oldest {} ms; {} of {samples} samples",
            name + 1,
            seen.alarms,
            seen.oldest.as_millis(),
            seen.samples
        );
        if seen.alarms != alarms || seen.oldest > Duration::from_secs(1) {
            return Err("an alarm is missing, or was late".into());
        }
    }
    Ok(())
}
