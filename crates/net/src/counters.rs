//! Every drop has a cause, and every cause a counter.

/// Why a packet, or an answer to one, was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The Ethernet header is malformed.
    EthernetMalformed,
    /// The frame is for another station.
    EthernetDestination,
    /// The frame's source is a group.
    EthernetSource,
    /// The frame carries neither IP nor ARP.
    EthernetType,
    /// ARP for other hardware or another protocol, or malformed.
    ArpMalformed,
    /// ARP that contradicts itself, or that does not concern us.
    ArpIgnored,
    /// A claim to an address that is ours.
    AddressConflict,
    /// A claim that would have changed a neighbour which is in use: the neighbour is asked first.
    NeighborContested,
    /// What was said of a neighbour was not kept: the table has no place.
    NeighborsFull,
    /// The IPv4 header is malformed.
    Ipv4Malformed,
    /// The IPv4 header's checksum is wrong.
    Ipv4Checksum,
    /// A source route (RFC 7126, section 4.3).
    Ipv4SourceRoute,
    /// The IPv6 header is malformed.
    Ipv6Malformed,
    /// An extension header is malformed, unknown to us, or out of order.
    Ipv6Extension,
    /// Version neither 4 nor 6, or not what the frame says.
    IpVersion,
    /// The source can be nobody's address.
    SourceMartian,
    /// The source is an address of ours.
    SourceOwn,
    /// The destination is no address of ours.
    DestinationForeign,
    /// The destination cannot come over a link.
    DestinationMartian,
    /// The destination is a group that we are not in.
    DestinationGroup,
    /// IP for one, in a frame for all (RFC 1122, section 3.3.6).
    DestinationBroadcastFrame,
    /// TCP to more than one receiver (RFC 9293, section 3.9.2.3).
    TcpToGroup,
    /// No such protocol above IP.
    ProtocolUnknown,
    /// ICMP, malformed.
    IcmpMalformed,
    /// ICMP with a wrong checksum.
    IcmpChecksum,
    /// Echo to all or to a group, which is not answered.
    IcmpBroadcast,
    /// ICMP of a kind that means nothing to a host, or that it should ignore.
    IcmpIgnored,
    /// An ICMP error about something that we cannot have sent.
    IcmpForeign,
    /// "Too big", with an MTU that no honest router says.
    IcmpForgedMtu,
    /// Neighbour discovery, malformed.
    NdpMalformed,
    /// Neighbour discovery that passed a router, or came in fragments (RFC 6980).
    NdpForeign,
    /// Neighbour discovery that does not concern us.
    NdpIgnored,
    /// A fragment of illegal length or place.
    FragmentMalformed,
    /// The first fragment lacks the upper header (RFC 7112).
    FragmentTiny,
    /// Fragments overlap (RFC 5722).
    FragmentOverlap,
    /// A fragment that was there already.
    FragmentDuplicate,
    /// A datagram in more fragments than are kept.
    FragmentMany,
    /// A datagram that made room for another.
    FragmentEvicted,
    /// A datagram that was not whole in time.
    FragmentTimeout,
    /// IGMP or MLD, malformed or with a wrong checksum.
    GroupMalformed,
    /// IGMP or MLD that does not concern us.
    GroupIgnored,
    /// DHCP, malformed.
    DhcpMalformed,
    /// DHCP that is not the answer to us.
    DhcpIgnored,
    /// An answer that would have been one too many in a second.
    AnswerLimited,
    /// An answer for which there was no room.
    AnswerNoRoom,
    /// An answer whose receiver could not be reached.
    AnswerUnreachable,
    /// An error message that must not be sent (RFC 1122, section 3.2.2; RFC 4443, section 2.4).
    AnswerForbidden,
}

