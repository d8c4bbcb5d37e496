//! The course of RFC 8867, section 5.1, for ends of any profile that make sound and pictures: what leaves the bottleneck, and what
//! comes in time; and what comes over TCP.

use core::time::Duration;
use std::cell::RefCell;

use fusewire_base::Instant;
use fusewire_service::datagram::{End as EndOf, Event};
use fusewire_service::profile::{Adapted, Profile};
use fusewire_testkit::{Impairments, Random};
use fusewire_transport::media::Made;

use crate::tcp::Tcp;
use crate::world::{TICK, World, adu};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The types that a profile has.
pub const AUDIO: usize = 0;
pub const VIDEO: usize = 1;
/// 32 kbit/s.
pub const AUDIO_LEN: usize = 80;

/// Seconds at which it changes, and bit/s.
pub const COURSE: [(u64, u64); 4] =
    [(0, 1_000_000), (40, 2_500_000), (60, 600_000), (80, 1_000_000)];
pub const END: u64 = 100;

/// The bottleneck when it carries so much, of a path that is otherwise like `path`.
fn bottleneck(bits: u64, path: &Impairments) -> Impairments {
    let queue_bytes = (bits * 3 / 80) as usize;
    Impairments { rate: Some(bits / 8), delay: ms(50), queue_bytes, ..path.clone() }
}

/// What pictures of a profile may be.
pub fn pictures<P: Profile>() -> Adapted {
    P::SENDS[VIDEO].adapted.expect("pictures adapt")
}

/// What an application makes, and what comes of it in time.
pub struct Call {
    next: [Instant; 2],
    /// When each was pushed, and its bytes.
    pub pushed: [Vec<(Instant, usize)>; 2],
    pub in_time: [u64; 2],
    pub bytes_in_time: u64,
    pub late: u64,
    made: Option<Made>,
    /// Targets that lower the frequency while the quality is not at its least.
    pub wrong: u32,
    pub lowest: (u64, f64),
    deadlines: [Option<Duration>; 2],
    pictures: Adapted,
}

impl Call {
    fn new<P: Profile>() -> Call {
        Call {
            next: [Instant::ZERO; 2],
            pushed: Default::default(),
            in_time: [0; 2],
            bytes_in_time: 0,
            late: 0,
            made: None,
            wrong: 0,
            lowest: (u64::MAX, f64::MAX),
            deadlines: [AUDIO, VIDEO].map(|lane| P::SENDS[lane].deadline),
            pictures: pictures::<P>(),
        }
    }

    pub fn all_in_time(&self) -> u64 {
        self.in_time.iter().sum()
    }

    /// Lanes of which an ADU is due, and how long it is: of a coder that hits its target on the mean.
    fn due(&mut self, now: Instant, made: Made, random: &mut Random) -> [Option<usize>; 2] {
        let mut due = [None; 2];
        if now >= self.next[AUDIO] {
            self.next[AUDIO] += ms(20);
            due[AUDIO] = Some(AUDIO_LEN);
        }
        if now >= self.next[VIDEO] {
            self.next[VIDEO] = now + Duration::from_secs_f64(1.0 / made.hz);
            let bytes = made.bits / 8;
            due[VIDEO] = Some(random.range(bytes * 8 / 10..bytes * 12 / 10 + 1) as usize);
        }
        due
    }

    fn came(&mut self, now: Instant, lane: usize, number: usize) {
        let (at, bytes) = self.pushed[lane][number];
        if self.deadlines[lane].is_some_and(|deadline| now - at > deadline) {
            self.late += 1;
            return;
        }
        self.in_time[lane] += 1;
        self.bytes_in_time += bytes as u64;
    }

    fn told(&mut self, made: Made) {
        let Adapted { bits, hz, .. } = self.pictures;
        let least = bits.0 as f64 / hz.0;
        self.wrong += u32::from(made.hz < hz.1 - 0.01 && made.bits as f64 > least + 1.0);
        self.lowest = (self.lowest.0.min(made.bits), self.lowest.1.min(made.hz));
        self.made = Some(made);
    }
}

fn at(second: u64) -> Instant {
    Instant::from_ms(1000 * second)
}

/// Runs the course one way; the call, and the bits that left the bottleneck in each second.
pub fn course<P: Profile>(path: &Impairments, random: &mut Random) -> (Call, Vec<f64>) {
    let way_back = Impairments { delay: ms(50), ..Impairments::default() };
    let mut world = World::<P>::new([bottleneck(COURSE[0].1, path), way_back], random);
    let call = RefCell::new(Call::new::<P>());
    let mut coder = random.fork();
    let mut seconds = Vec::new();
    for second in 0..END {
        if let Some((_, bits)) = COURSE.iter().find(|(at, _)| *at == second) {
            *world.links[0].impairments_mut() = bottleneck(*bits, path);
        }
        let before = world.arrived[1];
        world.run(
            at(second + 1),
            |side, now, end: &mut EndOf<P>| {
                let mut call = call.borrow_mut();
                let Some(made) = call.made.filter(|_| side == 0) else { return };
                for (lane, len) in call.due(now, made, &mut coder).into_iter().enumerate() {
                    let Some(len) = len else { continue };
                    let number = call.pushed[lane].len() as u64;
                    if let Ok(given) = end.push(now, lane, &adu(number, len)) {
                        assert_eq!(given, number);
                        call.pushed[lane].push((now, len));
                    }
                }
            },
            |side, now, event| match event {
                Event::Target { made, .. } if side == 0 => call.borrow_mut().told(made),
                Event::Adu { lane, number, .. } => {
                    call.borrow_mut().came(now, lane, number as usize);
                }
                _ => {}
            },
        );
        seconds.push((world.arrived[1] - before) as f64 * 8.0);
    }
    (call.into_inner(), seconds)
}

/// The same over TCP, by an application that always makes so much, and skips what its socket's 64 KiB have no room for.
pub fn over_tcp<P: Profile>(path: &Impairments, random: &mut Random, made: Made) -> Call {
    let mut tcp = Tcp::new(bottleneck(COURSE[0].1, path), random.fork());
    let mut call = Call::new::<P>();
    let mut coder = random.fork();
    let mut now = Instant::ZERO;
    while now < at(END) {
        if let Some((_, bits)) = COURSE.iter().find(|(second, _)| at(*second) == now) {
            *tcp.impairments_mut() = bottleneck(*bits, path);
        }
        for (lane, len) in call.due(now, made, &mut coder).into_iter().enumerate() {
            let Some(len) = len else { continue };
            if tcp.write(lane, call.pushed[lane].len(), len as u64, 64 << 10) {
                call.pushed[lane].push((now, len));
            }
        }
        let mut came = Vec::new();
        tcp.run(now, |lane, number| came.push((lane, number)));
        came.into_iter().for_each(|(lane, number)| call.came(now, lane, number));
        now += TICK;
    }
    call
}

/// What share of each part's capacity was used, from five seconds after its step on.
pub fn shares(seconds: &[f64]) -> [f64; 4] {
    std::array::from_fn(|n| {
        let (from, bits) = COURSE[n];
        let until = COURSE.get(n + 1).map_or(END, |next| next.0);
        let part = &seconds[from as usize + 5..until as usize];
        part.iter().sum::<f64>() / part.len() as f64 / bits as f64
    })
}
