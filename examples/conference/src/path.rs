//! A path between two sockets of this host that is as narrow as it is told to be: both ways the same, with a queue of 300 ms.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(30);
const QUEUE: Duration = Duration::from_millis(300);
/// One of so many is lost by chance.
const LOST_OF: u64 = 200;

/// What it carries now, in bits a second.
pub type Rate = Arc<AtomicU64>;

struct Way {
    /// When all that was taken has left.
    busy: Instant,
    held: VecDeque<(Instant, Vec<u8>)>,
    carried: u64,
}

/// Carries what comes to the one socket on from the other, until the program ends. `peers` is who is at each.
pub fn carry(sockets: [UdpSocket; 2], peers: [SocketAddr; 2], rate: Rate) -> io::Result<()> {
    for socket in &sockets {
        socket.set_read_timeout(Some(Duration::from_millis(1)))?;
    }
    let way = || Way { busy: Instant::now(), held: VecDeque::new(), carried: 0 };
    let [first, second] = [way(), way()];
    for (at, mut way) in [first, second].into_iter().enumerate() {
        let (from, to) = (sockets[at].try_clone()?, sockets[1 - at].try_clone()?);
        let (peer, rate) = (peers[1 - at], rate.clone());
        std::thread::spawn(move || {
            let mut memory = [0; 2048];
            loop {
                way.send(&to, peer);
                if let Ok(len) = from.recv(&mut memory) {
                    way.take(&memory[..len], rate.load(Ordering::Relaxed));
                }
            }
        });
    }
    Ok(())
}

impl Way {
    fn take(&mut self, datagram: &[u8], bits: u64) {
        let now = Instant::now();
        let busy = self.busy.max(now);
        self.carried += 1;
        if busy - now > QUEUE {
            return;
        }
        let wire = (datagram.len() + 28) as f64 * 8.0;
        self.busy = busy + Duration::from_secs_f64(wire / bits as f64);
        if !self.carried.is_multiple_of(LOST_OF) {
            self.held.push_back((self.busy + DELAY, datagram.to_vec()));
        }
    }

    fn send(&mut self, to: &UdpSocket, peer: SocketAddr) {
        let now = Instant::now();
        while let Some((_, datagram)) = self.held.pop_front_if(|(at, _)| *at <= now) {
            let _ = to.send_to(&datagram, peer);
        }
    }
}
