//! Neighbour discovery (RFC 4861, section 7): solicitations answered, advertisements learned, claims to our
//! addresses seen.

use core::net::{IpAddr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::ethernet::Address;
use fusewire_wire::ndp::{HOP_LIMIT, MAX_EMIT_LEN, Message, NdpOption, options};
use fusewire_wire::{icmp, icmpv6};

use crate::config::Link;
use crate::counters::Cause;
use crate::input::{Input, IpInput, solicited_node};
use crate::layer::Layer;
use crate::neighbors::Evidence;
use crate::outbox::{IpAnswer, Kind};
use crate::output::{Packet, group_mac, pseudo_header_sum};

/// All nodes on the link.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What the options of a message say.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    source: Option<Address>,
    target: Option<Address>,
    nonce: Option<[u8; 6]>,
}

fn parse_options(bytes: &[u8]) -> Result<Options, Cause> {
    let mut found = Options::default();
    for option in options(bytes) {
        match option.map_err(|_| Cause::NdpMalformed)? {
            NdpOption::SourceAddress(a) if !a.is_multicast() => found.source = Some(a),
            NdpOption::TargetAddress(a) if !a.is_multicast() => found.target = Some(a),
            NdpOption::Nonce(nonce) => found.nonce = Some(nonce),
            _ => {}
        }
    }
    Ok(found)
}

impl Layer {
    /// A message of neighbour discovery whose checksum is right.
    pub(crate) fn ndp(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let (Link::Ethernet(_), IpAddr::V6(source)) = (self.config.link, input.source) else {
            return Err(Cause::NdpIgnored);
        };
        if input.hop_limit != HOP_LIMIT || input.reassembled {
            return Err(Cause::NdpForeign);
        }
        let parsed = Message::parse(bytes).map_err(|_| Cause::NdpMalformed)?;
        let (message, len) = parsed.ok_or(Cause::NdpMalformed)?;
        let options = parse_options(&bytes[len..])?;
        match message {
            // Beside a kernel with our address it is the kernel that answers.
            Message::NeighborSolicitation { .. } if !self.config.responds => Ok(Input::Consumed),
            Message::NeighborSolicitation { target } => {
                self.neighbor_solicitation(now, input, source, target, options)
            }
            Message::NeighborAdvertisement { router, solicited, override_cache, target } => {
                if input.cast != crate::input::Cast::Unicast && solicited {
                    return Err(Cause::NdpMalformed);
                }
                if self.config.responds {
                    self.claimed(now, target.into())?;
                }
                let evidence = match (solicited, override_cache) {
                    (true, true) => Evidence::Answer,
                    (_, false) => Evidence::WeakAnswer,
                    (false, true) => Evidence::Unasked,
                };
                // Without the option the answer is for who asked that host alone (section 7.2.4).
                let known = self.neighbors.entry(target.into()).map(|e| e.mac);
                let mac = options.target.or(known.filter(|_| solicited));
                let mac = mac.ok_or(Cause::NdpIgnored)?;
                let asked = solicited && self.neighbors.was_asked(target.into());
                self.learn(now, target.into(), mac, evidence)?;
                if self.neighbors.set_router(target.into(), router, asked) {
                    // RFC 4861, section 7.3.3: it is none any more.
                    self.routes.advertise(now, target, core::time::Duration::ZERO);
                    self.changed();
                }
                Ok(Input::Consumed)
            }
            Message::RouterAdvertisement(router) => {
                self.router_advertisement(now, input, &router, &bytes[len..])
            }
            // A redirect can be forged too easily (RFC 4861, section 11.2); the rest is for routers.
            _ => Err(Cause::NdpIgnored),
        }
    }

