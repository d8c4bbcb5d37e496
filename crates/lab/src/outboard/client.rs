//! An outboard's sockets, as a library has them that gives them to programs.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use fusewire_outboard::client::{self, Client, Leaving, Rings, Way};
use fusewire_outboard::protocol::{
    Family, HEADING_LEN, Handle, Heading, Kind, OptionName, SocketType,
};
use rustix::net::{RecvFlags, SendFlags};

use super::application;
use super::kernel::UDP_BUFFER;
use super::task::{self, Task};
use crate::{Error, Result};

/// `TCP_NODELAY`, as the kernel numbers it.
const NODELAY: OptionName = OptionName { level: 6, name: 1 };
/// `SO_RCVBUF`, likewise.
const RECEIVE_BUFFER: OptionName = OptionName { level: 1, name: 8 };

pub struct Sockets {
    client: Client,
    rings: Rings,
}

/// A stream, whose bytes go through rings of shared memory once it has moved some.
pub struct Stream<'c> {
    sockets: &'c Sockets,
    p: OwnedFd,
    handle: Handle,
    way: Way,
    spins: bool,
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.sockets.rings.close(self.p.as_fd(), &self.way);
    }
}

/// A socket for datagrams, which go through such rings too.
pub struct Datagrams<'c> {
    sockets: &'c Sockets,
    p: OwnedFd,
    handle: Handle,
    way: Way,
}

impl Drop for Datagrams<'_> {
    fn drop(&mut self) {
        self.sockets.rings.close(self.p.as_fd(), &self.way);
    }
}

/// Messages of one length to one peer, one behind the other.
struct Equal<'a> {
    bytes: &'a [u8],
    size: usize,
    to: SocketAddr,
}

impl Leaving for Equal<'_> {
    fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.size)
    }
    fn with<T>(
        &self,
        at: usize,
        f: impl FnOnce(&[IoSlice<'_>], Heading) -> client::Result<T>,
    ) -> client::Result<T> {
        let begin = at * self.size;
        let end = self.bytes.len().min(begin + self.size);
        f(&[IoSlice::new(&self.bytes[begin..end])], Some(self.to).into())
    }
}

fn os(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::os(action)(errno.into())
}

fn type_of(at: SocketAddr, kind: Kind) -> SocketType {
    SocketType { family: if at.is_ipv4() { Family::V4 } else { Family::V6 }, kind }
}

impl Sockets {
    pub fn open(task: &Task) -> Result<Sockets> {
        let board = task.board.as_ref();
        Sockets::at(&board.ok_or_else(|| Error::Unsupported("no outboard runs".into()))?.socket)
    }

    /// Those of the outboard at `path`.
    pub fn at(path: &Path) -> Result<Sockets> {
        let client = Client::new(path).map_err(Error::os("looking for the outboard"))?;
        Ok(Sockets { client, rings: Rings::new().map_err(Error::os("taking memory"))? })
    }

    /// A stream to `peer`; its calls do not wait where it `spins`.
    pub fn stream_to(&self, peer: SocketAddr, spins: bool) -> Result<Stream<'_>> {
        let opened = self.client.socket(type_of(peer, Kind::Stream));
        let (p, handle) = opened.map_err(os("opening a socket"))?;
        self.client.connect(p.as_fd(), handle, Some(peer)).map_err(os("connecting"))?;
        self.client.connected(p.as_fd(), handle).map_err(os("connecting"))?;
        Ok(self.stream(p, handle, spins))
    }

    fn stream(&self, p: OwnedFd, handle: Handle, spins: bool) -> Stream<'_> {
        Stream { sockets: self, p, handle, way: Way::default(), spins }
    }
}

impl<'c> task::Sockets for &'c Sockets {
    type Stream = Stream<'c>;
    type Datagrams = Datagrams<'c>;

    fn accept(&self, task: &Task, ready: impl FnOnce() -> Result<()>) -> Result<Stream<'c>> {
        let opened = self.client.socket(type_of(task.local, Kind::Stream));
        let (listener, handle) = opened.map_err(os("opening a socket"))?;
        self.client.bind(handle, task.local).map_err(os("binding"))?;
        self.client.listen(handle, 1).map_err(os("listening"))?;
        ready()?;
        let accepted = client::accept(listener.as_fd(), true).map_err(os("accepting"))?;
        Ok(self.stream(accepted.p, accepted.handle, task.spins))
    }

    fn connect(&self, task: &Task) -> Result<Stream<'c>> {
        self.stream_to(task.peer, task.spins)
    }

    fn bind(&self, task: &Task) -> Result<Datagrams<'c>> {
        let opened = self.client.socket(type_of(task.local, Kind::Datagram));
        let (p, handle) = opened.map_err(os("opening a socket"))?;
        self.client.bind(handle, task.local).map_err(os("binding"))?;
        let room = (UDP_BUFFER as i32).to_ne_bytes();
        let set = self.client.set_option(handle, RECEIVE_BUFFER, &room);
        set.map_err(os("asking for a receive buffer"))?;
        Ok(Datagrams { sockets: self, p, handle, way: Way::default() })
    }
}

impl application::Stream for Stream<'_> {
    fn set_nodelay(&mut self) -> Result<()> {
        let set = self.sockets.client.set_option(self.handle, NODELAY, &1i32.to_ne_bytes());
        set.map_err(os("asking for no delay"))
    }
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let wait = if self.spins { SendFlags::DONTWAIT } else { SendFlags::empty() };
        let (Sockets { client, rings }, stream) = (self.sockets, self.stream());
        Ok(rings.send(client, stream, pieces, wait | SendFlags::NOSIGNAL)?)
    }
    fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wait = if self.spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let Sockets { client, rings } = self.sockets;
        Ok(rings.recv(client, self.stream(), pieces, wait)?)
    }
}

impl Stream<'_> {
    /// As calls name it.
    fn stream(&self) -> (BorrowedFd<'_>, Handle, &Way) {
        (self.p.as_fd(), self.handle, &self.way)
    }
}

impl application::Datagrams for Datagrams<'_> {
    fn send(&mut self, bytes: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        let (Sockets { client, rings }, all) = (self.sockets, Equal { bytes, size, to });
        Ok(rings.send_datagrams(client, self.socket(), &all, SendFlags::NOSIGNAL)?)
    }
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut heading = [0; HEADING_LEN];
        let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(into)];
        let Sockets { client, rings } = self.sockets;
        let came = rings.recv_from(client, self.socket(), &mut pieces, RecvFlags::DONTWAIT)?;
        let ended = || io::Error::from(io::ErrorKind::NotConnected);
        came.map(|came| came.len).ok_or_else(ended)
    }
}

impl Datagrams<'_> {
    /// As calls name it.
    fn socket(&self) -> (BorrowedFd<'_>, Handle, &Way) {
        (self.p.as_fd(), self.handle, &self.way)
    }
}
