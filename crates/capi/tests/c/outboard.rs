//! An outboard in a thread of the test's, for programs that attach to it.

use std::path::PathBuf;
use std::thread::JoinHandle;

use fusewire_outboard::server::{Server, Settings, Stop};
use fusewire_stack::{ip, on_interface};

pub struct Outboard {
    path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Outboard {
    /// On an interface, with this address of its own; loopback leads back.
    pub fn new(interface: &str, address: &str) -> Outboard {
        let name = format!("fw-{}-{}", interface.replace(':', "-"), std::process::id());
        let path = std::env::temp_dir().join(name);
        let own = on_interface::Own { address: address.parse().unwrap(), gateway: None };
        let settings = on_interface::Settings {
            name: interface.parse().unwrap(),
            own: vec![own],
            carrier: on_interface::Carrier::Udp,
        };
        let config = ip::Config { loopback: true, ..ip::Config::default() };
        let (stack, clock) = on_interface::stack(&settings, config).unwrap();
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

impl Drop for Outboard {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().unwrap().join();
    }
}
