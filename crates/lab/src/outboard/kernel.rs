//! The kernel's sockets.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use fusewire_device::kernel_udp;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use super::application;
use super::task::{self, Task};
use crate::inca::Role;
use crate::inca::kernel::tcp_connect;
use crate::inca::task::{PACKET_BYTES, PATIENCE};
use crate::{Error, Result};

/// Receive buffer of a UDP socket, in bytes; an outboard's has it too.
pub const UDP_BUFFER: usize = 4 << 20;

pub struct Sockets;

pub struct Stream(TcpStream);

pub struct Datagrams {
    socket: UdpSocket,
    /// Bytes of a message that `send` cuts off by itself.
    segment: usize,
}

fn set_up(stream: TcpStream, task: &Task) -> Result<Stream> {
    stream
        .set_nonblocking(task.spins)
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(Error::os("setting up a stream"))?;
    Ok(Stream(stream))
}

impl task::Sockets for Sockets {
    type Stream = Stream;
    type Datagrams = Datagrams;

    fn accept(&self, task: &Task, ready: impl FnOnce() -> Result<()>) -> Result<Stream> {
        let listener = TcpListener::bind(task.local).map_err(Error::os("listening"))?;
        ready()?;
        set_up(listener.accept().map_err(Error::os("accepting"))?.0, task)
    }

    fn connect(&self, task: &Task) -> Result<Stream> {
        set_up(tcp_connect(task.peer, task.congestion.as_deref())?, task)
    }

    fn bind(&self, task: &Task) -> Result<Datagrams> {
        let socket = UdpSocket::bind(task.local).map_err(Error::os("opening a UDP socket"))?;
        // A sender waits for room; who receives never sleeps in a call: waking him would burden the sender.
        let naps = task.role != Role::Send;
        socket.set_nonblocking(naps).map_err(Error::os("setting up a UDP socket"))?;
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, UDP_BUFFER);
        let mut segment = usize::MAX;
        if task.bulk {
            let set = match task.role {
                Role::Receive => kernel_udp::coalesce_receives(&socket),
                // The kernel cuts off no message that IP would cut in turn.
                _ if task.messages() > 1 && task.size <= PACKET_BYTES => {
                    segment = task.size;
                    kernel_udp::segment_sends(&socket, task.size as u16)
                }
                _ => Ok(()),
            };
            set.map_err(Error::os("asking for UDP_SEGMENT and UDP_GRO"))?;
        }
        Ok(Datagrams { socket, segment })
    }
}

impl application::Stream for Stream {
    fn set_nodelay(&mut self) -> Result<()> {
        self.0.set_nodelay(true).map_err(Error::os("asking for no delay"))
    }
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [one] => self.0.write(one),
            all => self.0.write_vectored(all),
        }
    }
    fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match pieces {
            [one] => self.0.read(one),
            all => self.0.read_vectored(all),
        }
    }
}

impl application::Datagrams for Datagrams {
    fn send(&mut self, bytes: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        if bytes.len() <= size {
            return self.socket.send_to(bytes, to).map(|_| 1);
        }
        if self.segment == size {
            return self.socket.send_to(bytes, to).map(|len| len / size);
        }
        let to = SocketAddrAny::from(to);
        let pieces: Vec<_> = bytes.chunks(size).map(|one| [IoSlice::new(one)]).collect();
        let mut controls: Vec<_> = pieces.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut all: Vec<_> = pieces
            .iter()
            .zip(&mut controls)
            .map(|(piece, control)| MMsgHdr::new_with_addr(&to, piece, control))
            .collect();
        Ok(sendmmsg(&self.socket, &mut all, SendFlags::empty())?)
    }
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(into)
    }
}
