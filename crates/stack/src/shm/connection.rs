//! Records in the rings of shared memory: one frame is one record is one ADU.
//!
//! Sealed into the ring and opened out of it. What is received lies in memory that the peer can write to:
//! its length was read once by the device, the record's header is copied before it is looked at, and the
//! ciphertext is loaded once by the pass that opens it, or copied first where the pass loads it more
//! often. Nothing else is believed; what does not fit ends the connection and nothing else.
//!
//! A record that comes alone is sealed straight into the ring. In bulk the ring's lines lie in the cache
//! of the core that read them last, and to fetch each of them back costs more than to seal it: there a
//! record is sealed into a buffer that stays in the cache, and goes from there to the ring past the caches.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_device::shm::{Place, Shm};
use fusewire_device::{Device, Ecn};
use fusewire_kernels::{stream_copy, stream_fence};
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{
    Error as SessionError, Fingerprint, Options, RecordReceiver, RecordSender, RecordType,
    Rendezvous,
};

use crate::application::{Adu, Application, Keep};
use crate::{ConnectionId, Error, Result};

/// The peer sees what was sealed after so many bytes, or with a flush.
const PUBLISH_BYTES: usize = 32 << 10;
/// The peer has room again after so many bytes were opened, or when there is nothing more to open.
const RELEASE_BYTES: usize = 64 << 10;
/// A record from this length on, and every one that follows another that the peer has not been shown,
/// is bulk.
const BULK_BYTES: usize = 4 << 10;
/// There is only one connection here.
const ID: ConnectionId = ConnectionId { index: 0, generation: 0 };

/// An encrypted connection over shared memory.
pub struct Connection {
    shm: Shm,
    remote: SocketAddr,
    sender: RecordSender,
    receiver: RecordReceiver,
    peer: Fingerprint,
    options: Options,
    /// Sealed and not shown to the peer yet, in bytes.
    unpublished: usize,
    /// Opened and not given back to the peer yet, in bytes.
    unreleased: usize,
    /// There was no room for the last record.
    wants_room: bool,
    /// Offset of the next record of the peer's.
    offset: u64,
    /// A record is copied here first, where the pass loads it more than once.
    copied: Option<Vec<u8>>,
    finished: bool,
    /// The peer broke its promises, or is gone.
    broken: bool,
    /// One record on its way into the ring, in bulk.
    staging: Vec<u8>,
}

impl Connection {
    pub(super) fn new(shm: Shm, remote: SocketAddr, rendezvous: Rendezvous) -> Connection {
        let Rendezvous { peer, options, sender, receiver, .. } = rendezvous;
        let copied = (!receiver.loads_once()).then(Vec::new);
        Connection {
            shm,
            remote,
            sender,
            receiver,
            peer,
            options,
            unpublished: 0,
            unreleased: 0,
            wants_room: false,
            offset: 0,
            copied,
            finished: false,
            broken: false,
            staging: Vec::new(),
        }
    }

    /// The peer's key, which was judged before shared memory came into it.
    pub fn peer(&self) -> Fingerprint {
        self.peer
    }

