//! The transfer over kernel TCP sockets, a thread a connection: for where UDP is blocked.

use super::RECORD_OVERHEAD;
use super::server::Control;
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use crate::server::Share;
use crate::{Element, Error, Scratch};
use fusewire_session::ServerConfig;
use fusewire_stack::{Clock, kernel_tcp::Connection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// ADUs over kernel TCP: there are no segments to fit into, so they are as long as the buffers like.
const ADU_LEN: usize = 64 << 10;
/// Connections at once, each with a thread.
const CONNECTIONS_MAX: usize = 256;
/// How long a peer may be silent within the handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// How often a thread that waits looks whether the server stops.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One connection, borrowed for a turn.
pub(super) struct TcpChannel<'a>(pub(super) &'a mut Connection);

impl Channel for TcpChannel<'_> {
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

/// Takes connections until the server drains.
///
/// # Errors
/// The listener is broken.
pub fn serve(
    listener: &TcpListener,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Arc<Control>,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    while !control.is_draining() {
        match listener.accept() {
            Ok((stream, peer)) => begin(stream, peer, config, share, control),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(listener)?,
            // A connection that broke while it waited, or no descriptors for now.
            Err(error) => {
                tracing::debug!(%error, "cannot accept");
                wait(listener)?;
            }
        }
    }
    Ok(())
}

fn wait(listener: &TcpListener) -> std::io::Result<()> {
    let timeout = Timespec::try_from(LOOK_EVERY).ok();
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn begin(
    stream: TcpStream,
    peer: SocketAddr,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Arc<Control>,
) {
    let Some(place) = control.enter(CONNECTIONS_MAX) else {
        tracing::warn!(%peer, "refused: too many connections over kernel TCP");
        return;
    };
    let (config, share, control) = (config.clone(), Arc::clone(share), Arc::clone(control));
    let thread = std::thread::Builder::new().name("kernel-tcp".into()).spawn(move || {
        let _place = place;
        match converse(stream, peer, &config, &share, &control) {
            Ok(()) => tracing::info!(%peer, "closed"),
            Err(error) => tracing::info!(%peer, %error, "broken off"),
        }
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "cannot start a thread");
    }
}

/// One connection from its handshake to its end.
fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Control,
) -> Result<(), Error> {
    let os = |e| Error::os("set up the socket of", peer.to_string().as_bytes(), e);
    // Not inherited from the listener everywhere.
    stream.set_nonblocking(false).map_err(os)?;
    stream.set_read_timeout(Some(HANDSHAKE_WAIT)).map_err(os)?;
    stream.set_write_timeout(Some(HANDSHAKE_WAIT)).map_err(os)?;
    let mut connection = Connection::accept(stream, config).map_err(ChannelError::from)?;
    connection.set_nonblocking().map_err(ChannelError::from)?;
    tracing::info!(%peer, key = %connection.peer().0, "connected over kernel TCP");
    let mut session = share.session(Element::of_swap(connection.options().element));
    let (mut scratch, clock) = (Scratch::new(), Clock::new());
    loop {
        let now = clock.now();
        let turn = session.turn(&mut TcpChannel(&mut connection), &mut scratch, now)?;
        if turn.finished {
            while !connection.try_finish().map_err(ChannelError::from)? {
                connection.wait(Some(LOOK_EVERY)).map_err(ChannelError::from)?;
            }
            return Ok(());
        }
        connection.try_flush().map_err(ChannelError::from)?;
        if !turn.worked {
            if control.is_draining() && session.is_idle() || control.is_over() {
                return Ok(());
            }
            let wait = turn.wait_until.map_or(LOOK_EVERY, |at| at.saturating_since(now));
            connection.wait(Some(wait.min(LOOK_EVERY))).map_err(ChannelError::from)?;
        }
    }
}
