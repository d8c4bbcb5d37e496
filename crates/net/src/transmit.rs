//! The frames that the layer itself sends: questions, probes, news and answers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::ethernet::{self, Address};

use crate::addresses::Notice;
use crate::arp;
use crate::config::Link;
use crate::counters::Cause;
use crate::layer::Layer;
use crate::neighbors::Solicitation;
use crate::outbox::{IpAnswer, Kind};
use crate::output::{NoPath, Packet, Via};

impl Layer {
    /// Writes the next frame of the layer's own to `out` and returns its length; ask until there is none.
    ///
    /// # Panics
    /// When `out` is shorter than the link's MTU with its header.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let len = self
            .poll_questions(now, out)
            .or_else(|| self.poll_dhcp(now, out))
            .or_else(|| self.poll_slaac(now, out))
            .or_else(|| self.poll_groups(now, out))
            .or_else(|| self.poll_answers(now, out))?;
        self.counters.transmitted += 1;
        Some(len)
    }

    pub(crate) fn poll_questions(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let Link::Ethernet(own) = self.config.link else { return None };
        if !self.config.responds {
            // Addresses are somebody else's to probe and to announce, too.
            while self.addresses.poll_transmit(now).is_some() {}
            return None;
        }
        while let Some(question) = self.neighbors.poll_solicitation(now) {
            if let Some(len) = self.emit_question(own, &question, out) {
                return Some(len);
            }
        }
        Some(match self.addresses.poll_transmit(now)? {
            Notice::Probe(IpAddr::V4(address)) => {
                arp::emit_request(own, Ipv4Addr::UNSPECIFIED, address, None, out)
            }
            Notice::Announce(IpAddr::V4(address)) => {
                arp::emit_request(own, address, address, None, out)
            }
            Notice::Probe(IpAddr::V6(address)) => {
                self.emit_solicitation(own, Ipv6Addr::UNSPECIFIED, address, None, out)
            }
            Notice::Announce(IpAddr::V6(address)) => self.emit_news(own, address, out),
        })
    }

    /// `None` without an address to ask from.
    fn emit_question(
        &self,
        own: Address,
        question: &Solicitation,
        out: &mut [u8],
    ) -> Option<usize> {
        let on_link = self.addresses.on_link(question.address).map(|e| e.cidr.address());
        let source = on_link.or_else(|| self.addresses.source_for(question.address))?;
        Some(match (source, question.address) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                arp::emit_request(own, source, target, question.mac, out)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                self.emit_solicitation(own, source, target, question.mac, out)
            }
            _ => return None,
        })
    }

    fn poll_answers(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        loop {
            let changes = self.neighbors.changes();
            let at = self.outbox.next(changes)?;
            let (answer, mac) = match (self.outbox.slot(at).kind, self.config.link) {
                (Kind::Ip(answer, mac), _) => (answer, mac),
                (Kind::Link { destination, ethertype }, Link::Ethernet(source)) => {
                    let header = ethernet::Header { destination, source, ethertype, header_len: 0 };
                    let len = header.emit(out);
                    let body = self.outbox.slot(at).payload();
                    out[len..len + body.len()].copy_from_slice(body);
                    let len = len + body.len();
                    self.outbox.remove(at);
                    return Some(len);
                }
                (Kind::Link { .. }, Link::Ip) => {
                    self.outbox.remove(at);
                    continue;
                }
            };
            let via = match mac {
                Some(_) => Ok(self.via(answer.source, answer.destination, answer.destination, mac)),
                None => self.route(now, answer.destination, Some(answer.source)),
            };
            match via {
                Ok(via) => {
                    if self.outbox.slot(at).sent == 0 {
                        let identification = self.identification(&via);
                        self.outbox.slot(at).identification = identification;
                    }
                    return Some(self.emit_answer(at, &answer, &via, out));
                }
                Err(NoPath::Resolving) => {
                    self.outbox.slot(at).waits = Some(changes);
                    // The question goes first.
                    if let Some(len) = self.poll_questions(now, out) {
                        return Some(len);
                    }
                }
                Err(_) => {
                    self.outbox.remove(at);
                    self.counters.drops.count(Cause::AnswerUnreachable);
                }
            }
        }
    }

    /// Writes an answer, or its next fragment.
    fn emit_answer(&mut self, at: usize, answer: &IpAnswer, via: &Via, out: &mut [u8]) -> usize {
        let slot = self.outbox.slot(at);
        let body = slot.payload();
        let packet = Packet {
            traffic_class: answer.traffic_class,
            hop_limit: answer.hop_limit,
            identification: slot.identification as u16,
            dont_fragment: false,
            ..Packet::new(answer.protocol, body.len())
        };
        let fragment = via.fragment(body.len(), slot.sent, slot.identification);
        let header_len = via.emit_fragment(&packet, &fragment, out);
        let piece = &body[fragment.offset..fragment.offset + fragment.len];
        out[header_len..header_len + piece.len()].copy_from_slice(piece);
        slot.sent += fragment.len;
        if !fragment.more {
            self.outbox.remove(at);
        }
        header_len + fragment.len
    }
}
