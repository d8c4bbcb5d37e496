//! What passes an interface, for a capture under way ([`feed`](super::feed)).

use std::time::Duration;

use fusewire_base::{Instant, Sum};

use super::feed::{Blocks, Feed, Options, begin};
use crate::interface::{Checksum, Link};
use crate::pcapng::{self, Direction, Packet};

/// A capture of an interface with packets. `now` is the stack's time.
pub fn of_interface(name: &str, link: Link, options: Options, now: Instant) -> (Feed, Blocks) {
    let link_type = match link {
        Link::Ethernet => pcapng::LINKTYPE_ETHERNET,
        Link::Ip => pcapng::LINKTYPE_RAW,
    };
    begin(name, link_type, options, now)
}

impl Feed {
    /// A packet of an interface; what the device would have made of its checksum is made here.
    pub fn packet<'a>(
        &mut self,
        at: Instant,
        direction: Direction,
        comment: [&str; 2],
        checksum: Checksum,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) {
        let Some(comment) = self.admit(comment) else { return };
        let (time, snap_len) = (self.epoch + Duration::from_nanos(at.as_ns()), self.snap_len);
        let len = parts.clone().map(<[u8]>::len).sum();
        let packet = Packet { interface: 0, time, direction, len, comment: &comment };
        pcapng::packet(&mut self.blocks, &packet, |out| {
            let begin = out.len();
            parts.for_each(|part| out.extend(part));
            finish(&mut out[begin..], checksum);
            out.truncate(begin + len.min(snap_len));
        });
        self.pass_on_when_full();
    }
}

/// The checksum that was left to the device.
fn finish(packet: &mut [u8], checksum: Checksum) {
    let Checksum::Partial { start, offset } = checksum else { return };
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    if packet.len() < at + 2 {
        return;
    }
    let sum = match (Sum::of(&packet[start..]).checksum(), offset) {
        // Zero would say that there is none (RFC 768).
        (0, 6) => 0xffff,
        (sum, _) => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
