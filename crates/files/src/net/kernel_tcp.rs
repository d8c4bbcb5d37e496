//! The transfer over kernel TCP sockets, a thread a connection: for where UDP is blocked.

use super::line::{self, LOOK_EVERY};
use super::server::{Control, Other};
use crate::Error;
use crate::channel::ChannelError;
use crate::server::Share;
use fusewire_session::ServerConfig;
use fusewire_stack::kernel_tcp::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Connections at once, each with a thread.
const CONNECTIONS_MAX: usize = 256;
/// How long a peer may be silent within the handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

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
    let config = config.clone();
    let local = stream.local_addr().unwrap_or(peer);
    let other = Other { protocol: "kernel-tcp", local, peer };
    line::begin(CONNECTIONS_MAX, other, share, control, move || {
        let os = |e| Error::os("set up the socket of", peer.to_string().as_bytes(), e);
        // Not inherited from the listener everywhere.
        stream.set_nonblocking(false).map_err(os)?;
        stream.set_read_timeout(Some(HANDSHAKE_WAIT)).map_err(os)?;
        stream.set_write_timeout(Some(HANDSHAKE_WAIT)).map_err(os)?;
        let mut connection = Connection::accept(stream, &config).map_err(ChannelError::from)?;
        connection.set_nonblocking().map_err(ChannelError::from)?;
        tracing::info!(%peer, key = %connection.peer().0, "connected over kernel TCP");
        Ok(Box::new(connection))
    });
}
