//! The transfer over shared memory, a thread a connection: for clients of the same host that ask for it.

use super::line;
use super::server::Control;
use crate::server::Share;
use fusewire_stack::shm::Listener;
use std::sync::Arc;

/// Connections at once that are not over the stack; each of these has two rings and a thread.
const CONNECTIONS_MAX: usize = 128;

/// Lets in those who were invited over their sessions, until the server drains.
///
/// # Errors
/// The listener is broken.
pub fn serve(
    listener: &mut Listener,
    share: &Arc<Share>,
    control: &Arc<Control>,
) -> fusewire_stack::Result<()> {
    while !control.is_draining() {
        let Some(connection) = listener.accept(line::LOOK_EVERY)? else { continue };
        let peer = connection.remote_addr();
        tracing::info!(%peer, key = %connection.peer(), "connected over shared memory");
        line::begin("shm", CONNECTIONS_MAX, peer, share, control, || Ok(Box::new(connection)));
    }
    Ok(())
}