    fn neighbor_solicitation(
        &mut self,
        now: Instant,
        input: &IpInput,
        source: Ipv6Addr,
        target: Ipv6Addr,
        options: Options,
    ) -> Result<Input, Cause> {
        let probe = source.is_unspecified();
        // RFC 4861, section 7.1.1.
        if probe
            && (options.source.is_some() || input.destination != IpAddr::V6(solicited_node(target)))
        {
            return Err(Cause::NdpMalformed);
        }
        if probe && self.addresses.entry(target.into()).is_some_and(|e| !e.is_usable()) {
            if options.nonce == Some(self.nonce) {
                return Err(Cause::NdpIgnored);
            }
            self.claimed(now, target.into())?;
        }
        if !self.addresses.is_own(target.into()) {
            return Err(Cause::NdpIgnored);
        }
        if let Some(mac) = options.source {
            self.learn(now, source.into(), mac, Evidence::Mentioned)?;
        }
        let to = if probe { ALL_NODES } else { source };
        self.advertise(now, target, to, !probe, input)
    }

    /// Queues an advertisement of `target` in answer to a solicitation.
    fn advertise(
        &mut self,
        now: Instant,
        target: Ipv6Addr,
        to: Ipv6Addr,
        solicited: bool,
        input: &IpInput,
    ) -> Result<Input, Cause> {
        let Link::Ethernet(own) = self.config.link else { return Err(Cause::NdpIgnored) };
        let message = Message::NeighborAdvertisement {
            router: false,
            solicited,
            override_cache: true,
            target,
        };
        let answer = IpAnswer {
            source: target.into(),
            destination: to.into(),
            protocol: icmpv6::NUMBER,
            traffic_class: 0,
            hop_limit: Some(HOP_LIMIT),
        };
        // Who asks bears its own MAC address; asking it for that in turn would go round for ever.
        let mac = if to.is_multicast() { Some(group_mac(to.into())) } else { None };
        let kind = Kind::Ip(answer, mac.or(input.arrival.mac));
        let out = self.outbox.push(now, kind, MAX_EMIT_LEN).ok_or(Cause::AnswerNoRoom)?;
        let at = message.emit(out);
        NdpOption::TargetAddress(own).emit(&mut out[at..]);
        let sum = pseudo_header_sum(target.into(), to.into(), icmpv6::NUMBER, MAX_EMIT_LEN);
        icmp::emit_checksum(sum, out);
        Ok(Input::Consumed)
    }

    /// Writes a solicitation for `target`: a probe from nobody, or a question; returns the frame's length.
    pub(crate) fn emit_solicitation(
        &self,
        own: Address,
        source: Ipv6Addr,
        target: Ipv6Addr,
        mac: Option<Address>,
        out: &mut [u8],
    ) -> usize {
        let option = if source.is_unspecified() {
            NdpOption::Nonce(self.nonce)
        } else {
            NdpOption::SourceAddress(own)
        };
        let to = if mac.is_some() { target } else { solicited_node(target) };
        let mac = mac.unwrap_or(group_mac(to.into()));
        self.emit_ndp(
            Message::NeighborSolicitation { target },
            Some(option),
            (source, to),
            mac,
            out,
        )
    }

    /// Writes an advertisement that nobody asked for; returns the frame's length.
    pub(crate) fn emit_news(&self, own: Address, target: Ipv6Addr, out: &mut [u8]) -> usize {
        let message = Message::NeighborAdvertisement {
            router: false,
            solicited: false,
            override_cache: true,
            target,
        };
        let option = Some(NdpOption::TargetAddress(own));
        let mac = group_mac(ALL_NODES.into());
        self.emit_ndp(message, option, (target, ALL_NODES), mac, out)
    }

    /// Writes a message with at most one option, from the first of `ends` to the second.
    pub(crate) fn emit_ndp(
        &self,
        message: Message,
        option: Option<NdpOption>,
        ends: (Ipv6Addr, Ipv6Addr),
        mac: Address,
        out: &mut [u8],
    ) -> usize {
        let mut body = [0; MAX_EMIT_LEN];
        let mut len = message.emit(&mut body);
        if let Some(option) = option {
            len += option.emit(&mut body[len..]);
        }
        let (source, to) = (ends.0.into(), ends.1.into());
        icmp::emit_checksum(pseudo_header_sum(source, to, icmpv6::NUMBER, len), &mut body[..len]);
        let packet = Packet { hop_limit: Some(HOP_LIMIT), ..Packet::new(icmpv6::NUMBER, len) };
        let at = self.via(source, to, to, Some(mac)).emit(&packet, out);
        out[at..at + len].copy_from_slice(&body[..len]);
        at + len
    }
}
