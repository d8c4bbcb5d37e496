//! What TCP sockets are bound to before they listen or connect: the stack itself knows of listeners and connections
//! only.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use crate::ip::config::{Error, Result};
use crate::ip::sharing::{Claim, Sharing};
use crate::ip::stack::Stack;

/// Ports for TCP sockets that are bound to none: 32768 to 49151, below the ports that connections are given, so that
/// the two never meet.
const FIRST_PORT: u16 = 32768;
const PORTS: u64 = 16384;

/// The addresses that TCP sockets of a stack are bound to, by port.
#[derive(Debug, Default)]
pub struct Bound(HashMap<u16, Vec<Claim>>);

impl Bound {
    /// Keeps an address for a socket, beside those that it shares it with; port 0 asks for any. Beside the kernel the port is
    /// claimed there too.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotOurs`], what [`Stack::claim_port`] says.
    pub fn reserve(
        &mut self,
        stack: &mut Stack,
        local: SocketAddr,
        sharing: Sharing,
    ) -> Result<SocketAddr> {
        if !local.ip().is_unspecified() && !stack.layer().is_own(local.ip()) {
            return Err(Error::NotOurs(local));
        }
        let claimed = |local: SocketAddr| Claim { local, sharing };
        let is_free = |at: &SocketAddr| {
            let others = self.0.get(&at.port()).map_or(&[][..], Vec::as_slice);
            !others.iter().any(|other| other.excludes(&claimed(*at)))
        };
        let mut claim = |at: SocketAddr| stack.claim_port(at).map(|()| at);
        let in_use = Err(Error::InUse(local));
        let found = if local.port() != 0 {
            Some(local).filter(is_free).map_or(in_use, claim)
        } else {
            let begin = RandomState::new().hash_one(local);
            let places = (0..PORTS).map(|at| (begin % PORTS + at) % PORTS);
            let ports = places.map(|at| SocketAddr::new(local.ip(), FIRST_PORT + at as u16));
            let mut tries = ports.filter(is_free).map(&mut claim);
            tries.find(|tried| !matches!(tried, Err(Error::InUse(_)))).unwrap_or(in_use)
        }?;
        self.0.entry(found.port()).or_default().push(claimed(found));
        Ok(found)
    }

    /// Gives back what [`Bound::reserve`] gave.
    pub fn release(&mut self, stack: &mut Stack, local: SocketAddr) {
        let Some(others) = self.0.get_mut(&local.port()) else { return };
        if let Some(at) = others.iter().position(|other| other.local == local) {
            others.swap_remove(at);
            if others.is_empty() {
                self.0.remove(&local.port());
                stack.give_up_port(local.port());
            }
        }
    }
}
