//! Receiving: from the interface's packets to the batch.

use std::net::SocketAddr;

use fusewire_device::interface::RxPacket;
use fusewire_device::{Ecn, SuperPacket};
use fusewire_net::{Cast, Datagram, Input, PathError, PathErrorKind};
use fusewire_transport::tcp::reset_for;
use fusewire_wire::tcp;

use super::*;

/// Batches of the interface's that one call takes, where they come packet by packet.
const ROUNDS: usize = 4;

/// What became of a packet.
#[derive(PartialEq, Eq)]
enum Taken {
    Done,
    /// The batch is full.
    NoRoom,
}

impl OnInterface {
    /// Fills the batch with what waits.
    pub(super) fn fill(&mut self, now: Instant, batch: &mut RxBatch) -> io::Result<()> {
        for _ in 0..ROUNDS {
            if self.next >= self.count {
                (self.next, self.count) = (0, 0);
                self.count = match self.interface.receive() {
                    Ok(count) => count,
                    Err(e) => {
                        self.broken(now, e)?;
                        0
                    }
                };
            }
            if self.count == 0 {
                break;
            }
            while self.next < self.count {
                if self.take(now, self.next, batch) == Taken::NoRoom {
                    return Ok(());
                }
                self.next += 1;
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, index: usize, batch: &mut RxBatch) -> Taken {
        let Self { interface, layer, drops, local, .. } = self;
        let packet = interface.packet(index);
        let datagram = match layer.handle(now, packet.bytes) {
            Input::Transport(datagram) => datagram,
            Input::Error(error) => {
                self.path_error(&error);
                return Taken::Done;
            }
            Input::Consumed | Input::Dropped(_) => {
                self.speaks = true;
                return Taken::Done;
            }
        };
        if datagram.protocol != udp::NUMBER {
            drops.stray += 1;
            self.refuse(now, index, &datagram);
            return Taken::Done;
        }
        let bytes = layer.payload(packet.bytes, &datagram.payload);
        let Ok(header) = udp::Header::parse(bytes) else {
            drops.malformed += 1;
            return Taken::Done;
        };
        let is_ours = header.dst_port == local.port() && datagram.destination == local.ip();
        if !is_ours || datagram.cast != Cast::Unicast {
            drops.stray += 1;
            if datagram.cast == Cast::Unicast && self.kernel.is_none() {
                self.speaks = true;
                self.layer.answer_unreachable_port(now, packet.bytes, &datagram);
            }
            return Taken::Done;
        }
        let payload = header.payload(bytes);
        // A datagram without a byte carries nothing.
        if payload.is_empty() {
            return Taken::Done;
        }
        if let Err(cause) = judge(&packet, &datagram, &header, bytes) {
            match cause {
                Cause::Checksum => drops.checksum += 1,
                Cause::BadOffload => drops.bad_offload += 1,
            }
            return Taken::Done;
        }
        let peer = SocketAddr::new(datagram.source, header.src_port);
        let ecn = Ecn::from_tos(datagram.traffic_class);
        let has_room = match packet.segmentation {
            Segmentation::Udp { segment_len } => batch.push(SuperPacket {
                peer,
                segment_len: usize::from(segment_len).max(1),
                ecn,
                bytes: payload,
            }),
            _ => batch.push_frame(peer, ecn, payload, true),
        };
        if has_room { Taken::Done } else { Taken::NoRoom }
    }

    /// What the network says of a datagram of ours.
    fn path_error(&mut self, error: &PathError) {
        let is_ours = error.protocol == udp::NUMBER && error.local_port == self.local.port();
        // Of its word for "too big" nothing is believed: the path is probed.
        let matters = matches!(error.kind, PathErrorKind::Refused | PathErrorKind::Unreachable(_));
        if is_ours && matters {
            let peer = SocketAddr::new(error.remote, error.remote_port);
            self.tell(Event::Unreachable { peer });
        }
    }

    /// TCP for an address of our own, where nothing listens: so that a peer that tries it need not wait.
    fn refuse(&mut self, now: Instant, index: usize, datagram: &Datagram) {
        if self.kernel.is_some() || datagram.protocol != tcp::NUMBER {
            return;
        }
        let packet = self.interface.packet(index);
        let bytes = self.layer.payload(packet.bytes, &datagram.payload);
        let Ok(header) = tcp::Header::parse(bytes) else { return };
        let payload_len = bytes.len() - usize::from(header.header_len).min(bytes.len());
        if packet.checksum == Checksum::InPlace
            && !(datagram.pseudo_header + Sum::of(bytes)).verifies()
        {
            return;
        }
        let Some(reset) = reset_for(&header, payload_len as u32) else { return };
        let len = reset.emit_len();
        let (from, to) = (datagram.destination, datagram.source);
        let sum = fusewire_net::pseudo_header_sum(from, to, tcp::NUMBER, len);
        self.speaks = true;
        if let Some(out) = self.layer.answer(now, datagram, len) {
            reset.emit(out);
            let checksum = (sum + Sum::of(out)).checksum();
            out[16..18].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

enum Cause {
    Checksum,
    BadOffload,
}

/// Whether the datagram is what was sent, as far as it can be known without a pass over its payload: the stack verifies
/// each TPDU by its own checksum, and here the datagram's must be the one that an intact TPDU gives.
fn judge(
    packet: &RxPacket<'_>,
    datagram: &Datagram,
    header: &udp::Header,
    bytes: &[u8],
) -> Result<(), Cause> {
    if matches!(packet.segmentation, Segmentation::Tcp { .. }) {
        return Err(Cause::BadOffload);
    }
    match packet.checksum {
        Checksum::Verified => return Ok(()),
        Checksum::Partial { start, offset } => {
            let fits = datagram.payload.in_frame().is_some_and(|place| {
                (usize::from(start), usize::from(offset)) == (place.start, CHECKSUM_AT)
            });
            return if fits { Ok(()) } else { Err(Cause::BadOffload) };
        }
        // Of several datagrams together nobody can say it.
        Checksum::InPlace if packet.segmentation != Segmentation::None => {
            return Err(Cause::BadOffload);
        }
        Checksum::InPlace => {}
    }
    let tpdu_len = usize::from(header.len) - udp::HEADER_LEN;
    let head = datagram.pseudo_header + Sum::of(&bytes[..udp::HEADER_LEN]);
    let is_right = match header.checksum {
        // None was made, which IPv4 allows.
        0 => datagram.source.is_ipv4(),
        _ => (head + tpdu_sum(tpdu_len)).verifies(),
    };
    if is_right { Ok(()) } else { Err(Cause::Checksum) }
}

/// Where in a UDP header the checksum lies.
const CHECKSUM_AT: usize = 6;
