//! The transfer over shared memory, a thread a connection: for clients of the same host that ask for it.

use super::line::{self, LOOK_EVERY};
use super::server::Control;
use crate::server::Share;
use fusewire_stack::shm::Listener;
use std::sync::Arc;

/// Connections at once that are not over the stack; each of these has two rings and a thread.
const CONNECTIONS_MAX: usize = 128;

/// Lets in those who were invited over their sessions, until the server drains.
pub fn serve(listener: &mut Listener, share: &Arc<Share>, control: &Arc<Control>) {
    while !control.is_draining() {
        match listener.accept(LOOK_EVERY) {
            Ok(Some(connection)) => {
                let peer = connection.remote_addr();
                tracing::info!(%peer, key = %connection.peer(), "connected over shared memory");
                let open = || Ok(Box::new(connection) as _);
                line::begin("shm", CONNECTIONS_MAX, peer, share, control, open);
            }
            Ok(None) => {}
            // No descriptors for now.
            Err(error) => {
                tracing::debug!(%error, "cannot let anybody in");
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}
