//! Links whose carrier brings records in order and to this link alone: kernel TCP, shared memory. What they share is the
//! session's half.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use fusewire_session::{
    Check, Error as SessionError, Fingerprint, Found, Marshal, Options, RecordHeader,
    RecordReceiver, RecordSender, RecordType,
};

use crate::application::{Application, Destination, Keep};
use crate::inbox::{Inbox, Opened};
use crate::link::{Link, Session};
use crate::{ConnectionId, Error, Result};

/// What sealing gives.
pub(crate) type Sealed = std::result::Result<Found, SessionError>;
/// What opening gives.
pub(crate) type Passed = std::result::Result<(), SessionError>;

/// There is only one connection on such a carrier.
const ID: ConnectionId = ConnectionId { index: 0, generation: 0 };

/// The session's half.
pub(crate) struct Records {
    pub remote: SocketAddr,
    peer: Fingerprint,
    pub options: Options,
    pub sender: RecordSender,
    pub receiver: RecordReceiver,
    /// Holds one ADU at most, and only while a call looks at it.
    inbox: Inbox,
    /// Stream offset of the peer's next record.
    pub offset: u64,
    /// The peer's last record, once it has come.
    end: Option<Opened>,
    /// The code that this side gave the connection up with.
    closing: Option<u64>,
    /// ADUs that came with the handshake, before all others.
    pub early: VecDeque<(u64, Vec<u8>)>,
}

impl Records {
    pub fn new(
        remote: SocketAddr,
        peer: Fingerprint,
        options: Options,
        mut sender: RecordSender,
        mut receiver: RecordReceiver,
    ) -> Records {
        // What carries them makes no use of sums.
        sender.set_check(Check::None);
        receiver.set_check(Check::None);
        let offset = receiver.start_offset();
        let (inbox, end, closing, early) = (Inbox::default(), None, None, VecDeque::new());
        Records { remote, peer, options, sender, receiver, inbox, offset, end, closing, early }
    }

    /// True once the peer's last record has come.
    pub fn peer_has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Opens the peer's next record, of `len` bytes with this header, by `pass`.
    pub fn open(
        &mut self,
        header: &RecordHeader,
        len: usize,
        app: &mut dyn Application,
        pass: impl FnOnce(&mut RecordReceiver, u64, Destination<'_>) -> Passed,
    ) -> Result<Opened> {
        let (receiver, offset) = (&mut self.receiver, self.offset);
        let opened = self.inbox.open(ID, header, app, |to| pass(receiver, offset, to))?;
        self.offset += len as u64;
        if matches!(opened, Opened::End | Opened::Close(_)) {
            self.end = Some(opened);
        }
        Ok(opened)
    }

    /// Takes the next ADU that came with the handshake, if there is one.
    pub fn take_early(&mut self, app: &mut dyn Application) -> Option<Opened> {
        let (index, body) = self.early.pop_front()?;
        Some(self.inbox.take(ID, index, &body, app))
    }

    /// An ADU that nobody has placed is lost.
    fn forget(&mut self) {
        if let Some((_, buffer)) = self.inbox.next() {
            self.inbox.recycle(buffer);
        }
    }

    /// Whether an ADU of `len` bytes may be sent, of which there may be `max`.
    fn may_send(&self, len: usize, max: usize) -> Result<()> {
        self.check()?;
        if len > max { Err(Error::TooLong { len, max }) } else { Ok(()) }
    }

    /// That neither side has given the connection up.
    fn check(&self) -> Result<()> {
        match (self.closing, self.end) {
            (Some(_), _) => Err(Error::Closed),
            (_, Some(Opened::Close(code))) => Err(Error::PeerClosed { peer: self.remote, code }),
            _ => Ok(()),
        }
    }
}

/// The carrier's half.
pub(crate) trait InOrder: Send {
    /// [`Link::carrier`].
    const NAME: &'static str;

    fn records(&self) -> &Records;
    fn records_mut(&mut self) -> &mut Records;

    /// The longest ADU that the peer and the carrier take.
    fn longest(&self) -> usize;

    /// Bytes of records for which there is room, as far as that is known.
    fn room(&self) -> usize;

    /// Seals a record with a body of so many bytes behind what leaves next. False if there is no room: where it `waits`
    /// only when the carrier is broken.
    fn seal(
        &mut self,
        body_len: usize,
        waits: bool,
        seal: impl FnOnce(&mut RecordSender, u64, &mut [u8]) -> Sealed,
    ) -> Result<bool>;

    /// Gives the carrier what was sealed, as much as it takes, or where it `waits` all of it; true when that was all.
    fn give(&mut self, waits: bool) -> Result<bool>;

    /// Opens the peer's next record if it is here; [`Records::open`].
    fn open_next(&mut self, app: &mut dyn Application) -> Result<Option<Opened>>;

    /// Looks whether the carrier has more; does not wait.
    fn fetch(&mut self) -> Result<bool>;

