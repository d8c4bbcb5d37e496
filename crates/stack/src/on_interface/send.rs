//! Sending: frames become packets or super-frames, which are gathered from where the bytes lie and go to the interface
//! together.

use std::io::IoSlice;

use fusewire_device::interface::Capabilities as InterfaceCapabilities;
use fusewire_net::{NoPath, Packet};

use super::*;

/// Packets of one call.
const PACKETS: usize = 64;
/// Pieces that their payloads are gathered from.
const PIECES: usize = 256;
/// Link header, IPv6 header, UDP header.
const HEADER_ROOM: usize = 64;
/// Longest IP packet.
const PACKET_MAX: usize = 65_535;

/// Where the headers of a call's packets are written.
pub(super) struct Headers([[u8; HEADER_ROOM]; PACKETS]);

impl Headers {
    pub fn new() -> Headers {
        Headers([[0; HEADER_ROOM]; PACKETS])
    }
}

/// Payload bytes of a super-frame, at most, behind IP and UDP headers of `headers` bytes.
pub(super) fn super_frame_max(interface: &InterfaceCapabilities, headers: usize) -> usize {
    interface.max_packet_bytes.saturating_sub(18).min(PACKET_MAX).saturating_sub(headers)
}

/// A packet of the call.
#[derive(Clone, Copy)]
struct Planned {
    header_len: usize,
    checksum: Checksum,
    segmentation: Segmentation,
    /// Its pieces end before this one.
    pieces_end: usize,
    /// Its frames end before this one.
    frames_end: usize,
}

const NOTHING: Planned = Planned {
    header_len: 0,
    checksum: Checksum::InPlace,
    segmentation: Segmentation::None,
    pieces_end: 0,
    frames_end: 0,
};

/// Bounds of one run.
#[derive(Clone, Copy)]
struct Limits {
    segments: usize,
    bytes: usize,
}

