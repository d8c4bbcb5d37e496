//! The same records over a kernel TCP socket, for where UDP is blocked: at the kernel's speed.
//!
//! Blocking; one thread a connection. Handshake and records are those of `docs/records.md`, the stream
//! is the kernel's. Records are sealed into one buffer that leaves with one system call, and opened
//! where they lie in the buffer that they were read into.

use std::io::{Read, Write};
use std::net::TcpStream;

use fusewire_session::{
    ClientConfig, Error as SessionError, Established, Fingerprint, Handshake, Options,
    RecordReceiver, RecordSender, RecordType, ServerConfig,
};

use crate::application::{Adu, Application, Keep};
use crate::{ConnectionId, Error, Result};

/// Sealed records that leave together, in bytes.
const SEND_BYTES: usize = 256 << 10;
/// What is read at once, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// There is only one connection here.
const ID: ConnectionId = ConnectionId { index: 0, generation: 0 };

/// An encrypted connection over kernel TCP.
pub struct Connection {
    stream: TcpStream,
    sender: RecordSender,
    receiver: RecordReceiver,
    peer: Fingerprint,
    trusted: bool,
    options: Options,
    out: Vec<u8>,
    filled: usize,
    input: Vec<u8>,
    /// Unread input is `input[from..to]`.
    from: usize,
    to: usize,
    /// Stream offset of `input[from]`.
    offset: u64,
    finished: bool,
}

