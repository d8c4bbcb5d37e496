//! Sound and pictures one way: what of them comes in time.

use std::collections::VecDeque;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_service::datagram::{End, Event};
use fusewire_service::profile::Profile;
use fusewire_service::stream;

use super::chosen::{Conference, PICTURE, SOUND};
use super::world::{Link, World};
use super::{Path, Way, body, number_of, one_for_all, same, spread, wrong};
use crate::joined::address;
use crate::{Error, Result};

/// Sound: bytes of 20 ms of it.
const SOUND_LEN: usize = 80;
const SOUND_TIME: Duration = Duration::from_millis(20);
/// What an application makes that is told nothing of the path: pictures a second, and bits a second of them. As much as the least
/// path has room for that the specification vouches for.
const PICTURES_HZ: f64 = 30.0;
const PICTURES_BITS: f64 = 400_000.0;
/// The course of RFC 8867, section 5.1: from which share of the time on the bottleneck carries how many bits a second; the way there and
/// back, and how long its queue is.
const COURSE: [(f64, u64); 4] =
    [(0.0, 1_000_000), (0.4, 2_500_000), (0.6, 600_000), (0.8, 1_000_000)];
const COURSE_ROUND_TRIP: Duration = Duration::from_millis(100);
const COURSE_QUEUE: Duration = Duration::from_millis(300);
/// What may wait in a stream before something is skipped: bytes, as much as a socket's buffer.
const WAITING: usize = 64 << 10;
/// Bytes of a datagram in which the session is carried: as `mtu_bytes` of the specification, without headers of UDP and IPv6.
const DATAGRAM: usize = Conference::MTU - 48;
/// How often ends of datagrams are asked.
const TICK: Duration = Duration::from_millis(1);
/// What is still on its way then is not in time.
const TAIL: Duration = Duration::from_secs(2);
/// Datagrams of a turn.
const SLOTS: usize = 8;

/// What came of a call.
#[derive(Debug, Default)]
pub struct Call {
    /// Of sounds and of pictures: how many were due, and how many came within their deadlines.
    pub due: [u64; 2],
    /// See `due`.
    pub in_time: [u64; 2],
    /// Bytes of those in time.
    pub bytes_in_time: u64,
    /// Bytes of packets, both ways.
    pub wire_bytes: u64,
}

impl Call {
    /// The share of sounds (0), or of pictures (1), that came in time.
    pub fn share_in_time(&self, of: usize) -> f64 {
        self.in_time[of] as f64 / self.due[of].max(1) as f64
    }
}

/// How many bits of pictures an application makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// As many as it is told that the path has room for: over datagrams.
    AsTold,
    /// As many as the clauses allow: over a stream, of which it knows nothing.
    Most,
    /// As many as the least capacity has room for: over a stream, by who knows that.
    Least,
}

impl Makes {
    fn picture(self) -> Option<(f64, f64)> {
        let bits = match self {
            Makes::AsTold => return None,
            Makes::Most => Conference::SENDS[PICTURE].adapted.map_or(0.0, |all| all.bits.1 as f64),
            Makes::Least => PICTURES_BITS,
        };
        Some((bits / 8.0 / PICTURES_HZ, PICTURES_HZ))
    }
}

/// What the link carries by and by; a link that stays as it is has no parts.
struct Parts<'a> {
    link: Link,
    rest: &'a [(f64, u64)],
    begun: Instant,
    time: Duration,
}

impl Parts<'_> {
    /// The part that is due, if one is.
    fn follow(&mut self) {
        while let Some(((from, bits_per_s), rest)) = self.rest.split_first()
            && self.link.now() >= self.begun + self.time.mul_f64(*from)
        {
            self.link.set_forth(*bits_per_s, COURSE_QUEUE);
            self.rest = rest;
        }
    }
}

/// What an application makes: sound, and pictures as it is told.
struct Application {
    next: [Instant; 2],
    /// Bytes of a picture, and how many a second; nothing before it knows.
    picture: Option<(f64, f64)>,
    until: Instant,
    /// Of each lane, by number: when it was made, and its bytes.
    made: [Vec<(Instant, usize)>; 2],
    call: Call,
}

