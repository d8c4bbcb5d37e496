//! ICMP and ICMPv6: echo answered, errors about our packets handed up, errors about others' packets sent.

use core::net::IpAddr;

use fusewire_base::{Instant, Seq};
use fusewire_wire::groups::Protocol;
use fusewire_wire::icmp::{self, Message};
use fusewire_wire::ipv6_extension::{Chain, Extension};
use fusewire_wire::{Error, icmpv6, ipv4, ipv6, ndp, tcp, udp};

use crate::counters::Cause;
use crate::input::{Cast, Datagram, Input, IpInput, PathError, PathErrorKind};
use crate::layer::Layer;
use crate::outbox::{IpAnswer, Kind};
use crate::path_mtu::PathMtus;

/// What an error says.
#[derive(Clone, Copy)]
enum Verdict {
    Plain(PathErrorKind),
    TooBig(usize),
}

/// The beginning of a packet, as an error quotes it.
struct Quoted<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Of the whole packet.
    len: usize,
    /// Routers were allowed to cut it.
    may_fragment: bool,
    /// The first eight bytes of the header above IP.
    upper: &'a [u8; 8],
}

impl Quoted<'_> {
    fn v4(bytes: &[u8], speaks: impl Fn(u8) -> bool) -> Result<Quoted<'_>, Cause> {
        let header = ipv4::Header::parse_quoted(bytes).map_err(|_| Cause::IcmpMalformed)?;
        if header.fragment_offset != 0 {
            return Err(Cause::IcmpForeign);
        }
        if !speaks(header.protocol) {
            return Err(Cause::IcmpIgnored);
        }
        let upper = bytes.get(header.header_len.into()..).unwrap_or_default();
        Ok(Quoted {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.protocol,
            len: header.total_len.into(),
            may_fragment: !header.dont_fragment,
            upper: upper.first_chunk().ok_or(Cause::IcmpMalformed)?,
        })
    }

    fn v6(bytes: &[u8], speaks: impl Fn(u8) -> bool) -> Result<Quoted<'_>, Cause> {
        let header = ipv6::Header::parse_quoted(bytes).map_err(|_| Cause::IcmpMalformed)?;
        let payload = &bytes[ipv6::HEADER_LEN..];
        let mut chain = Chain::new(header.next_header);
        while let Some(step) = chain.step(payload).map_err(|_| Cause::IcmpMalformed)? {
            if matches!(step.extension, Extension::Fragment(f) if f.offset != 0) {
                return Err(Cause::IcmpForeign);
            }
        }
        if !speaks(chain.next_header) {
            return Err(Cause::IcmpIgnored);
        }
        let upper = payload.get(chain.offset..).unwrap_or_default();
        Ok(Quoted {
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: chain.next_header,
            len: ipv6::HEADER_LEN + usize::from(header.payload_len),
            may_fragment: false,
            upper: upper.first_chunk().ok_or(Cause::IcmpMalformed)?,
        })
    }
}

impl Layer {
    /// A message of ICMP or ICMPv6.
    pub(crate) fn icmp(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let is_v6 = input.source.is_ipv6();
        let pseudo_header = is_v6.then(|| input.pseudo_header());
        let message = Message::parse(pseudo_header, bytes).map_err(|error| match error {
            Error::Checksum { .. } => Cause::IcmpChecksum,
            _ => Cause::IcmpMalformed,
        })?;
        let verdict = match message {
            Message::EchoRequest { id, seq } => {
                if input.cast != Cast::Unicast || input.source.is_unspecified() {
                    return Err(Cause::IcmpBroadcast);
                }
                let Some(out) = self.echo(now, input, bytes)? else { return Ok(Input::Consumed) };
                Message::EchoReply { id, seq }.emit(pseudo_header, out);
                return Ok(Input::Consumed);
            }
            Message::Unreachable { code } => {
                let is_refused = match is_v6 {
                    false => [icmp::unreachable::PROTOCOL, icmp::unreachable::PORT].contains(&code),
                    true => code == icmpv6::unreachable::PORT,
                };
                Verdict::Plain(match is_refused {
                    true => PathErrorKind::Refused,
                    false => PathErrorKind::Unreachable(code),
                })
            }
            Message::TooBig { mtu } => Verdict::TooBig(mtu as usize),
            Message::TimeExceeded { .. } => Verdict::Plain(PathErrorKind::TimeExceeded),
            // That is how a host says it that does not speak the protocol (RFC 4443, section 3.4).
            Message::ParameterProblem { code: icmpv6::parameter_problem::NEXT_HEADER, .. }
                if is_v6 =>
            {
                Verdict::Plain(PathErrorKind::Refused)
            }
            Message::ParameterProblem { .. } => Verdict::Plain(PathErrorKind::ParameterProblem),
            Message::Other { kind: ndp::ROUTER_SOLICITATION..=ndp::REDIRECT, .. } if is_v6 => {
                return self.ndp(now, input, bytes);
            }
            Message::Other { kind, .. } if is_v6 && Protocol::is_mld(kind) => {
                return self.group_message(now, Protocol::Mld, input, bytes);
            }
            // Redirects can be forged too easily; source quench is dead (RFC 6633); the rest is for others.
            _ => return Err(Cause::IcmpIgnored),
        };
        self.path_error(input, &bytes[icmp::HEADER_LEN..], verdict)
    }

