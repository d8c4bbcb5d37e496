//! A call: sound and pictures both ways in one session of datagrams, adapted to the path. Between two hosts; or, alone, between
//! two threads over a path of this host that changes as in RFC 8867, section 5.1, four times as fast.
#![forbid(unsafe_code)]

mod coder;
mod path;
mod profile;
mod view;

/// The types of `Conf.asn1`.
#[allow(missing_docs)]
mod types {
    include!(concat!(env!("OUT_DIR"), "/conf.rs"));
}

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_codec::lws;
use fusewire_service::datagram::udp::Udp;
use fusewire_service::datagram::{Counters, Event};
use fusewire_session::{Allow, ClientConfig, Fingerprint, Identity, ServerConfig, Trust};
use fusewire_stack::{Connection, Endpoint};
use fusewire_transport::media::Made;

use coder::Coder;
use profile::{AUDIO, AUDIO_BYTES, AUDIO_HZ, Conference, VIDEO};
use types::conf::{Audio, Frame};
use view::Second;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The parts of the course: shares of the call after which each begins, and bits a second.
const COURSE: [(f64, u64); 4] =
    [(0.0, 1_000_000), (0.4, 2_500_000), (0.6, 600_000), (0.8, 1_000_000)];

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wait", at] => {
            let endpoint = Endpoint::udp(at.parse()?)?;
            let mut server = ServerConfig::new(identity.clone());
            server.allow = Allow::Public;
            let listener = endpoint.listen(server)?;
            println!("call {} {} 60", endpoint.local_addr(), identity.fingerprint());
            let (call, socket, peer) = meet(listener.accept()?)?;
            talk(Udp::new(socket, peer, keys(&call)?)?, 60, None, true).map(|_| ())
        }
        ["call", at, key, seconds] => {
            let (at, key): (SocketAddr, Fingerprint) = (at.parse()?, key.parse()?);
            let any: SocketAddr = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
            let client = ClientConfig::new(identity, Trust::Pinned(key));
            let (call, socket, peer) = meet(Endpoint::udp(any)?.connect(at, &client)?)?;
            talk(Udp::new(socket, peer, keys(&call)?)?, seconds.parse()?, None, true).map(|_| ())
        }
        [] => alone(identity, 60),
        [seconds] => alone(identity, seconds.parse()?),
        _ => Err("conference-example [SECONDS] | wait ADDRESS | call ADDRESS KEY SECONDS".into()),
    }
}

/// The two tell each other, within their session, where their sockets for datagrams are.
fn meet(call: Connection) -> Outcome<(Connection, UdpSocket, SocketAddr)> {
    let socket = UdpSocket::bind((call.local_addr().ip(), 0))?;
    call.send(&socket.local_addr()?.port().to_be_bytes())?;
    let port = call.recv_adu()?.ok_or("the peer has ended")?;
    let port = u16::from_be_bytes(port[..].try_into()?);
    let peer = call.remote_addr().ok_or("the peer has ended")?.ip();
    Ok((call, socket, (peer, port).into()))
}

fn keys(call: &Connection) -> Outcome<fusewire_session::Datagrams> {
    Ok(call.take_datagrams().ok_or("no keys for datagrams")?)
}

/// Both ends in this process, and a path between them.
fn alone(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let endpoint = Endpoint::udp("127.0.0.1:0".parse()?)?;
    let mut server = ServerConfig::new(identity.clone());
    server.allow = Allow::OwnKey;
    let listener = endpoint.listen(server)?;
    let (at, key) = (endpoint.local_addr(), identity.fingerprint());
    let client = ClientConfig::new(identity, Trust::Pinned(key));
    let calling = std::thread::spawn(move || -> Outcome<_> {
        meet(Endpoint::udp("127.0.0.1:0".parse()?)?.connect(at, &client)?)
    });
    let (waiting, near, near_at) = meet(listener.accept()?)?;
    let (calling, far, far_at) = calling.join().map_err(|_| "the caller has panicked")??;
    // What each takes for the peer is the path.
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let ends = [sockets[0].local_addr()?, sockets[1].local_addr()?];
    let rate = Arc::new(AtomicU64::new(COURSE[0].1));
    // Each is told where the other's socket is.
    path::carry(sockets, [far_at, near_at], rate.clone())?;
    let far = Udp::new(far, ends[1], keys(&calling)?)?;
    let near = Udp::new(near, ends[0], keys(&waiting)?)?;
    let other = std::thread::spawn(move || talk(far, seconds, None, false));
    let (pushed, came, counters) = talk(near, seconds, Some(rate), true)?;
    let (pushed_far, came_far, _) = other.join().map_err(|_| "the other end has panicked")??;
    view::sum("to the far end", pushed, came_far, &counters);
    view::sum("from the far end", pushed_far, came, &counters);
    Ok(())
}

