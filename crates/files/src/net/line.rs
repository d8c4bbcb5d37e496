//! Links that have a thread each: kernel TCP, shared memory.

use super::RECORD_OVERHEAD;
use super::server::{Bounds, Control, Other, Place};
use crate::channel::{Channel, ChannelError, Received, Sent};
use crate::message::Code;
use crate::server::{self, Share};
use crate::{Element, Error, Scratch};
use fusewire_codec::pipeline::{Marshal, Unmarshal};
use fusewire_stack::{Clock, Fingerprint, Link, Session};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Bytes of an ADU where no segment bounds it and nobody chooses, as over kernel TCP and shared memory: as long as the
/// buffers like.
pub const ADU_LEN: usize = 64 << 10;
/// How long a connection must have been idle to make room for another of its kind.
pub(super) const IDLE_MIN: Duration = Duration::from_secs(10);
/// How often a thread that waits looks whether the server stops.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A link, borrowed for a turn.
pub(super) struct LinkChannel<'a>(pub(super) &'a mut dyn Link);

impl Channel for LinkChannel<'_> {
    fn max_adu(&self) -> usize {
        let fitting = self.0.adu_len();
        // A path that carries less than this carries it in pieces.
        if fitting < 512 { self.0.adu_len_max().min(512) } else { fitting.min(ADU_LEN) }
    }

    fn room(&mut self) -> usize {
        let record = self.max_adu() + RECORD_OVERHEAD;
        self.0.room_for(record) / record
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        Ok(if self.0.try_send_message(message)?.is_ready() { Sent::Taken } else { Sent::Full })
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        Ok(match self.0.try_recv_any_message(into)? {
            Poll::Ready(Some(len)) => Received::Adu { len },
            Poll::Ready(None) => Received::Finished,
            Poll::Pending => Received::Nothing,
        })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        // What there is no room for follows when the transfer is over.
        let _ = self.0.try_finish()?;
        Ok(())
    }
}

/// Begins a thread that serves one connection to its end, if there is a place for it within `bounds`.
pub(super) fn begin(
    bounds: Bounds,
    other: Other,
    share: &Arc<Share>,
    control: &Arc<Control>,
    link: impl Link + 'static,
) {
    let (share, control) = (Arc::clone(share), Arc::clone(control));
    // Who is gone is missed at once.
    spawn(other.protocol, move || serve(bounds, other, &share, &control, link, drop));
}

/// Begins a thread.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(run) {
        tracing::warn!(%error, "cannot start a thread");
    }
}

/// Serves one connection to its end, if there is a place for it within `bounds`; `abort` resets it when there is no time left.
pub(super) fn serve<L: Link>(
    bounds: Bounds,
    other: Other,
    share: &Arc<Share>,
    control: &Arc<Control>,
    mut link: L,
    abort: impl FnOnce(L),
) {
    let Other { protocol, peer, .. } = other;
    let Some(mut place) = control.enter(bounds, other) else {
        tracing::warn!(%peer, "refused: too many connections over {protocol}");
        return;
    };
    let Session { peer: key, options, .. } = link.session();
    let session = share.session_of(Some(key), Element::of_swap(options.element)).named(peer);
    let session = session.tagged(!options.cipher.is_insecure());
    match converse(&mut link, key, session, control, &mut place) {
        Ok(true) => tracing::info!(%peer, "closed"),
        Ok(false) => {
            tracing::info!(%peer, "there is no time left");
            abort(link);
        }
        Err(error) => tracing::info!(%peer, %error, "broken off"),
    }
}

/// One connection from its handshake to its end; false: there is no time left for that.
fn converse(
    link: &mut dyn Link,
    key: Fingerprint,
    mut session: server::Session,
    control: &Control,
    place: &mut Place,
) -> Result<bool, Error> {
    let (mut scratch, clock) = (Scratch::new(), Clock::new());
    let mut readmitted = 0;
    loop {
        // Also what changed between its handshake and this.
        if control.news(&mut readmitted).is_some_and(|admits| !admits(key)) {
            return Err(Error::local(Code::Denied, b"not served any more"));
        }
        if control.is_over() {
            return Ok(session.is_idle());
        }
        let now = clock.now();
        let turn = session.turn(&mut LinkChannel(link), &mut scratch, now)?;
        if turn.finished {
            while link.try_finish().map_err(ChannelError::from)?.is_pending() {
                if control.is_over() {
                    return Ok(false);
                }
                link.wait(Some(LOOK_EVERY)).map_err(ChannelError::from)?;
            }
            return Ok(true);
        }
        let _ = link.try_flush().map_err(ChannelError::from)?;
        place.set_idle(!turn.worked && session.is_at_rest());
        if !turn.worked {
            if place.is_lost() {
                tracing::info!("nothing was asked for, and another needs the place");
                return Ok(true);
            }
            if control.is_draining() && session.is_idle() {
                return Ok(true);
            }
            let wait = turn.wait_until.map_or(LOOK_EVERY, |at| at.saturating_since(now));
            link.wait(Some(wait.min(LOOK_EVERY))).map_err(ChannelError::from)?;
        }
    }
}
