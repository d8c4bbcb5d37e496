//! Sending UDP datagrams gathered from where their bytes lie, each with its own peer and congestion mark: neighbours that
//! are alike leave as a super-frame where the interface takes them, and all in one call of it.

use std::io::{self, IoSlice};

use super::config::{Ancillary, Error, Result, SocketId};
use super::output::{HEADER_ROOM, SLOTS, UdpPacket};
use super::stack::{Core, Stack};
use super::table::Protocol;
use fusewire_base::{Instant, Sum};
use fusewire_device::TxFrame;
use fusewire_device::interface::{Checksum, Segmentation, TxPacket};
use fusewire_net::{NoPath, Via};

/// Pieces that the payloads of one call are gathered from.
const PIECES: usize = 256;

/// A packet of the call.
#[derive(Clone, Copy, Default)]
struct Planned {
    header_len: usize,
    checksum: Checksum,
    segmentation: Segmentation,
    /// Its pieces end before this one.
    pieces_end: usize,
    /// Its datagrams end before this one.
    frames_end: usize,
    /// How many they are.
    frames: usize,
}

/// What leaves in one call.
struct Gathered<'a> {
    planned: [Planned; SLOTS],
    count: usize,
    pieces: [IoSlice<'a>; PIECES],
    piece_count: usize,
}

impl<'a> Gathered<'a> {
    fn new() -> Gathered<'a> {
        let (planned, pieces) = ([Planned::default(); SLOTS], [IoSlice::new(&[]); PIECES]);
        Gathered { planned, count: 0, pieces, piece_count: 0 }
    }

    /// Datagrams that there is room for: each has two pieces at most.
    fn room(&self) -> usize {
        (PIECES - self.piece_count) / 2
    }

    fn push(&mut self, frame: &TxFrame<'a>) {
        for piece in [frame.header, frame.payload] {
            if !piece.is_empty() {
                self.pieces[self.piece_count] = IoSlice::new(piece);
                self.piece_count += 1;
            }
        }
    }
}

/// Bounds of a super-frame.
#[derive(Clone, Copy)]
struct Limits {
    segments: usize,
    bytes: usize,
}

/// How many of the first datagrams can go in one packet; the first exists and is not empty.
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

