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
use crate::blocks::BlockHash;
use crate::channel::{Channel, MAX_ADU_LEN, Received};
use crate::error::{Error, Violation};
use crate::message::{DATA_HEADER_LEN, DataHeader, HOLE, Hole, Prefix};

/// Bytes of contents that are collected before they are hashed and written. Half of the second-level cache of
/// the machines at hand.
pub(crate) const WINDOW_LEN: usize = 256 << 10;

/// Buffers that the machines of one thread share. Nothing stays in them between two turns.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) intake: Intake,
    pub(crate) read: Vec<u8>,
    /// For bundles.
    pub(crate) spare: Vec<Vec<u8>>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Scratch {
    /// Allocates the buffers, less than a mebibyte.
    pub fn new() -> Self {
        let read = vec![0; DATA_HEADER_LEN + WINDOW_LEN + MAX_ADU_LEN];
        Scratch { intake: Intake::new(), read, spare: Vec::new() }
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
    /// How contents are marshalled.
    fn element(&self) -> Element;

    /// Contents, and the hash of the block that they end, if one came.
    fn contents(&mut self, run: Run, bytes: &[u8], hash: Option<BlockHash>) -> Result<(), Error>;

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
    intake: &mut Intake,
    receiver: &mut dyn Receiver,
    budget: usize,
) -> Result<Pulled, Error> {
    let pulled = receive_some(channel, intake, receiver, budget);
    if pulled.is_err() {
        intake.clear();
    }
    pulled
}

fn receive_some<C: Channel + ?Sized>(
    channel: &mut C,
    intake: &mut Intake,
    receiver: &mut dyn Receiver,
    budget: usize,
) -> Result<Pulled, Error> {
    let mut pulled = Pulled { adus: 0, finished: false };
    let mut bytes = 0;
    while bytes < budget && receiver.accepts() {
        intake.make_room(receiver)?;
        match channel.recv(intake.place())? {
            Received::Adu { len } => {
                intake.take(len, receiver)?;
                pulled.adus += 1;
                bytes += len;
            }
            other => {
                intake.dropped();
                pulled.finished = other == Received::Finished;
                break;
            }
        }
    }
    intake.flush(receiver)?;
    Ok(pulled)
}

/// The buffer that ADUs are opened into: see the module's text. Empty between two calls of [`receive`].
#[derive(Debug)]
pub(crate) struct Intake {
    buffer: Vec<u8>,
    /// What lies where the next ADU's header goes.
    aside: [u8; DATA_HEADER_LEN],
    /// End of the contents; at least the length of a header.
    end: usize,
    run: Option<Run>,
}

impl Intake {
    /// Allocates the buffer, about half a mebibyte.
    fn new() -> Self {
        let buffer = vec![0; DATA_HEADER_LEN + WINDOW_LEN + 2 * MAX_ADU_LEN];
        Intake { buffer, aside: [0; DATA_HEADER_LEN], end: DATA_HEADER_LEN, run: None }
    }

    /// Memory for the next ADU, at least [`MAX_ADU_LEN`] bytes. Either the ADU is then taken or
    /// [`Intake::dropped`] is called; one ADU at a time.
    fn place(&mut self) -> &mut [u8] {
        let slot = self.end - DATA_HEADER_LEN;
        self.aside.copy_from_slice(&self.buffer[slot..self.end]);
        &mut self.buffer[slot..]
    }

    /// No ADU is in the memory that [`Intake::place`] gave.
    fn dropped(&mut self) {
        let slot = self.end - DATA_HEADER_LEN;
        self.buffer[slot..self.end].copy_from_slice(&self.aside);
    }

    /// Forgets what was collected.
    fn clear(&mut self) {
        self.run = None;
        self.end = DATA_HEADER_LEN;
    }

    /// Hands on what was collected if there may be no room for another ADU; called before [`Intake::place`].
    fn make_room(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        if self.end > DATA_HEADER_LEN + WINDOW_LEN { self.flush(receiver) } else { Ok(()) }
    }

    /// Hands on what was collected.
    fn flush(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        let result = self.hand_on(receiver, None);
        self.end = DATA_HEADER_LEN;
        result
    }

    /// An ADU of `len` bytes is in the memory that [`Intake::place`] gave.
    fn take(&mut self, len: usize, receiver: &mut dyn Receiver) -> Result<(), Error> {
        let slot = self.end - DATA_HEADER_LEN;
        let mut header = [0; DATA_HEADER_LEN];
        header.copy_from_slice(&self.buffer[slot..self.end]);
        self.dropped();
        let data = match len {
            DATA_HEADER_LEN.. => DataHeader::parse(&header, receiver.element())?,
            _ => None,
        };
        match data {
            Some(data) => self.data(data, len, receiver),
            None => self.message(&header, len, receiver),
        }
    }

    /// The contents of an ADU of `len` bytes lie at `end`.
    fn data(
        &mut self,
        data: DataHeader,
        len: usize,
        receiver: &mut dyn Receiver,
    ) -> Result<(), Error> {
        let element = receiver.element();
        let contents_len = data.len as usize;
        let behind_header = len - DATA_HEADER_LEN;
        if contents_len > behind_header {
            let (expected, found) = (data.message_len(element), len as u64);
            return Err(Violation::DataLength { expected, found }.into());
        }
        let tail = &self.buffer[self.end + contents_len..self.end + behind_header];
        let hash = data.tail(tail, element)?;
        let continues = self.run.is_some_and(|run| {
            run.xid == data.xid
                && run.copy == data.copy
                && run.position.checked_add(run.len as u64) == Some(data.position)
        });
        match &mut self.run {
            Some(run) if continues => run.len += contents_len,
            _ => {
                self.hand_on(receiver, None)?;
                let (xid, copy, position) = (data.xid, data.copy, data.position);
                self.run = Some(Run { xid, copy, position, len: contents_len });
            }
        }
        self.end += contents_len;
        if hash.is_some() { self.hand_on(receiver, hash) } else { Ok(()) }
    }

    /// An ADU of `len` bytes lies at the slot, but for its first bytes, which are in `header`.
    fn message(
        &mut self,
        header: &[u8; DATA_HEADER_LEN],
        len: usize,
        receiver: &mut dyn Receiver,
    ) -> Result<(), Error> {
        let slot = self.end - DATA_HEADER_LEN;
        self.flush(receiver)?;
        self.buffer[slot..slot + DATA_HEADER_LEN].copy_from_slice(header);
        let bytes = &mut self.buffer[slot..slot + len];
        let prefix = Prefix::of(bytes, receiver.element())?;
        if prefix.kind == HOLE {
            return receiver.hole(Hole::parse(bytes, receiver.element())?);
        }
        receiver.message(prefix, bytes)
    }

    fn hand_on(
        &mut self,
        receiver: &mut dyn Receiver,
        hash: Option<BlockHash>,
    ) -> Result<(), Error> {
        let Some(run) = self.run.take() else { return Ok(()) };
        receiver.contents(run, &self.buffer[self.end - run.len..self.end], hash)
    }
}
