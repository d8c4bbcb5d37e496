//! A path between two ends on this host, as there is one between two hosts: as long, as narrow and as lossy as it is told to be, both
//! ways the same. Examples that run alone go over it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes around a datagram: headers of UDP and IPv4.
const AROUND: usize = 28;

/// What it carries now, in bits a second.
pub type Rate = Arc<AtomicU64>;

/// What a way does with what it carries.
#[derive(Clone)]
pub struct Way {
    pub rate: Rate,
    /// From where it was taken to where it comes out, beside what it waits.
    pub delay: Duration,
    /// How long a datagram may wait for those before it.
    pub queue: Duration,
    /// The share that is lost by chance, and how many are lost in a row.
    pub loss: f64,
    pub row: u32,
}

/// Carries what comes to the one socket on from the other, until the program ends. `peers` is who is at each; who is not known is
/// whoever says something first.
pub fn carry(sockets: [UdpSocket; 2], peers: [Option<SocketAddr>; 2], way: &Way) -> io::Result<()> {
    let peers = peers.map(|peer| Arc::new(Mutex::new(peer)));
    for at in 0..2 {
        let (from, to) = (sockets[at].try_clone()?, sockets[1 - at].try_clone()?);
        let (near, far) = (peers[at].clone(), peers[1 - at].clone());
        let (held, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        let mut way = Carrying::new(way.clone());
        thread::spawn(move || {
            let mut memory = [0; 1 << 16];
            loop {
                let (len, peer) = match from.recv_from(&mut memory) {
                    Ok(came) => came,
                    // That nobody was there for what was sent before is no end of what comes.
                    Err(error) if is_passing(&error) => continue,
                    Err(_) => break,
                };
                if let Ok(mut near) = near.lock() {
                    near.get_or_insert(peer);
                }
                let fate = way.take(Instant::now(), len);
                if fate.is_some_and(|at| held.send((at, memory[..len].to_vec())).is_err()) {
                    break;
                }
            }
        });
        thread::spawn(move || {
            for (at, datagram) in due {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                let peer = far.lock().ok().and_then(|peer| *peer);
                let _ = peer.map(|peer| to.send_to(&datagram, peer));
            }
        });
    }
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused)
}

/// A way and what has happened on it.
struct Carrying {
    way: Way,
    /// When all that was taken has left.
    busy: Instant,
    /// Of a row that is being lost.
    losing: u32,
    state: u64,
}

impl Carrying {
    fn new(way: Way) -> Carrying {
        Carrying { way, busy: Instant::now(), losing: 0, state: 19 }
    }

    /// When a datagram comes out, if it does.
    fn take(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Way { delay, queue, loss, row, .. } = self.way;
        let busy = self.busy.max(now);
        if busy - now > queue {
            return None;
        }
        let bits = ((len + AROUND) * 8) as f64;
        self.busy =
            busy + Duration::from_secs_f64(bits / self.way.rate.load(Ordering::Relaxed) as f64);
        if self.losing == 0 && self.draw() < loss / f64::from(row) {
            self.losing = row;
        }
        if self.losing > 0 {
            self.losing -= 1;
            return None;
        }
        Some(self.busy + delay)
    }

    /// From 0 to 1, by splitmix64.
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}
