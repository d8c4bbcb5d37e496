//! What each side of a connection does in a turn: it takes what has come, works, and sends what there is to send, in
//! bundles where the other side takes them.

use crate::bundle::Bundler;
use crate::channel::{Channel, MAX_ADU_LEN, Sent};
use crate::inbox::{self, Receiver, WINDOW_LEN};
use crate::message::{Body, Leaving, Message};
use crate::{Element, Error, Scratch, Turn};
use fusewire_base::Instant;
use std::collections::VecDeque;

/// What a side has to do.
pub trait Work {
    /// Who takes what comes.
    fn receiver(&mut self) -> &mut dyn Receiver;

    /// Does what can be done now, within bounds.
    ///
    /// # Errors
    /// The channel broke, or a message could not be made.
    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error>;

    /// Whether there will be nothing to do any more.
    ///
    /// # Errors
    /// There would be, but the peer has finished.
    fn ends(&self, peer_finished: bool) -> Result<bool, Error>;

    /// Nothing happens now.
    fn rest(&mut self) {}
}

/// What there is to work with in a turn.
pub struct Step<'a> {
    /// Where messages go.
    pub channel: &'a mut dyn Channel,
    /// The thread's buffers.
    pub scratch: &'a mut Scratch,
    /// The time.
    pub now: Instant,
    /// What was done.
    pub turn: Turn,
}

/// One side of a connection: a machine without I/O of its own on the network.
///
/// [`Machine::turn`] receives and sends what the channel has and takes, about a window of a file each way, and
/// returns; call it again when the channel has something new, or at once if it says that it worked. Buffers belong to
/// the thread ([`Scratch`]).
#[derive(Debug)]
pub struct Machine<W> {
    pub(crate) work: W,
    bundler: Bundler,
    peer_finished: bool,
    finished: bool,
}

impl<W: Work> Machine<W> {
    /// `bundles`: the peer takes bundles.
    pub(crate) fn of(work: W, element: Element, bundles: bool) -> Self {
        let bundler = Bundler::new(element, bundles);
        Machine { work, bundler, peer_finished: false, finished: false }
    }

    /// Nothing waits to be sent in a bundle.
    pub(crate) fn is_flushed(&self) -> bool {
        self.bundler.is_empty()
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The peer broke the protocol or the channel broke: drop the machine and the connection. What goes wrong with
    /// one request, or one file, is told to who has to know and is no error here, except to a listing.
    pub fn turn(
        &mut self,
        channel: &mut dyn Channel,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Turn, Error> {
        let Machine { work, bundler, peer_finished, finished } = self;
        let mut turn = Turn { finished: *finished, ..Turn::default() };
        if turn.finished {
            return Ok(turn);
        }
        bundler.turn(channel, scratch, |channel, scratch| {
            if !*peer_finished {
                let budget = WINDOW_LEN + MAX_ADU_LEN;
                let pulled = inbox::receive(channel, &mut scratch.intake, work.receiver(), budget)?;
                turn.worked |= pulled.adus > 0;
                *peer_finished = pulled.finished;
            }
            let mut step = Step { channel: &mut *channel, scratch, now, turn };
            work.work(&mut step)?;
            turn = step.turn;
            if channel.flush()? == Sent::Taken && work.ends(*peer_finished)? {
                channel.finish()?;
                *finished = true;
                turn.finished = true;
            }
            if !turn.worked {
                work.rest();
            }
            Ok(turn)
        })
    }
}

/// Messages on their way to the channel, which may have no room for them yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// How contents are marshalled.
    pub(crate) element: Element,
    waiting: VecDeque<Message<'static>>,
}

impl Outbox {
    pub(crate) fn new(element: Element) -> Self {
        Outbox { element, waiting: VecDeque::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a message that is sent later, if it can be.
    pub(crate) fn put(&mut self, xid: u32, body: Body<'static>) -> Result<(), Error> {
        let message = Message { xid, body };
        Leaving::of(&message, self.element)?;
        self.waiting.push_back(message);
        Ok(())
    }

    /// Sends what there is room for.
    pub(crate) fn send(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        while let Some(message) = self.waiting.front() {
            if step.channel.send(&Leaving::of(message, self.element)?)? == Sent::Full {
                break;
            }
            self.waiting.pop_front();
            step.turn.worked = true;
        }
        Ok(())
    }
}
