//! The parsers of `wire`: what parses is emitted and parses again as the same.
use fusewire_base::Sum;
use fusewire_wire::{arp, dhcp, ethernet, groups, icmp, ipv4, ipv6, ipv6_extension, ndp, tcp, udp};

/// Runs one input.
pub fn run(data: &[u8]) {
    tcp_header(data);
    udp_header(data);
    ipv4_header(data);
    ipv6_header(data);
    ethernet_header(data);
    link_messages(data);
    group_messages(data);
    dhcp_message(data);
    extension_headers(data);
}

/// Segments as the stack sends them, cut short, and the same below the other headers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for mut frame in super::stack_frames::traffic() {
        frame.truncate(90);
        seeds.push(frame);
    }
    let payload = [0x45; 24];
    let mut out = [0; 80];
    let len = udp::HEADER_LEN + payload.len();
    let header = udp::Header { src_port: 7, dst_port: 9, len: len as u16, checksum: 0 };
    header.emit(&mut out);
    seeds.push(out[..len].to_vec());
    let destination = ethernet::Address([2, 0, 0, 0, 0, 1]);
    let header = ethernet::Header {
        destination,
        source: destination,
        ethertype: ethernet::EtherType::IPV6,
        header_len: ethernet::HEADER_LEN as u8,
    };
    header.emit(&mut out);
    seeds.push(out[..40].to_vec());
    // Version 6 with a fragment header, version 4 without options.
    let mut ip = [0; 64];
    (ip[0], ip[5], ip[6], ip[40]) = (0x60, 24, 44, 6);
    seeds.push(ip.to_vec());
    let mut ip = [0; 40];
    (ip[0], ip[3], ip[8], ip[9]) = (0x45, 40, 64, 6);
    seeds.push(ip.to_vec());
    seeds
}

fn link_messages(data: &[u8]) {
    if let Ok(packet) = arp::Packet::parse(data) {
        let mut out = [0; arp::PACKET_LEN];
        packet.emit(&mut out);
        assert_eq!(out, data[..arp::PACKET_LEN]);
    }
    if let Ok(Some((message, len))) = ndp::Message::parse(data) {
        let mut out = [0; 40];
        assert_eq!(message.emit(&mut out), len);
        assert_eq!(ndp::Message::parse(&out), Ok(Some((message, len))));
        for option in ndp::options(&data[len..]).flatten() {
            let mut out = [0; 32];
            let len = option.emit(&mut out);
            assert_eq!(ndp::options(&out[..len]).next(), Some(Ok(option)));
        }
    }
    let mut sealed = data.to_vec();
    if sealed.len() < icmp::HEADER_LEN {
        return;
    }
    icmp::emit_checksum(Sum::ZERO, &mut sealed);
    for pseudo_header in [None, Some(Sum::ZERO)] {
        let message = icmp::Message::parse(pseudo_header, &sealed).expect("its checksum is right");
        let mut out = sealed.clone();
        message.emit(pseudo_header, &mut out);
        assert_eq!(icmp::Message::parse(pseudo_header, &out), Ok(message));
    }
}

fn group_messages(data: &[u8]) {
    use groups::{Message, Protocol, Version};
    for protocol in [Protocol::Igmp, Protocol::Mld] {
        let mut sealed = data.to_vec();
        if sealed.len() >= protocol.header_len() && protocol == Protocol::Igmp {
            icmp::emit_checksum(Sum::ZERO, &mut sealed);
        }
        match protocol.parse(&sealed) {
            Ok(Message::Report(group)) => {
                let mut out = [0; 24];
                let len = groups::emit_report(Version::V2, group, &mut out);
                assert_eq!(protocol.parse(&out[..len]), Ok(Message::Report(group)));
            }
            Ok(Message::Query(query)) => {
                assert!(query.max_response.as_secs() <= 8387 && query.robustness <= 7);
                let sources: Vec<_> = query.sources.iter().collect();
                let mut out = vec![0; data.len() + 4];
                let len = groups::emit_query(query.version, query.group, 1, &sources, &mut out);
                let Ok(Message::Query(again)) = protocol.parse(&out[..len]) else { panic!() };
                assert_eq!((again.group, again.sources), (query.group, query.sources));
            }
            _ => {}
        }
    }
}

fn dhcp_message(data: &[u8]) {
    // The magic cookie is hard to guess.
    let mut bytes = vec![0; dhcp::FIXED_LEN];
    let mut head = [0; dhcp::EMIT_LEN];
    let kind = dhcp::Kind::Ack;
    dhcp::Message::new(kind, 7, ethernet::Address([2; 6])).emit(&mut head);
    bytes.copy_from_slice(&head[..dhcp::FIXED_LEN]);
    bytes.extend(data);
    let Ok(message) = dhcp::Message::parse(&bytes) else { return };
    let mut out = [0; dhcp::EMIT_LEN];
    message.emit(&mut out);
    let again = dhcp::Message::parse(&out).expect("what we emit is legal");
    assert_eq!(
        (again.kind, again.lease_s, again.server),
        (message.kind, message.lease_s, message.server)
    );
    assert_eq!(again.prefix_len, message.prefix_len);
}

