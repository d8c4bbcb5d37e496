//! Messages over UDP: one in each datagram.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fusewire_stack::ip;

use crate::transport::{Arrival, Transport, is_timeout};

/// Bytes of the longest message in an IPv4 datagram: 65,535 without the headers of IP and UDP.
const MESSAGE_LEN_MAX: usize = 65_507;

/// A UDP socket.
pub trait Socket {
    /// Only datagrams of `remote` from now on.
    ///
    /// # Errors
    /// The operating system's.
    fn connect(&mut self, remote: SocketAddr) -> io::Result<()>;

    /// Sends one datagram.
    ///
    /// # Errors
    /// The operating system's.
    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()>;

    /// Receives one datagram; waits at most `patience`.
    ///
    /// # Errors
    /// The operating system's; `WouldBlock` or `TimedOut` when the time is over.
    fn receive(
        &mut self,
        into: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<(usize, SocketAddr)>;
}

impl Socket for UdpSocket {
    fn connect(&mut self, remote: SocketAddr) -> io::Result<()> {
        UdpSocket::connect(self, remote)
    }

    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        self.send_to(bytes, to).map(drop)
    }

    fn receive(
        &mut self,
        into: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<(usize, SocketAddr)> {
        self.set_read_timeout(patience)?;
        self.recv_from(into)
    }
}

impl Socket for ip::UdpSocket {
    fn connect(&mut self, remote: SocketAddr) -> io::Result<()> {
        ip::UdpSocket::connect(self, remote)
    }

    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        self.send_to(bytes, to).map(drop)
    }

    fn receive(
        &mut self,
        into: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<(usize, SocketAddr)> {
        self.set_timeout(patience);
        let received = self.recv_from(into)?;
        Ok((received.len.min(into.len()), received.from))
    }
}

/// Messages in datagrams: of a client with one server, or of a server, which answers whoever asked last.
#[derive(Debug)]
pub struct Datagrams<S> {
    socket: S,
    remote: Option<SocketAddr>,
    from: Option<SocketAddr>,
    buffer: Box<[u8]>,
}

impl<S: Socket> Datagrams<S> {
    /// A client's, of a server at `remote`. What others send is not looked at.
    ///
    /// # Errors
    /// The operating system's.
    pub fn client(mut socket: S, remote: SocketAddr) -> io::Result<Self> {
        socket.connect(remote)?;
        Ok(Datagrams { socket, remote: Some(remote), from: None, buffer: memory() })
    }

    /// A server's.
    pub fn server(socket: S) -> Self {
        Datagrams { socket, remote: None, from: None, buffer: memory() }
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }
}

/// Room for the longest datagram and one byte more.
fn memory() -> Box<[u8]> {
    vec![0; 1 << 16].into_boxed_slice()
}

impl Datagrams<UdpSocket> {
    /// A client's on a kernel socket, of a server at `remote`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn connect(remote: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        Datagrams::client(UdpSocket::bind(any)?, remote)
    }
}

impl<S: Socket> Transport for Datagrams<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.remote.or(self.from) {
            Some(to) => self.socket.send(message, to),
            None => Err(io::Error::new(io::ErrorKind::NotConnected, "nobody has asked yet")),
        }
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.map(|left| left.max(Duration::from_millis(1)));
            match self.socket.receive(&mut self.buffer, left) {
                Ok((_, from)) if self.remote.is_some_and(|remote| remote != from) => {
                    if deadline.is_some_and(|at| at <= Instant::now()) {
                        return Ok(Arrival::Nothing);
                    }
                }
                Ok((len, from)) => {
                    self.from = Some(from);
                    message.clear();
                    message.extend_from_slice(&self.buffer[..len]);
                    return Ok(Arrival::Message);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Ok(Arrival::Nothing),
                // A server hears of a client that is gone; others are not.
                Err(error)
                    if self.remote.is_none()
                        && error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_reliable(&self) -> bool {
        false
    }

    fn message_len_max(&self) -> usize {
        MESSAGE_LEN_MAX
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.remote.or(self.from)
    }
}
