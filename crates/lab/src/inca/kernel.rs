//! The kernel's sockets, as an ordinary program uses them.

use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fusewire_codec::{SliceSource, Source};
use fusewire_device::kernel_udp;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::numbered;
use super::task::{
    BULK_BYTES, DOUBLE_BYTES, MARK, Means, Meter, PATIENCE, Protocol, Report, Role, Task, Vain,
    ask, look, stream_byte,
};
use crate::process::listens;
use crate::{Error, Result};

/// Receive buffer of a UDP socket, in bytes.
const UDP_BUFFER: usize = 4 << 20;

pub fn work(task: &Task) -> Result<Report> {
    match (task.protocol, task.role) {
        (Protocol::Udp, Role::Send) => udp_send(task),
        (Protocol::Udp, Role::Receive) => udp_receive(task),
        (Protocol::Udp, Role::Answer) => udp_answer(task),
        (Protocol::Udp, Role::Ask) => udp_ask(task),
        (Protocol::Tcp, Role::Send) => tcp_send(task),
        (Protocol::Tcp, Role::Receive) => tcp_receive(task),
        (Protocol::Tcp, _) => Err(Error::Unsupported("round trips are UDP's".into())),
    }
}

fn udp_socket(task: &Task) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(task.local).map_err(Error::os("opening a UDP socket"))?;
    // Readers of messages that never stop do not sleep: waking them would burden the sender.
    let spins = task.means == Means::KernelSpinning || task.role == Role::Receive;
    socket
        .set_nonblocking(spins)
        .and_then(|()| socket.set_read_timeout(Some(PATIENCE)))
        .map_err(Error::os("setting up a UDP socket"))?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, UDP_BUFFER);
    Ok(socket)
}

