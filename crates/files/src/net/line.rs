//! Connections that have a thread each and nothing of the stack: kernel TCP, shared memory.

use super::RECORD_OVERHEAD;
use super::server::{Bounds, Control, Other, Place};
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use crate::message::Code;
use crate::server::{Session, Share};
use crate::{Element, Error, Scratch};
use fusewire_session::{Fingerprint, Options};
use fusewire_stack::{Clock, kernel_tcp, shm};
use std::sync::Arc;
use std::time::Duration;

/// There are no segments to fit into, so ADUs are as long as the buffers like.
const ADU_LEN: usize = 64 << 10;
/// How long a connection must have been idle to make room for another of its kind.
pub(super) const IDLE_MIN: Duration = Duration::from_secs(10);
/// How often a thread that waits looks whether the server stops.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One such connection, without blocking but in `wait`.
pub(super) trait Line: Send {
    /// The longest ADU that the peer takes.
    fn adu_len(&self) -> usize;
    /// Bytes of records that may be sealed now, as far as that is known; `send` finds out.
    fn room(&self) -> usize;
    fn try_send(&mut self, adu: &[u8]) -> fusewire_stack::Result<bool>;
    /// Lets go what was sealed, as far as there is room.
    fn try_flush(&mut self) -> fusewire_stack::Result<()>;
    fn recv_into(&mut self, memory: &mut [u8]) -> fusewire_stack::Result<Option<usize>>;
    fn is_finished(&self) -> bool;
    fn try_finish(&mut self) -> fusewire_stack::Result<bool>;
    fn wait(&mut self, timeout: Option<Duration>) -> fusewire_stack::Result<()>;
    fn options(&self) -> Options;
    /// The peer's key.
    fn key(&self) -> Fingerprint;
}

impl Line for kernel_tcp::Connection {
    fn adu_len(&self) -> usize {
        self.adu_len()
    }
    fn room(&self) -> usize {
        self.room()
    }
    fn try_send(&mut self, adu: &[u8]) -> fusewire_stack::Result<bool> {
        self.try_send(adu)
    }
    fn try_flush(&mut self) -> fusewire_stack::Result<()> {
        self.try_flush().map(|_| ())
    }
    fn recv_into(&mut self, memory: &mut [u8]) -> fusewire_stack::Result<Option<usize>> {
        self.recv_into(memory)
    }
    fn is_finished(&self) -> bool {
        self.is_finished()
    }
    fn try_finish(&mut self) -> fusewire_stack::Result<bool> {
        self.try_finish()
    }
    fn wait(&mut self, timeout: Option<Duration>) -> fusewire_stack::Result<()> {
        self.wait(timeout)
    }
    fn options(&self) -> Options {
        self.options()
    }
    fn key(&self) -> Fingerprint {
        self.peer().0
    }
}

impl Line for shm::Connection {
    fn adu_len(&self) -> usize {
        self.adu_len()
    }
    fn room(&self) -> usize {
        self.room()
    }
    fn try_send(&mut self, adu: &[u8]) -> fusewire_stack::Result<bool> {
        self.try_send(adu)
    }
    fn try_flush(&mut self) -> fusewire_stack::Result<()> {
        self.flush();
        Ok(())
    }
    fn recv_into(&mut self, memory: &mut [u8]) -> fusewire_stack::Result<Option<usize>> {
        self.recv_into(memory)
    }
    fn is_finished(&self) -> bool {
        self.is_finished()
    }
    fn try_finish(&mut self) -> fusewire_stack::Result<bool> {
        self.try_finish()
    }
    fn wait(&mut self, timeout: Option<Duration>) -> fusewire_stack::Result<()> {
        self.wait(timeout)
    }
    fn options(&self) -> Options {
        self.options()
    }
    fn key(&self) -> Fingerprint {
        self.peer()
    }
}

/// One such connection, borrowed for a turn.
pub(super) struct LineChannel<'a>(pub(super) &'a mut dyn Line);

impl Channel for LineChannel<'_> {
    fn max_adu(&self) -> usize {
        self.0.adu_len().min(ADU_LEN).min(MAX_ADU_LEN)
    }

    fn room(&mut self) -> usize {
        // As over a stack: `send` finds out that there is none.
        (self.0.room() / (self.max_adu() + RECORD_OVERHEAD)).max(1)
    }

    fn send(&mut self, adu: &[u8]) -> Result<Sent, ChannelError> {
        Ok(if self.0.try_send(adu)? { Sent::Taken } else { Sent::Full })
    }

    fn recv(&mut self, into: &mut [u8]) -> Result<Received, ChannelError> {
        Ok(match self.0.recv_into(into)? {
            Some(len) => Received::Adu { len },
            None if self.0.is_finished() => Received::Finished,
            None => Received::Nothing,
        })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.0.try_finish()?;
        Ok(())
    }
}

/// Begins a thread that serves one connection to its end, if there is a place for it within `bounds`.
pub(super) fn begin(
    bounds: Bounds,
    other: Other,
    share: &Arc<Share>,
    control: &Arc<Control>,
    line: impl Line + 'static,
) {
    let (share, control) = (Arc::clone(share), Arc::clone(control));
    spawn(other.protocol, move || serve(bounds, other, &share, &control, line));
}

/// Begins a thread.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(run) {
        tracing::warn!(%error, "cannot start a thread");
    }
}

/// Serves one connection to its end, if there is a place for it within `bounds`.
pub(super) fn serve(
    bounds: Bounds,
    other: Other,
    share: &Arc<Share>,
    control: &Arc<Control>,
    mut line: impl Line,
) {
    let Other { protocol, peer, .. } = other;
    let Some(mut place) = control.enter(bounds, other) else {
        tracing::warn!(%peer, "refused: too many connections over {protocol}");
        return;
    };
    let (key, element) = (line.key(), Element::of_swap(line.options().element));
    let session = share.session_of(Some(key), element).named(peer);
    match converse(&mut line, session, control, &mut place) {
        Ok(()) => tracing::info!(%peer, "closed"),
        Err(error) => tracing::info!(%peer, %error, "broken off"),
    }
}

/// One connection from its handshake to its end.
fn converse(
    line: &mut dyn Line,
    mut session: Session,
    control: &Control,
    place: &mut Place,
) -> Result<(), Error> {
    let key = line.key();
    let (mut scratch, clock) = (Scratch::new(), Clock::new());
    let mut readmitted = 0;
    loop {
        // Also what changed between its handshake and this.
        if control.news(&mut readmitted).is_some_and(|admits| !admits(key)) {
            return Err(Error::local(Code::Denied, b"not served any more"));
        }
        let now = clock.now();
        let turn = session.turn(&mut LineChannel(line), &mut scratch, now)?;
        if turn.finished {
            while !line.try_finish().map_err(ChannelError::from)? {
                line.wait(Some(LOOK_EVERY)).map_err(ChannelError::from)?;
            }
            return Ok(());
        }
        line.try_flush().map_err(ChannelError::from)?;
        place.set_idle(!turn.worked && session.is_at_rest());
        if !turn.worked {
            if place.is_lost() {
                tracing::info!("nothing was asked for, and another needs the place");
                return Ok(());
            }
            if control.is_draining() && session.is_idle() || control.is_over() {
                return Ok(());
            }
            let wait = turn.wait_until.map_or(LOOK_EVERY, |at| at.saturating_since(now));
            line.wait(Some(wait.min(LOOK_EVERY))).map_err(ChannelError::from)?;
        }
    }
}
