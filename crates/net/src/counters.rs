//! Every drop has a cause, and every cause a counter.

fusewire_base::causes! {
    /// Why a packet, or an answer to one, was dropped.
    Cause, counted by Drops {
        /// The Ethernet header is malformed.
        EthernetMalformed = "ethernet-malformed",
        /// The frame is for another host.
        EthernetDestination = "ethernet-destination",
        /// The frame's source is a group.
        EthernetSource = "ethernet-source",
        /// The frame carries neither IP nor ARP.
        EthernetType = "ethernet-type",
        /// ARP for other hardware or another protocol, or malformed.
        ArpMalformed = "arp-malformed",
        /// ARP that contradicts itself, or that does not concern us.
        ArpIgnored = "arp-ignored",
        /// A claim to an address that is ours.
        AddressConflict = "address-conflict",
        /// A claim that would have changed a neighbour which is in use: the neighbour is asked first.
        NeighborContested = "neighbor-contested",
        /// What was said of a neighbour was not kept: the table has no place.
        NeighborsFull = "neighbors-full",
        /// The IPv4 header is malformed.
        Ipv4Malformed = "ipv4-malformed",
        /// The IPv4 header's checksum is wrong.
        Ipv4Checksum = "ipv4-checksum",
        /// A source route (RFC 7126, section 4.3).
        Ipv4SourceRoute = "ipv4-source-route",
        /// The IPv6 header is malformed.
        Ipv6Malformed = "ipv6-malformed",
        /// An extension header is malformed, unknown to us, or out of order.
        Ipv6Extension = "ipv6-extension",
        /// Version neither 4 nor 6, or not what the frame says.
        IpVersion = "ip-version",
        /// The source can be nobody's address.
        SourceMartian = "source-martian",
        /// The source is an address of ours.
        SourceOwn = "source-own",
        /// The destination is no address of ours.
        DestinationForeign = "destination-foreign",
        /// The destination cannot come over a link.
        DestinationMartian = "destination-martian",
        /// The destination is a group that we are not in.
        DestinationGroup = "destination-group",
        /// The destination is a group that we are in, but not for this source.
        SourceUnwanted = "source-unwanted",
        /// IP for one, in a frame for all (RFC 1122, section 3.3.6).
        DestinationBroadcastFrame = "destination-broadcast-frame",
        /// TCP to more than one receiver (RFC 9293, section 3.9.2.3).
        TcpToGroup = "tcp-to-group",
        /// No such protocol above IP.
        ProtocolUnknown = "protocol-unknown",
        /// ICMP, malformed.
        IcmpMalformed = "icmp-malformed",
        /// ICMP with a wrong checksum.
        IcmpChecksum = "icmp-checksum",
        /// Echo to all or to a group, which is not answered.
        IcmpBroadcast = "icmp-broadcast",
        /// ICMP of a kind that means nothing to a host, or that it should ignore.
        IcmpIgnored = "icmp-ignored",
        /// An ICMP error about something that we cannot have sent.
        IcmpForeign = "icmp-foreign",
        /// "Too big", with an MTU that no honest router says.
        IcmpForgedMtu = "icmp-forged-mtu",
        /// Neighbour discovery, malformed.
        NdpMalformed = "ndp-malformed",
        /// Neighbour discovery that passed a router, or came in fragments (RFC 6980).
        NdpForeign = "ndp-foreign",
        /// Neighbour discovery that does not concern us.
        NdpIgnored = "ndp-ignored",
        /// A fragment of illegal length or place.
        FragmentMalformed = "fragment-malformed",
        /// The first fragment lacks the upper header (RFC 7112).
        FragmentTiny = "fragment-tiny",
        /// Fragments overlap (RFC 5722).
        FragmentOverlap = "fragment-overlap",
        /// A fragment that was there already.
        FragmentDuplicate = "fragment-duplicate",
        /// A datagram in more fragments than are kept.
        FragmentMany = "fragment-many",
        /// A datagram that made room for another.
        FragmentEvicted = "fragment-evicted",
        /// A datagram that was not whole in time.
        FragmentTimeout = "fragment-timeout",
        /// IGMP or MLD, malformed or with a wrong checksum.
        GroupMalformed = "group-malformed",
        /// IGMP or MLD that does not concern us.
        GroupIgnored = "group-ignored",
        /// DHCP, malformed.
        DhcpMalformed = "dhcp-malformed",
        /// DHCP that is not the answer to us.
        DhcpIgnored = "dhcp-ignored",
        /// An answer that would have been one too many in a second.
        AnswerLimited = "answer-limited",
        /// An answer for which there was no room.
        AnswerNoRoom = "answer-no-room",
        /// An answer whose receiver could not be reached.
        AnswerUnreachable = "answer-unreachable",
        /// An error message that must not be sent (RFC 1122, section 3.2.2; RFC 4443, section 2.4).
        AnswerForbidden = "answer-forbidden",
    }
}

/// What went through the layer and what did not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Frames given to the layer.
    pub received: u64,
    /// Datagrams handed up.
    pub delivered: u64,
    /// Datagrams put together from fragments.
    pub reassembled: u64,
    /// Frames that the layer itself sent: ARP, neighbour discovery, ICMP, groups, DHCP.
    pub transmitted: u64,
    /// What was dropped, by cause.
    pub drops: Drops,
}
