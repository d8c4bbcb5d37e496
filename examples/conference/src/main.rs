//! A call: sound and pictures both ways in one session of datagrams, adapted to the path. Between two hosts; or, alone, between
//! two threads over a path of this host that changes as in RFC 8867, section 5.1, four times as fast.
#![forbid(unsafe_code)]

mod coder;
mod path;
mod talks;
mod view;

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conference_example::{A, Allow, Audio, B, Error as EndError, Frame, Identity, Told};
use fusewire_service::datagram::Counters;

use coder::{Coder, Target};
use talks::{Heard, Talks};
use view::Second;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The parts of the course: shares of the call after which each begins, and bits a second.
const COURSE: [(f64, u64); 4] =
    [(0.0, 1_000_000), (0.4, 2_500_000), (0.6, 600_000), (0.8, 1_000_000)];
const AUDIO: usize = 0;
const VIDEO: usize = 1;
/// How long twenty milliseconds of sound are, and its bytes: 32 kbit/s.
const SOUND: Duration = Duration::from_millis(20);
const AUDIO_BYTES: usize = 80;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wait", at] => {
            let listener = B::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("call {} {} 60", listener.local_addr(), identity.fingerprint());
            talk(&mut listener.accept()?, 60, None, true).map(|_| ())
        }
        ["call", at, key, seconds] => {
            let mut end = A::connect(at.parse()?, identity, key.parse()?)?;
            talk(&mut end, seconds.parse()?, None, true).map(|_| ())
        }
        [] => alone(identity, 60),
        [seconds] => alone(identity, seconds.parse()?),
        _ => Err("conference-example [SECONDS] | wait ADDRESS | call ADDRESS KEY SECONDS".into()),
    }
}

/// Both ends in this process, and a path between them.
fn alone(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let listener = B::listen("127.0.0.1:0".parse()?, identity.clone(), Allow::OwnKey)?;
    let (at, key) = (listener.local_addr(), identity.fingerprint());
    let calling = std::thread::spawn(move || A::connect(at, identity, key));
    let mut near = listener.accept()?;
    let mut far = calling.join().map_err(|_| "the caller has panicked")??;
    // What each takes for the peer is the path.
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    near.session().go_by(sockets[0].local_addr()?)?;
    far.session().go_by(sockets[1].local_addr()?)?;
    let peers = [near.session().local_addr()?, far.session().local_addr()?];
    let rate = Arc::new(AtomicU64::new(COURSE[0].1));
    path::carry(sockets, peers, rate.clone())?;
    let other = std::thread::spawn(move || talk(&mut far, seconds, None, false));
    let (pushed, came, counters) = talk(&mut near, seconds, Some(rate), true)?;
    let (pushed_far, came_far, _) = other.join().map_err(|_| "the other end has panicked")??;
    view::sum("to the far end", pushed, came_far, &counters);
    view::sum("from the far end", pushed_far, came, &counters);
    Ok(())
}

/// A call of so many seconds: how much was made of each type, how much came, and what became of it.
fn talk(
    end: &mut impl Talks,
    seconds: u64,
    path: Option<path::Rate>,
    shows: bool,
) -> Outcome<([u64; 2], [u64; 2], Counters)> {
    let begun = Instant::now();
    let (mut coder, mut target) = (Coder::new(begun), None::<Target>);
    let (mut pushed, mut came, mut second) = ([0; 2], [0; 2], Second::default());
    let (mut sound, mut shown) = (begun, 0);
    let picture: Vec<u8> = (0..65_536).map(|at| (at * 7) as u8).collect();
    let until = begun + Duration::from_secs(seconds);
    if shows {
        view::head();
    }
    loop {
        let now = Instant::now();
        if now >= until {
            break;
        }
        if now >= sound {
            sound += SOUND;
            let samples = pushed[AUDIO] as u32 * 960;
            pushed[AUDIO] += 1;
            made(end.audio(&Audio { samples, sound: picture[..AUDIO_BYTES].into() }))?;
        }
        if let Some(frame) = target.and_then(|target| coder.frame(now, target)) {
            pushed[VIDEO] += 1;
            made(end.video(&Frame {
                time: (now - begun).as_millis() as u32,
                is_whole: frame.is_whole,
                width: 1280,
                height: 720,
                picture: picture[..frame.bytes].into(),
            }))?;
        }
        let due = if target.is_some() { sound.min(coder.next()) } else { sound };
        match end.hear(due.min(until).saturating_duration_since(Instant::now()))? {
            Some(Heard::Audio(bytes)) => {
                came[AUDIO] += 1;
                second.audio += 1;
                second.bytes += bytes as u64;
            }
            Some(Heard::Video(bytes, behind)) => {
                came[VIDEO] += 1;
                second.video += 1;
                second.bytes += bytes as u64;
                second.behind.push(behind);
            }
            Some(Heard::Told(Told::Target { bits, hz, .. })) => target = Some(Target { bits, hz }),
            Some(Heard::Told(Told::Gap { count, .. })) => second.gone += count,
            Some(Heard::Told(Told::Ended)) => break,
            Some(Heard::Told(_)) | None => {}
        }
        if begun.elapsed() >= Duration::from_secs(shown + 1) {
            shown += 1;
            let share = shown as f64 / seconds as f64;
            let bits = COURSE.iter().rev().find(|(from, _)| *from <= share).map(|part| part.1);
            if let (Some(path), Some(bits)) = (&path, bits) {
                path.store(bits, Ordering::Relaxed);
            }
            if shows {
                let bits = bits.filter(|_| path.is_some());
                view::line(shown, bits, target, end.queue(), &mut second);
            }
        }
    }
    Ok((pushed, came, end.counters()))
}

/// What has no room was made in vain: the next will be smaller.
fn made(sent: Result<u64, EndError>) -> Outcome {
    match sent {
        Ok(_) | Err(EndError::NoRoom { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
