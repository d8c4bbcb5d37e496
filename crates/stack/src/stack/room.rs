//! Room in the table of connections, where it is full: one in TIME-WAIT gives up its place, or the slowest handshake.

use super::*;

/// Connections in TIME-WAIT of which one is forgotten for a new one, if nothing is to be done for it.
const WAITING_LOOKED_AT: usize = 8;
/// Connections that are looked at to find a handshake that can be given up for a new one.
const EVICT_LOOKS: usize = 256;

impl Stack {
    /// Makes room by forgetting a connection in TIME-WAIT.
    pub(super) fn evict(&mut self) -> bool {
        let index = self.idle();
        if let Some(index) = index {
            self.remove(index);
        }
        index.is_some()
    }

    /// Makes room for a client where there is none, by giving up the handshake with one that has taken
    /// longest: whoever floods pushes out the flood.
    pub(super) fn push_out_handshake(&mut self) {
        let is_full =
            self.generations.taken() >= self.config.max_connections && self.idle().is_none();
        if is_full && let Some(index) = self.slowest_handshake() {
            self.drops.count(Cause::Handshake);
            self.remove(index);
        }
    }

    /// The connection that has been in TIME-WAIT for longest. A flood of segments asks this for each: no walk
    /// over all connections.
    fn idle(&mut self) -> Option<u32> {
        while self.waiting.front().is_some_and(|&id| self.get(id).is_none()) {
            self.waiting.pop_front();
        }
        let quiet =
            |id: &&ConnectionId| self.get(**id).is_some_and(|c| !c.is_dirty && !c.is_eventful);
        self.waiting.iter().take(WAITING_LOOKED_AT).find(quiet).map(|id| id.index)
    }

    /// The handshake with a client that has taken longest, of some connections that are looked at.
    fn slowest_handshake(&mut self) -> Option<u32> {
        self.listening.as_ref()?;
        let count = self.connections.len();
        let from = self.evict_from;
        self.evict_from = (from + EVICT_LOOKS) % count.max(1);
        (0..count.min(EVICT_LOOKS))
            .map(|step| (from + step) % count)
            .filter_map(|index| {
                let c = self.connections[index].as_ref()?;
                let is_clients = c.side == Side::Server && c.is_in_handshake();
                let is_quiet = !c.is_dirty && !c.is_eventful;
                let begun = c.handshake_deadline.filter(|_| is_clients && is_quiet)?;
                Some((begun, index as u32))
            })
            .min()
            .map(|(_, index)| index)
    }

    /// A connection came into TIME-WAIT.
    pub(super) fn wait_for_strays(&mut self, index: u32) {
        // What has ended since makes room, so that there are no more than are waiting.
        self.idle();
        self.waiting.push_back(self.id(index));
    }
}
