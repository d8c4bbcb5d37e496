//! Two ends of one session on a virtual clock, and a link each way.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_service::datagram::{End, Event};
use fusewire_service::profile::Profile;
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{Cipher, DataPass, Datagrams, Swap};
use fusewire_testkit::{Impairments, Link, Packet, Random};

pub const TICK: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub struct Bytes(pub Vec<u8>);

impl Packet for Bytes {
    fn len_bytes(&self) -> usize {
        self.0.len() + 28
    }
    fn corrupt(&mut self, random: &mut Random) {
        let at = random.below(self.0.len() as u64) as usize;
        self.0[at] ^= 1 << random.below(8);
    }
    fn mark(&mut self) -> bool {
        false
    }
}

/// What a session would give its two ends.
pub fn keys() -> [Datagrams; 2] {
    let like = || RecordParams::new(Cipher::AES_128_GCM, Swap::None, 1 << 16, DataPass::detect());
    let secret = |byte| TrafficSecret::from_bytes([byte; 32]);
    [(1, 2), (2, 1)].map(|(own, peer)| Datagrams {
        id: 0x1234_5678,
        sender: NumberedSender::new(like(), secret(own)).unwrap(),
        receiver: NumberedReceiver::new(like(), secret(peer)).unwrap(),
    })
}

/// Two ends of one profile.
pub struct World<P> {
    pub ends: [End<P>; 2],
    /// From each to the other.
    pub links: [Link<Bytes>; 2],
    pub now: Instant,
    /// Bytes that each got.
    pub arrived: [u64; 2],
}

impl<P: Profile> World<P> {
    pub fn new(links: [Impairments; 2], random: &mut Random) -> World<P> {
        World {
            ends: keys().map(|keys| End::new(Instant::ZERO, keys).unwrap()),
            links: links.map(|link| Link::new(link, random.fork())),
            now: Instant::ZERO,
            arrived: [0; 2],
        }
    }

    /// Until then: `app` is called each millisecond with each end, and `told` with what it is told.
    pub fn run(
        &mut self,
        until: Instant,
        mut app: impl FnMut(usize, Instant, &mut End<P>),
        mut told: impl FnMut(usize, Instant, Event<'_>),
    ) {
        let mut out = vec![0; P::MTU];
        while self.now < until {
            let now = self.now;
            for at in 0..2 {
                while let Some(Bytes(datagram)) = self.links[1 - at].poll(now) {
                    self.arrived[at] += datagram.len() as u64 + 28;
                    self.ends[at].handle_datagram(now, &datagram, 0);
                }
                let end = &mut self.ends[at];
                end.handle_timeout(now);
                app(at, now, end);
                while let Some(event) = end.poll_event(now) {
                    told(at, now, event);
                }
                while let Some(len) = end.poll_transmit(now, &mut out).unwrap() {
                    self.links[at].send(now, Bytes(out[..len].to_vec()));
                }
            }
            self.now += TICK;
        }
    }
}

/// An ADU whose bytes follow from its number, so that it can be checked.
pub fn adu(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize * 31 + at * 7 + (at >> 8)) as u8).collect()
}
