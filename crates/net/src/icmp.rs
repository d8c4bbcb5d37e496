//! ICMP and ICMPv6: echo answered, errors about our packets handed up, errors about others' packets sent.

use fusewire_base::Instant;
use fusewire_wire::{Error, icmp, icmpv6, ndp};

use crate::counters::Cause;
use crate::input::{Cast, Datagram, Input, IpInput};
use crate::layer::Layer;
use crate::outbox::{IpAnswer, Kind};

impl Layer {
    pub(crate) fn icmp(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let message = icmp::Message::parse(bytes).map_err(|error| match error {
            Error::Checksum { .. } => Cause::IcmpChecksum,
            _ => Cause::IcmpMalformed,
        })?;
        match message {
            icmp::Message::EchoRequest { id, seq } => {
                if input.cast != Cast::Unicast {
                    return Err(Cause::IcmpBroadcast);
                }
                let Some(out) = self.echo(now, input, bytes)? else { return Ok(Input::Consumed) };
                icmp::Message::EchoReply { id, seq }.emit(out);
                Ok(Input::Consumed)
            }
            _ => Err(Cause::IcmpIgnored),
        }
    }

    pub(crate) fn icmpv6(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let pseudo_header = input.pseudo_header();
        let message =
            icmpv6::Message::parse(pseudo_header, bytes).map_err(|error| match error {
                Error::Checksum { .. } => Cause::IcmpChecksum,
                _ => Cause::IcmpMalformed,
            })?;
        match message {
            icmpv6::Message::EchoRequest { id, seq } => {
                if input.cast != Cast::Unicast || input.source.is_unspecified() {
                    return Err(Cause::IcmpBroadcast);
                }
                let Some(out) = self.echo(now, input, bytes)? else { return Ok(Input::Consumed) };
                icmpv6::Message::EchoReply { id, seq }.emit(pseudo_header, out);
                Ok(Input::Consumed)
            }
            icmpv6::Message::Other { kind, .. }
                if (ndp::ROUTER_SOLICITATION..=ndp::REDIRECT).contains(&kind) =>
            {
                self.ndp(now, input, bytes)
            }
            _ => Err(Cause::IcmpIgnored),
        }
    }

    /// A buffer for the answer to an echo request, the data in place.
    fn echo(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Option<&mut [u8]>, Cause> {
        if !self.config.answers {
            return Ok(None);
        }
        let answer = IpAnswer {
            source: input.destination,
            destination: input.source,
            protocol: input.protocol,
            traffic_class: input.traffic_class & !3,
            hop_limit: None,
            identification: 0,
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
            self.counters.drop(Cause::AnswerForbidden);
            return None;
        }
        if !self.limiter.allow(now, datagram.source, &mut self.random) {
            self.counters.drop(Cause::AnswerLimited);
            return None;
        }
        let answer = IpAnswer {
            source: datagram.destination,
            destination: datagram.source,
            protocol: datagram.protocol,
            traffic_class: 0,
            hop_limit: None,
            identification: 0,
        };
        let out = self.outbox.push(now, Kind::Ip(answer, None), len);
        if out.is_none() {
            self.counters.drop(Cause::AnswerNoRoom);
        }
        out
    }
}
