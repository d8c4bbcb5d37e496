//! An outboard in a thread of the test's, for programs that attach to it.

use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use fusewire_device::interface::memory::{Config, Memory, pair};
use fusewire_device::interface::{Around, Interface, Link, TxPacket};
use fusewire_outboard::server::{Server, Settings, Stop};
use fusewire_stack::{Clock, ip, on_interface};

pub struct Outboard {
    path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Outboard {
    /// On an interface, with this address of its own; loopback leads back.
    pub fn new(interface: &str, address: &str) -> Outboard {
        let own = on_interface::Own { address: address.parse().unwrap(), gateway: None };
        let settings = on_interface::Settings {
            name: interface.parse().unwrap(),
            own: vec![own],
            carrier: on_interface::Carrier::Udp,
        };
        let config = ip::Config { loopback: true, ..ip::Config::default() };
        let (stack, clock) = on_interface::stack(&settings, config).unwrap();
        Outboard::of(stack, clock, &interface.replace(':', "-"))
    }

    /// Two at 10.81.0.2 and 10.81.0.3. The second packet that is long and leaves the first of them is lost.
    pub fn two_that_lose() -> [Outboard; 2] {
        let config = Config { link: Link::Ip, segmentation: false, ..Config::default() };
        let (a, b) = pair(config).unwrap();
        let ends: [Box<dyn Interface>; 2] = [Box::new(Loses(a, false)), Box::new(b)];
        let mut host = 1;
        ends.map(|interface| {
            host += 1;
            let (mut net, clock) = (ip::Stack::net_config(&*interface), Clock::new());
            net.addresses = vec![format!("10.81.0.{host}/24").parse().unwrap()];
            let config = ip::Config::default();
            let stack = ip::Stack::new(interface, net, config, [host; 32], clock.now());
            Outboard::of(stack, clock, &format!("loses-{host}"))
        })
    }

    fn of(stack: ip::Stack, clock: Clock, name: &str) -> Outboard {
        let path = std::env::temp_dir().join(format!("fw-{name}-{}", std::process::id()));
        let mut server = Server::new(stack, clock, Settings::at(&path)).unwrap();
        let stop = server.stop();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Outboard { path, stop, thread }
    }

    /// The word for it.
    pub fn device(&self) -> String {
        format!("outboard:{}", self.path.display())
    }
}

/// An interface that loses the first packet with the mark in it, and whether it has: a long one may also be one that looks for
/// the size of the path.
struct Loses(Memory, bool);

/// What `gone.c` has in its long message.
const MARK: [u8; 8] = [b'L'; 8];

impl Around for Loses {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.0
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        for packet in packets {
            let is_marked = |piece: &&[u8]| piece.windows(MARK.len()).any(|bytes| bytes == MARK);
            if !self.1 && packet.payload.iter().any(|piece| is_marked(&&**piece)) {
                self.1 = true;
                continue;
            }
            self.0.transmit(std::slice::from_ref(packet))?;
        }
        Ok(packets.len())
    }
}

impl Drop for Outboard {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().unwrap().join();
    }
}
