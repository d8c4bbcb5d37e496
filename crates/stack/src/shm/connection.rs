//! Records in the rings of shared memory: one frame is one record is one ADU.
//!
//! Sealed into the ring and opened out of it. What is received lies in memory that the peer can write to:
//! its length was read once by the device, the record's header is copied before it is looked at, and the
//! ciphertext is loaded once by the pass that opens it, or copied first where the pass loads it more
//! often. Nothing else is believed; what does not fit ends the connection and nothing else.
//!
//! A record that comes alone is sealed straight into the ring. In bulk the ring's lines lie in the cache
//! of the core that read them last, and to fetch each of them back costs more than to seal it: there a
//! record is sealed into a buffer that stays in the cache, and goes from there to the ring past the caches; not
//! where all cores share the last cache ([`fusewire_device::shares_last_cache`]), which has the lines at hand.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_device::shm::{Place, Shm};
use fusewire_device::{Device, Ecn, Waker, shares_last_cache};
use fusewire_kernels::{stream_copy, stream_fence};
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{Error as SessionError, RecordSender, Rendezvous};

use crate::application::{Application, Destination};
use crate::in_order::{InOrder, Records, Sealed};
use crate::inbox::Opened;
use crate::{Error, Result};

/// The peer sees what was sealed after so many bytes, or with a flush.
const PUBLISH_BYTES: usize = 32 << 10;
/// The peer has room again after so many bytes were opened, or when there is nothing more to open.
const RELEASE_BYTES: usize = 64 << 10;
/// A record from this length on, and every one that follows another that the peer has not been shown,
/// is bulk.
const BULK_BYTES: usize = 4 << 10;

/// An encrypted connection over shared memory: a [`Link`](crate::Link). The peer sees what was sent with
/// [`Link::try_flush`](crate::Link::try_flush) or a little later.
pub struct Connection {
    shm: Shm,
    records: Records,
    /// Sealed and not shown to the peer yet, in bytes.
    unpublished: usize,
    /// Opened and not given back to the peer yet, in bytes.
    unreleased: usize,
    /// There was no room for the last record.
    wants_room: bool,
    /// A record is copied here first, where the pass loads it more than once.
    copied: Option<Vec<u8>>,
    /// The peer broke its promises, or is gone.
    broken: bool,
    /// One record on its way into the ring, in bulk.
    staging: Vec<u8>,
}

impl Connection {
    pub(super) fn new(shm: Shm, remote: SocketAddr, rendezvous: Rendezvous) -> Connection {
        let Rendezvous { peer, options, sender, receiver, .. } = rendezvous;
        Connection {
            shm,
            copied: (!receiver.loads_once()).then(Vec::new),
            records: Records::new(remote, peer, options, sender, receiver),
            unpublished: 0,
            unreleased: 0,
            wants_room: false,
            broken: false,
            staging: Vec::new(),
        }
    }

    /// Ends [`Link::wait`](crate::Link::wait), the one under way or the next, from another thread.
    pub fn waker(&self) -> Waker {
        self.shm.waker()
    }

    /// Gives the closure back where there is no room.
    fn try_seal<F: FnOnce(&mut RecordSender, u64, &mut [u8]) -> Sealed>(
        &mut self,
        len: usize,
        seal: F,
    ) -> Result<Option<F>> {
        if self.broken {
            return Err(Error::Closed);
        }
        let reserved = self.shm.reserve(len).map_err(Error::os("sending over shared memory"))?;
        let Some(room) = reserved else {
            self.publish();
            self.wants_room = true;
            return Ok(Some(seal));
        };
        let sender = &mut self.records.sender;
        let offset = sender.next_offset();
        if (self.unpublished > 0 || len >= BULK_BYTES) && !shares_last_cache() {
            self.staging.resize(len, 0);
            seal(sender, offset, &mut self.staging)?;
            stream_copy(&self.staging, room);
        } else {
            seal(sender, offset, room)?;
        }
        self.shm.commit(Ecn::NotEct);
        self.wants_room = false;
        self.unpublished += len;
        if self.unpublished >= PUBLISH_BYTES {
            self.publish();
        }
        Ok(None)
    }

