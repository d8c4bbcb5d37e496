//! Messages of datagram sockets whose next hop is being asked for. Each neighbour has so many places (RFC 1122, section 2.3.2.2, asks
//! for one), and there is a bound for all: beyond it, of the neighbours for which more waits than would be each one's part, the one
//! for which something has waited longest loses that. So silent ones take nobody's place who will answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// What waits.
#[derive(Default)]
pub struct Pending {
    /// By their places, which are in the order in which they were sent.
    calls: BTreeMap<u64, PendingCall>,
    /// The place of the next one.
    next: u64,
    bytes: usize,
    each: HashMap<IpAddr, Load>,
    /// How many are a socket's.
    sockets: HashMap<SocketId, usize>,
    /// The IP layer's generation when they were last tried.
    pub generation: u64,
    /// The interface had no room for one whose way is known.
    pub is_blocked: bool,
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

/// What waits for one neighbour.
#[derive(Default)]
struct Load {
    places: BTreeSet<u64>,
    bytes: usize,
}

impl PendingCall {
    /// How many messages.
    pub fn count(&self) -> u64 {
        self.bytes.len().div_ceil(self.message_len.max(1)).max(1) as u64
    }
}

impl Pending {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Something of this socket's does.
    pub fn waits(&self, id: SocketId) -> bool {
        self.sockets.contains_key(&id)
    }

    /// When the oldest is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.calls.first_key_value().map(|(_, call)| call.until)
    }

    /// A call of so many bytes has room among those for one neighbour.
    pub fn admits(&self, next_hop: IpAddr, len: usize) -> bool {
        let Some(load) = self.each.get(&next_hop) else { return len <= BYTES };
        load.places.len() < CALLS && load.bytes + len <= BYTES
    }

    /// It waits.
    pub fn add(&mut self, call: PendingCall) {
        self.put(self.next, call);
        self.next += 1;
    }

    /// It waits on, where it has waited.
    pub fn put(&mut self, place: u64, call: PendingCall) {
        let load = self.each.entry(call.next_hop).or_default();
        load.places.insert(place);
        load.bytes += call.bytes.len();
        self.bytes += call.bytes.len();
        *self.sockets.entry(call.id).or_default() += 1;
        self.calls.insert(place, call);
    }

    /// The places of all, or of those that wait no longer.
    pub fn places(&self, late_by: Option<Instant>) -> Vec<u64> {
        let is_due = |call: &PendingCall| late_by.is_none_or(|now| call.until <= now);
        self.calls.iter().take_while(|(_, call)| is_due(call)).map(|(place, _)| *place).collect()
    }

    /// The one at a place.
    pub fn at(&self, place: u64) -> Option<&PendingCall> {
        self.calls.get(&place)
    }

    /// Takes it out.
    pub fn remove(&mut self, place: u64) -> Option<PendingCall> {
        let call = self.calls.remove(&place)?;
        self.bytes -= call.bytes.len();
        if let Some(load) = self.each.get_mut(&call.next_hop) {
            load.places.remove(&place);
            load.bytes -= call.bytes.len();
            if load.places.is_empty() {
                self.each.remove(&call.next_hop);
            }
        }
        if let Some(count) = self.sockets.get_mut(&call.id) {
            *count -= 1;
            if *count == 0 {
                self.sockets.remove(&call.id);
            }
        }
        Some(call)
    }