    /// The peer's address of the session's beginning.
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote
    }

    /// What was agreed on.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The longest ADU that the peer and the ring take.
    pub fn adu_len(&self) -> usize {
        self.sender.body_len_fitting(self.shm.caps().max_datagram).unwrap_or(0)
    }

    /// True after the peer's authenticated end.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes of records for which there certainly is room. There may be more: [`Connection::try_send`] knows.
    pub fn room(&self) -> usize {
        self.shm.known_room()
    }

    // ---- send ------------------------------------------------------------------------------

    /// Seals one ADU into the ring if there is room; false if there is none until the peer has opened
    /// more. The peer sees it with [`Connection::flush`] or a little later.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Os`], [`Error::Session`].
    pub fn try_send(&mut self, adu: &[u8]) -> Result<bool> {
        let max = self.adu_len();
        if adu.len() > max {
            return Err(Error::TooLong { len: adu.len(), max });
        }
        self.try_seal(RecordType::Adu, adu)
    }

    fn try_seal(&mut self, kind: RecordType, body: &[u8]) -> Result<bool> {
        if self.broken {
            return Err(Error::Closed);
        }
        let len = self.sender.record_len(body.len());
        let reserved = self.shm.reserve(len).map_err(Error::os("sending over shared memory"))?;
        let Some(room) = reserved else {
            self.flush();
            self.wants_room = true;
            return Ok(false);
        };
        let offset = self.sender.next_offset();
        if self.unpublished > 0 || len >= BULK_BYTES {
            self.staging.resize(len, 0);
            self.sender.seal(offset, kind, body, &mut self.staging)?;
            stream_copy(&self.staging, room);
        } else {
            self.sender.seal(offset, kind, body, room)?;
        }
        self.shm.commit(Ecn::NotEct);
        self.wants_room = false;
        self.unpublished += len;
        if self.unpublished >= PUBLISH_BYTES {
            self.flush();
        }
        Ok(true)
    }

    /// Shows the peer what was sealed.
    pub fn flush(&mut self) {
        if self.unpublished > 0 {
            stream_fence();
            self.shm.publish();
            self.unpublished = 0;
        }
    }

    /// Ends our side in order as soon as there is room; true when the peer can see all of it.
    ///
    /// # Errors
    /// As [`Connection::try_send`].
    pub fn try_finish(&mut self) -> Result<bool> {
        let ended = self.sender.ended() || self.try_seal(RecordType::EndOfStream, &[])?;
        self.flush();
        Ok(ended)
    }

    // ---- receive ---------------------------------------------------------------------------

    /// The next ADU, opened straight into `memory`; `None` when nothing is there or the peer has finished.
    ///
    /// # Errors
    /// [`Error::Session`] and [`Error::Protocol`] for anything that is not the peer's record, truncation
    /// included; [`Error::NoRoom`] when `memory` is too short (the ADU is lost).
    pub fn recv_into(&mut self, memory: &mut [u8]) -> Result<Option<usize>> {
        let room = memory.len();
        let mut into = Into { memory, len: 0 };
        if !self.open_next(&mut into)? {
            return Ok(None);
        }
        let len = into.len;
        if len <= room { Ok(Some(len)) } else { Err(Error::NoRoom { len, room }) }
    }

    /// Opens the next record, if there is one. True if it was an ADU.
    fn open_next(&mut self, app: &mut dyn Application) -> Result<bool> {
        while !self.finished {
            if self.broken {
                return Err(Error::Closed);
            }
            // Until the record is through: what fails is not tried again.
            self.broken = true;
            let Some(place) = self.shm.take().map_err(|error| self.gone(error))? else {
                self.broken = false;
                self.release();
                return Ok(false);
            };
            let is_adu = self.open(place, app)?;
            self.broken = false;
            self.unreleased += place.frame_len();
            if self.unreleased >= RELEASE_BYTES {
                self.release();
            }
            if is_adu {
                return Ok(true);
            }
        }
        self.release();
        Ok(false)
    }

    fn open(&mut self, place: Place, app: &mut dyn Application) -> Result<bool> {
        let mut record = self.shm.bytes(place);
        if let Some(copied) = &mut self.copied {
            copied.clear();
            copied.extend_from_slice(record);
            record = copied;
        }
        let Some(&head) = record.first_chunk::<HEADER_LEN>() else {
            return Err(self.protocol("a frame that is shorter than a record's header"));
        };
        let header = self.receiver.header(&head)?;
        if self.receiver.record_len(&header) != record.len() {
            return Err(self.protocol("a frame that is not one whole record"));
        }
        let is_adu = header.kind == RecordType::Adu;
        let adu = Adu { index: header.index, len: header.body_len as usize, is_next: true };
        let mut unwanted = Vec::new();
        let placed = if is_adu { app.place(ID, adu).filter(|m| m.len() >= adu.len) } else { None };
        let is_placed = placed.is_some();
        let dst = placed.unwrap_or_else(|| {
            unwanted.resize(adu.len, 0);
            &mut unwanted
        });
        if let Err(error) = self.receiver.open_in_place(self.offset, &head, record, dst) {
            if is_placed {
                app.dropped(ID, adu);
            }
            return Err(error.into());
        }
        self.offset += record.len() as u64;
        if is_placed {
            app.delivered(ID, adu);
        }
        self.finished |= header.kind == RecordType::EndOfStream;
        Ok(is_adu)
    }

    fn release(&mut self) {
        if self.unreleased > 0 {
            self.shm.release();
            self.unreleased = 0;
        }
    }

    fn protocol(&self, what: &'static str) -> Error {
        Error::Protocol { peer: self.remote, what }
    }

    /// The peer is gone before its end of the stream, or wrote what no honest peer writes.
    fn gone(&self, error: std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::ConnectionAborted => SessionError::Truncated { at: self.offset }.into(),
            _ => Error::os("receiving over shared memory")(error),
        }
    }

    /// Spins for a short time, then sleeps, until there is something to receive, or room if the last
    /// record had none, or the peer is gone, or until `timeout`.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.flush();
        self.release();
        self.shm
            .wait(timeout, self.wants_room)
            .map(|_| ())
            .map_err(Error::os("waiting for the other end of the shared memory"))
    }

    // ---- blocking --------------------------------------------------------------------------

    /// Seals one ADU as soon as there is room.
    ///
    /// # Errors
    /// As [`Connection::try_send`]; that the peer is gone.
    pub fn send(&mut self, adu: &[u8]) -> Result<()> {
        while !self.try_send(adu)? {
            self.wait(None)?;
        }
        Ok(())
    }

    /// Receives at least one ADU, and what came with it, into the application's memory. False after the
    /// peer's last. ADUs that the application does not place are lost.
    ///
    /// # Errors
    /// As [`Connection::recv_into`].
    pub fn recv_with(&mut self, app: &mut dyn Application) -> Result<bool> {
        let mut any = false;
        loop {
            while self.open_next(app)? {
                any = true;
                if !app.wants_more() {
                    break;
                }
            }
            if any || self.finished {
                return Ok(any);
            }
            self.wait(None)?;
        }
    }

    /// Ends our side in order and waits for the peer's end.
    ///
    /// # Errors
    /// As [`Connection::recv_into`].
    pub fn finish(mut self) -> Result<()> {
        while !self.try_finish()? {
            self.wait(None)?;
        }
        while self.recv_with(&mut Keep)? {}
        Ok(())
    }
}

/// The caller's memory for one ADU.
struct Into<'a> {
    memory: &'a mut [u8],
    len: usize,
}

impl Application for Into<'_> {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.len = adu.len;
        self.memory.get_mut(..adu.len)
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}