impl Stack {
    /// Sends datagrams in order, and returns how many were taken: fewer than all when the interface is full. Neighbours
    /// of one peer, length and congestion mark (the last may be shorter) leave together. What is longer than its path
    /// takes, or has no way, is taken and told of ([`Stack::udp_poll_failure`], [`Stack::take_error`]); one without a
    /// byte is taken, and nothing leaves. `sum` gives the sum of a datagram's bytes, where the interface makes none.
    ///
    /// # Errors
    /// Inner: [`Error::NoSocket`], and what failed on the socket before. Outer: the interface's.
    pub fn udp_send_frames(
        &mut self,
        now: Instant,
        id: SocketId,
        frames: &[TxFrame<'_>],
        sum: impl Fn(&TxFrame<'_>) -> Sum,
    ) -> io::Result<Result<usize, Error>> {
        let mut taken = 0;
        while taken < frames.len() {
            // Headers lie where those of segments that wait do not.
            let mut headers = std::mem::take(&mut self.core.output.headers);
            let sent = self.send_gathered(now, id, &frames[taken..], &sum, &mut headers);
            self.core.output.headers = headers;
            let (count, is_full) = match sent? {
                Ok(sent) => sent,
                Err(error) => return Ok(Err(error)),
            };
            taken += count;
            if is_full {
                break;
            }
        }
        Ok(Ok(taken))
    }

    /// As many as go in one call of the interface: how many were taken, and whether it is full.
    fn send_gathered<'a>(
        &mut self,
        now: Instant,
        id: SocketId,
        frames: &[TxFrame<'a>],
        sum: impl Fn(&TxFrame<'_>) -> Sum,
        headers: &mut [[u8; HEADER_ROOM]],
    ) -> io::Result<Result<(usize, bool), Error>> {
        let core = &mut self.core;
        let headers = &mut headers[core.output.planned()..];
        if headers.is_empty() {
            return Ok(Ok((0, true)));
        }
        let mut gathered = Gathered::new();
        let planned = match core.plan_gathered(now, id, frames, sum, headers, &mut gathered) {
            Ok(planned) => planned,
            Err(error) => return Ok(Err(error)),
        };
        let count = gathered.count;
        if count == 0 {
            return Ok(Ok((planned, false)));
        }
        let (mut packets, mut start) = ([TxPacket::default(); SLOTS], 0);
        for ((packet, plan), header) in
            packets.iter_mut().zip(&gathered.planned[..count]).zip(&*headers)
        {
            packet.header = &header[..plan.header_len];
            packet.payload = &gathered.pieces[start..plan.pieces_end];
            (packet.checksum, packet.segmentation) = (plan.checksum, plan.segmentation);
            start = plan.pieces_end;
        }
        let taken = self.give(&packets[..count])?;
        let left = &gathered.planned[..taken];
        let sent: u64 = left.iter().map(|plan| plan.frames as u64).sum();
        let protocol = self.core.table.udp(id).map_or(Protocol::Udp, |udp| udp.protocol);
        *self.core.counters.messages_sent(protocol) += sent;
        let done = left.last().map_or(0, |last| last.frames_end);
        Ok(Ok(if taken < count { (done, true) } else { (planned, false) }))
    }
}

impl Core {
    /// Plans packets for the first datagrams; returns how many datagrams that makes, with those that do not leave.
    fn plan_gathered<'a>(
        &mut self,
        now: Instant,
        id: SocketId,
        frames: &[TxFrame<'a>],
        sum: impl Fn(&TxFrame<'_>) -> Sum,
        headers: &mut [[u8; HEADER_ROOM]],
        gathered: &mut Gathered<'a>,
    ) -> Result<usize> {
        self.udp_told(id)?;
        let mut at = 0;
        while at < frames.len() && gathered.count < headers.len() && gathered.room() > 0 {
            let first = &frames[at];
            if first.is_empty() {
                at += 1;
                continue;
            }
            let (peer, len) = (first.peer, first.len());
            let (mut packet, via) = self.udp_way(now, id, (Some(peer), None))?;
            let traffic_class = packet.marking.traffic_class & !3 | first.ecn as u8;
            packet.marking.traffic_class = traffic_class;
            let fitting = match &via {
                Ok(via) => via.mtu.saturating_sub(via.ip_header_len() + packet.header_len()),
                Err(NoPath::Resolving) => self.message_fitting(packet.protocol, peer),
                Err(why) => {
                    self.udp_fail(id, peer, (*why).into());
                    at += 1;
                    continue;
                }
            };
            if len > fitting {
                self.udp_fail(id, peer, Error::TooLong { len, max: fitting });
                at += 1;
                continue;
            }
            let end =
                at + run(&frames[at..], self.limits(&packet, via.as_ref().ok(), gathered.room()));
            let run = &frames[at..end];
            at = end;
            let Ok(via) = via else {
                let pieces = run.iter().flat_map(|frame| [frame.header, frame.payload]);
                let beside =
                    Ancillary { traffic_class: Some(traffic_class), ..Ancillary::default() };
                self.pend(now, id, (peer, beside), len, pieces);
                continue;
            };
            if packet.protocol == Protocol::Xtp
                && let Ok(socket) = self.table.udp(id)
            {
                socket.note_key(peer.ip(), first.header);
            }
            run.iter().for_each(|frame| gathered.push(frame));
            let (payload_len, out) =
                (run.iter().map(TxFrame::len).sum(), &mut headers[gathered.count]);
            let (header_len, checksum) =
                self.output.udp_header(&via, packet, payload_len, || sum(first), out);
            let segmentation = match run.len() {
                1 => Segmentation::None,
                _ => Segmentation::Udp { segment_len: len as u16 },
            };
            gathered.planned[gathered.count] = Planned {
                header_len,
                checksum,
                segmentation,
                pieces_end: gathered.piece_count,
                frames_end: end,
                frames: run.len(),
            };
            gathered.count += 1;
        }
        Ok(at)
    }

    /// The most that may go in one packet, of which `room` datagrams can be gathered.
    fn limits(&self, packet: &UdpPacket, via: Option<&Via>, room: usize) -> Limits {
        let offload = via.map_or(self.offload(), |via| self.offload().on(via));
        let together = offload.udp && packet.protocol == Protocol::Udp;
        let segments = if together { offload.udp_segments.min(room) } else { 1 };
        Limits { segments, bytes: offload.udp_payload_max(packet.dst.is_ipv6()) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

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