impl Application {
    fn new(begun: Instant, time: Duration, picture: Option<(f64, f64)>) -> Application {
        let (until, made, call) = (begun + time, Default::default(), Call::default());
        Application { next: [begun; 2], picture, until, made, call }
    }

    /// What is due of a lane: how long it is. Pictures differ by a fifth, as a coder's that hits its target on the mean.
    fn due(&mut self, now: Instant, lane: usize) -> Option<usize> {
        if now < self.next[lane] || now >= self.until {
            return None;
        }
        let nth = self.call.due[lane];
        let len = match lane {
            SOUND => {
                self.next[lane] += SOUND_TIME;
                SOUND_LEN
            }
            _ => {
                let (bytes, hz) = self.picture?;
                self.next[lane] = now + Duration::from_secs_f64(1.0 / hz);
                ((bytes * (0.8 + 0.4 * spread(nth))) as usize).max(8)
            }
        };
        self.call.due[lane] += 1;
        Some(len)
    }

    /// One has come.
    fn came(&mut self, now: Instant, lane: usize, number: u64, adu: &[u8]) -> Result<()> {
        let made = self.made[lane].get(number as usize);
        let &(at, len) = made.ok_or_else(|| wrong(format!("{number} was not sent")))?;
        same("sounds and pictures", number, adu, len)?;
        let deadline = Conference::SENDS[lane].deadline.unwrap_or(Duration::MAX);
        if now - at <= deadline {
            self.call.in_time[lane] += 1;
            self.call.bytes_in_time += len as u64;
        }
        Ok(())
    }
}

/// A call of so long.
///
/// # Errors
/// [`Error::Wrong`] where what comes is not what was sent, or the ends stop; [`Error::Stack`], [`Error::Session`].
pub fn call(way: Way, path: &Path, time: Duration, seed: u64) -> Result<Call> {
    match way {
        Way::One => over_a_stream(path, &[], Makes::Least, time, seed),
        Way::Chosen => over_datagrams(path, &[], time, seed),
    }
}

/// A call over the course of RFC 8867, of whose packets a share is lost beside that.
///
/// # Errors
/// As [`call`].
pub fn course(way: Way, makes: Makes, loss: f64, time: Duration, seed: u64) -> Result<Call> {
    let path = Path { round_trip: COURSE_ROUND_TRIP, bits_per_s: COURSE[0].1, loss };
    match way {
        Way::One => over_a_stream(&path, &COURSE, makes, time, seed),
        Way::Chosen => over_datagrams(&path, &COURSE, time, seed),
    }
}

/// Of both in one stream; what finds no room in it is skipped. The lane is behind an ADU.
fn over_a_stream(
    path: &Path,
    parts: &[(f64, u64)],
    makes: Makes,
    time: Duration,
    seed: u64,
) -> Result<Call> {
    let mut world = World::new(path, one_for_all(), DATAGRAM, seed)?;
    let (begun, before) = (world.link.now(), world.link.sent_bytes());
    let mut parts = Parts { link: world.link.clone(), rest: parts, begun, time };
    let mut app = Application::new(begun, time, makes.picture());
    // What the stream has no room for yet.
    let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
    world.run(time + 2 * TAIL, |[from, to], ids, now| {
        parts.follow();
        let unacked = from.info(ids[0]).map_or(0, |info| info.unacked as usize);
        for lane in [SOUND, PICTURE] {
            let Some(len) = app.due(now, lane) else { continue };
            let before: usize = waiting.iter().map(Vec::len).sum();
            if unacked + before + len <= WAITING {
                let mut adu = body(app.made[lane].len() as u64, len);
                adu.push(lane as u8);
                waiting.push_back(adu);
                app.made[lane].push((now, len));
            }
        }
        while let Some(adu) = waiting.front()
            && from.send(ids[0], adu)?
        {
            waiting.pop_front();
        }
        while let Some((_, adu)) = to.recv(ids[1]) {
            let (lane, adu) = adu.split_last().ok_or_else(|| wrong("an empty ADU".into()))?;
            let lane = usize::from(*lane).min(PICTURE);
            app.came(now, lane, number_of(adu)?, adu)?;
        }
        let next = app.next[SOUND].min(app.next[PICTURE]).max(now + TICK);
        Ok((now < app.until + TAIL).then_some(next))
    })?;
    Ok(Call { wire_bytes: world.link.sent_bytes() - before, ..app.call })
}

