//! A path between both programs, as between two hosts: whoever asks is told of it in place of the one that answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fusewire_device::udp::Udp;
use fusewire_device::{Device, RxBatch, TxFrame, sleep};
use rustix::event::{PollFd, PollFlags};

use crate::transfer::Impairment;
use crate::{Error, Result};

/// Super-packets of a turn.
const SLOTS: usize = 8;
/// How long nobody looks whether it is over.
const LOOKS: Duration = Duration::from_millis(20);

/// The path, until this is dropped.
pub struct Between {
    /// Where whoever asks finds it.
    pub at: SocketAddr,
    is_over: Arc<AtomicBool>,
    carries: Option<JoinHandle<()>>,
}

impl Between {
    /// A path to a server of this host. The same seed loses the same packets of each way, by their places.
    ///
    /// # Errors
    /// A socket cannot be had.
    pub fn new(server: SocketAddr, what: &Impairment, seed: u64) -> Result<Between> {
        let socket = |seed| {
            let any = (Ipv4Addr::LOCALHOST, 0).into();
            let socket = Udp::bind(any, &Default::default());
            let socket = socket.map_err(Error::os("binding a socket of the path"))?;
            Ok::<_, Error>(what.before(Box::new(socket), seed))
        };
        let (mut near, mut far) = (socket(2 * seed)?, socket(2 * seed + 1)?);
        let (at, is_over) = (near.local_addr(), Arc::<AtomicBool>::default());
        let ends = is_over.clone();
        let carries = std::thread::spawn(move || {
            let (mut batch, mut client) = (RxBatch::new(SLOTS), None);
            while !ends.load(Ordering::Relaxed) {
                let forth = carry(&mut *near, &mut *far, &mut batch, |peer| {
                    client = Some(peer);
                    Some(server)
                });
                let back = carry(&mut *far, &mut *near, &mut batch, |_| client);
                if !forth && !back {
                    rest([&*near, &*far]);
                }
            }
        });
        Ok(Between { at, is_over, carries: Some(carries) })
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.carries.take().map(JoinHandle::join);
    }
}

/// Carries what waits at one socket on from the other, to whom `to` says; whether there was something. What cannot be sent is
/// lost, as on a path.
fn carry(
    from: &mut dyn Device,
    on: &mut dyn Device,
    batch: &mut RxBatch,
    mut to: impl FnMut(SocketAddr) -> Option<SocketAddr>,
) -> bool {
    if !matches!(from.receive(batch), Ok(1..)) {
        return false;
    }
    for packet in batch.iter() {
        let Some(peer) = to(packet.peer) else { continue };
        for frame in packet.frames() {
            let _ = on.transmit(&[TxFrame { peer, header: frame, payload: &[], ecn: packet.ecn }]);
        }
    }
    true
}

/// Until something comes, or is due.
fn rest(both: [&dyn Device; 2]) {
    let due = both.iter().filter_map(|device| device.next_timeout()).min();
    let mut waits: Vec<_> = both
        .iter()
        .filter_map(|device| device.as_fd())
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let _ = sleep(&mut waits, Some(due.unwrap_or(LOOKS).min(LOOKS)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Of what goes over it both ways some is lost, the same of the same seed, and what comes does so after half a round trip.
    #[test]
    fn a_path_loses_by_its_seed_and_delays() {
        let what = Impairment { loss: 0.2, round_trip: Duration::from_millis(8), rate: None };
        let which = |seed| {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            let path = Between::new(server.local_addr().unwrap(), &what, seed).unwrap();
            for socket in [&server, &client] {
                socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            }
            let (mut came, mut bytes) = (Vec::new(), [0; 8]);
            for number in 0..40u8 {
                client.send_to(&[number], path.at).unwrap();
            }
            while let Ok((_, peer)) = server.recv_from(&mut bytes) {
                came.push(bytes[0]);
                server.send_to(&bytes[..1], peer).unwrap();
            }
            let mut back = Vec::new();
            while let Ok((1, from)) = client.recv_from(&mut bytes) {
                assert_eq!(from, path.at);
                back.push(bytes[0]);
            }
            (came, back)
        };
        let (came, back) = which(1);
        assert!((20..40).contains(&came.len()), "{came:?}");
        assert!(!back.is_empty() && back.len() < came.len(), "{back:?} of {came:?}");
        assert_eq!(which(1), (came.clone(), back));
        assert_ne!(which(2).0, came);
    }
}