/// A call of so many seconds: how much was made of each type, how much came, and what became of it.
fn talk(
    mut udp: Udp<Conference>,
    seconds: u64,
    path: Option<path::Rate>,
    shows: bool,
) -> Outcome<([u64; 2], [u64; 2], Counters)> {
    let (mut coder, mut made) = (Coder::new(), None::<Made>);
    let (mut pushed, mut came, mut second) = ([0; 2], [0; 2], Second::default());
    let (mut sound, mut shown) = (Instant::ZERO, 0);
    let picture: Vec<u8> = (0..65_536).map(|at| (at * 7) as u8).collect();
    let end = Instant::from_ms(1000 * seconds);
    if shows {
        view::head();
    }
    while udp.now() < end {
        let now = udp.now();
        if now >= sound {
            sound += Duration::from_secs(1) / AUDIO_HZ;
            let samples = pushed[AUDIO] as u32 * 960;
            let adu = Audio { samples, sound: picture[..AUDIO_BYTES].into() };
            pushed[AUDIO] += 1;
            let _ = udp.end().push(now, AUDIO, &lws::to_vec::<u32, _>(&adu)?);
        }
        if let Some(frame) = made.and_then(|made| coder.frame(now, made)) {
            let adu = Frame {
                time: now.as_ms() as u32,
                is_whole: frame.is_whole,
                width: 1280,
                height: 720,
                picture: picture[..frame.bytes].into(),
            };
            pushed[VIDEO] += 1;
            let _ = udp.end().push(now, VIDEO, &lws::to_vec::<u32, _>(&adu)?);
        }
        let video = if made.is_some() { coder.next() } else { end };
        udp.drive(sound.min(video).min(end))?;
        let now = udp.now();
        while let Some(event) = udp.end().poll_event(now) {
            match event {
                Event::Target { made: new, .. } => made = Some(new),
                Event::Adu { lane, bytes, behind, .. } => {
                    check(lane, bytes)?;
                    came[lane] += 1;
                    second.bytes += bytes.len() as u64;
                    match lane {
                        AUDIO => second.audio += 1,
                        _ => {
                            second.video += 1;
                            second.behind.push(behind);
                        }
                    }
                }
                Event::Gap(skip) => second.gone += skip.count,
                Event::Late { .. } | Event::Lost { .. } | Event::Tripped(_) => {}
            }
        }
        if now >= Instant::from_ms(1000 * (shown + 1)) {
            shown += 1;
            let share = shown as f64 / seconds as f64;
            let bits = COURSE.iter().rev().find(|(from, _)| *from <= share).map(|part| part.1);
            if let (Some(path), Some(bits)) = (&path, bits) {
                path.store(bits, Ordering::Relaxed);
            }
            if shows {
                let bits = bits.filter(|_| path.is_some());
                view::line(shown, bits, made, udp.end().seen(), &mut second);
            }
        }
    }
    Ok((pushed, came, udp.end().counters()))
}

/// What comes is what its type says.
fn check(lane: usize, bytes: &[u8]) -> Outcome {
    match lane {
        AUDIO => {
            lws::from_bytes::<u32, Audio<'_>>(bytes)?;
        }
        _ => {
            let frame = lws::from_bytes::<u32, Frame<'_>>(bytes)?;
            if frame.picture.is_empty() {
                return Err("an empty picture".into());
            }
        }
    }
    Ok(())
}
