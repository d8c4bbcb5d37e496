//! A peer whose address changes, and those who only say so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, RxBatch, TxFrame, Waker};

use crate::world::{A, B, C, World, close, small, transfer, transfer_from};

/// Sends from another address after `moved` is set.
struct Moving {
    here: memory::Memory,
    there: memory::Memory,
    moved: Arc<std::sync::atomic::AtomicBool>,
}

impl Moving {
    fn now(&mut self) -> &mut memory::Memory {
        if self.moved.load(Ordering::Relaxed) { &mut self.there } else { &mut self.here }
    }
}

impl Device for Moving {
    fn caps(&self) -> &fusewire_device::Capabilities {
        self.here.caps()
    }
    fn local_addr(&self) -> SocketAddr {
        self.here.local_addr()
    }
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        self.now().transmit(frames)
    }
    fn receive(&mut self, batch: &mut RxBatch) -> std::io::Result<usize> {
        self.now().receive(batch)
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> std::io::Result<bool> {
        self.now().wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.here.waker()
    }
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.here.as_fd()
    }
}

#[test]
fn a_peer_whose_address_changes_is_followed() {
    let network = Network::new(memory::Config::default());
    let moved = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let here = network.attach(A.parse().unwrap()).unwrap();
    let there = network.attach(C.parse().unwrap()).unwrap();
    let a = Moving { here, there, moved: moved.clone() };
    let b = network.attach(B.parse().unwrap()).unwrap();
    let mut world = World::with(Box::new(a), Box::new(b), Arc::new(AtomicU64::new(1)), &small());
    world.connect();
    transfer(&mut world, 100);
    moved.store(true, Ordering::Relaxed);
    transfer_from(&mut world, 100, 200);
    assert_eq!(world.server.remote_addr(world.served.unwrap()), Some(C.parse().unwrap()));
    close(&mut world);
}