    /// An error about the packet that `quoted` is the beginning of.
    fn path_error(&self, input: &IpInput, quoted: &[u8], verdict: Verdict) -> Result<Input, Cause> {
        let quoted = match input.source {
            IpAddr::V4(_) => Quoted::v4(quoted, |protocol| self.speaks(protocol)),
            IpAddr::V6(_) => Quoted::v6(quoted, |protocol| self.speaks(protocol)),
        }?;
        if input.cast != Cast::Unicast || quoted.source != input.destination {
            return Err(Cause::IcmpForeign);
        }
        let remote = quoted.destination;
        let kind = match verdict {
            Verdict::Plain(kind) => kind,
            Verdict::TooBig(mtu) => {
                let current = self.path_mtu(remote).mtu;
                let mtu = PathMtus::judge(remote.is_ipv6(), mtu, quoted.len, current);
                let mtu = mtu.filter(|_| !quoted.may_fragment).ok_or(Cause::IcmpForgedMtu)?;
                PathErrorKind::TooBig { mtu }
            }
        };
        let &[a, b, c, d, e, f, g, h] = quoted.upper;
        let has_ports = matches!(quoted.protocol, tcp::NUMBER | udp::NUMBER);
        let port = |bytes| if has_ports { u16::from_be_bytes(bytes) } else { 0 };
        Ok(Input::Error(PathError {
            kind,
            protocol: quoted.protocol,
            local: quoted.source,
            local_port: port([a, b]),
            remote,
            remote_port: port([c, d]),
            upper: *quoted.upper,
            seq: (quoted.protocol == tcp::NUMBER).then(|| Seq(u32::from_be_bytes([e, f, g, h]))),
            reporter: input.source,
        }))
    }

    /// The transport has found that the packet which "too big" was said of is its own: the path is narrower
    /// from now on. A datagram of UDP narrows the path for UDP only.
    pub fn accept_too_big(&mut self, now: Instant, error: &PathError) {
        if let PathErrorKind::TooBig { mtu } = error.kind {
            let paths = match error.protocol {
                udp::NUMBER => &mut self.udp_path_mtus,
                _ => &mut self.path_mtus,
            };
            paths.reduce(now, error.remote, mtu);
        }
    }

    /// The transport has lost a packet of `len` bytes (IP header included) to `remote`. True when so many
    /// were lost, and none delivered, that the path is taken for a black hole and believed to be narrower.
    pub fn path_lost(&mut self, now: Instant, remote: IpAddr, len: usize) -> bool {
        self.path_mtus.lost(now, remote, len)
    }

    /// A packet of `len` bytes (IP header included) has arrived at `remote`.
    pub fn path_delivered(&mut self, remote: IpAddr, len: usize) {
        self.path_mtus.delivered(remote, len);
    }

    /// A buffer for the answer to an echo request, the data in place.
    fn echo(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Option<&mut [u8]>, Cause> {
        if !self.config.responds {
            return Ok(None);
        }
        let answer = IpAnswer {
            source: input.destination,
            destination: input.source,
            protocol: input.protocol,
            traffic_class: input.traffic_class & !3,
            hop_limit: None,
        };
        let out = self.outbox.push(now, Kind::Ip(answer, None), bytes.len());
        let out = out.ok_or(Cause::AnswerNoRoom)?;
        out.copy_from_slice(bytes);
        Ok(Some(out))
    }

    /// A buffer for a segment of `len` bytes that answers `datagram`, as a reset does that belongs to no
    /// connection: it is sent by [`Layer::poll_transmit`] when its receiver is found. `None` when there is no
    /// room, or there were too many answers in this second, or the datagram was not for us alone.
    pub fn answer(&mut self, now: Instant, datagram: &Datagram, len: usize) -> Option<&mut [u8]> {
        if datagram.cast != Cast::Unicast {
            self.counters.drops.count(Cause::AnswerForbidden);
            return None;
        }
        if !self.loops_back(datagram.source)
            && !self.limiter.allow(now, datagram.source, &mut self.random)
        {
            self.counters.drops.count(Cause::AnswerLimited);
            return None;
        }
        let answer = IpAnswer {
            source: datagram.destination,
            destination: datagram.source,
            protocol: datagram.protocol,
            traffic_class: 0,
            hop_limit: None,
        };
        let out = self.outbox.push(now, Kind::Ip(answer, None), len);
        if out.is_none() {
            self.counters.drops.count(Cause::AnswerNoRoom);
        }
        out
    }
}