impl Connection {
    /// The client's side of a session over a connected stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn connect(stream: TcpStream, config: &ClientConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::client(config)?)
    }

    /// The server's side of a session over an accepted stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn accept(stream: TcpStream, config: &ServerConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::server(config)?)
    }

    fn open(mut stream: TcpStream, mut handshake: Handshake) -> Result<Connection> {
        stream.set_nodelay(true).map_err(Error::os("setting TCP_NODELAY"))?;
        let mut out = Vec::new();
        let mut input = vec![0; RECEIVE_BYTES];
        let (mut from, mut to) = (0, 0);
        let established: Established = loop {
            handshake.write(&mut out);
            stream.write_all(&out).map_err(Error::os("sending the handshake"))?;
            out.clear();
            if let Some(established) = handshake.poll() {
                break established;
            }
            if from == to {
                (from, to) =
                    (0, stream.read(&mut input).map_err(Error::os("receiving the handshake"))?);
                if to == 0 {
                    return Err(Error::Reset(
                        stream.peer_addr().map_err(Error::os("asking for the peer"))?,
                    ));
                }
            }
            match handshake.read(&input[from..to]) {
                Ok(taken) => from += taken,
                Err(error) => {
                    // The peer shall learn why, if it still listens.
                    handshake.write(&mut out);
                    let _ = stream.write_all(&out);
                    return Err(error.into());
                }
            }
        };
        let Established { peer, trusted, options, sender, receiver } = established;
        let longest = receiver.overhead() + receiver.body_len_max() + 16;
        if input.len() < longest + RECEIVE_BYTES {
            input.resize(longest + RECEIVE_BYTES, 0);
        }
        out.resize(SEND_BYTES.max(sender.record_len(sender.body_len_max())), 0);
        let offset = receiver.start_offset();
        Ok(Connection {
            stream,
            sender,
            receiver,
            peer,
            trusted,
            options,
            out,
            filled: 0,
            input,
            from,
            to,
            offset,
            finished: false,
        })
    }

    /// The peer's key, and whether the configuration has judged it. Judge it before anything is sent.
    pub fn peer(&self) -> (Fingerprint, bool) {
        (self.peer, self.trusted)
    }

    /// What was agreed on.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The stream, for timeouts and shutting down.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Seals one ADU; it leaves when a buffer is full or with [`Connection::flush`].
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Os`], [`Error::Session`].
    pub fn send(&mut self, adu: &[u8]) -> Result<()> {
        let max = self.sender.body_len_max();
        if adu.len() > max {
            return Err(Error::TooLong { len: adu.len(), max });
        }
        self.seal(RecordType::Adu, adu)
    }

    fn seal(&mut self, kind: RecordType, body: &[u8]) -> Result<()> {
        let len = self.sender.record_len(body.len());
        if self.filled + len > self.out.len() {
            self.flush()?;
        }
        let room = &mut self.out[self.filled..self.filled + len];
        self.sender.seal(self.sender.next_offset(), kind, body, room)?;
        self.filled += len;
        Ok(())
    }

    /// Sends what was sealed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn flush(&mut self) -> Result<()> {
        let filled = std::mem::take(&mut self.filled);
        self.stream.write_all(&self.out[..filled]).map_err(Error::os("sending"))
    }

    /// Receives at least one ADU, and all that came with it, into the application's memory. False
    /// after the peer's last. ADUs that the application does not place are lost.
    ///
    /// # Errors
    /// [`Error::Session`] for anything that is not the peer's record, truncation included; [`Error::Os`].
    pub fn recv_with(&mut self, app: &mut dyn Application) -> Result<bool> {
        let mut any = false;
        loop {
            while self.open_next(app)? {
                any = true;
            }
            if any || self.finished {
                return Ok(any);
            }
            self.fill()?;
        }
    }

    /// The next ADU; `None` after the peer's last.
    ///
    /// # Errors
    /// As [`Connection::recv_with`].
    pub fn recv_adu(&mut self) -> Result<Option<Vec<u8>>> {
        let mut one = One::default();
        loop {
            if self.open_next(&mut one)? {
                return Ok(Some(one.0));
            }
            if self.finished {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Opens the record at the front of the input if it is whole. True if it was an ADU.
    fn open_next(&mut self, app: &mut dyn Application) -> Result<bool> {
        loop {
            let input = &self.input[self.from..self.to];
            if self.finished || input.len() < fusewire_session::record::HEADER_LEN {
                return Ok(false);
            }
            let header = self.receiver.header(input)?;
            let len = self.receiver.record_len(&header);
            let Some(record) = input.get(..len) else { return Ok(false) };
            let is_adu = header.kind == RecordType::Adu;
            let adu = Adu { index: header.index, len: header.body_len as usize, is_next: true };
            let mut unwanted = Vec::new();
            let placed =
                if is_adu { app.place(ID, adu).filter(|m| m.len() >= adu.len) } else { None };
            let is_placed = placed.is_some();
            let dst = placed.unwrap_or_else(|| {
                unwanted.resize(adu.len, 0);
                &mut unwanted
            });
            if let Err(error) = self.receiver.open(self.offset, record, dst) {
                if is_placed {
                    app.dropped(ID, adu);
                }
                return Err(error.error.into());
            }
            self.from += len;
            self.offset += len as u64;
            if is_adu {
                if is_placed {
                    app.delivered(ID, adu);
                }
                return Ok(true);
            }
            self.finished |= header.kind == RecordType::EndOfStream;
        }
    }

    fn fill(&mut self) -> Result<()> {
        // What was sealed may be what the peer waits for.
        self.flush()?;
        self.input.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let len = self.stream.read(&mut self.input[self.to..]).map_err(Error::os("receiving"))?;
        if len == 0 {
            return Err(SessionError::Truncated { at: self.offset + self.to as u64 }.into());
        }
        self.to += len;
        Ok(())
    }

    /// Ends our side in order and waits for the peer's end.
    ///
    /// # Errors
    /// As [`Connection::recv_with`].
    pub fn finish(mut self) -> Result<()> {
        self.finish_sending()?;
        while self.recv_with(&mut Keep)? {}
        Ok(())
    }

    /// Ends our side in order; the peer may go on.
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Session`].
    pub fn finish_sending(&mut self) -> Result<()> {
        if !self.sender.ended() {
            self.seal(RecordType::EndOfStream, &[])?;
            self.flush()?;
        }
        self.stream.shutdown(std::net::Shutdown::Write).map_err(Error::os("ending the stream"))
    }
}

/// Memory for one ADU.
#[derive(Default)]
struct One(Vec<u8>);

impl Application for One {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.0.resize(adu.len, 0);
        Some(&mut self.0)
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}
