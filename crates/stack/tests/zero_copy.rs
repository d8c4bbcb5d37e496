//! Frames that leave without a copy, and are lost or doubled on their way: what was sent arrives.

use std::sync::Arc;

use fusewire_device::udp::{self, Udp};
use fusewire_device::{Device, Region, TxFrame};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, Endpoint};

/// Loses every `lost`-th frame with payload and sends every `doubled`-th call's frames twice.
struct Bad {
    inner: Udp,
    lost: usize,
    doubled: usize,
    frames: usize,
    calls: usize,
}

impl Bad {
    fn new(lost: usize, doubled: usize) -> Bad {
        let inner = Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap();
        Bad { inner, lost, doubled, frames: 0, calls: 0 }
    }
}

impl Device for Bad {
    fusewire_device::forward!(self => self.inner; caps local_addr transmit region takes_memory);
    fusewire_device::forward!(self => self.inner; receive wait waker as_fd poll_event);

    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        self.calls += 1;
        let mut start = 0;
        for i in 0..=frames.len() {
            let is_lost = frames.get(i).is_some_and(|frame| {
                self.frames += usize::from(frame.payload.len() > 200);
                frame.payload.len() > 200 && self.frames.is_multiple_of(self.lost)
            });
            if is_lost || i == frames.len() {
                self.inner.transmit_from(region, &frames[start..i])?;
                if self.calls.is_multiple_of(self.doubled) {
                    self.inner.transmit_from(region, &frames[start..i])?;
                }
                start = i + 1;
            }
        }
        Ok(frames.len())
    }
}

fn transfer(lost: usize, doubled: usize, datagram_bytes: usize, adu_len: usize, adus: usize) {
    let dir = std::env::temp_dir().join(format!("fusewire-zero-{}-{adu_len}", std::process::id()));
    let identity = Arc::new(Identity::load_or_create(&dir.join("key")).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    let config = Config { datagram_bytes: Some(datagram_bytes), ..Config::default() };
    let bad = Bad::new(lost, doubled);
    let server = Endpoint::new(Box::new(bad), config.clone()).unwrap();
    let listener = server.listen(ServerConfig::new(identity.clone())).unwrap();
    let address = server.local_addr();
    let body = move |i: usize| -> Vec<u8> {
        (0..adu_len).map(|at| (i * 7 + at + (at >> 8)) as u8).collect()
    };
    let sender = std::thread::spawn(move || {
        let connection = listener.accept().unwrap();
        let mut sent = 0;
        while sent < adus {
            let bodies: Vec<_> = (sent..adus.min(sent + 64)).map(body).collect();
            connection.send_batch(bodies.iter().map(Vec::as_slice)).unwrap();
            sent += bodies.len();
        }
        let remote = connection.remote_addr().unwrap();
        let takes = server.with_stack(|s| s.device().takes_memory(remote));
        let info = connection.info().unwrap();
        connection.finish().unwrap();
        (takes, info)
    });
    let trust = Trust::Pinned(identity.fingerprint());
    let client = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let connection = client.connect(address, &ClientConfig::new(identity, trust)).unwrap();
    for i in 0..adus {
        let adu = connection.recv_adu().unwrap().expect("more is to come");
        assert!(adu == body(i), "ADU {i} of {adus} is not what was sent");
        connection.recycle(adu);
    }
    assert!(connection.recv_adu().unwrap().is_none());
    connection.finish().unwrap();
    let (takes, info) = sender.join().unwrap();
    assert!(info.counters.retransmissions > 0, "nothing was lost");
    let copies = udp::OLDEST_ZERO_COPY_KERNEL.require("").is_err();
    assert!(takes || copies, "every frame was copied");
}

#[test]
fn many_small_frames() {
    transfer(97, 5, 1452, 1388, 8000);
}

#[test]
fn large_frames() {
    transfer(23, 3, 65_507, 65_443, 400);
}
