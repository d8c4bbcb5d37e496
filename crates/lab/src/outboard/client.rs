//! An outboard's sockets, as a library has them that gives them to programs.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use fusewire_outboard::client::{self, Client};
use fusewire_outboard::protocol::{Family, Handle, Kind, OptionName, SocketType};
use rustix::net::{RecvFlags, SendFlags};

use super::application;
use super::task::{self, Task};
use crate::{Error, Result};

/// `TCP_NODELAY`, as the kernel numbers it.
const NODELAY: OptionName = OptionName { level: 6, name: 1 };

pub struct Sockets(Client);

pub struct Stream<'c> {
    client: &'c Client,
    p: OwnedFd,
    handle: Handle,
    spins: bool,
}

pub struct Datagrams {
    p: OwnedFd,
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
        let board = board.ok_or_else(|| Error::Unsupported("no outboard runs".into()))?;
        Ok(Sockets(Client::new(&board.socket).map_err(Error::os("looking for the outboard"))?))
    }

    fn stream(&self, p: OwnedFd, handle: Handle, task: &Task) -> Stream<'_> {
        Stream { client: &self.0, p, handle, spins: task.spins }
    }
}

impl<'c> task::Sockets for &'c Sockets {
    type Stream = Stream<'c>;
    type Datagrams = Datagrams;

    fn accept(&self, task: &Task, ready: impl FnOnce() -> Result<()>) -> Result<Stream<'c>> {
        let opened = self.0.socket(type_of(task.local, Kind::Stream));
        let (listener, handle) = opened.map_err(os("opening a socket"))?;
        self.0.bind(handle, task.local).map_err(os("binding"))?;
        self.0.listen(handle, 1).map_err(os("listening"))?;
        ready()?;
        let accepted = client::accept(listener.as_fd(), true).map_err(os("accepting"))?;
        Ok(self.stream(accepted.p, accepted.handle, task))
    }

    fn connect(&self, task: &Task) -> Result<Stream<'c>> {
        let opened = self.0.socket(type_of(task.peer, Kind::Stream));
        let (p, handle) = opened.map_err(os("opening a socket"))?;
        self.0.connect(p.as_fd(), handle, Some(task.peer)).map_err(os("connecting"))?;
        self.0.connected(p.as_fd(), handle).map_err(os("connecting"))?;
        Ok(self.stream(p, handle, task))
    }

    fn bind(&self, task: &Task) -> Result<Datagrams> {
        let opened = self.0.socket(type_of(task.local, Kind::Datagram));
        let (p, handle) = opened.map_err(os("opening a socket"))?;
        self.0.bind(handle, task.local).map_err(os("binding"))?;
        Ok(Datagrams { p })
    }
}

impl application::Stream for Stream<'_> {
    fn set_nodelay(&mut self) -> Result<()> {
        let set = self.client.set_option(self.handle, NODELAY, &1i32.to_ne_bytes());
        set.map_err(os("asking for no delay"))
    }
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = if self.spins { SendFlags::DONTWAIT } else { SendFlags::empty() };
        Ok(match pieces {
            [one] => rustix::net::send(&self.p, one, flags | SendFlags::NOSIGNAL)?,
            all => {
                let mut none = rustix::net::SendAncillaryBuffer::default();
                rustix::net::sendmsg(&self.p, all, &mut none, flags | SendFlags::NOSIGNAL)?
            }
        })
    }
    fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let flags = if self.spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        Ok(match pieces {
            [one] => rustix::net::recv(&self.p, &mut one[..], flags)?.0,
            all => {
                let mut none = rustix::net::RecvAncillaryBuffer::default();
                rustix::net::recvmsg(&self.p, all, &mut none, flags)?.bytes
            }
        })
    }
}

impl application::Datagrams for Datagrams {
    fn send(&mut self, bytes: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        let mut sent = 0;
        for message in bytes.chunks(size) {
            let flags = if sent > 0 { SendFlags::DONTWAIT } else { SendFlags::empty() };
            let one = [IoSlice::new(message)];
            match client::send_to(&self.p, &one, Some(to), flags | SendFlags::NOSIGNAL) {
                Ok(_) => sent += 1,
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(client::recv_from(&self.p, into, RecvFlags::DONTWAIT)?.len)
    }
}