    /// Nothing follows what was given to the carrier.
    fn end(&mut self) {}

    /// [`Link::wait`], when all that can be given has been.
    fn sleep(&mut self, timeout: Option<Duration>) -> Result<()>;
}

fn send<C: InOrder>(link: &mut C, adu: &[u8], waits: bool) -> Result<bool> {
    link.records().may_send(adu.len(), link.longest())?;
    link.seal(adu.len(), waits, |sender, at, dst| sender.seal(at, RecordType::Adu, adu, dst))
}

fn send_message<C: InOrder>(link: &mut C, adu: &dyn Marshal, waits: bool) -> Result<bool> {
    let len = adu.marshalled_len();
    link.records().may_send(len, link.longest())?;
    link.seal(len, waits, |sender, at, dst| sender.seal_message(at, adu, dst))
}

/// Gives the carrier what was sealed, and the last record of a side that has given the connection up.
fn give<C: InOrder>(link: &mut C, waits: bool) -> Result<bool> {
    if let Some(code) = link.records().closing
        && !link.records().sender.ended()
    {
        return end(link, RecordType::Close, &code.to_be_bytes(), waits);
    }
    link.give(waits)
}

fn end<C: InOrder>(link: &mut C, kind: RecordType, body: &[u8], waits: bool) -> Result<bool> {
    let has_ended = link.records().sender.ended()
        || link.seal(body.len(), waits, |sender, at, dst| sender.seal(at, kind, body, dst))?;
    let all = link.give(waits)? && has_ended;
    if all {
        link.end();
    }
    Ok(all)
}

/// Whether more has come; ready without after the peer's last.
fn fetch<C: InOrder>(link: &mut C) -> Poll<Result<bool>> {
    link.records().check()?;
    if link.records().peer_has_ended() {
        return Poll::Ready(Ok(false));
    }
    if link.fetch()? { Poll::Ready(Ok(true)) } else { Poll::Pending }
}

fn ready(done: Result<bool>) -> Poll<Result<()>> {
    if done? { Poll::Ready(Ok(())) } else { Poll::Pending }
}

impl<C: InOrder> Link for C {
    fn carrier(&self) -> &'static str {
        C::NAME
    }

    fn session(&self) -> Session {
        let Records { peer, options, remote, .. } = *self.records();
        Session { peer, options, remote: Some(remote) }
    }

    fn adu_len(&self) -> usize {
        self.longest()
    }

    fn room_for(&mut self, len: usize) -> usize {
        // Sending finds out that there is none.
        self.room().max(len)
    }

    fn try_send(&mut self, adu: &[u8]) -> Poll<Result<()>> {
        ready(send(self, adu, false))
    }

    fn try_send_message(&mut self, adu: &dyn Marshal) -> Poll<Result<()>> {
        ready(send_message(self, adu, false))
    }

    fn try_flush(&mut self) -> Poll<Result<()>> {
        ready(give(self, false))
    }

    fn try_recv_with(&mut self, app: &mut dyn Application) -> Poll<Result<bool>> {
        let mut any = false;
        self.records().check()?;
        loop {
            match self.open_next(app)? {
                Some(opened @ (Opened::Delivered | Opened::Waits)) => {
                    any = true;
                    if opened == Opened::Waits {
                        self.records_mut().forget();
                    }
                    if !app.wants_more() {
                        return Poll::Ready(Ok(true));
                    }
                }
                Some(_) => {}
                None if any => return Poll::Ready(Ok(true)),
                None => match fetch(self)? {
                    Poll::Ready(true) => {}
                    end => return end.map(Ok),
                },
            }
        }
    }

    fn try_recv_adu(&mut self) -> Poll<Result<Option<Vec<u8>>>> {
        self.records().check()?;
        loop {
            match self.open_next(&mut Keep)? {
                Some(Opened::Waits) => {
                    let next = self.records_mut().inbox.next();
                    return Poll::Ready(Ok(next.map(|(_, buffer)| buffer)));
                }
                Some(_) => {}
                None => match fetch(self)? {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(Ok(None)),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.records_mut().inbox.recycle(buffer);
    }

    fn try_finish(&mut self) -> Poll<Result<()>> {
        self.records().check()?;
        ready(end(self, RecordType::EndOfStream, &[], false))
    }

    fn close(&mut self, code: u64) {
        self.records_mut().closing.get_or_insert(code);
        // Whoever can be told nothing any more sees that this end is gone.
        let _ = give(self, false);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        give(self, false)?;
        self.sleep(timeout)
    }

    fn send(&mut self, adu: &[u8]) -> Result<()> {
        send(self, adu, true).map(|_| ())
    }

    fn send_message(&mut self, adu: &dyn Marshal) -> Result<()> {
        send_message(self, adu, true).map(|_| ())
    }

    fn flush(&mut self) -> Result<()> {
        give(self, true).map(|_| ())
    }
}
