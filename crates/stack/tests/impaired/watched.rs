//! Somebody sees all frames, and looks for records in them.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, TxFrame};
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{HeaderProtection, RecordHeader};

use crate::world::{A, B, World, carry, close, small};

const TAG_LEN: usize = 16;

/// Keeps what it sends.
struct Watched {
    inner: memory::Memory,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Device for Watched {
    fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        let payloads = frames.iter().map(|frame| frame.payload.to_vec());
        self.seen.lock().unwrap().extend(payloads.filter(|payload| !payload.is_empty()));
        self.inner.transmit(frames)
    }
}

/// The lengths of bodies that the watcher finds, and the lengths of all payloads: of ADUs of many lengths, then the end.
fn watch(protection: Option<HeaderProtection>) -> (Vec<usize>, Vec<usize>) {
    let network = Network::new(memory::Config::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let [a, b] = [A, B].map(|addr| Watched {
        inner: network.attach(addr.parse().unwrap()).unwrap(),
        seen: seen.clone(),
    });
    let clock = Arc::new(AtomicU64::new(1));
    let mut world = World::asking(protection, Box::new(a), Box::new(b), clock, &small());
    world.connect();
    seen.lock().unwrap().clear();
    for n in 0..200 {
        // One record a TPDU: nothing waits for another.
        carry(&mut world, n..n + 1, 30.0, |n| vec![n as u8; 1 + n]);
    }
    close(&mut world);
    let seen = seen.lock().unwrap();
    let mut found = Vec::new();
    for payload in &*seen {
        let mut rest = &payload[..];
        // Also where several are in one.
        while let Ok(header) = RecordHeader::parse(rest)
            && let Some(after) = rest.get(HEADER_LEN + header.body_len as usize + TAG_LEN..)
        {
            found.push(header.body_len as usize);
            rest = after;
        }
    }
    (found, seen.iter().map(Vec::len).collect())
}

#[test]
fn a_watcher_finds_no_type_and_no_length() {
    let (found, _) = watch(None);
    let expected: Vec<_> = (1..=200).collect();
    assert!(found.starts_with(&expected), "in the clear all of them are found: {found:?}");
    let (found, seen) = watch(HeaderProtection::with_padding(1));
    assert!(found.is_empty(), "{found:?}");
    assert!(seen.contains(&(HEADER_LEN + 77 + TAG_LEN)), "and the TPDU says it still");
    let (found, seen) = watch(HeaderProtection::with_padding(256));
    assert!(found.is_empty(), "{found:?}");
    let record = HEADER_LEN + 256 + TAG_LEN;
    assert!(seen.len() > 200 && seen.iter().all(|len| *len == record), "{seen:?}");
}
