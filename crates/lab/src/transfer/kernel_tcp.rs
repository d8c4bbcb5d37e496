//! Kernel TCP in a worker: plain, and with our records.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use fusewire_stack::kernel_tcp::Connection;

use super::fusewire::{client_config, server_config};
use super::worker::{Reader, Report, Role, Stopwatch, Task, Writer, receive, send};
use crate::process::listens;
use crate::{Error, Result};

/// What one write or read of the plain transfer carries.
const WRITE: usize = 64 << 10;

fn listen(task: &Task) -> Result<TcpStream> {
    let at = task.bind.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let listener = TcpListener::bind(SocketAddr::from((at, 0)))
        .map_err(Error::os("binding the TCP socket"))?;
    listens(listener.local_addr().map_err(Error::os("asking for the address"))?)?;
    Ok(listener.accept().map_err(Error::os("accepting"))?.0)
}

/// No records, no cipher: the kernel's own rate.
pub fn work_plain(task: &Task) -> Result<Report> {
    match &task.role {
        Role::Send(source) => {
            let mut stream = listen(task)?;
            let mut reader = Reader::open(task, source, WRITE)?;
            let watch = Stopwatch::start();
            loop {
                let chunk = reader.next()?;
                if chunk.is_empty() {
                    break;
                }
                stream.write_all(chunk).map_err(Error::os("sending"))?;
            }
            stream.shutdown(std::net::Shutdown::Write).map_err(Error::os("ending the stream"))?;
            // Until the receiver has everything and closes.
            stream.read(&mut [0]).map_err(Error::os("waiting for the receiver"))?;
            Ok(reader.report(&watch))
        }
        Role::Receive { connect, sink } => {
            let mut stream = TcpStream::connect(connect).map_err(Error::os("connecting"))?;
            let mut writer = Writer::create(sink, WRITE)?;
            let watch = Stopwatch::start();
            while let Some(room) = writer.place(WRITE) {
                let len = stream.read(room).map_err(Error::os("receiving"))?;
                if len == 0 {
                    break;
                }
                writer.placed(len);
            }
            writer.flush()?;
            Ok(writer.report(&watch))
        }
    }
}

/// The same records as over our own transport.
pub fn work_records(task: &Task) -> Result<Report> {
    match &task.role {
        Role::Send(source) => {
            send(&mut Connection::accept(listen(task)?, &server_config(task)?)?, task, source)
        }
        Role::Receive { connect, sink } => {
            let stream = TcpStream::connect(connect).map_err(Error::os("connecting"))?;
            receive(&mut Connection::connect(stream, &client_config(task)?)?, task, sink)
        }
    }
}