fn udp_send(task: &Task) -> Result<Report> {
    let socket = udp_socket(task)?;
    if task.packets > 0 {
        let send = |message: &[u8]| match socket.send_to(message, task.peer) {
            Err(e) if !is_lost(&e) => Err(Error::os("sending a datagram")(e)),
            _ => Ok(()),
        };
        return numbered::send(task, send, sleep);
    }
    let offload = task.means == Means::KernelOffload;
    let messages = if offload { task.messages_per_super_frame() } else { 1 };
    let bytes = vec![MARK; messages * task.size];
    if offload {
        socket.connect(task.peer).map_err(Error::os("connecting a UDP socket"))?;
        if messages > 1 {
            kernel_udp::segment_sends(&socket, task.size as u16)
                .map_err(Error::os("asking for UDP_SEGMENT"))?;
        }
    }
    let mut meter = Meter::new(task);
    loop {
        let sent = if offload { socket.send(&bytes) } else { socket.send_to(&bytes, task.peer) };
        match sent {
            Ok(_) => {}
            // The reader's port is closed, or a queue is full: it was sent, and lost.
            Err(e) if is_lost(&e) => continue,
            Err(e) => return Err(Error::os("sending a datagram")(e)),
        }
        if !meter.count_sent(messages as u64) {
            return meter.report();
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "others drive a stack meanwhile, which can fail")]
fn sleep(pause: Duration) -> Result<()> {
    std::thread::sleep(pause);
    Ok(())
}

fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

fn udp_receive(task: &Task) -> Result<Report> {
    let socket = udp_socket(task)?;
    if task.means == Means::KernelOffload {
        kernel_udp::coalesce_receives(&socket).map_err(Error::os("asking for UDP_GRO"))?;
    }
    listens(task.local)?;
    if task.packets > 0 {
        let next = |message: &mut [u8]| Ok(take(&socket, message, false).ok().map(|(len, _)| len));
        return numbered::receive(task, next);
    }
    let mut meter = Meter::new(task);
    let mut bytes = vec![0; 1 << 16];
    let mut numbers = vec![0.0f64; task.size / DOUBLE_BYTES];
    loop {
        let len = match take(&socket, &mut bytes, false) {
            Ok((len, _)) => len,
            Err(_) => return meter.report(),
        };
        let (messages, mut wrong) = look(&bytes[..len], task.size);
        if task.means == Means::KernelXdr {
            let elements = bytemuck::cast_slice_mut(black_box(&mut numbers));
            let mut source = SliceSource::new(&bytes[..len]);
            wrong += u64::from(source.take_elements(elements, DOUBLE_BYTES).is_err());
        }
        meter.wrong += wrong;
        if !meter.count(messages) {
            return meter.report();
        }
    }
}

/// `recv_from`, again and again where the socket does not sleep.
fn take(
    socket: &UdpSocket,
    bytes: &mut [u8],
    patient: bool,
) -> io::Result<(usize, std::net::SocketAddr)> {
    let mut vain = Vain::default();
    loop {
        match socket.recv_from(bytes) {
            Err(e) if e.kind() == ErrorKind::WouldBlock && !patient => {
                if vain.is_over(false) {
                    return Err(e);
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

fn udp_answer(task: &Task) -> Result<Report> {
    let socket = udp_socket(task)?;
    listens(task.local)?;
    let mut bytes = vec![0; 1 << 16];
    // It is killed when the asker is done.
    loop {
        let taken = take(&socket, &mut bytes, true);
        let (len, from) = taken.map_err(Error::os("waiting for a question"))?;
        socket.send_to(&bytes[..len], from).map_err(Error::os("answering"))?;
    }
}

fn udp_ask(task: &Task) -> Result<Report> {
    let socket = udp_socket(task)?;
    let question = vec![MARK; task.size];
    let mut bytes = vec![0; 1 << 16];
    ask(task.seconds, || {
        socket.send_to(&question, task.peer).map_err(Error::os("asking"))?;
        let (len, _) =
            take(&socket, &mut bytes, false).map_err(Error::os("waiting for an answer"))?;
        if len == task.size { Ok(()) } else { Err(Error::Unsupported("a wrong answer".into())) }
    })
}

fn tcp_receive(task: &Task) -> Result<Report> {
    let listener = TcpListener::bind(task.local).map_err(Error::os("listening"))?;
    listens(task.local)?;
    let (mut stream, _) = listener.accept().map_err(Error::os("accepting"))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(Error::os("setting up a stream"))?;
    if task.packets > 0 {
        return numbered::receive(task, |message| {
            let taken = take_message(&mut stream, &mut message[..task.size], false);
            Ok(taken.ok().filter(|len| *len > 0))
        });
    }
    let mut meter = Meter::new(task);
    let mut bytes = vec![0; task.stride()];
    let mut at = 0u64;
    loop {
        let len = match take_message(&mut stream, &mut bytes, task.bulk) {
            Ok(0) => return drain(stream, meter),
            Ok(len) => len,
            Err(_) => return meter.report(),
        };
        meter.wrong += u64::from(bytes[0] != stream_byte(at));
        at += len as u64;
        let messages = if task.bulk { len as u64 } else { 1 };
        if !meter.count(messages) {
            return drain(stream, meter);
        }
    }
}

/// One `read` of bulk data, or of a message: as many as it takes, which is one nearly always.
fn take_message(stream: &mut TcpStream, bytes: &mut [u8], bulk: bool) -> io::Result<usize> {
    let mut filled = stream.read(bytes)?;
    while !bulk && filled > 0 && filled < bytes.len() {
        match stream.read(&mut bytes[filled..])? {
            0 => return Ok(0),
            n => filled += n,
        }
    }
    Ok(filled)
}

/// Lets the sender end without a reset.
fn drain(mut stream: TcpStream, meter: Meter) -> Result<Report> {
    let mut bytes = vec![0; BULK_BYTES];
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && matches!(stream.read(&mut bytes), Ok(n) if n > 0) {}
    meter.report()
}

/// A stream to `peer`. Its congestion control is chosen before it connects: one that has paced leaves pacing
/// behind when it goes.
pub(crate) fn tcp_connect(peer: SocketAddr, congestion: Option<&str>) -> Result<TcpStream> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|e| Error::os("opening a TCP socket")(e.into()))?;
    if let Some(name) = congestion {
        rustix::net::sockopt::set_tcp_congestion(&socket, name)
            .map_err(|e| Error::os("choosing a congestion control")(e.into()))?;
    }
    rustix::net::connect(&socket, &peer).map_err(|e| Error::os("connecting")(e.into()))?;
    Ok(TcpStream::from(socket))
}

fn tcp_send(task: &Task) -> Result<Report> {
    let mut stream = tcp_connect(task.peer, task.congestion.as_deref())?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(Error::os("setting up a stream"))?;
    if task.packets > 0 {
        let send = |message: &[u8]| stream.write_all(message).map_err(Error::os("writing"));
        return numbered::send(task, send, sleep);
    }
    let stride = task.stride();
    // From any place below 251, as many bytes as one write takes.
    let bytes: Vec<u8> = (0..(stride + 251) as u64).map(stream_byte).collect();
    let mut meter = Meter::new(task);
    let mut at = 0;
    loop {
        let start = at % 251;
        match stream.write_all(&bytes[start..start + stride]) {
            Err(_) if meter.is_done() => return meter.report(),
            written => written.map_err(Error::os("writing"))?,
        }
        at += stride;
        let messages = if task.bulk { stride as u64 } else { 1 };
        if !meter.count_sent(messages) {
            return meter.report();
        }
    }
}
