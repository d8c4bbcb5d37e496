//! The headers of what is sent.

use super::connection::{Connection, Last, TELLS};
use super::state::State;
use super::{Header, SPANS, Transmit};
use crate::machine::TransmitKind;
use crate::queue::{Segment, flag};
use fusewire_base::Instant;
use fusewire_wire::xtp::{
    Body, Code, Control, Diag, First, Key, OFFSET_MAX, Options, Reason, Traffic, TrafficControl,
};

/// Bytes of a TCNTL, without limits and with them.
const TCNTL_LEN: u64 = 72;
const TCNTL_LIMITS_LEN: u64 = 88;

/// `option` if `on`.
pub(super) fn when(on: bool, option: Options) -> Options {
    if on { option } else { Options::NONE }
}

impl Connection {
    /// What is on every packet that says something of streams.
    #[inline]
    fn mechanisms(&self) -> Options {
        let s = &self.settings;
        when(s.noerr, Options::NOERR)
            | when(s.noflow, Options::NOFLOW)
            | when(s.fastnak && !s.noerr, Options::FASTNAK)
            | when(self.recv.done, Options::RCLOSE)
    }

    #[inline(always)]
    fn header(
        &self,
        options: Options,
        seq: u64,
        data_len: u32,
        body: Body<super::Spans>,
    ) -> Header {
        let (key, returned) = match self.keys.peer {
            Some(peer) => (peer, true),
            None => (self.keys.own, false),
        };
        Header {
            key,
            returned,
            options: options | when(self.settings.sort.is_some(), Options::SORT),
            check: 0,
            sort: self.settings.sort.unwrap_or(0),
            sync: self.sync.latest,
            seq,
            data_len,
            body,
        }
    }

    /// A time of sending like no other.
    pub(super) fn stamp(&mut self, now: Instant) -> Instant {
        self.send.stamp = now.max(self.send.stamp + core::time::Duration::from_nanos(1));
        self.send.stamp
    }

    /// A packet leaves.
    #[inline]
    fn leave(&mut self, now: Instant, header: &Header) {
        let len = header.packet_len() as u64;
        self.counters.segments_sent += 1;
        self.rate.on_sent(now, len);
        self.credit = self.credit.saturating_sub(len);
        self.sync.packets += 1;
        self.sync.bytes += len;
        if header.options.has(Options::WCLOSE) {
            self.send.wclosed = true;
        }
        if header.options.has(Options::SREQ) {
            self.counters.asks_sent += 1;
            self.start_wtimer(now);
            if header.data_len == 0 {
                self.arm_tail(now);
            }
        }
    }

    /// The packet of a queued segment that leaves, for the first time or again. Into the code that gives it out: it is
    /// long, and would be copied on its way there.
    #[inline(always)]
    pub(super) fn data(
        &mut self,
        now: Instant,
        s: &Segment,
        asks: bool,
        retransmission: bool,
    ) -> Transmit {
        if asks {
            self.sync.raise(s.sent_at, self.send.nxt);
            self.sync.edge ^= self.settings.edge;
        }
        let tag = self.tag_at(s.start);
        let eom = s.has(flag::PUSH) && !s.has(flag::STREAM);
        let ends = self.send.finishing && s.end() == self.send.end;
        let opening = self.is_opening();
        let trailer = self.send.trailers && !opening;
        let options = self.mechanisms()
            | when(asks, Options::SREQ)
            | when(eom, Options::EOM)
            | when(ends, Options::WCLOSE)
            | when(self.sync.edge, Options::EDGE)
            | when(
                !opening && (trailer || tag.is_none() && self.proves_itself(s, retransmission)),
                Options::NOCHECK,
            )
            | when(trailer || opening && self.settings.cxor, Options::RES);
        let body = if opening { self.first_body(tag) } else { Body::Data { btag: tag } };
        let header = self.header(options, s.start, s.len, body);
        self.leave(now, &header);
        self.counters.data_segments_sent += 1;
        Transmit {
            header,
            payload: Some(s.start..s.end()),
            retransmission,
            kind: TransmitKind::Data,
            ecn_capable: false,
        }
    }

    #[inline]
    fn tag_at(&self, start: u64) -> Option<u64> {
        if self.send.tags.is_empty() {
            return None;
        }
        let index = self.send.tags.partition_point(|tag| tag.0 < start);
        self.send.tags.get(index).filter(|tag| tag.0 == start).map(|tag| tag.1)
    }

    fn first_body(&self, btag: Option<u64>) -> Body<super::Spans> {
        let traffic = Traffic { service: self.settings.service, limits: Some(self.limits()) };
        let xkey = (self.state == State::Cookie).then_some(self.keys.own);
        Body::First(First { address: self.address, traffic, xkey, btag })
    }