/// How many of the first frames can go in one packet; the first exists and is not empty.
fn run(frames: &[TxFrame<'_>], limits: Limits) -> usize {
    let first = &frames[0];
    let (mut count, mut bytes) = (1, first.len());
    for frame in &frames[1..] {
        let alike = frame.peer == first.peer && frame.ecn == first.ecn;
        let fits = count < limits.segments && bytes + frame.len() <= limits.bytes;
        if !alike || !fits || frame.is_empty() || frame.len() > first.len() {
            break;
        }
        (count, bytes) = (count + 1, bytes + frame.len());
        if frame.len() < first.len() {
            break;
        }
    }
    count
}

/// Pieces of memory that are gathered.
struct Gather<'a> {
    pieces: [IoSlice<'a>; PIECES],
    count: usize,
}

impl<'a> Gather<'a> {
    fn room(&self) -> usize {
        PIECES - self.count
    }

    /// Adds a frame: at most two pieces.
    fn push(&mut self, frame: &TxFrame<'a>) {
        for piece in [frame.header, frame.payload] {
            if !piece.is_empty() {
                self.pieces[self.count] = IoSlice::new(piece);
                self.count += 1;
            }
        }
    }
}

impl OnInterface {
    /// Sends the first frames, as many as go in one call of the interface. Returns how many were taken, and whether the
    /// interface is full.
    pub(super) fn transmit_some(
        &mut self,
        now: Instant,
        frames: &[TxFrame<'_>],
    ) -> io::Result<(usize, bool)> {
        let mut gather = Gather { pieces: [IoSlice::new(&[]); PIECES], count: 0 };
        let mut planned = [NOTHING; PACKETS];
        let (mut count, mut at) = (0, 0);
        while at < frames.len() && count < PACKETS && gather.room() >= 2 {
            if frames[at].is_empty() {
                at += 1;
                continue;
            }
            let Some(via) = self.way_of(now, &frames[at]) else {
                at += 1;
                continue;
            };
            let limits = self.limits(gather.room() / 2);
            let end = at + run(&frames[at..], limits);
            frames[at..end].iter().for_each(|frame| gather.push(frame));
            planned[count] = self.plan(count, &via, &frames[at..end]);
            planned[count].pieces_end = gather.count;
            planned[count].frames_end = end;
            (count, at) = (count + 1, end);
        }
        if count == 0 {
            return Ok((at, false));
        }
        let sent = self.hand_over(&planned[..count], &gather.pieces[..gather.count])?;
        if sent < count {
            let taken = if sent == 0 { 0 } else { planned[sent - 1].frames_end };
            return Ok((taken, true));
        }
        Ok((at, false))
    }

    /// Gives packets to the interface; what a link that is down does not take is lost.
    fn hand_over(&mut self, planned: &[Planned], pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut packets = [TxPacket {
            header: &[],
            payload: &[],
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        }; PACKETS];
        let mut start = 0;
        for ((packet, plan), header) in packets.iter_mut().zip(planned).zip(&self.headers.0) {
            packet.header = &header[..plan.header_len];
            packet.payload = &pieces[start..plan.pieces_end];
            (packet.checksum, packet.segmentation) = (plan.checksum, plan.segmentation);
            start = plan.pieces_end;
        }
        match self.interface.transmit(&packets[..planned.len()]) {
            Err(e) if is_down(&e) => Ok(planned.len()),
            taken => taken,
        }
    }

    /// The most that may go in one packet, of which `frames` can be gathered.
    fn limits(&self, frames: usize) -> Limits {
        let interface = self.interface.capabilities();
        let offered = if self.caps.segmentation_offload { interface.udp_segments_max() } else { 1 };
        Limits { segments: offered.min(frames), bytes: self.caps.max_batch_bytes }
    }

    /// The way of a frame; without one it is taken all the same: it waits, or the transport is told.
    fn way_of(&mut self, now: Instant, frame: &TxFrame<'_>) -> Option<Via> {
        let peer = frame.peer;
        match self.way(now, peer.ip()) {
            Ok(via) if frame.len() + udp::HEADER_LEN + via.ip_header_len() <= via.mtu => Some(via),
            Ok(_) => {
                self.tell(Event::TooBig { peer, len: frame.len() });
                None
            }
            Err(NoPath::Resolving) => {
                self.pend(now, frame);
                None
            }
            Err(_) => {
                self.tell(Event::Unreachable { peer });
                None
            }
        }
    }

    /// Writes the headers of a packet, in the place of number `index`.
    fn plan(&mut self, index: usize, via: &Via, frames: &[TxFrame<'_>]) -> Planned {
        let payload_len: usize = frames.iter().map(TxFrame::len).sum();
        let len = udp::HEADER_LEN + payload_len;
        let out = &mut self.headers.0[index];
        let ip = Packet { traffic_class: frames[0].ecn as u8, ..Packet::new(udp::NUMBER, len) };
        let start = via.emit(&ip, out);
        let pseudo = via.pseudo_header_sum(udp::NUMBER, len);
        let mut header = udp::Header {
            src_port: self.local.port(),
            dst_port: frames[0].peer.port(),
            len: len as u16,
            checksum: 0,
        };
        let out = &mut out[start..];
        let checksum = if self.interface.capabilities().checksum {
            header.checksum = pseudo.folded();
            Checksum::Partial { start: start as u16, offset: 6 }
        } else {
            header.emit(out);
            let sum = pseudo + Sum::of(&out[..udp::HEADER_LEN]) + tpdu_sum(payload_len);
            // Zero would mean that there is none.
            header.checksum = Some(sum.checksum()).filter(|sum| *sum != 0).unwrap_or(0xffff);
            Checksum::InPlace
        };
        header.emit(out);
        let segmentation = match frames.len() {
            1 => Segmentation::None,
            _ => Segmentation::Udp { segment_len: frames[0].len() as u16 },
        };
        Planned { header_len: start + udp::HEADER_LEN, checksum, segmentation, ..NOTHING }
    }

    /// Keeps a frame until its next hop has answered, if there is room.
    fn pend(&mut self, now: Instant, frame: &TxFrame<'_>) {
        let is_full = self.pending.len() >= PENDING_FRAMES
            || self.pending_bytes + frame.len() > PENDING_BYTES;
        if is_full {
            self.drops.unresolved += 1;
            return;
        }
        self.pending_bytes += frame.len();
        self.pending_generation = self.layer.generation();
        self.pending.push_back(Pending {
            peer: frame.peer,
            ecn: frame.ecn,
            bytes: [frame.header, frame.payload].concat(),
            until: now + PENDING_TIME,
        });
    }

    /// Tries again to send what waits for a neighbour.
    pub(super) fn flush_pending(&mut self, now: Instant) -> io::Result<()> {
        while self.pending.front().is_some_and(|first| first.until <= now) {
            if let Some(late) = self.pending.pop_front() {
                self.pending_bytes -= late.bytes.len();
                self.drops.unresolved += 1;
                self.tell(Event::Unreachable { peer: late.peer });
            }
        }
        if self.layer.generation() == self.pending_generation {
            return Ok(());
        }
        self.pending_bytes = 0;
        for waiting in std::mem::take(&mut self.pending) {
            let Pending { peer, ecn, bytes, .. } = &waiting;
            let frame = TxFrame { peer: *peer, header: &[], payload: bytes, ecn: *ecn };
            self.transmit_some(now, &[frame])?;
        }
        self.pending_generation = self.layer.generation();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fusewire_device::Ecn;

    use super::*;

    #[test]
    fn a_run_has_one_peer_one_length_and_one_mark() {
        let memory = [0; 1500];
        let frame = |peer: u16, len: usize| TxFrame {
            peer: SocketAddr::from(([192, 0, 2, 1], peer)),
            header: &memory[..20.min(len)],
            payload: &memory[..len - 20.min(len)],
            ecn: Ecn::NotEct,
        };
        let limits = Limits { segments: 4, bytes: 1000 };
        let length = |frames: &[(u16, usize)]| {
            let frames: Vec<_> = frames.iter().map(|(peer, len)| frame(*peer, *len)).collect();
            run(&frames, limits)
        };
        assert_eq!(length(&[(1, 100), (1, 100), (1, 100)]), 3);
        assert_eq!(length(&[(1, 100), (1, 60), (1, 60)]), 2, "a shorter frame is the last");
        assert_eq!(length(&[(1, 100), (1, 101)]), 1, "a longer one starts anew");
        assert_eq!(length(&[(1, 100), (2, 100)]), 1, "one peer");
        assert_eq!(length(&[(1, 100); 9]), 4, "so many segments");
        assert_eq!(length(&[(1, 300); 4]), 3, "so many bytes");
        assert_eq!(length(&[(1, 1500), (1, 1500)]), 1, "a frame alone is never too long");
        assert_eq!(length(&[(1, 100), (1, 0), (1, 100)]), 1);
        let mut marked = [frame(1, 100), frame(1, 100)];
        marked[1].ecn = Ecn::Ect0;
        assert_eq!(run(&marked, limits), 1);
    }
}
