//! Devices that need nothing but an address, by name: what `--device` and the benchmarks know of them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::SocketAddr;

use crate::Device;
use crate::udp::{self, Config};

/// Binds one to an address.
pub type Bind = fn(SocketAddr, &Config) -> io::Result<Box<dyn Device>>;

/// One of them.
pub struct Entry {
    /// As the user chooses it, and as [`Capabilities::name`](crate::Capabilities::name) says.
    pub name: &'static str,
    bind: Bind,
}

/// All of them, the default first.
pub static ALL: &[Entry] = &[
    Entry { name: "udp", bind: |addr, config| Ok(Box::new(udp::Udp::bind(addr, config)?)) },
    #[cfg(feature = "io-uring")]
    Entry { name: "io-uring", bind: |addr, config| Ok(Box::new(udp::Uring::bind(addr, config)?)) },
];

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// Binds one to `addr`.
    ///
    /// # Errors
    /// The address cannot be bound, no descriptor is left, or the kernel does not let us have it.
    pub fn bind(&self, addr: SocketAddr, config: &Config) -> io::Result<Box<dyn Device>> {
        (self.bind)(addr, config)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
