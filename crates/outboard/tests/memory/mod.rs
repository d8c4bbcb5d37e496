//! An outboard in a thread of the test's, over an interface in memory.

// Each test takes what it needs.
#![allow(dead_code)]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fusewire_device::interface::memory::{Config, Memory, pair};
use fusewire_device::interface::{Around, Interface, Link, TxPacket};
use fusewire_outboard::client::Client;
use fusewire_outboard::server::{Commands, Server, Settings, Stop};
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

impl Around for Full {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        if self.is_full.load(Ordering::Relaxed) { Ok(0) } else { self.inner.transmit(packets) }
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
    pub commands: Arc<Commands>,
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
        let (stop, commands) = (server.stop(), server.commands());
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Outboard { path, commands, stop, thread, _folder: folder }
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
