//! Sockets for programs in Rust whose protocol runs inline or in an outboard: one word of configuration chooses, and the program
//! stays as it is.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use fusewire_outboard::sockets::Sockets;
//!
//! // "outboard:/run/fusewire.sock", or "packet:eth0 10.0.0.2/24 10.0.0.1"
//! let word = std::env::args().nth(1).unwrap_or_default();
//! let sockets = Sockets::open(&word.parse()?)?;
//! let stream = sockets.tcp_connect("10.0.0.9:80".parse().unwrap())?;
//! stream.send(b"GET / HTTP/1.0\r\n\r\n")?;
//! # Ok(())
//! # }
//! ```
//! Calls are those of [`ip::Host`]'s handles, and so are the kinds of their errors. What an outboard cannot do, because its stack
//! is in another process (pipelines in the loop that sums, messages that are marshalled there, memory that is sent without a
//! copy), is called on the variant that is inline. With the feature `tokio` the same sockets serve tasks.

mod datagrams;
mod streams;
#[cfg(feature = "tokio")]
mod tasks;
mod words;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fusewire_stack::ip;
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;

pub use datagrams::UdpSocket;
pub use streams::{TcpListener, TcpStream};
#[cfg(feature = "tokio")]
pub use tasks::{AsyncTcpListener, AsyncTcpStream, AsyncUdpSocket};
pub use words::{Inline, Settings, observe};

use crate::client::{self, Outboard};
use crate::protocol::{Family, Kind, SocketType};

/// The place where sockets come from. Clones are the same place.
#[derive(Clone)]
pub enum Sockets {
    /// A stack of this process.
    Inline(Arc<Inline>),
    /// That of an outboard.
    Outboard(Arc<Outboard>),
}

impl Sockets {
    /// Opens what is said.
    ///
    /// # Errors
    /// `InvalidInput`: the words mean nothing; `NetworkDown`: no outboard is there; what the kernel says of the interface.
    pub fn open(settings: &Settings) -> io::Result<Sockets> {
        Ok(match settings.outboard()? {
            Some(path) => Sockets::Outboard(attach(&path)?),
            None => Sockets::Inline(Arc::new(Inline::open(settings)?)),
        })
    }

    /// Takes connections to `local`.
    ///
    /// # Errors
    /// As [`ip::Host::tcp_listen`].
    pub fn tcp_listen(&self, local: SocketAddr, backlog: usize) -> io::Result<TcpListener> {
        TcpListener::bind(self, local, backlog)
    }

    /// Connects, and waits until that is done.
    ///
    /// # Errors
    /// As [`ip::Host::tcp_connect`].
    pub fn tcp_connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(self, remote)
    }

    /// A socket for messages.
    ///
    /// # Errors
    /// As [`ip::Host::udp_bind`].
    pub fn udp_bind(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind(self, local)
    }
}

/// Attaches to the outboard whose socket lies at `path`, and says in words why not.
///
/// # Errors
/// As [`Outboard::at`].
pub fn attach(path: &Path) -> io::Result<Arc<Outboard>> {
    Outboard::at(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NetworkDown => "there is none".into(),
            io::ErrorKind::PermissionDenied => "it is not for this user".into(),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("outboard at {}: {why}", path.display()))
    })
}

/// A socket of an outboard's for addresses like `address`.
fn made(outboard: &Arc<Outboard>, kind: Kind, address: SocketAddr) -> io::Result<client::Socket> {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    Ok(outboard.socket(SocketType { family, kind })?)
}

/// A call that waited for as long as it may says so as an inline one does.
fn waited<T>(result: Result<T, Errno>) -> io::Result<T> {
    result.map_err(|errno| match errno {
        Errno::AGAIN => ip::Error::TimedOut.into(),
        errno => errno.into(),
    })
}

fn set_timeouts(
    socket: &client::Socket,
    read: Option<Duration>,
    write: Option<Duration>,
) -> io::Result<()> {
    socket.set_timeout(Timeout::Recv, read)?;
    Ok(socket.set_timeout(Timeout::Send, write)?)
}
