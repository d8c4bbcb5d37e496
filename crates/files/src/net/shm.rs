//! The transfer over shared memory, a thread a connection: for clients of the same host that ask for it.

use super::line::{self, IDLE_MIN, LOOK_EVERY};
use super::server::{Bounds, Control, Other};
use crate::server::Share;
use fusewire_stack::Link;
use fusewire_stack::shm::Listener;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Connections at once; each has two rings and a thread.
const BOUNDS: Bounds = Bounds { max: 128, idle_min: IDLE_MIN };
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Lets in those who were invited over their sessions, until the server drains.
pub fn serve(listener: &mut Listener, share: &Arc<Share>, control: &Arc<Control>) {
    while !control.is_draining() {
        match listener.accept(LOOK_EVERY) {
            Ok(Some(connection)) => {
                let session = connection.session();
                let peer = session.remote.unwrap_or(NOWHERE);
                tracing::info!(%peer, key = %session.peer, "connected over shared memory");
                // Rings have no address: what is known is the session that they began in.
                let other = Other { protocol: "shm", local: NOWHERE, peer };
                line::begin(BOUNDS, other, share, control, connection);
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
