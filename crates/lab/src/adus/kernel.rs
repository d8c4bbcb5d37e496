//! Runs over the kernel's sockets: an ADU a write, or a datagram.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::{PATIENCE, Report, Task, look, rest, runs};
use crate::inca::numbered::{RUNS, Runs};
use crate::process::{self, listens};
use crate::{Error, Result};

/// Datagrams that have not come after so long were lost.
const LOST: Duration = Duration::from_millis(300);
/// Bytes of a UDP socket's receive buffer that are asked for.
const BUFFER: usize = 4 << 20;

pub(super) fn tcp(task: &Task) -> Result<()> {
    if let Some(to) = task.to {
        let mut stream = TcpStream::connect(to).map_err(Error::os("connecting"))?;
        let write = |stream: &mut TcpStream, adu: &[u8]| {
            stream.write_all(adu).map_err(Error::os("sending"))
        };
        let sent = runs(task, &mut stream, write, rest)?;
        return process::report(&Report { sent, ..Report::default() });
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::os("binding"))?;
    listens(listener.local_addr().map_err(Error::os("asking for the address"))?)?;
    let mut stream = listener.accept().map_err(Error::os("accepting"))?.0;
    let (mut runs, mut adu) = (Runs::new(task.adus), vec![0; task.adu_bytes]);
    while !runs.is_over() {
        stream.read_exact(&mut adu).map_err(Error::os("receiving"))?;
        let (run, number) = look(task, [&adu, &[]])?;
        runs.see(run, number, Instant::now);
    }
    process::report(&Report { rates: runs.rates, ..Report::default() })
}

/// A run counts if its last datagram comes.
pub(super) fn udp(task: &Task) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::os("binding"))?;
    if let Some(to) = task.to {
        socket.connect(to).map_err(Error::os("connecting"))?;
        let send = |socket: &mut UdpSocket, adu: &[u8]| match socket.send(adu) {
            Ok(_) => Ok(()),
            // The receiver has the last one and is gone.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(Error::os("sending")(error)),
        };
        let sent = runs(task, &mut { socket }, send, rest)?;
        return process::report(&Report { sent, ..Report::default() });
    }
    // The kernel gives what it allows.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    listens(socket.local_addr().map_err(Error::os("asking for the address"))?)?;
    let (mut runs, mut adu) = (Runs::new(task.adus), vec![0; 1 << 16]);
    let (begun, mut patience) = (Instant::now(), PATIENCE);
    while !runs.is_over() && begun.elapsed() < PATIENCE + RUNS * PATIENCE {
        socket.set_read_timeout(Some(patience)).map_err(Error::os("setting a time limit"))?;
        let len = match socket.recv(&mut adu) {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(Error::os("receiving")(error)),
        };
        patience = LOST;
        let (run, number) = look(task, [&adu[..len], &[]])?;
        runs.see(run, number, Instant::now);
    }
    process::report(&Report { rates: runs.rates, ..Report::default() })
}
