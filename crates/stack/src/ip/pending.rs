//! Messages of datagram sockets whose next hop is being asked for. Each neighbour has so many places (RFC 1122, section 2.3.2.2, asks
//! for one), and there is a bound for all: beyond it the oldest goes of the neighbour for which most waits, so that some that never
//! answer take nobody's place who will.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fusewire_base::Instant;

use super::config::{Ancillary, SocketId};

/// Bytes and calls that wait for one neighbour's answer.
const BYTES: usize = 256 << 10;
const CALLS: usize = 64;
/// And for all of them.
const ALL_BYTES: usize = 2 << 20;
const ALL_CALLS: usize = 1024;
/// How long they wait.
pub const PENDING_TIME: Duration = Duration::from_secs(3);

/// What waits, in the order in which it was sent.
#[derive(Default)]
pub struct Pending {
    calls: VecDeque<PendingCall>,
    all: Load,
    each: HashMap<IpAddr, Load>,
    /// The IP layer's generation when they were last tried.
    pub generation: u64,
}

/// Messages that one call has sent.
pub struct PendingCall {
    pub id: SocketId,
    pub to: SocketAddr,
    /// The neighbour that is asked for.
    pub next_hop: IpAddr,
    /// Other than the socket's.
    pub beside: Ancillary,
    pub message_len: usize,
    pub bytes: Vec<u8>,
    pub until: Instant,
}

#[derive(Clone, Copy, Default)]
struct Load {
    calls: usize,
    bytes: usize,
}

impl PendingCall {
    /// How many messages.
    pub fn count(&self) -> u64 {
        self.bytes.len().div_ceil(self.message_len.max(1)).max(1) as u64
    }
}

impl Load {
    fn add(&mut self, call: &PendingCall) {
        (self.calls, self.bytes) = (self.calls + 1, self.bytes + call.bytes.len());
    }

    fn remove(&mut self, call: &PendingCall) {
        (self.calls, self.bytes) = (self.calls - 1, self.bytes - call.bytes.len());
    }
}

impl Pending {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Something of this socket's does.
    pub fn waits(&self, id: SocketId) -> bool {
        self.calls.iter().any(|call| call.id == id)
    }

    /// When the oldest is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.calls.front().map(|call| call.until)
    }

    /// A call of so many bytes has room among those for one neighbour.
    pub fn admits(&self, next_hop: IpAddr, len: usize) -> bool {
        let load = self.each.get(&next_hop).copied().unwrap_or_default();
        load.calls < CALLS && load.bytes + len <= BYTES
    }

    /// It waits.
    pub fn add(&mut self, call: PendingCall) {
        self.all.add(&call);
        self.each.entry(call.next_hop).or_default().add(&call);
        self.calls.push_back(call);
    }

    /// Takes one out that is too many.
    pub fn pop_excess(&mut self) -> Option<PendingCall> {
        let most = if self.all.bytes > ALL_BYTES {
            self.each.iter().max_by_key(|(_, load)| load.bytes)
        } else if self.all.calls > ALL_CALLS {
            self.each.iter().max_by_key(|(_, load)| load.calls)
        } else {
            return None;
        };
        let next_hop = *most?.0;
        let at = self.calls.iter().position(|call| call.next_hop == next_hop)?;
        let call = self.calls.remove(at)?;
        self.all.remove(&call);
        if let Some(load) = self.each.get_mut(&next_hop) {
            load.remove(&call);
            if load.calls == 0 {
                self.each.remove(&next_hop);
            }
        }
        Some(call)
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> VecDeque<PendingCall> {
        (self.all, self.each) = (Load::default(), HashMap::new());
        std::mem::take(&mut self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(host: u32, len: usize) -> PendingCall {
        let next_hop = IpAddr::V4(host.into());
        PendingCall {
            id: SocketId { index: 0, generation: host },
            to: (next_hop, 7).into(),
            next_hop,
            beside: Ancillary::default(),
            message_len: len,
            bytes: vec![0; len],
            until: Instant::ZERO,
        }
    }

    fn fill(pending: &mut Pending, host: u32, len: usize) -> usize {
        let mut count = 0;
        while pending.admits(call(host, 0).next_hop, len) {
            pending.add(call(host, len));
            count += 1;
        }
        count
    }

    #[test]
    fn each_neighbour_has_its_places_and_who_has_most_loses_the_oldest() {
        let mut pending = Pending::default();
        assert_eq!([fill(&mut pending, 1, 1), fill(&mut pending, 2, 1)], [CALLS, CALLS]);
        assert_eq!(fill(&mut pending, 3, 60 << 10), BYTES / (60 << 10));
        assert!(pending.pop_excess().is_none());
        // All of them have a bound, and one that comes late has a place.
        let silent = 100..100 + (ALL_CALLS / CALLS) as u32;
        for host in silent {
            fill(&mut pending, host, 1);
        }
        pending.add(call(9, 1));
        let mut lost = 0;
        while let Some(call) = pending.pop_excess() {
            assert!(call.bytes.len() == 1 && call.next_hop != IpAddr::V4(9.into()));
            lost += 1;
        }
        assert_eq!(lost, 2 * CALLS + BYTES / (60 << 10) + 1);
        assert_eq!((pending.all.calls, pending.calls.len()), (ALL_CALLS, ALL_CALLS));
        assert!(pending.waits(call(9, 1).id) && pending.waits(call(3, 1).id));
        assert_eq!(pending.take().len(), ALL_CALLS);
        // The same of bytes.
        pending.add(call(9, 1));
        for host in 100..100 + (ALL_BYTES / BYTES) as u32 {
            fill(&mut pending, host, 64 << 10);
        }
        let call = pending.pop_excess().expect("one too many");
        assert_eq!((call.bytes.len(), pending.pop_excess().is_none()), (64 << 10, true));
        assert!(pending.all.bytes <= ALL_BYTES && pending.waits(super::tests::call(9, 1).id));
    }
}
