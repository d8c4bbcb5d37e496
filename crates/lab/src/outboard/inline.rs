//! Fusewire in the application's own process: a host on an interface.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_device::interface::flows::Flows;
use fusewire_device::interface::{Interface, packet, tap, xdp};
use fusewire_stack::ip::net::{self, Cidr};
use fusewire_stack::ip::{self, Host, HostConfig, TcpStream, UdpSocket};
use fusewire_stack::on_interface::{Kind, Name};

use super::application;
use super::network::PREFIX;
use super::task::{self, Task};
use crate::inca::task::settle;
use crate::{Error, Result};

pub struct Sockets(Host);

pub struct Stream(TcpStream);

pub struct Datagrams(UdpSocket);

fn open(name: &Name, address: Cidr) -> io::Result<Box<dyn Interface>> {
    let (link, flows) = (name.interface.as_str(), Flows::addrs([address.address()]));
    Ok(match name.kind {
        Kind::Xdp => xdp::open(&xdp::Config { flows, ..xdp::Config::new(link) }, None)?,
        Kind::Packet | Kind::Auto => {
            let config = packet::Config { flows, ..packet::Config::new(link) };
            Box::new(packet::Packet::open(&config)?)
        }
        Kind::Tap => {
            Box::new(tap::Tap::open(&tap::Config { name: link.into(), ..Default::default() })?)
        }
    })
}

impl Sockets {
    pub fn open(task: &Task) -> Result<Sockets> {
        let name: Name = task.device.parse().map_err(Error::Unsupported)?;
        let address = Cidr::new(task.local.ip(), PREFIX)
            .ok_or_else(|| Error::Unsupported("not an address and a prefix".into()))?;
        let interface = open(&name, address).map_err(Error::os("opening an interface"))?;
        if name.kind == Kind::Tap {
            settle(&name.interface)?;
        }
        let net = net::Config {
            addresses: vec![address],
            duplicate_detection: false,
            ..ip::Stack::net_config(&*interface)
        };
        let host = Host::new(interface, net, HostConfig::default());
        Ok(Sockets(host.map_err(Error::os("making a host"))?))
    }
}

impl task::Sockets for Sockets {
    type Stream = Stream;
    type Datagrams = Datagrams;

    fn accept(&self, task: &Task, ready: impl FnOnce() -> Result<()>) -> Result<Stream> {
        let listener = self.0.tcp_listen(task.local, 1).map_err(Error::os("listening"))?;
        ready()?;
        Ok(Stream(listener.accept().map_err(Error::os("accepting"))?.0))
    }
    fn connect(&self, task: &Task) -> Result<Stream> {
        Ok(Stream(self.0.tcp_connect(task.peer).map_err(Error::os("connecting"))?))
    }
    fn bind(&self, task: &Task) -> Result<Datagrams> {
        let socket = self.0.udp_bind(task.local).map_err(Error::os("opening a UDP socket"))?;
        // Who receives looks, and looks again.
        socket.set_timeout(Some(Duration::ZERO));
        Ok(Datagrams(socket))
    }
}

impl application::Stream for Stream {
    fn set_nodelay(&mut self) -> Result<()> {
        self.0.set_nodelay(true).map_err(Error::os("asking for no delay"))
    }
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let [first, rest @ ..] = pieces else { return Ok(0) };
        let mut written = self.0.send(first)?;
        if written == first.len() && !rest.is_empty() {
            let id = self.0.id();
            self.0.host().with(|stack, _| {
                for piece in rest {
                    let len = stack.tcp_write(id, piece)?;
                    written += len;
                    if len < piece.len() {
                        break;
                    }
                }
                Ok::<(), ip::Error>(())
            })??;
        }
        Ok(written)
    }
    fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let [first, rest @ ..] = pieces else { return Ok(0) };
        let mut filled = self.0.recv(first)?;
        if filled == first.len() && !rest.is_empty() {
            let id = self.0.id();
            self.0.host().with(|stack, _| {
                for piece in rest {
                    let len = stack.tcp_read(id, piece)?.unwrap_or(0);
                    filled += len;
                    if len < piece.len() {
                        break;
                    }
                }
                Ok::<(), ip::Error>(())
            })??;
        }
        Ok(filled)
    }
}

impl application::Datagrams for Datagrams {
    fn send(&mut self, bytes: &[u8], size: usize, to: SocketAddr) -> io::Result<usize> {
        match bytes.len() <= size {
            true => self.0.send_to(bytes, to).map(|_| 1),
            false => self.0.send_batch(bytes, size, Some(to)),
        }
    }
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.recv_from(into) {
            Err(e) if e.kind() == ErrorKind::TimedOut => Err(ErrorKind::WouldBlock.into()),
            received => Ok(received?.len),
        }
    }
}
