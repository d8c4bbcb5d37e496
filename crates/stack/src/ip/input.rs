//! Receiving: from the interface's packets to sockets (the initial step), each packet or super-frame once.

use std::net::SocketAddr;
use std::ops::Range;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::{Checksum, RxPacket, Segmentation};
use fusewire_net::{Cast, Datagram, Input, PathError, PathErrorKind};
use fusewire_transport::machine::Listener as _;
use fusewire_transport::tcp::{ListenerAction, Ports, State, Tuple, reset_for};
use fusewire_wire::tcp::{Flags, Header};
use fusewire_wire::{tcp, udp, xtp};

use super::config::{Error, Event};
use super::placed::Places;
use super::reader::{Parts, Reader};
use super::stack::Core;
use super::table::{Flow, Protocol, Socket};
use super::tcp::{Segment, Stream};
use super::udp::{Incoming, Messages, Taken, Taker};
use crate::drops::Cause;

/// Who takes what comes for one socket, in place of its queue.
pub enum Direct<'a> {
    /// Nobody.
    None,
    /// Datagrams of a socket.
    Udp { index: u32, taker: &'a mut dyn Taker, taken: usize },
    /// The stream of a connection.
    Stream { index: u32, reader: &'a mut dyn Reader },
    /// Streams of whose readers' memory this one knows.
    Streams(&'a mut dyn Places),
}

impl Direct<'_> {
    /// The reader has something, and no room for all of this packet: it comes first the next time, and goes
    /// to its place without a stop in the ring.
    pub fn is_full_for(&self, packet: &RxPacket<'_>) -> bool {
        match self {
            Direct::Stream { reader, .. } => reader.is_full_for(packet.bytes.len()),
            Direct::Udp { taker, .. } => taker.is_full_for(packet.bytes.len()),
            Direct::None | Direct::Streams(_) => false,
        }
    }
}

/// By the sum of a whole packet the checksum of the segment or datagram at `place` in it is there and right.
fn is_right(sum: Sum, packet: &RxPacket<'_>, datagram: &Datagram, place: &Range<usize>) -> bool {
    let (before, after) = (&packet.bytes[..place.start], &packet.bytes[place.end..]);
    let bytes = &packet.bytes[place.clone()];
    let is_plain = match datagram.protocol {
        tcp::NUMBER => true,
        // One that is as long as it says, and has a checksum.
        udp::NUMBER => udp::Header::parse(bytes)
            .is_ok_and(|header| usize::from(header.len) == bytes.len() && header.checksum != 0),
        _ => false,
    };
    if !is_plain || packet.segmentation != Segmentation::None || !place.start.is_multiple_of(2) {
        return false;
    }
    // What stands around it is taken out of the sum again: of few bytes, unless somebody means to be slow.
    let around = Sum::of_few(before).then(place.end, Sum::of_few(after));
    (datagram.pseudo_header + sum.word(!around.folded())).verifies()
}

impl Core {
    /// The packet at hand is dropped.
    pub(super) fn dropped(&mut self, cause: Cause) {
        self.counters.drops.count(cause);
        self.watch.dropped(cause.name());
    }

    /// One packet or super-frame of the interface.
    pub(super) fn input(&mut self, now: Instant, packet: &RxPacket<'_>, direct: &mut Direct<'_>) {
        let input = match packet.checksum {
            Checksum::InPlace | Checksum::Summed(_) => self.layer.handle(now, packet.bytes),
            Checksum::Verified | Checksum::Partial { .. } => {
                self.layer.handle_verified(now, packet.bytes)
            }
        };
        self.take(now, packet, input, direct);
    }

    /// One packet or super-frame that we sent to ourselves.
    pub(super) fn input_looped(&mut self, now: Instant, packet: &RxPacket<'_>) {
        let is_verified = !matches!(packet.checksum, Checksum::InPlace | Checksum::Summed(_));
        let input = self.layer.handle_looped(now, packet.bytes, is_verified);
        self.take(now, packet, input, &mut Direct::None);
    }

    /// What the IP layer makes of a packet goes to its socket.
    fn take(&mut self, now: Instant, packet: &RxPacket<'_>, input: Input, direct: &mut Direct<'_>) {
        self.counters.received += 1;
        let datagram = match input {
            Input::Transport(datagram) => datagram,
            Input::Error(error) => return self.path_error(now, &error),
            Input::Dropped(cause) => {
                self.layer_speaks = true;
                return self.watch.dropped(cause.name());
            }
            Input::Consumed => {
                self.layer_speaks = true;
                return;
            }
        };
        let Some(place) = datagram.payload.in_frame() else {
            return self.reassembled(now, packet, &datagram, direct);
        };
        let Some(bytes) = packet.bytes.get(place.clone()) else { return };
        let start = place.start;
        let field = match datagram.protocol {
            tcp::NUMBER => Some(16),
            udp::NUMBER => Some(6),
            // Nobody but we knows what it has there.
            xtp::NUMBER => None,
            _ => return self.dropped(Cause::Protocol),
        };
        // What is left of the checksum, and whether it is known to be right.
        let unverified = match packet.checksum {
            Checksum::Verified => false,
            Checksum::InPlace => true,
            // One that is not right, or has to be looked at more closely, is verified as any other.
            Checksum::Summed(sum) => !is_right(sum, packet, &datagram, &place),
            Checksum::Partial { start: s, offset } => {
                if (usize::from(s), Some(usize::from(offset))) != (start, field) {
                    return self.dropped(Cause::BadOffload);
                }
                false
            }
        };
        match (datagram.protocol, packet.segmentation) {
            (tcp::NUMBER, Segmentation::None) => {
                self.tcp_input(now, &datagram, bytes, unverified, None, direct);
            }
            (tcp::NUMBER, Segmentation::Tcp { segment_len: each @ 1.., .. }) => {
                self.tcp_input(now, &datagram, bytes, unverified, Some(each.into()), direct);
            }
            (udp::NUMBER, Segmentation::None) => {
                self.udp_input(now, packet.bytes, &datagram, bytes, unverified, None, direct);
            }
            (udp::NUMBER, Segmentation::Udp { segment_len: each @ 1.. }) => {
                let each = Some(usize::from(each));
                self.udp_input(now, packet.bytes, &datagram, bytes, unverified, each, direct);
            }
            (xtp::NUMBER, Segmentation::None) => {
                self.xtp_input(now, packet.bytes, &datagram, bytes, direct);
            }
            _ => self.dropped(Cause::BadOffload),
        }
    }

    /// A datagram that was put together from fragments; it lies in the layer.
    fn reassembled(
        &mut self,
        now: Instant,
        packet: &RxPacket<'_>,
        datagram: &Datagram,
        direct: &mut Direct<'_>,
    ) {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.extend_from_slice(self.layer.payload(packet.bytes, &datagram.payload));
        match datagram.protocol {
            tcp::NUMBER => self.tcp_input(now, datagram, &bytes, true, None, direct),
            udp::NUMBER => self.udp_input(now, packet.bytes, datagram, &bytes, true, None, direct),
            xtp::NUMBER => self.xtp_input(now, packet.bytes, datagram, &bytes, direct),
            _ => self.dropped(Cause::Protocol),
        }
        self.scratch = bytes;
    }

    /// A router or host says that a packet of ours met with an error.
    fn path_error(&mut self, now: Instant, error: &PathError) {
        let local = SocketAddr::new(error.local, error.local_port);
        let remote = SocketAddr::new(error.remote, error.remote_port);
        let what = match error.kind {
            PathErrorKind::Refused => Error::Refused,
            PathErrorKind::Unreachable(_) => Error::Unreachable,
            PathErrorKind::TimeExceeded => Error::TimedOut,
            PathErrorKind::TooBig { .. } => return self.too_big(now, error, local, remote),
            PathErrorKind::ParameterProblem => return,
        };
        if error.protocol == xtp::NUMBER {
            return self.xtp_failed(error, what);
        }
        if error.protocol == udp::NUMBER {
            let mut told = false;
            for at in 0..self.table.bound(Protocol::Udp, local.port()).len() {
                let index = self.table.bound(Protocol::Udp, local.port())[at];
                let Some(udp) = self.table.udp_at(index) else { continue };
                let carries = udp.carried.is_some() && what != Error::TimedOut;
                if udp.remote == Some(remote) || carries {
                    told = true;
                    udp.fail(remote, what);
                    self.notify(index, Event::Error);
                }
            }
            if !told {
                self.dropped(Cause::IcmpStray);
            }
            return;
        }
        let Some((index, stream)) = self.quoted(error, local, remote) else {
            return self.dropped(Cause::IcmpStray);
        };
        // Anyone on the way can send it: what is open goes on (RFC 5927, section 5; RFC 5461).
        stream.soft_error = Some(what);
        if stream.tcp.state() == State::SynSent && what != Error::TimedOut {
            stream.error = Some(what);
            stream.tcp.abort();
            self.mark(index);
            self.settle(index);
        }
    }

    /// The connection that has the segment under way which an ICMP error quotes (RFC 5927, section 4.1).
    fn quoted(
        &mut self,
        error: &PathError,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<(u32, &mut Stream)> {
        let index = self.table.flows.get(&Flow::new(local, remote)).copied()?;
        let stream = self.table.stream_at(index)?;
        error.seq.is_some_and(|seq| stream.tcp.is_in_flight(seq)).then_some((index, stream))
    }

    /// A packet of ours did not fit: believed when it is one that is under way (RFC 5927, section 7).
    fn too_big(&mut self, now: Instant, error: &PathError, local: SocketAddr, remote: SocketAddr) {
        if error.protocol == xtp::NUMBER {
            return match self.xtp_sender(error) {
                Some(_) => self.layer.accept_too_big(now, error),
                None => self.dropped(Cause::IcmpStray),
            };
        }
        if error.protocol == udp::NUMBER {
            let bound = self.table.bound(Protocol::Udp, local.port());
            let udp = |index: &u32| self.table.udp_seen(*index);
            let mut sockets =
                bound.iter().filter_map(udp).filter(|udp| udp.recent.has(now, remote));
            return match sockets.next() {
                None => self.dropped(Cause::IcmpStray),
                // A transport on top finds the sizes of its paths itself.
                Some(first) if first.carried.is_some() && sockets.all(|s| s.carried.is_some()) => {}
                Some(_) => self.layer.accept_too_big(now, error),
            };
        }
        let Some((index, stream)) = self.quoted(error, local, remote) else {
            return self.dropped(Cause::IcmpStray);
        };
        stream.mtu_fell = true;
        self.layer.accept_too_big(now, error);
        self.mark(index);
    }

    /// Answers a segment that belongs to nobody with RST.
    fn reset(&mut self, now: Instant, datagram: &Datagram, segment: &Segment<'_>) {
        let Some(reset) = reset_for(segment.header, segment.payload.len() as u32) else { return };
        let len = reset.emit_len();
        let sum = fusewire_net::pseudo_header_sum(
            datagram.source,
            datagram.destination,
            tcp::NUMBER,
            len,
        );
        self.layer_speaks = true;
        if let Some(out) = self.layer.answer(now, datagram, len) {
            reset.emit(out);
            let checksum = (sum + Sum::of_few(out)).checksum();
            out[16..18].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    // ---- UDP

    #[expect(clippy::too_many_arguments, reason = "what the steps before have found")]
    fn udp_input(
        &mut self,
        now: Instant,
        frame: &[u8],
        datagram: &Datagram,
        bytes: &[u8],
        unverified: bool,
        segment_len: Option<usize>,
        direct: &mut Direct<'_>,
    ) {
        let Ok(header) = udp::Header::parse(bytes) else {
            return self.dropped(Cause::Malformed);
        };
        let bytes = &bytes[..usize::from(header.len)];
        let payload = &bytes[udp::HEADER_LEN..];
        let head = match (unverified, header.checksum) {
            (false, _) => None,
            (true, 0) if datagram.source.is_ipv4() => None,
            (true, 0) => return self.dropped(Cause::NoChecksum),
            (true, _) => Some(datagram.pseudo_header + Sum::of_few(&bytes[..udp::HEADER_LEN])),
        };
        let incoming = Incoming {
            messages: Messages {
                from: SocketAddr::new(datagram.source, header.src_port),
                to: datagram.destination,
                is_shared: datagram.cast != Cast::Unicast,
                traffic_class: datagram.traffic_class,
                hop_limit: datagram.hop_limit,
                bytes: payload,
                message_len: segment_len.unwrap_or(payload.len()).max(1),
            },
            head,
        };
        if datagram.cast != Cast::Unicast {
            if self.udp_deliver_to_all(header.dst_port, &incoming, direct) == 0 {
                self.dropped(Cause::UdpStray);
            }
            return;
        }
        match self.best_fit(Protocol::Udp, header.dst_port, &incoming) {
            Err(not_peer) if not_peer => self.dropped(Cause::UdpNotPeer),
            Err(_) => self.udp_stray(now, frame, datagram, &incoming),
            Ok(index) => self.udp_deliver(index, &incoming, direct),
        }
    }

    /// The socket that fits a datagram best; otherwise whether there is one on its port.
    pub(super) fn best_fit(
        &self,
        protocol: Protocol,
        port: u16,
        incoming: &Incoming<'_>,
    ) -> Result<u32, bool> {
        let Messages { from, to, .. } = incoming.messages;
        let fit = |socket: &Socket| match socket {
            Socket::Udp(udp) => udp.fit(from, to),
            _ => 0,
        };
        let best = self.table.best((protocol, SocketAddr::new(to, port)), from, fit);
        best.ok_or_else(|| !self.table.bound(protocol, port).is_empty())
    }

    /// Broadcast and multicast: every socket that wants it; how many do.
    pub(super) fn udp_deliver_to_all(
        &mut self,
        port: u16,
        incoming: &Incoming<'_>,
        direct: &mut Direct<'_>,
    ) -> usize {
        let Messages { to, from, .. } = incoming.messages;
        let mut hear = 0;
        for at in 0..self.table.bound(Protocol::Udp, port).len() {
            let index = self.table.bound(Protocol::Udp, port)[at];
            let wants = self.table.udp_at(index).is_some_and(|udp| {
                let listens = !to.is_multicast() || self.layer.is_listening(index, to, from.ip());
                listens && udp.fit(from, to) > 0 && udp.carried.is_none()
            });
            if wants {
                hear += 1;
                self.udp_deliver(index, incoming, direct);
            }
        }
        hear
    }

    #[inline]
    pub(super) fn udp_deliver(
        &mut self,
        index: u32,
        incoming: &Incoming<'_>,
        direct: &mut Direct<'_>,
    ) {
        let level = self.config.level;
        let count = incoming.messages.count();
        let Some(udp) = self.table.udp_at(index) else { return };
        let (protocol, mut result) = (udp.protocol, Taken::NoRoom);
        if let Direct::Udp { index: wanted, taker, taken } = direct
            && *wanted == index
            && udp.queue.is_empty()
        {
            result = taker.take(level, incoming);
            *taken += if result == Taken::Verified { count } else { 0 };
        }
        if result == Taken::NoRoom {
            result = match udp.queue.push(level, incoming) {
                Some(true) => Taken::Verified,
                Some(false) => Taken::Wrong,
                None => Taken::NoRoom,
            };
        }
        let mut taken = count;
        if let Taken::Part(len) = result {
            let Messages { bytes, message_len, .. } = incoming.messages;
            let rest = Messages { bytes: &bytes[len..], ..incoming.messages };
            let (got, waits) = (len.div_ceil(message_len), rest.count());
            if let Direct::Udp { taken, .. } = direct {
                *taken += got;
            }
            if udp.queue.push(level, &Incoming { messages: rest, head: None }).is_none() {
                udp.overflow += waits as u64;
                self.counters.drops.add(Cause::UdpOverflow, waits as u64);
                taken = got;
            }
        }
        match result {
            Taken::Verified | Taken::Part(_) => {
                *self.counters.messages_received(protocol) += taken as u64;
                self.notify(index, Event::Readable);
            }
            Taken::Wrong => self.dropped(Cause::Checksum),
            Taken::NoRoom => {
                udp.overflow += count as u64;
                self.counters.drops.add(Cause::UdpOverflow, count as u64);
                self.watch.dropped(Cause::UdpOverflow.name());
            }
        }
    }

    /// For nobody: who sent it may be told, when it was for us alone and is what it says.
    fn udp_stray(
        &mut self,
        now: Instant,
        frame: &[u8],
        datagram: &Datagram,
        incoming: &Incoming<'_>,
    ) {
        let level = self.config.level;
        let sum = |head: Sum| head + fusewire_kernels::sum(level, incoming.messages.bytes);
        if !incoming.head.is_none_or(|head| sum(head).verifies()) {
            return self.dropped(Cause::Checksum);
        }
        self.stray(now, Cause::UdpStray, "no such port", frame, datagram);
    }

    /// For nobody, and answered by ICMP.
    pub(super) fn stray(
        &mut self,
        now: Instant,
        cause: Cause,
        what: &'static str,
        frame: &[u8],
        datagram: &Datagram,
    ) {
        self.counters.drops.count(cause);
        self.watch.note([what, "answered with an ICMP error, if one is due"]);
        self.layer_speaks = true;
        self.layer.answer_unreachable(now, frame, datagram);
    }

    // ---- TCP

    fn tcp_input(
        &mut self,
        now: Instant,
        datagram: &Datagram,
        bytes: &[u8],
        unverified: bool,
        segment_len: Option<u32>,
        direct: &mut Direct<'_>,
    ) {
        let Ok(header) = Header::parse(bytes) else {
            return self.dropped(Cause::Malformed);
        };
        let (head, payload) = bytes.split_at(usize::from(header.header_len));
        let head = unverified.then(|| datagram.pseudo_header + Sum::of_few(head));
        let len = payload.len() as u32;
        let segment = Segment {
            header: &header,
            head,
            payload,
            len: payload.len(),
            count: segment_len.map_or(1, |each| len.div_ceil(each)),
            marked: datagram.traffic_class & 3 == 3,
        };
        let local = SocketAddr::new(datagram.destination, header.dst_port);
        let remote = SocketAddr::new(datagram.source, header.src_port);
        let flow = Flow::new(local, remote);
        let index = match self.last {
            Some((known, index)) if known == flow => Some(index),
            _ => self.table.flows.get(&flow).copied(),
        };
        let yielding = index.filter(|index| self.yields(*index, (local, remote), &segment));
        match index.filter(|_| yielding.is_none()) {
            Some(index) => {
                self.last = Some((flow, index));
                let id = self.table.id(index);
                if let Some(stream) = self.table.stream_at(index) {
                    if stream.marking.refuses(datagram.hop_limit, local.is_ipv4()) {
                        return self.dropped(Cause::FewHops);
                    }
                    let mut parts = None;
                    let reader: Option<&mut dyn Reader> = match direct {
                        Direct::Stream { index: wanted, reader } if *wanted == index => {
                            Some(&mut **reader)
                        }
                        Direct::Streams(places) if !segment.payload.is_empty() => {
                            parts = places.room(id, segment.len).map(Parts::new);
                            parts.as_mut().map(|parts| parts as &mut dyn Reader)
                        }
                        _ => None,
                    };
                    if !segment.payload.is_empty() {
                        let start = datagram.payload.in_frame().map_or(0, |place| place.start);
                        let head_len = start + usize::from(header.header_len);
                        stream.head_len = if start > 0 { head_len } else { 0 };
                    }
                    let kind = stream.handle_segment(now, &segment, reader);
                    self.watch.became(kind);
                    let filled = parts.map_or(0, |parts| parts.filled);
                    if let (Direct::Streams(places), 1..) = (direct, filled) {
                        stream.consume(0);
                        places.landed(id, filled);
                    }
                    self.mark(index);
                }
            }
            None => {
                let flow = Ports { local: local.port(), remote: remote.port() };
                let tuple = Tuple { local, remote, flow };
                self.tcp_stray(now, tuple, datagram, &segment, yielding);
            }
        }
    }

    /// A connection in TIME-WAIT would make way for the new one that this begins (RFC 6191), and somebody is there to
    /// take it.
    fn yields(
        &self,
        index: u32,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
    ) -> bool {
        if !segment.header.flags.has(Flags::SYN) {
            return false;
        }
        let stream = self.table.stream_seen(index);
        stream.is_some_and(|stream| stream.tcp.time_wait_yields_to(segment.header))
            && self.listener_for(local, remote).is_some()
            && self.verifies(segment)
    }

    /// Its checksum is right.
    fn verifies(&self, segment: &Segment<'_>) -> bool {
        let sum = |head: Sum| head + fusewire_kernels::sum(self.config.level, segment.payload);
        segment.head.is_none_or(|head| sum(head).verifies())
    }

    /// A segment for no connection, or for one in TIME-WAIT that is forgotten when a listener takes it: a listener's,
    /// or answered with RST.
    fn tcp_stray(
        &mut self,
        now: Instant,
        tuple: Tuple,
        datagram: &Datagram,
        segment: &Segment<'_>,
        yielding: Option<u32>,
    ) {
        if !self.verifies(segment) {
            return self.dropped(Cause::Checksum);
        }
        let len = segment.payload.len() as u32;
        let Some(index) = self.listener_for(tuple.local, tuple.remote) else {
            self.counters.drops.count(Cause::Stray);
            self.watch.note(["no such connection or port", "answered with RST, if one is due"]);
            // Fragments come for every port of the address, and the kernel answers for its own.
            if !self.shares || datagram.payload.in_frame().is_some() {
                self.reset(now, datagram, segment);
            }
            return;
        };
        let Some(listener) = self.table.listener_at(index) else { return };
        let machine = listener.machines[usize::from(tuple.local.is_ipv6())].as_mut();
        let Some(machine) = machine else { return };
        let marking = listener.marking;
        if marking.refuses(datagram.hop_limit, tuple.local.is_ipv4()) {
            return self.dropped(Cause::FewHops);
        }
        let before = machine.cookies_given();
        let action = machine.handle_stray(now, &tuple, segment.header, len);
        let cookies = machine.cookies_given() - before;
        self.counters.cookies += cookies;
        if cookies > 0 {
            self.watch.note(["answered with a SYN cookie", ""]);
        }
        self.schedule_listener(index);
        if let (Some(old), ListenerAction::Reply(reply)) = (yielding, &action)
            && reply.flags.has(Flags::SYN)
        {
            self.forget_flow(old);
        }
        match action {
            ListenerAction::Reply(reply) => self.reply(now, &tuple, &reply, marking),
            ListenerAction::Accept(tcp) => {
                self.accepted(now, index, tuple, *tcp, datagram, segment)
            }
            ListenerAction::Drop(cause) => {
                self.counters.drops.count(Cause::Listener);
                self.watch.dropped(cause.name());
            }
        }
    }

    /// The listener that takes connections from `remote` to `local`.
    fn listener_for(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let fit = |socket: &Socket| match socket {
            Socket::Listener(_) => socket.claim().fit(local.ip()),
            _ => 0,
        };
        self.table.best((Protocol::Tcp, local), remote, fit)
    }

    fn accepted(
        &mut self,
        now: Instant,
        listener_index: u32,
        tuple: Tuple,
        tcp: fusewire_transport::tcp::Connection,
        datagram: &Datagram,
        segment: &Segment<'_>,
    ) {
        let parent = self.table.id(listener_index);
        let Some(listener) = self.table.listener_at(listener_index) else { return };
        let mut stream = Stream::new(tuple, tcp, &listener.config, self.config.level);
        stream.parent = Some(parent);
        stream.deferred = listener.defer.map(|time| now + time);
        stream.marking = listener.marking;
        match self.insert_stream(stream) {
            Ok(index) => {
                if let Some(stream) = self.table.stream_at(index) {
                    let kind = stream.handle_segment(now, segment, None);
                    self.watch.became(kind);
                }
                self.mark(index);
                match self.table.stream_at(index).and_then(|stream| stream.deferred) {
                    // What it has brought is seen when it settles.
                    Some(_) => self.settle(index),
                    None => self.offer(index),
                }
            }
            Err(_) => {
                self.dropped(Cause::TooManySockets);
                if let Some(listener) = self.table.listener_at(listener_index)
                    && let Some(machine) =
                        &mut listener.machines[usize::from(tuple.local.is_ipv6())]
                {
                    machine.taken();
                }
                self.reset(now, datagram, segment);
            }
        }
    }
}
