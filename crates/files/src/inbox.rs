//! Receiving: contents that follow one another in the file are opened side by side in memory, and are hashed and written
//! in one piece.
//!
//! ```text
//! buffer   |contents k    |contents k+1  |
//!          ^run.start            ▲       ^end
//!                                contents k+2 are opened here
//! ```
//! The loop that opens an ADU has its head first, and puts its contents where the last ones end ([`Arriving`]). An ADU
//! that does not continue the run begins another one, in the same place, after the run was handed on.

use crate::Element;
use crate::blocks::BlockHash;
use crate::channel::{Channel, MAX_ADU_LEN, Received};
use crate::error::{Error, Violation};
use crate::message::{Arriving, Body, Came, Hole, Prefix, Run};
use fusewire_base::Lines;

/// Bytes of contents that are collected before they are hashed and written. Half of the second-level cache of
/// the machines at hand.
pub(crate) const WINDOW_LEN: usize = 256 << 10;

/// Buffers that the machines of one thread share. Nothing stays in them between two turns.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) intake: Intake,
    pub(crate) read: Lines,
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
        let read = Lines::new(WINDOW_LEN + MAX_ADU_LEN);
        Scratch { intake: Intake::new(), read, spare: Vec::new() }
    }
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

    /// Returns the bytes that were hashed or cleared since the last call, beyond those that arrived in messages.
    ///
    /// A hole is a message of a few bytes that can stand for a mebibyte of zeros to be hashed. A turn is bounded by its
    /// work, so these bytes count too.
    fn take_work(&mut self) -> u64 {
        0
    }

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

/// Receives until there is nothing more, `receiver` accepts nothing more, or about `budget` bytes have arrived, been hashed
/// or been cleared.
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
        let room = &mut intake.buffer[intake.end..];
        let mut arriving = Arriving::new(room, receiver.element());
        match channel.recv(&mut arriving)? {
            Received::Adu { len } => {
                let came = arriving.finish();
                intake.take(came, receiver)?;
                pulled.adus += 1;
                bytes = bytes.saturating_add(len).saturating_add(receiver.take_work() as usize);
            }
            other => {
                pulled.finished = other == Received::Finished;
                break;
            }
        }
    }
    intake.flush(receiver)?;
    Ok(pulled)
}

/// The buffer that contents are opened into: see the module's text. Empty between two calls of [`receive`].
#[derive(Debug)]
pub(crate) struct Intake {
    buffer: Lines,
    /// End of the contents that were collected. There is always room for those of another ADU.
    end: usize,
    run: Option<Run>,
}

impl Intake {
    /// Allocates the buffer, about half a mebibyte.
    fn new() -> Self {
        Intake { buffer: Lines::new(WINDOW_LEN + MAX_ADU_LEN), end: 0, run: None }
    }

    /// Forgets what was collected.
    fn clear(&mut self) {
        self.run = None;
        self.end = 0;
    }

    /// Hands on what was collected if there may be no room for another ADU; called before each.
    fn make_room(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        if self.end > WINDOW_LEN { self.flush(receiver) } else { Ok(()) }
    }

    /// Hands on what was collected.
    fn flush(&mut self, receiver: &mut dyn Receiver) -> Result<(), Error> {
        let result = self.hand_on(receiver, None);
        self.end = 0;
        result
    }

    /// A message has come, its contents to `end`.
    fn take(
        &mut self,
        came: Result<Came, fusewire_codec::Error>,
        receiver: &mut dyn Receiver,
    ) -> Result<(), Error> {
        if let Ok(Came::Contents(run, hash)) = came {
            return self.data(run, hash, receiver);
        }
        self.flush(receiver)?;
        match came? {
            Came::Message(prefix, message) => match message.body {
                Body::Hole(hole) => receiver.hole(prefix.xid, hole),
                body => receiver.message(prefix, body),
            },
            Came::Contents(..) => Ok(()),
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