    /// Takes one out that is too many; not the one that came last.
    pub fn pop_excess(&mut self) -> Option<PendingCall> {
        let (has_bytes, neighbors) = (self.bytes > ALL_BYTES, self.each.len());
        if !has_bytes && self.calls.len() <= ALL_CALLS {
            return None;
        }
        let has_more_than_his_part = |load: &Load| match has_bytes {
            true => load.bytes * neighbors > ALL_BYTES,
            false => load.places.len() * neighbors > ALL_CALLS,
        };
        let newest = *self.calls.last_key_value()?.0;
        let oldest = |load: &Load| Some((!has_more_than_his_part(load), *load.places.first()?));
        let oldest = self.each.values().filter_map(oldest).filter(|(_, place)| *place != newest);
        let (_, place) = oldest.min()?;
        self.remove(place)
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

    fn waiting(pending: &Pending, host: u32) -> usize {
        pending.calls.values().filter(|waiting| waiting.next_hop == call(host, 0).next_hop).count()
    }

    #[test]
    fn each_neighbour_has_its_places_and_who_has_more_than_his_part_loses_the_oldest() {
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
        assert_eq!(pending.calls.len(), ALL_CALLS);
        assert!(pending.waits(call(9, 1).id) && pending.waits(call(3, 1).id));
        // Nothing is left of what was taken out.
        for place in pending.places(None) {
            pending.remove(place).unwrap();
        }
        assert!(pending.each.is_empty() && pending.sockets.is_empty() && pending.bytes == 0);
        // The same of bytes.
        pending.add(call(9, 1));
        for host in 100..100 + (ALL_BYTES / BYTES) as u32 {
            fill(&mut pending, host, 64 << 10);
        }
        let call = pending.pop_excess().expect("one too many");
        assert_eq!((call.bytes.len(), pending.pop_excess().is_none()), (64 << 10, true));
        assert!(pending.bytes <= ALL_BYTES && pending.waits(super::tests::call(9, 1).id));
    }

    /// Who is asked for last stays, be there as many others as may be with as much as it: those that wait longest go.
    #[test]
    fn what_came_last_stays_and_what_waits_longest_goes() {
        let mut pending = Pending::default();
        let all = 1000..1000 + ALL_CALLS as u32;
        all.clone().for_each(|host| pending.add(call(host, 1)));
        for (newcomer, oldest) in (1..=64).zip(all.clone()) {
            pending.add(call(newcomer, 1));
            let lost = pending.pop_excess().map(|lost| lost.next_hop);
            assert_eq!(lost, Some(call(oldest, 0).next_hop));
            assert!(pending.pop_excess().is_none() && waiting(&pending, newcomer) == 1);
        }
        // Also a long one, beside many that are shorter than it.
        let mut pending = Pending::default();
        let len = ALL_BYTES / 512;
        (1000..1512).for_each(|host| pending.add(call(host, len)));
        assert!(pending.pop_excess().is_none());
        pending.add(call(1, BYTES));
        let mut lost = Vec::new();
        while let Some(call) = pending.pop_excess() {
            lost.push(call.next_hop);
        }
        let oldest = (1000..1000 + BYTES / len).map(|host| call(host as u32, 0).next_hop);
        assert_eq!((lost, waiting(&pending, 1)), (oldest.collect(), 1));
        // One that answers keeps what it sent first while others take more than their part.
        let mut pending = Pending::default();
        pending.add(call(1, 100));
        for host in 1000..1000 + 2 * (ALL_BYTES / BYTES) as u32 {
            fill(&mut pending, host, 32 << 10);
            while pending.pop_excess().is_some() {}
        }
        assert_eq!(waiting(&pending, 1), 1);
    }

    #[test]
    fn what_waits_on_keeps_its_place() {
        let mut pending = Pending::default();
        let until = Instant::from_ms;
        (1..=5).for_each(|at| pending.add(PendingCall { until: until(at), ..call(1, 10) }));
        assert_eq!(pending.places(Some(until(2))), [0, 1]);
        let first = pending.remove(0).unwrap();
        assert_eq!(pending.deadline(), Some(until(2)));
        pending.put(0, first);
        assert_eq!((pending.deadline(), pending.bytes), (Some(until(1)), 50));
        assert_eq!(pending.places(None), [0, 1, 2, 3, 4]);
        assert!(pending.places(Some(until(0))).is_empty());
    }
}