    /// Shows the peer what was sealed.
    fn publish(&mut self) {
        if self.unpublished > 0 {
            stream_fence();
            self.shm.publish();
            self.unpublished = 0;
        }
    }

    fn open(&mut self, place: Place, app: &mut dyn Application) -> Result<Opened> {
        let mut record = self.shm.bytes(place);
        if let Some(copied) = &mut self.copied {
            copied.clear();
            copied.extend_from_slice(record);
            record = copied;
        }
        let Some(&head) = record.first_chunk::<HEADER_LEN>() else {
            return Err(self.protocol("a frame that is shorter than a record's header"));
        };
        let header = self.records.receiver.header(self.records.offset, &head)?;
        if self.records.receiver.record_len(&header) != record.len() {
            return Err(self.protocol("a frame that is not one whole record"));
        }
        self.records.open(&header, record.len(), app, |receiver, offset, to| {
            let opened = match to {
                Destination::Bytes(dst) => receiver.open_in_place(offset, &head, record, dst),
                Destination::Message(into) => {
                    receiver.open_message_in_place(offset, &head, record, into)
                }
            };
            opened.map(|_| ())
        })
    }

    fn release(&mut self) {
        if self.unreleased > 0 {
            self.shm.release();
            self.unreleased = 0;
        }
    }

    fn protocol(&self, what: &'static str) -> Error {
        Error::Protocol { peer: self.records.remote, what }
    }

    /// The peer is gone before its end of the stream, or wrote what no honest peer writes.
    fn gone(&self, error: std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::ConnectionAborted => {
                SessionError::Truncated { at: self.records.offset }.into()
            }
            _ => Error::os("receiving over shared memory")(error),
        }
    }
}

impl InOrder for Connection {
    const NAME: &'static str = "shm";

    fn records(&self) -> &Records {
        &self.records
    }

    fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    fn longest(&self) -> usize {
        self.records.sender.body_len_fitting(self.shm.caps().max_datagram).unwrap_or(0)
    }

    fn room(&self) -> usize {
        self.shm.known_room()
    }

    fn seal(
        &mut self,
        body_len: usize,
        waits: bool,
        seal: impl FnOnce(&mut RecordSender, u64, &mut [u8]) -> Sealed,
    ) -> Result<bool> {
        let len = self.records.sender.record_len(body_len);
        let mut seal = seal;
        while let Some(back) = self.try_seal(len, seal)? {
            if !waits {
                return Ok(false);
            }
            self.release();
            // What waits to be received is the caller's to take, and makes no room.
            self.shm
                .wait_for_room()
                .map_err(Error::os("waiting for the other end of the shared memory"))?;
            seal = back;
        }
        Ok(true)
    }

    fn give(&mut self, _: bool) -> Result<bool> {
        self.publish();
        Ok(true)
    }

    fn open_next(&mut self, app: &mut dyn Application) -> Result<Option<Opened>> {
        if self.records.peer_has_ended() {
            self.release();
            return Ok(None);
        }
        if self.broken {
            return Err(Error::Closed);
        }
        // Until the record is through: what fails is not tried again.
        self.broken = true;
        let Some(place) = self.shm.take().map_err(|error| self.gone(error))? else {
            self.broken = false;
            self.release();
            return Ok(None);
        };
        let opened = self.open(place, app)?;
        self.broken = false;
        self.unreleased += place.frame_len();
        if self.unreleased >= RELEASE_BYTES {
            self.release();
        }
        Ok(Some(opened))
    }

    /// What has come is in the ring already.
    fn fetch(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Spins for a short time before.
    fn sleep(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.release();
        self.shm
            .wait(timeout, self.wants_room)
            .map(|_| ())
            .map_err(Error::os("waiting for the other end of the shared memory"))
    }
}
