//! A call: sound and pictures both ways in one session of datagrams, adapted to the path. Between two hosts; or, alone, between
//! two threads over a path of this host that changes as in RFC 8867, section 5.1, four times as fast.
#![forbid(unsafe_code)]

mod coder;
#[path = "../../path.rs"]
mod path;
mod talks;
mod view;

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
/// How old each may be when it is heard or seen, as `conference.toml` says, and what share is to be younger: where the path falls to a
/// quarter, what is under way is late for seconds.
const DEADLINES: [Duration; 2] = [Duration::from_millis(180), Duration::from_millis(250)];
const IN_TIME: f64 = 0.8;
/// What runs for less is not judged by the clock.
const MINUTE: u64 = 60;
/// How long twenty milliseconds of sound are, and its bytes: 32 kbit/s.
const SOUND: Duration = Duration::from_millis(20);
const SAMPLES: u32 = 960;
const AUDIO_BYTES: usize = 80;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wait", at] => {
            let listener = B::listen(at.parse()?, identity.clone(), Allow::Public)?;
            println!("call {} {} 60", listener.local_addr(), identity.fingerprint());
            talk(&mut listener.accept()?, &Call::shown(MINUTE)).map(|_| ())
        }
        ["call", at, key, seconds] => {
            let mut end = A::connect(at.parse()?, identity, key.parse()?)?;
            talk(&mut end, &Call::shown(seconds.parse()?)).map(|_| ())
        }
        [] => alone(identity, MINUTE),
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
    let rate = Arc::new(COURSE[0].1.into());
    let way = path::Way {
        rate,
        delay: Duration::from_millis(30),
        queue: Duration::from_millis(300),
        loss: 0.005,
        row: 2,
    };
    path::carry(sockets, peers.map(Some), &way)?;
    let call = Call { path: Some(way.rate), ..Call::shown(seconds) };
    let other = Call { path: None, shows: false, ..call.clone() };
    let other = std::thread::spawn(move || (talk(&mut far, &other), far));
    let here = talk(&mut near, &call)?;
    // None is gone while the other still listens.
    let (there, _far) = other.join().map_err(|_| "the other end has panicked")?;
    let there = there?;
    let mut least = 1.0_f64;
    for (name, from, to) in [("to the far end", &here, &there), ("from the far end", &there, &here)]
    {
        let shares = [AUDIO, VIDEO].map(|of| to.in_time[of] as f64 / from.pushed[of].max(1) as f64);
        view::sum(name, from.pushed, shares, &to.counters);
        least = shares.into_iter().fold(least, f64::min);
    }
    match seconds >= MINUTE && least < IN_TIME {
        true => Err(format!("only {:.1} % came in time", 100.0 * least).into()),
        false => Ok(()),
    }
}

/// What a call is to be.
#[derive(Clone)]
struct Call {
    seconds: u64,
    /// Of both ends, where both are here: so that each knows how old is what comes.
    begun: Instant,
    /// What is changed as the course says.
    path: Option<path::Rate>,
    shows: bool,
}

impl Call {
    fn shown(seconds: u64) -> Call {
        Call { seconds, begun: Instant::now(), path: None, shows: true }
    }
}

/// What was made of each type, what came in time by the clock of who made it, if that is here, and what became of it.
struct Talked {
    pushed: [u64; 2],
    in_time: [u64; 2],
    counters: Counters,
}

/// A call; what is made last is waited for.
fn talk(end: &mut impl Talks, call: &Call) -> Outcome<Talked> {
    let begun = call.begun;
    let (mut coder, mut target) = (Coder::new(begun), None::<Target>);
    let (mut pushed, mut in_time, mut second) = ([0; 2], [0; 2], Second::default());
    let (mut sound, mut shown) = (begun, 0);
    let picture: Vec<u8> = (0..65_536).map(|at| (at * 7) as u8).collect();
    let until = begun + Duration::from_secs(call.seconds);
    if call.shows {
        view::head();
    }
    loop {
        let now = Instant::now();
        if now >= until + DEADLINES[VIDEO] {
            break;
        }
        if now >= sound && sound < until {
            let samples = pushed[AUDIO] as u32 * SAMPLES;
            sound += SOUND;
            pushed[AUDIO] += 1;
            made(end.audio(&Audio { samples, sound: picture[..AUDIO_BYTES].into() }))?;
        }
        let frame = target.filter(|_| now < until).and_then(|target| coder.frame(now, target));
        if let Some(frame) = frame {
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
        let due = if now < until { due.min(until) } else { until + DEADLINES[VIDEO] };
        let heard = end.hear(due.saturating_duration_since(Instant::now()))?;
        let age = |made: Duration| begun.elapsed().saturating_sub(made);
        match heard {
            Some(Heard::Audio(samples, bytes)) => {
                let made = SOUND * (samples / SAMPLES);
                in_time[AUDIO] += u64::from(age(made) <= DEADLINES[AUDIO]);
                second.audio += 1;
                second.bytes += bytes as u64;
            }
            Some(Heard::Video(time, bytes, behind)) => {
                let made = Duration::from_millis(time.into());
                in_time[VIDEO] += u64::from(age(made) <= DEADLINES[VIDEO]);
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
            let share = shown as f64 / call.seconds as f64;
            let bits = COURSE.iter().rev().find(|(from, _)| *from <= share).map(|part| part.1);
            if let (Some(path), Some(bits)) = (&call.path, bits) {
                path.store(bits, Ordering::Relaxed);
            }
            if call.shows {
                let bits = bits.filter(|_| call.path.is_some());
                view::line(shown, bits, target, end.queue(), &mut second);
            }
        }
    }
    Ok(Talked { pushed, in_time, counters: end.counters() })
}

/// What has no room was made in vain: the next will be smaller.
fn made(sent: Result<u64, EndError>) -> Outcome {
    match sent {
        Ok(_) | Err(EndError::NoRoom { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
