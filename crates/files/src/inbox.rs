//! Receiving: ADUs are opened end to end, so that contents that follow one another in the file lie side by
//! side in memory and are hashed and written in one piece.
//!
//! ```text
//! buffer   |·· 32 ··|contents k    |contents k+1  |
//!                   ^run.start            ▲       ^end
//!                            slot: ADU k+2 is opened here,
//!                            header over the last 32 bytes before `end`
//! ```
//! The next ADU is opened 32 bytes before the end of the contents, so that its contents begin where the last
//! ones end. What its header covers is put aside for that moment and put back. An ADU that does not continue
//! the run begins another one, in the same place, after the run was handed on.

use crate::Element;
use crate::channel::{Channel, MAX_ADU_LEN, Received};
use crate::error::{Error, Violation};
use crate::message::{DATA_HEADER_LEN, DataHeader, HOLE, Hole, Prefix};
use crate::sum::BlockSum;

/// Bytes of contents that are collected before they are hashed and written. Half of the second-level cache of
/// the machines at hand.
pub(crate) const WINDOW_LEN: usize = 256 << 10;

/// Buffers that the sessions of one thread share. Nothing stays in them between two turns.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) receive: Vec<u8>,
    pub(crate) read: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Scratch {
    /// Allocates the buffers, about 0.9 MiB.
    pub fn new() -> Self {
        let len = WINDOW_LEN + MAX_ADU_LEN + 256;
        Scratch { receive: vec![0; len + MAX_ADU_LEN], read: vec![0; len] }
    }
}

/// Contents that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) xid: u32,
    pub(crate) copy: u32,
    pub(crate) position: u64,
    /// Bytes of contents.
    pub(crate) len: usize,
}

/// Takes what arrives, in the order of arrival.
pub(crate) trait Receiver {
    /// Contents, and the hash of the block that they end, if one came.
    fn contents(&mut self, run: Run, bytes: &[u8], sum: Option<BlockSum>) -> Result<(), Error>;

    /// A hole.
    fn hole(&mut self, hole: Hole) -> Result<(), Error>;

    /// Any other message, as it came through the pipeline.
    fn message(&mut self, prefix: Prefix, bytes: &mut [u8]) -> Result<(), Error>;

    /// Whether more may come; asked before each ADU.
    fn accepts(&self) -> bool;
}

/// What [`receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulled {
    /// ADUs received.
    pub(crate) adus: usize,
    /// The peer has finished and everything was received.
    pub(crate) finished: bool,
}

/// Receives until there is nothing more, `receiver` accepts nothing more, or about `budget` bytes have come.
pub(crate) fn receive<C: Channel + ?Sized>(
    channel: &mut C,
    buffer: &mut [u8],
    element: Element,
    receiver: &mut impl Receiver,
    budget: usize,
) -> Result<Pulled, Error> {
    let mut inbox = Inbox { buffer, element, end: DATA_HEADER_LEN, run: None };
    let mut pulled = Pulled { adus: 0, finished: false };
    let mut bytes = 0;
    while bytes < budget && receiver.accepts() {
        match inbox.pull(channel, receiver)? {
            Received::Adu { len } => {
                pulled.adus += 1;
                bytes += len;
            }
            Received::Nothing => break,
            Received::Finished => {
                pulled.finished = true;
                break;
            }
        }
    }
    inbox.flush(receiver, None)?;
    Ok(pulled)
}

struct Inbox<'a> {
    buffer: &'a mut [u8],
    element: Element,
    /// End of the contents; at least the length of a header.
    end: usize,
    run: Option<Run>,
}

impl Inbox<'_> {
    fn pull<C: Channel + ?Sized>(
        &mut self,
        channel: &mut C,
        receiver: &mut impl Receiver,
    ) -> Result<Received, Error> {
        if self.end > DATA_HEADER_LEN + WINDOW_LEN {
            self.flush(receiver, None)?;
        }
        let slot = self.end - DATA_HEADER_LEN;
        let mut aside = [0; DATA_HEADER_LEN];
        aside.copy_from_slice(&self.buffer[slot..self.end]);
        let received = channel.recv(&mut self.buffer[slot..])?;
        let mut header = [0; DATA_HEADER_LEN];
        header.copy_from_slice(&self.buffer[slot..self.end]);
        self.buffer[slot..self.end].copy_from_slice(&aside);
        let Received::Adu { len } = received else { return Ok(received) };
        let data = match len {
            DATA_HEADER_LEN.. => DataHeader::parse(&header, self.element)?,
            _ => None,
        };
        match data {
            Some(data) => self.data(data, len, receiver)?,
            None => self.message(&header, len, receiver)?,
        }
        Ok(received)
    }

    /// The contents of an ADU of `len` bytes lie at `end`.
    fn data(
        &mut self,
        data: DataHeader,
        len: usize,
        receiver: &mut impl Receiver,
    ) -> Result<(), Error> {
        let contents_len = data.len as usize;
        let behind_header = len - DATA_HEADER_LEN;
        if contents_len > behind_header {
            let (expected, found) = (data.message_len(self.element), len as u64);
            return Err(Violation::DataLength { expected, found }.into());
        }
        let tail = &self.buffer[self.end + contents_len..self.end + behind_header];
        let sum = data.tail(tail, self.element)?;
        let continues = self.run.is_some_and(|run| {
            run.xid == data.xid
                && run.copy == data.copy
                && run.position.checked_add(run.len as u64) == Some(data.position)
        });
        match &mut self.run {
            Some(run) if continues => run.len += contents_len,
            _ => {
                let start = self.end;
                self.hand_on(receiver, None)?;
                self.end = start;
                let (xid, copy, position) = (data.xid, data.copy, data.position);
                self.run = Some(Run { xid, copy, position, len: contents_len });
            }
        }
        self.end += contents_len;
        if sum.is_some() { self.hand_on(receiver, sum) } else { Ok(()) }
    }

    /// An ADU of `len` bytes lies at the slot, but for its first bytes, which are in `header`.
    fn message(
        &mut self,
        header: &[u8; DATA_HEADER_LEN],
        len: usize,
        receiver: &mut impl Receiver,
    ) -> Result<(), Error> {
        let slot = self.end - DATA_HEADER_LEN;
        self.hand_on(receiver, None)?;
        self.buffer[slot..slot + DATA_HEADER_LEN].copy_from_slice(header);
        let bytes = &mut self.buffer[slot..slot + len];
        self.end = DATA_HEADER_LEN;
        let prefix = Prefix::of(bytes, self.element)?;
        if prefix.kind == HOLE {
            return receiver.hole(Hole::parse(bytes, self.element)?);
        }
        receiver.message(prefix, bytes)
    }

    /// Hands on the run and begins at the front of the buffer again.
    fn flush(&mut self, receiver: &mut impl Receiver, sum: Option<BlockSum>) -> Result<(), Error> {
        self.hand_on(receiver, sum)?;
        self.end = DATA_HEADER_LEN;
        Ok(())
    }

    fn hand_on(
        &mut self,
        receiver: &mut impl Receiver,
        sum: Option<BlockSum>,
    ) -> Result<(), Error> {
        let Some(run) = self.run.take() else { return Ok(()) };
        receiver.contents(run, &self.buffer[self.end - run.len..self.end], sum)
    }
}
