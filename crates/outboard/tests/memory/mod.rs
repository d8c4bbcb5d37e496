//! An outboard in a thread of the test's, over an interface in memory.

// Each test takes what it needs.
#![allow(dead_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fusewire_device::Waker;
use fusewire_device::interface::memory::{Config, Memory, pair};
use fusewire_device::interface::{Capabilities, Interface, Link, RxPacket, TxPacket};
use fusewire_outboard::client::Client;
use fusewire_outboard::server::{Server, Settings, Stop};
use fusewire_stack::Clock;
use fusewire_stack::ip::{self, Stack};
use fusewire_testkit::scratch::Scratch;

/// Two ends of a link of IP packets.
pub fn link() -> (Memory, Memory) {
    pair(Config { link: Link::Ip, ..Config::default() }).unwrap()
}

/// One of them that may be full.
pub struct Full {
    pub inner: Memory,
    pub is_full: Arc<AtomicBool>,
}

impl Interface for Full {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        if self.is_full.load(Ordering::Relaxed) { Ok(0) } else { self.inner.transmit(packets) }
    }
    fn receive(&mut self) -> io::Result<usize> {
        self.inner.receive()
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.inner.packet(index)
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.inner.wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
    fn dropped(&self) -> u64 {
        self.inner.dropped()
    }
}

/// A stack at 10.0.0.`host`.
pub fn stack(interface: impl Interface + 'static, host: u8, clock: &Clock) -> Stack {
    let mut net = Stack::net_config(&interface);
    net.addresses = vec![format!("10.0.0.{host}/24").parse().unwrap()];
    Stack::new(Box::new(interface), net, ip::Config::default(), [host; 32], clock.now())
}

/// An outboard, which ends with this.
pub struct Outboard {
    pub path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    _folder: Scratch,
}

impl Outboard {
    /// One at 10.0.0.`host`, with the settings that are made of those by default.
    pub fn start(
        host: u8,
        interface: impl Interface + 'static,
        settings: impl FnOnce(Settings) -> Settings,
    ) -> Outboard {
        let (folder, clock) = (Scratch::new(), Clock::new());
        let path = folder.path().join("socket");
        let settings = settings(Settings::at(&path));
        let mut server = Server::new(stack(interface, host, &clock), clock, settings).unwrap();
        let stop = server.stop();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Outboard { path, stop, thread, _folder: folder }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.path).unwrap()
    }
}

impl Drop for Outboard {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().unwrap().join();
    }
}
