//! Receiving: ADUs are opened end to end, so that contents that follow one another in the file lie side by
//! side in memory and are hashed and written in one piece.
//!
//! ```text
//! buffer   |·· 24 ··|contents k    |contents k+1  |
//!                   ^run.start            ▲       ^end
//!                            slot: ADU k+2 is opened here,
//!                            head over the last 24 bytes before `end`
//! ```
//! The next ADU is opened 24 bytes before the end of the contents, so that its contents begin where the last
//! ones end. What its head covers is put aside for that moment and put back. An ADU that does not continue
//! the run begins another one, in the same place, after the run was handed on.

use crate::Element;
use crate::blocks::BlockHash;
use crate::channel::{Channel, MAX_ADU_LEN, Received};
use crate::error::{Error, Violation};
use crate::message::{self, Body, Data, HEAD_LEN, Hole, Message, Prefix};

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
        let read = vec![0; HEAD_LEN + WINDOW_LEN + MAX_ADU_LEN];
        Scratch { intake: Intake::new(), read, spare: Vec::new() }
    }
}

/// Contents that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The request that they belong to.
    pub xid: u32,
    /// Which copy, from 0.
    pub copy: u32,
    /// Where in the file the first of them belongs.
    pub position: u64,
    /// Bytes of contents.
    pub len: usize,
}

/// Takes what arrives, in the order of arrival.
pub trait Receiver {
    /// How contents are marshalled.
    fn element(&self) -> Element;

    /// Contents, and the hash of the block that they end, if one came. Who asks for none gets none.
    ///
    /// # Errors
    /// They are not what was asked for.
    fn contents(&mut self, run: Run, _: &[u8], _: Option<BlockHash>) -> Result<(), Error> {
        Err(Violation::UnknownRequest { xid: run.xid }.into())
    }

    /// A hole, for the request `xid`.
    ///
    /// # Errors
    /// It is not what was asked for.
    fn hole(&mut self, xid: u32, _: Hole) -> Result<(), Error> {
        Err(Violation::UnknownRequest { xid }.into())
    }

    /// Any other message.
    ///
    /// # Errors
    /// It is none that may come now.
    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error>;

    /// Whether more may come; asked before each ADU.
    fn accepts(&self) -> bool {
        true
    }
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
pub(crate) fn receive(
    channel: &mut dyn Channel,
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

fn receive_some(
    channel: &mut dyn Channel,
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
    /// What lies where the next ADU's head goes.
    aside: [u8; HEAD_LEN],
    /// End of the contents; at least the length of a head.
    end: usize,
    run: Option<Run>,
}

impl Intake {
    /// Allocates the buffer, about half a mebibyte.
    fn new() -> Self {
        let buffer = vec![0; HEAD_LEN + WINDOW_LEN + 2 * MAX_ADU_LEN];
        Intake { buffer, aside: [0; HEAD_LEN], end: HEAD_LEN, run: None }
    }

    /// Memory for the next ADU, at least [`MAX_ADU_LEN`] bytes. Either the ADU is then taken or
    /// [`Intake::dropped`] is called; one ADU at a time.
    fn place(&mut self) -> &mut [u8] {
        let slot = self.end - HEAD_LEN;
        self.aside.copy_from_slice(&self.buffer[slot..self.end]);
        &mut self.buffer[slot..]
    }

    /// No ADU is in the memory that [`Intake::place`] gave.
    fn dropped(&mut self) {
        let slot = self.end - HEAD_LEN;
        self.buffer[slot..self.end].copy_from_slice(&self.aside);
    }

    /// Forgets what was collected.
    fn clear(&mut self) {
        self.run = None;
        self.end = HEAD_LEN;
    }

    /// Hands on what was collected if there may be no room for another ADU; called before [`Intake::place`].
    fn make_room(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        if self.end > HEAD_LEN + WINDOW_LEN { self.flush(receiver) } else { Ok(()) }
    }

    /// Hands on what was collected.
    fn flush(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        let result = self.hand_on(receiver, None);
        self.end = HEAD_LEN;
        result
    }

    /// An ADU of `len` bytes is in the memory that [`Intake::place`] gave.
    fn take(&mut self, len: usize, receiver: &mut dyn Receiver) -> Result<(), Error> {
        let (slot, element) = (self.end - HEAD_LEN, receiver.element());
        let adu = &mut self.buffer[slot..slot + len];
        let prefix = Prefix::of(adu, element);
        if prefix.as_ref().is_ok_and(|prefix| prefix.is_data()) {
            let opened = message::open(adu, element).map(|message| run_of(&message));
            self.dropped();
            return match opened? {
                Some((run, hash)) => self.data(run, hash, receiver),
                None => Ok(()),
            };
        }
        let opened = message::open_owned(adu, element);
        self.dropped();
        self.flush(receiver)?;
        match (prefix?, opened?.body) {
            (prefix, Body::Hole(hole)) => receiver.hole(prefix.xid, hole),
            (prefix, body) => receiver.message(prefix, body),
        }
    }

    /// Contents that lie at `end`.
    fn data(
        &mut self,
        came: Run,
        hash: Option<BlockHash>,
        receiver: &mut dyn Receiver,
    ) -> Result<(), Error> {
        let continues = self.run.is_some_and(|run| {
            run.xid == came.xid
                && run.copy == came.copy
                && run.position.checked_add(run.len as u64) == Some(came.position)
        });
        match &mut self.run {
            Some(run) if continues => run.len += came.len,
            _ => {
                self.hand_on(receiver, None)?;
                self.run = Some(came);
            }
        }
        self.end += came.len;
        if hash.is_some() { self.hand_on(receiver, hash) } else { Ok(()) }
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

/// What a data message brings.
fn run_of(message: &Message<'_>) -> Option<(Run, Option<BlockHash>)> {
    let (data, hash) = message.body.contents()?;
    let Data { copy, position, ref contents } = *data;
    Some((Run { xid: message.xid, copy, position, len: contents.len() }, hash))
}