    /// FIRST, when there are no data for it.
    pub(super) fn empty_first(&mut self, now: Instant) -> Transmit {
        let stamp = self.stamp(now);
        self.sync.raise(stamp, self.send.nxt);
        let ends = self.send.finishing && self.send.nxt == self.send.end;
        let options = self.mechanisms()
            | Options::SREQ
            | when(ends, Options::WCLOSE)
            | when(self.settings.cxor, Options::RES);
        let header = self.header(options, self.send.nxt, 0, self.first_body(None));
        self.leave(now, &header);
        alone(header, TransmitKind::Syn)
    }

    /// A control: the answer that is owed, our own question, or both; `None` if it may not leave.
    pub(super) fn control(&mut self, now: Instant) -> Option<Transmit> {
        let tells_key = self.state == State::HalfOpen;
        if tells_key && self.credit < TCNTL_LEN {
            return None;
        }
        let ends = self.send.finishing && self.send.nxt == self.send.end;
        // The end of the stream asks for its acknowledgement.
        let asks = core::mem::take(&mut self.send.ask)
            || ends && !self.send.wclosed
            || self.asks_along(now);
        // Where there is a gap to name, it is told again later.
        let again = !self.events.traffic && self.send.tells > 0 && self.recv.ranges.is_empty();
        let traffic = core::mem::take(&mut self.events.traffic) || tells_key || again;
        let limits = !tells_key || self.credit >= TCNTL_LIMITS_LEN;
        self.send.tells = match limits {
            true => self.send.tells - u8::from(again),
            // They are told once there is room.
            false => TELLS,
        };
        // ECNTL follows a TCNTL, which cannot name the gap that is to be reported, or asked for.
        let owed = core::mem::take(&mut self.events.gap) | core::mem::take(&mut self.events.answer);
        self.events.gap = owed && traffic && !tells_key && !self.recv.ranges.is_empty();
        if asks {
            let stamp = self.stamp(now);
            self.sync.raise(stamp, self.send.nxt);
        }
        let control = Control {
            rseq: self.recv.nxt,
            alloc: self.recv.advertise().min(OFFSET_MAX),
            echo: self.sync.peer.unwrap_or(0),
        };
        let body = if traffic {
            Body::Tcntl(TrafficControl {
                control,
                delay_us: 0,
                xkey: self.keys.own,
                traffic: Traffic {
                    service: self.settings.service,
                    limits: limits.then(|| self.limits()),
                },
            })
        } else if self.recv.ranges.is_empty() {
            Body::Cntl(control)
        } else {
            Body::Ecntl(control, self.recv.spans::<SPANS>())
        };
        let blocked = self.is_exhausted() && !self.send.exhausted;
        self.send.exhausted |= blocked;
        let options = self.mechanisms()
            | when(asks, Options::SREQ)
            | when(blocked, Options::DREQ)
            | when(ends, Options::WCLOSE)
            | when(traffic && self.settings.cxor, Options::RES);
        let header = self.header(options, self.send.nxt, 0, body);
        self.leave(now, &header);
        Some(alone(header, if asks { TransmitKind::Probe } else { TransmitKind::Ack }))
    }

    /// RCLOSE and END: both directions are closed.
    pub(super) fn end(&mut self, now: Instant) -> Transmit {
        let options = self.mechanisms() | Options::WCLOSE | Options::RCLOSE | Options::END;
        self.goodbye(now, options, TransmitKind::Fin)
    }

    fn goodbye(&mut self, now: Instant, options: Options, kind: TransmitKind) -> Transmit {
        let control = Control {
            rseq: self.recv.nxt,
            alloc: self.recv.adv.min(OFFSET_MAX),
            echo: self.sync.peer.unwrap_or(0),
        };
        let header = self.header(options, self.send.nxt, 0, Body::Cntl(control));
        self.leave(now, &header);
        alone(header, kind)
    }

    /// The last words of a context that is gone.
    pub(super) fn last(&mut self, now: Instant, last: Last) -> Transmit {
        match last {
            Last::End => {
                let options = self.mechanisms() | Options::END;
                self.goodbye(now, options, TransmitKind::Reset)
            }
            Last::Diag(diag) => self.diag(now, diag, TransmitKind::Reset),
        }
    }

    fn diag(&mut self, now: Instant, diag: Diag, kind: TransmitKind) -> Transmit {
        let header = self.header(Options::NONE, 0, 0, Body::Diag(diag));
        let header = Header { sync: 0, ..header };
        self.leave(now, &header);
        alone(header, kind)
    }

    /// A packet was larger than we take.
    pub(super) fn too_large(&mut self, now: Instant) -> Transmit {
        let reason = Reason::from_number(self.limits().dlen_max());
        let diag = Diag { code: Code::MaximumPacketSize, reason };
        self.diag(now, diag, TransmitKind::Ack)
    }

    /// Our own key.
    pub fn key(&self) -> Key {
        self.keys.own
    }
}

/// A packet without data.
fn alone(header: Header, kind: TransmitKind) -> Transmit {
    Transmit { header, payload: None, retransmission: false, kind, ecn_capable: false }
}
