//! ICMP errors that we send (RFC 1122, section 3.2.2; RFC 4443, section 2.4): rate-limited, and never about
//! errors, groups, or what came to all.

use core::net::IpAddr;

use fusewire_base::Instant;
use fusewire_wire::icmp::{self, Message};
use fusewire_wire::{icmpv6, ipv4, ipv6, ndp, tcp, udp};

use crate::counters::Cause;
use crate::input::{Arrival, Cast, Datagram, IpInput, Payload};
use crate::layer::Layer;
use crate::outbox::{IpAnswer, Kind};
use crate::output::pseudo_header_sum;
use crate::reassembly::Expired;

/// Longest error with its header over IPv4 (RFC 1812, section 4.3.2.3).
const MAX_V4: usize = 576;
/// Longest error with its header over IPv6 (RFC 4443, section 2.4 (c)).
const MAX_V6: usize = 1280;

/// The packet that an error is about.
struct About<'a> {
    source: IpAddr,
    destination: IpAddr,
    cast: Cast,
    protocol: u8,
    /// Type, when it is ICMP.
    first: u8,
    /// From its IP header on.
    quote: &'a [u8],
}

impl Layer {
    /// Tells the sender of a datagram that nobody listens on its port, or of a protocol without ports that nobody speaks it
    /// there: queues a "port unreachable", or "protocol unreachable". `frame` is the one that it came in. False when none
    /// is to be sent: the datagram was for more than us, or there were too many.
    pub fn answer_unreachable(&mut self, now: Instant, frame: &[u8], datagram: &Datagram) -> bool {
        let code = match (datagram.source, datagram.protocol) {
            (IpAddr::V4(_), tcp::NUMBER | udp::NUMBER) => icmp::unreachable::PORT,
            (IpAddr::V4(_), _) => icmp::unreachable::PROTOCOL,
            // Of any transport that nobody listens for (RFC 4443, section 3.1).
            (IpAddr::V6(_), _) => icmpv6::unreachable::PORT,
        };
        let memory = core::mem::take(self.reassembly.memory());
        let quote = match datagram.payload {
            Payload::Frame { end, .. } => frame.get(datagram.ip_at..end),
            Payload::Reassembled => memory.get(datagram.ip_at..self.whole.end),
        };
        let sent = self.report_about(
            now,
            &About {
                source: datagram.source,
                destination: datagram.destination,
                cast: datagram.cast,
                protocol: datagram.protocol,
                first: 0,
                quote: quote.unwrap_or_default(),
            },
            Message::Unreachable { code },
        );
        *self.reassembly.memory() = memory;
        sent
    }

    /// Queues an error about the packet `input` in `frame`, if one may be sent.
    pub(crate) fn report(&mut self, now: Instant, frame: &[u8], input: &IpInput, report: Message) {
        let place = input.payload.in_frame().unwrap_or_default();
        let about = About {
            source: input.source,
            destination: input.destination,
            cast: input.cast,
            protocol: input.protocol,
            first: frame.get(place.start).copied().unwrap_or(0),
            quote: frame.get(input.ip_at..place.end).unwrap_or_default(),
        };
        self.report_about(now, &about, report);
    }

    fn report_about(&mut self, now: Instant, about: &About<'_>, report: Message) -> bool {
        if !self.config.responds {
            return false;
        }
        let Err(cause) = self.try_report(now, about, report) else { return true };
        self.counters.drops.count(cause);
        false
    }

    fn try_report(
        &mut self,
        now: Instant,
        about: &About<'_>,
        report: Message,
    ) -> Result<(), Cause> {
        // An option that wants it is reported to a group's sender too (RFC 4443, section 2.4 (e.3)).
        let to_group = about.cast != Cast::Unicast
            && !matches!(
                report,
                Message::ParameterProblem { code: icmpv6::parameter_problem::OPTION, .. }
            );
        let error = match about.protocol {
            icmp::NUMBER => icmp::is_error_type(about.first),
            icmpv6::NUMBER => icmpv6::is_error_type(about.first) || about.first == ndp::REDIRECT,
            _ => false,
        };
        if to_group || error || about.source.is_unspecified() {
            return Err(Cause::AnswerForbidden);
        }
        if !self.loops_back(about.source)
            && !self.limiter.allow(now, about.source, &mut self.random)
        {
            return Err(Cause::AnswerLimited);
        }
        let source = match about.cast {
            Cast::Unicast => about.destination,
            _ => self.addresses.source_for(about.source).ok_or(Cause::AnswerUnreachable)?,
        };
        let (protocol, most) = match about.source {
            IpAddr::V4(_) => (icmp::NUMBER, MAX_V4 - ipv4::MIN_HEADER_LEN),
            IpAddr::V6(_) => (icmpv6::NUMBER, MAX_V6 - ipv6::HEADER_LEN),
        };
        let quote = &about.quote[..about.quote.len().min(most - icmp::HEADER_LEN)];
        let len = icmp::HEADER_LEN + quote.len();
        let answer = IpAnswer {
            source,
            destination: about.source,
            protocol,
            // RFC 1812, section 4.3.2.5: internetwork control.
            traffic_class: if protocol == icmp::NUMBER { 0xc0 } else { 0 },
            hop_limit: None,
        };
        let out = self.outbox.push(now, Kind::Ip(answer, None), len);
        let out = out.ok_or(Cause::AnswerNoRoom)?;
        out[icmp::HEADER_LEN..].copy_from_slice(quote);
        let is_v6 = protocol == icmpv6::NUMBER;
        let pseudo_header = is_v6.then(|| pseudo_header_sum(source, about.source, protocol, len));
        report.emit(pseudo_header, out);
        Ok(())
    }

    /// Gives up datagrams that are not whole in time, and says so where their beginning came (RFC 1122, section
    /// 3.3.2; RFC 8200, section 4.5).
    pub(crate) fn reassembly_timeout(&mut self, now: Instant) {
        while let Some((expired, counts)) = self.reassembly.handle_timeout(now) {
            if counts {
                self.counters.drops.count(Cause::FragmentTimeout);
            }
            let Some(Expired { key, whole }) = expired else { continue };
            if self.is_group(key.destination) {
                continue;
            }
            let input = IpInput {
                arrival: Arrival { mac: None, to_group: false },
                source: key.source,
                destination: key.destination,
                cast: Cast::Unicast,
                traffic_class: 0,
                hop_limit: 0,
                protocol: whole.next_header,
                ip_at: 0,
                payload: Payload::Reassembled,
                len: 0,
                reassembled: true,
                router_alert: false,
                named_at: 0,
            };
            let mut memory = core::mem::take(self.reassembly.memory());
            let input = self.rebuild(&mut memory, &input, &whole);
            let report = Message::TimeExceeded { code: icmp::time_exceeded::REASSEMBLY };
            self.report(now, &memory, &input, report);
            *self.reassembly.memory() = memory;
        }
    }
}