/// Every cause with its name, in the order of their numbers.
const NAMES: [(Cause, &str); 47] = [
    (Cause::EthernetMalformed, "ethernet-malformed"),
    (Cause::EthernetDestination, "ethernet-destination"),
    (Cause::EthernetSource, "ethernet-source"),
    (Cause::EthernetType, "ethernet-type"),
    (Cause::ArpMalformed, "arp-malformed"),
    (Cause::ArpIgnored, "arp-ignored"),
    (Cause::AddressConflict, "address-conflict"),
    (Cause::NeighborContested, "neighbor-contested"),
    (Cause::NeighborsFull, "neighbors-full"),
    (Cause::Ipv4Malformed, "ipv4-malformed"),
    (Cause::Ipv4Checksum, "ipv4-checksum"),
    (Cause::Ipv4SourceRoute, "ipv4-source-route"),
    (Cause::Ipv6Malformed, "ipv6-malformed"),
    (Cause::Ipv6Extension, "ipv6-extension"),
    (Cause::IpVersion, "ip-version"),
    (Cause::SourceMartian, "source-martian"),
    (Cause::SourceOwn, "source-own"),
    (Cause::DestinationForeign, "destination-foreign"),
    (Cause::DestinationMartian, "destination-martian"),
    (Cause::DestinationGroup, "destination-group"),
    (Cause::DestinationBroadcastFrame, "destination-broadcast-frame"),
    (Cause::TcpToGroup, "tcp-to-group"),
    (Cause::ProtocolUnknown, "protocol-unknown"),
    (Cause::IcmpMalformed, "icmp-malformed"),
    (Cause::IcmpChecksum, "icmp-checksum"),
    (Cause::IcmpBroadcast, "icmp-broadcast"),
    (Cause::IcmpIgnored, "icmp-ignored"),
    (Cause::IcmpForeign, "icmp-foreign"),
    (Cause::IcmpForgedMtu, "icmp-forged-mtu"),
    (Cause::NdpMalformed, "ndp-malformed"),
    (Cause::NdpForeign, "ndp-foreign"),
    (Cause::NdpIgnored, "ndp-ignored"),
    (Cause::FragmentMalformed, "fragment-malformed"),
    (Cause::FragmentTiny, "fragment-tiny"),
    (Cause::FragmentOverlap, "fragment-overlap"),
    (Cause::FragmentDuplicate, "fragment-duplicate"),
    (Cause::FragmentMany, "fragment-many"),
    (Cause::FragmentEvicted, "fragment-evicted"),
    (Cause::FragmentTimeout, "fragment-timeout"),
    (Cause::GroupMalformed, "group-malformed"),
    (Cause::GroupIgnored, "group-ignored"),
    (Cause::DhcpMalformed, "dhcp-malformed"),
    (Cause::DhcpIgnored, "dhcp-ignored"),
    (Cause::AnswerLimited, "answer-limited"),
    (Cause::AnswerNoRoom, "answer-no-room"),
    (Cause::AnswerUnreachable, "answer-unreachable"),
    (Cause::AnswerForbidden, "answer-forbidden"),
];

impl Cause {
    /// Its name as users and metrics see it.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

/// What went through the layer and what did not.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Frames given to the layer.
    pub received: u64,
    /// Datagrams handed up.
    pub delivered: u64,
    /// Datagrams put together from fragments.
    pub reassembled: u64,
    /// Frames that the layer itself sent: ARP, neighbour discovery, ICMP, groups, DHCP.
    pub transmitted: u64,
    drops: [u64; NAMES.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            received: 0,
            delivered: 0,
            reassembled: 0,
            transmitted: 0,
            drops: [0; NAMES.len()],
        }
    }
}

impl Counters {
    /// Drops with this cause.
    pub const fn drops(&self, cause: Cause) -> u64 {
        self.drops[cause as usize]
    }

    /// Every cause with its drops.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        NAMES.iter().map(|&(cause, _)| (cause, self.drops(cause)))
    }

    pub(crate) fn drop(&mut self, cause: Cause) {
        self.drops[cause as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_name_and_counter() {
        let mut counters = Counters::default();
        for (n, &(cause, name)) in NAMES.iter().enumerate() {
            assert_eq!((cause as usize, cause.name()), (n, name));
            counters.drop(cause);
        }
        assert!(counters.iter().all(|(_, drops)| drops == 1));
        let mut names: Vec<_> = NAMES.iter().map(|n| n.1).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
        assert_eq!(Cause::AnswerForbidden as usize + 1, NAMES.len(), "the last one");
    }
}