fn extension_headers(data: &[u8]) {
    let Some((&first, payload)) = data.split_first() else { return };
    let mut chain = ipv6_extension::Chain::new(first);
    for n in 0.. {
        let Ok(Some(step)) = chain.step(payload) else { break };
        assert!(n < ipv6_extension::MAX_EXTENSIONS && step.offset + step.len == chain.offset);
        assert!(chain.offset <= payload.len());
        let header = &payload[step.offset..chain.offset];
        for option in ipv6_extension::options(header).flatten() {
            assert!(option.offset < header.len());
        }
    }
    let header_len = usize::from(first) % 64;
    let _ = ipv4::is_source_routed(payload, header_len);
}

fn tcp_header(data: &[u8]) {
    let Ok(header) = tcp::Header::parse(data) else { return };
    assert!(usize::from(header.header_len) <= data.len());
    let mut out = [0xee; tcp::MAX_HEADER_LEN + 1];
    let len = header.emit(&mut out);
    assert!(len == header.emit_len() && len <= tcp::MAX_HEADER_LEN && out[len] == 0xee);
    let again = tcp::Header::parse(&out[..len]).expect("what we emit is legal");
    assert_eq!(usize::from(again.header_len), len);
    // Our padding is wider than the sender's may have been: then the last SACK blocks stay away.
    let (kept, all) = (again.options.sack_blocks(), header.options.sack_blocks());
    assert!(all.starts_with(kept) && (kept.len() == all.len() || len + 8 > tcp::MAX_HEADER_LEN));
    let mut expected = header;
    expected.header_len = again.header_len;
    expected.options.sack[kept.len()..].fill(Default::default());
    expected.options.sack_count = again.options.sack_count;
    assert_eq!(again, expected);
}

fn udp_header(data: &[u8]) {
    let Ok(header) = udp::Header::parse(data) else { return };
    let payload = header.payload(data);
    assert_eq!(payload.len() + udp::HEADER_LEN, usize::from(header.len));
    let _ = header.verifies(Sum::ZERO, data);
    let mut out = [0; udp::HEADER_LEN];
    assert_eq!(header.emit(&mut out), udp::HEADER_LEN);
    assert_eq!(out, data[..udp::HEADER_LEN]);
}

fn ipv4_header(data: &[u8]) {
    // A right checksum is hard to guess.
    let mut data = data.to_vec();
    let header_len = data.first().map_or(0, |b| usize::from(b & 15) * 4);
    if let Some(header) = data.get_mut(..header_len)
        && header_len >= ipv4::MIN_HEADER_LEN
    {
        header[10..12].fill(0);
        let checksum = Sum::of(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let Ok(header) = ipv4::Header::parse(&data) else { return };
    let payload = header.payload(&data);
    assert_eq!(payload.len(), usize::from(header.total_len) - usize::from(header.header_len));
    let _ = header.is_fragment();
    // Options are not written again.
    let at = usize::from(header.header_len) - ipv4::MIN_HEADER_LEN;
    data.drain(ipv4::MIN_HEADER_LEN..ipv4::MIN_HEADER_LEN + at);
    let expected = ipv4::Header {
        header_len: ipv4::MIN_HEADER_LEN as u8,
        total_len: header.total_len - at as u16,
        ..header
    };
    expected.emit(&mut data);
    assert_eq!(ipv4::Header::parse(&data), Ok(expected));
}

fn ipv6_header(data: &[u8]) {
    if let Some((&next, payload)) = data.split_first()
        && let Ok(upper) = ipv6::upper_layer(next, payload)
    {
        assert!(upper.offset <= payload.len());
    }
    let Ok(header) = ipv6::Header::parse(data) else { return };
    let payload = header.payload(data);
    if let Ok(upper) = ipv6::upper_layer(header.next_header, payload) {
        assert!(upper.offset <= payload.len());
    }
    let mut out = [0; ipv6::HEADER_LEN];
    header.emit(&mut out);
    assert_eq!(out, data[..ipv6::HEADER_LEN]);
}

fn ethernet_header(data: &[u8]) {
    let Ok(header) = ethernet::Header::parse(data) else { return };
    assert!(usize::from(header.header_len) <= data.len());
    let mut out = [0; ethernet::HEADER_LEN];
    assert_eq!(header.emit(&mut out), ethernet::HEADER_LEN);
    let again = ethernet::Header::parse(&out).expect("what we emit is legal");
    assert_eq!(again, ethernet::Header { header_len: ethernet::HEADER_LEN as u8, ..header });
}
