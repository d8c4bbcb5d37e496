//! The kernel's sockets: UDP at both ends, and TCP that asks a host of ours.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use super::talk::{ask, thread, wait};
use super::{BYTES, Side, Task};
use crate::process::listens;
use crate::{Error, Result};

fn bind() -> Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::os("binding a UDP socket"))
}

/// One side over UDP: a socket that asks or answers, and one for each idle connection.
pub fn udp(task: &Task) -> Result<()> {
    for _ in 0..task.idle {
        wait(bind()?)?;
    }
    let socket = bind()?;
    match task.side {
        Side::Serve => {
            listens(socket.local_addr().map_err(Error::os("asking for the address"))?)?;
            let answering = move || {
                let mut message = [0; BYTES];
                loop {
                    let got = socket.recv_from(&mut message).map_err(Error::os("receiving"))?;
                    socket.send_to(&message[..got.0], got.1).map_err(Error::os("sending"))?;
                }
            };
            thread(answering)?;
            park()
        }
        Side::Ask(to) => {
            socket.connect(to).map_err(Error::os("connecting"))?;
            ask(socket, task.seconds)
        }
    }
}

/// TCP connections to a server, all of which wait but for one.
pub fn ask_tcp(task: &Task, to: SocketAddr) -> Result<()> {
    let connect = || -> Result<TcpStream> {
        let stream = TcpStream::connect(to).map_err(Error::os("connecting"))?;
        stream.set_nodelay(true).map_err(Error::os("asking for no delay"))?;
        Ok(stream)
    };
    for _ in 0..task.idle {
        wait(connect()?)?;
    }
    ask(connect()?, task.seconds)
}

/// Until we are killed.
pub fn park() -> ! {
    loop {
        std::thread::park();
    }
}