/// Two ends of datagrams, each with its device.
struct Side {
    end: End<Conference>,
    device: Box<dyn Device>,
    batch: RxBatch,
    out: Vec<u8>,
}

impl Side {
    /// Takes what has come.
    fn take(&mut self, now: Instant) -> Result<()> {
        while self.device.receive(&mut self.batch).map_err(Error::os("receiving"))? > 0 {
            for packet in self.batch.iter() {
                packet.frames().for_each(|frame| self.end.handle_datagram(now, frame, 0));
            }
        }
        self.end.handle_timeout(now);
        Ok(())
    }

    /// Sends what may leave.
    fn give(&mut self, now: Instant, host: u8) -> Result<()> {
        while let Some(len) = self.end.poll_transmit(now, &mut self.out)? {
            let (peer, header) = (address(host, 1), &self.out[..len]);
            let frame = TxFrame { peer, header, payload: &[], ecn: Ecn::NotEct };
            self.device.transmit(&[frame]).map_err(Error::os("sending"))?;
        }
        Ok(())
    }
}

/// The two, by the keys of a session that was opened on a path that loses nothing.
fn sides(path: &Path, seed: u64) -> Result<(Link, [Side; 2])> {
    let config = stream::config::<Conference>();
    let mut session = World::new(&Path { loss: 0.0, ..*path }, config, DATAGRAM, seed)?;
    let (link, [one, other]) = Link::new(path, seed)?;
    let mut side = |at: usize, device| {
        let keys = session.ends[at].take_datagrams(session.ids[at]);
        let keys = keys.ok_or_else(|| wrong("a session has no keys for datagrams".into()))?;
        let end = End::new(Instant::ZERO, keys)?;
        Ok::<_, Error>(Side {
            end,
            device,
            batch: RxBatch::new(SLOTS),
            out: vec![0; Conference::MTU],
        })
    };
    let sides = [side(0, one)?, side(1, other)?];
    Ok((link, sides))
}

fn over_datagrams(path: &Path, parts: &[(f64, u64)], time: Duration, seed: u64) -> Result<Call> {
    let (link, [mut from, mut to]) = sides(path, seed)?;
    let mut app = Application::new(link.now(), time, Makes::AsTold.picture());
    let mut parts = Parts { link: link.clone(), rest: parts, begun: link.now(), time };
    while link.now() < app.until + TAIL {
        parts.follow();
        let now = link.now();
        from.take(now)?;
        while let Some(event) = from.end.poll_event(now) {
            match event {
                Event::Target { made, .. } => app.picture = Some((made.bits as f64 / 8.0, made.hz)),
                Event::Tripped(why) => {
                    return Err(wrong(format!("nothing goes any more: {why:?}")));
                }
                _ => {}
            }
        }
        for lane in [SOUND, PICTURE] {
            let Some(len) = app.due(now, lane) else { continue };
            let adu = body(app.made[lane].len() as u64, len);
            if from.end.push(now, lane, &adu).is_ok() {
                app.made[lane].push((now, len));
            }
        }
        from.give(now, 2)?;
        to.take(now)?;
        while let Some(event) = to.end.poll_event(now) {
            if let Event::Adu { lane, number, bytes, .. } = event {
                app.came(now, lane, number, bytes)?;
            }
        }
        to.give(now, 1)?;
        link.pass(TICK);
    }
    Ok(Call { wire_bytes: link.sent_bytes(), ..app.call })
}
