//! Form: what is emitted parses back, at every cut and with every bit turned.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fusewire_testkit::{Random, for_each_seed_of};

use super::*;

/// Bits of `cmd` without a meaning, which nobody keeps.
const IDLE_CMD: u32 = 0x8000_ff00;

fn key(random: &mut Random) -> Key {
    Key::new(random.next_u64()).expect("not zero")
}

fn maybe<T>(random: &mut Random, some: impl Fn(&mut Random) -> T) -> Option<T> {
    random.chance(0.5).then(|| some(random))
}

fn control(random: &mut Random) -> Control {
    let rseq = random.below(OFFSET_MAX - (1 << 40));
    Control { rseq, alloc: rseq + random.below(1 << 32), echo: random.next_u32() }
}

fn address(random: &mut Random) -> Address {
    let (dstport, srcport) = (random.next_u32() as u16, random.next_u32() as u16);
    if random.chance(0.5) {
        let mut host = || Ipv4Addr::from_bits(random.next_u32());
        Address::V4 { dsthost: host(), srchost: host(), dstport, srcport }
    } else {
        let mut host = || {
            Ipv6Addr::from_bits(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()))
        };
        Address::V6 { dsthost: host(), srchost: host(), dstport, srcport }
    }
}

fn traffic(random: &mut Random, is_multicast: bool, limited: bool) -> Traffic {
    let service = match (is_multicast, random.below(3)) {
        (true, 0) => Service::UnacknowledgedMulticast,
        (true, _) => Service::Multicast,
        (false, 0) => Service::Unspecified,
        (false, 1) => Service::Transaction,
        (false, _) => Service::Stream,
    };
    let limits = (limited || random.chance(0.5)).then(|| Limits {
        maxdata: 512 + random.below(1 << 20) as u32,
        inrate: random.next_u32(),
        inburst: random.next_u32(),
        outrate: random.next_u32(),
        outburst: random.next_u32(),
    });
    Traffic { service, limits }
}

fn spans(random: &mut Random, rseq: u64) -> SpanList<64> {
    let mut spans = SpanList::new(rseq);
    let mut right = rseq;
    for _ in 0..random.below(65) {
        let left = right + 1 + random.below(5000);
        right = left + 1 + random.below(5000);
        assert!(spans.push(Span { left, right }));
    }
    spans
}

fn traffic_control(random: &mut Random, is_multicast: bool) -> TrafficControl {
    TrafficControl {
        control: control(random),
        delay_us: random.next_u32(),
        xkey: key(random),
        traffic: traffic(random, is_multicast, false),
    }
}

/// Any packet that is well-formed: header, and data with their trailer.
fn any(random: &mut Random, format: Format) -> (Header<SpanList<64>>, Vec<u8>) {
    let is_multicast = random.chance(0.3);
    let mut returned = true;
    let mut options = Options::of_cmd(random.next_u32()).without(Options::MULTI);
    if is_multicast {
        options |= Options::MULTI;
    }
    if !matches!(format, Format::Data | Format::First) {
        options = options.without(Options::EOM);
    }
    let mut data_len = random.below(70) as u32;
    let body = match format {
        Format::Data => {
            returned = random.chance(0.5);
            if data_len == 0 || !options.has(Options::NOCHECK) {
                options = options.without(Options::RES);
            }
            Body::Data { btag: maybe(random, Random::next_u64) }
        }
        Format::Cntl => Body::Cntl(control(random)),
        Format::First => {
            returned = random.chance(0.5);
            Body::First(First {
                address: address(random),
                traffic: traffic(random, is_multicast, true),
                xkey: returned.then(|| key(random)),
                btag: maybe(random, Random::next_u64),
            })
        }
        Format::Ecntl => {
            let control = control(random);
            Body::Ecntl(control, spans(random, control.rseq))
        }
        Format::Tcntl => Body::Tcntl(traffic_control(random, is_multicast)),
        Format::Jcntl => Body::Jcntl(JoinControl {
            traffic: traffic_control(random, is_multicast),
            address: address(random),
        }),
        Format::Diag => {
            returned = random.chance(0.5);
            let (code, reason) = (random.below(10) as u32, random.below(16) as u32);
            Body::Diag(Diag { code: Code::from_number(code), reason: Reason::from_number(reason) })
        }
        Format::Path => Body::Path,
    };
    if matches!(format, Format::Cntl | Format::Ecntl | Format::Tcntl | Format::Jcntl) {
        data_len = 0;
    }
    let header = Header {
        key: key(random),
        returned,
        options,
        check: 0,
        sort: random.next_u32() as u16,
        sync: random.next_u32(),
        seq: random.below(OFFSET_MAX - 100),
        data_len,
        body,
    };
    let data = (0..data_len as usize + header.trailer_len()).map(|_| random.next_u32() as u8);
    (header, data.collect())
}

const FORMATS: [Format; 8] = [
    Format::Data,
    Format::Cntl,
    Format::First,
    Format::Ecntl,
    Format::Tcntl,
    Format::Jcntl,
    Format::Diag,
    Format::Path,
];

fn packet(header: &Header<impl Spans>, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xee; header.emit_len()];
    assert_eq!(header.emit(&mut packet), header.emit_len());
    packet.extend(data);
    assert_eq!(packet.len(), header.packet_len());
    seal(&mut packet);
    packet
}

/// A packet of each format.
fn each(random: &mut Random, mut run: impl FnMut(Header<SpanList<64>>, &[u8], Vec<u8>)) {
    for format in FORMATS {
        let (mut header, data) = any(random, format);
        let packet = packet(&header, &data);
        header.check = half(&packet, CHECK_AT);
        run(header, &data, packet);
    }
}

#[test]
fn data_begin_at_a_multiple_of_4() {
    for_each_seed_of(500, "xtp alignment", |_, random| {
        for format in [Format::Data, Format::First] {
            let (header, data) = any(random, format);
            let packet = packet(&header, &data);
            let parsed = Packet::parse(&packet).expect("what we emit is legal");
            let at = packet.len() - header.trailer_len() - parsed.data.len();
            assert!(at.is_multiple_of(4) && packet[at..at + parsed.data.len()] == *parsed.data);
        }
    });
}

#[test]
fn what_is_emitted_parses_back() {
    for_each_seed_of(500, "xtp form", |_, random| {
        each(random, |header, data, packet| {
            assert!(verifies(&packet));
            let parsed = Packet::parse(&packet).expect("what we emit is legal");
            assert_eq!(parsed.header.keep::<64>(), header);
            let (data, trailer) = data.split_at(header.data_len as usize);
            assert_eq!(parsed.data, data);
            assert_eq!(parsed.trailer, (!trailer.is_empty()).then(|| word(trailer, 0)));
            assert_eq!(parsed.header.packet_len(), packet.len());
        });
    });
}

#[test]
fn every_cut_is_told_and_none_is_read_beyond() {
    for_each_seed_of(20, "xtp cuts", |_, random| {
        each(random, |header, _, packet| {
            for len in 0..packet.len() {
                let error = Packet::parse(&packet[..len]).expect_err("dlen says more");
                let expected = if len < HEADER_LEN {
                    Error::Truncated { protocol: "xtp", needed: HEADER_LEN, found: len }
                } else {
                    length("dlen", packet.len() - HEADER_LEN)
                };
                assert_eq!(error, expected);
            }
            // With a dlen that fits: what remains is legal, or what is missing is said.
            for len in HEADER_LEN..packet.len() {
                let mut cut = packet[..len].to_vec();
                cut[12..16].copy_from_slice(&((len - HEADER_LEN) as u32).to_be_bytes());
                match Packet::parse(&cut) {
                    Ok(parsed) => match parsed.header.body {
                        Body::Unfit(unfit) => {
                            assert!(len < header.emit_len());
                            assert_eq!(parsed.data, &cut[HEADER_LEN..]);
                            assert!(matches!(
                                unfit.diag.reason,
                                Reason::MalformedAddress | Reason::MalformedTraffic
                            ));
                        }
                        _ => {
                            let trailer_len = parsed.header.trailer_len();
                            assert!(trailer_len == 0 || !parsed.data.is_empty());
                            assert_eq!(
                                parsed.header.emit_len() + parsed.data.len() + trailer_len,
                                len
                            );
                            assert!(len >= header.emit_len());
                        }
                    },
                    Err(Error::Truncated { needed, found, .. }) => {
                        assert!(needed > found && found == len, "{needed} {found} {len}");
                    }
                    Err(Error::Length { field: "nspan", .. }) => {
                        assert_eq!(header.body.format(), Format::Ecntl);
                    }
                    // A trailer that is all there is.
                    Err(Error::Value { field: "cmd", .. }) => {
                        assert_eq!(len, header.emit_len() + TRAILER_LEN);
                        assert_eq!(header.trailer_len(), TRAILER_LEN);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        });
    });
}

#[test]
fn every_turned_bit_is_kept_or_told() {
    for_each_seed_of(10, "xtp bits", |_, random| {
        each(random, |header, _, packet| {
            let covered = if header.checks_all() { packet.len() } else { HEADER_LEN };
            for bit in 0..packet.len() * 8 {
                let (at, mask) = (bit / 8, 0x80 >> (bit % 8));
                let mut turned = packet.clone();
                turned[at] ^= mask;
                // NOCHECK says itself what the check covers.
                if (at, mask) != (8, 0x40) {
                    assert_eq!(verifies(&turned), at >= covered, "bit {bit}");
                }
                let Ok(parsed) = Packet::parse(&turned) else { continue };
                let mut out = vec![0; parsed.header.emit_len()];
                parsed.header.emit(&mut out);
                out.extend(parsed.data);
                out.extend(parsed.trailer.iter().flat_map(|cxor| cxor.to_be_bytes()));
                let is_unfit = matches!(parsed.header.body, Body::Unfit(_));
                let idle = IDLE_CMD | if is_unfit { super::options::BTAG } else { 0 };
                let cmd = word(&turned, 8) & !idle;
                turned[8..12].copy_from_slice(&cmd.to_be_bytes());
                assert!(out == turned, "bit {bit} of {:?}", header.body.format());
            }
        });
    });
}

/// A packet of `format`, changed before it is parsed.
fn changed(format: Format, change: impl Fn(&mut Vec<u8>)) -> Result<(), Error> {
    let random = &mut Random::new(7);
    let (header, data) = loop {
        let (header, data) = any(random, format);
        let is_plain = !header.options.has(Options::MULTI) && data.len() > 8;
        let is_control = header.data_len == 0 && data.is_empty();
        let is_v4 = match header.body {
            Body::First(First { address: Address::V4 { .. }, btag: None, xkey: None, .. }) => true,
            Body::First(_) => false,
            Body::Ecntl(_, spans) => spans.iter().len() > 2,
            _ => true,
        };
        if (is_plain || is_control) && is_v4 && !header.options.has(Options::RES) {
            break (header, data);
        }
    };
    let mut packet = packet(&header, &data);
    assert!(Packet::parse(&packet).is_ok());
    change(&mut packet);
    let dlen = (packet.len() - HEADER_LEN) as u32;
    if half(&packet, 12) == 0 {
        packet[12..16].copy_from_slice(&dlen.to_be_bytes());
    }
    Packet::parse(&packet).map(|_| ())
}

#[test]
fn errors_say_what_was_found() {
    use Format::{Cntl, Data, Diag, Ecntl, First, Jcntl, Path, Tcntl};
    let set = |at: usize, bytes: &'static [u8]| {
        move |packet: &mut Vec<u8>| packet[at..at + bytes.len()].copy_from_slice(bytes)
    };
    assert_eq!(changed(Data, set(0, &[0x80, 0, 0, 0, 0, 0, 0, 0])), Err(value("key", 1 << 31)));
    assert_eq!(changed(Data, set(11, &[0x40])), Err(value("version", 2)));
    for format in [4, 6, 9, 15, 17, 31] {
        let change = move |packet: &mut Vec<u8>| packet[11] = 0x20 | format;
        assert_eq!(changed(Data, change), Err(value("format", format.into())));
    }
    assert_eq!(changed(Data, set(12, &[1, 0, 0, 0])), Err(length("dlen", 1 << 24)));
    assert_eq!(changed(Data, set(24, &[0x80, 0, 0, 0])), Err(value("seq", 0x8000_0000)));
    assert_eq!(
        changed(Data, set(24, &[0x7f, 255, 255, 255, 255, 255, 255, 255])),
        Err(value("seq", 0x7fff_ffff))
    );
    for format in [Cntl, Ecntl, Tcntl, Jcntl, Path] {
        let unreturned = |packet: &mut Vec<u8>| packet[0] &= 0x7f;
        assert!(matches!(changed(format, unreturned), Err(Error::Value { field: "key", .. })));
    }
    for format in [Cntl, Ecntl, Tcntl, Jcntl, Diag, Path] {
        for bit in [0x04, 0x01] {
            let marked = |packet: &mut Vec<u8>| packet[9] |= bit;
            assert!(matches!(changed(format, marked), Err(Error::Value { field: "cmd", .. })));
        }
    }
    for format in [Cntl, Tcntl, Jcntl] {
        let longer = |packet: &mut Vec<u8>| packet.extend([0; 4]);
        assert!(matches!(changed(format, longer), Err(Error::Length { field: "dlen", .. })));
    }
    let longer = |packet: &mut Vec<u8>| packet.extend([0; 16]);
    assert!(matches!(changed(Ecntl, longer), Err(Error::Length { field: "nspan", .. })));
    let huge = set(52, &[0x10, 0, 0, 0]);
    assert_eq!(changed(Ecntl, huge), Err(length("nspan", 1 << 28)));
    assert_eq!(changed(Cntl, set(32, &[0x80, 0, 0, 0])), Err(value("rseq", 0x8000_0000)));
    assert_eq!(changed(Cntl, set(40, &[0; 8])), Err(value("alloc", 0)));
    assert_eq!(changed(Tcntl, set(56, &[0; 8])), Err(value("xkey", 0)));
    assert_eq!(changed(Tcntl, set(56, &[0x80, 0, 0, 1])), Err(value("xkey", 0x8000_0001)));
    // The second span moved onto the first, emptied, touching.
    let onto = |packet: &mut Vec<u8>| packet.copy_within(56..72, 72);
    assert_eq!(changed(Ecntl, onto), Err(value("span", 1)));
    let empty = |packet: &mut Vec<u8>| packet.copy_within(72..80, 80);
    assert_eq!(changed(Ecntl, empty), Err(value("span", 1)));
    let touching = |packet: &mut Vec<u8>| packet.copy_within(64..72, 72);
    assert_eq!(changed(Ecntl, touching), Err(value("span", 1)));
    let at_rseq = |packet: &mut Vec<u8>| packet.copy_within(32..40, 56);
    assert_eq!(changed(Ecntl, at_rseq), Err(value("span", 0)));
    let beyond = |packet: &mut Vec<u8>| {
        let last = packet.len() - 8;
        packet[last] |= 0x80;
    };
    assert!(matches!(changed(Ecntl, beyond), Err(Error::Value { field: "span", .. })));
    // CXOR behind the data: with NOCHECK, and with data.
    let trailing = |packet: &mut Vec<u8>| packet[8] = (packet[8] | 0x04) & !0x40;
    assert!(matches!(changed(Data, trailing), Err(Error::Value { field: "cmd", .. })));
    assert_eq!(changed(First, |packet| packet[0] &= 0x7f), Ok(()));
}

/// What the sender of a FIRST is told whose segments were changed.
#[test]
fn segments_that_nobody_takes_are_refused_with_the_reason() {
    let limits = Some(Limits { maxdata: 1368, ..Limits::default() });
    let first = First {
        address: Address::in_udp(9293),
        traffic: Traffic { service: Service::Stream, limits },
        xkey: None,
        btag: None,
    };
    let own = Key::new(5).expect("a key");
    let header = Header::<SpanList<0>> {
        key: own,
        returned: false,
        options: Options::SREQ,
        check: 0,
        sort: 0,
        sync: 1,
        seq: 0,
        data_len: 4,
        body: Body::First(first),
    };
    let whole = packet(&header, b"data");
    let cases: [(usize, u8, Reason); 10] = [
        (33, 8, Reason::MalformedAddress),
        (34, 1, Reason::AddressFormat),
        (35, 2, Reason::AddressFormat),
        (35, 6, Reason::MalformedAddress),
        (49, 8, Reason::MalformedTraffic),
        (50, 7, Reason::Service),
        (50, 6, Reason::Options),
        (51, 2, Reason::TrafficFormat),
        (54, 0, Reason::Traffic),
        (8, 0x08, Reason::Options),
    ];
    for (at, byte, reason) in cases {
        let mut packet = whole.clone();
        packet[at] = byte;
        let parsed = Packet::parse(&packet).expect("that is for a listener to see");
        let diag = Diag { code: Code::ContextRefused, reason };
        assert_eq!(parsed.header.body, Body::Unfit(Unfit { diag, key: own }), "byte {at}");
        assert_eq!(parsed.data, &packet[HEADER_LEN..]);
        // A returned key is a cookie, and nobody's but the listener's: it is told nothing.
        packet[0] |= 0x80;
        assert!(Packet::parse(&packet).is_err());
    }
}

#[test]
fn spans_are_kept_as_far_as_they_fit() {
    let mut spans = SpanList::<2>::new(100);
    assert!(!spans.push(Span { left: 100, right: 110 }), "it touches");
    assert!(!spans.push(Span { left: 90, right: 95 }), "it lies before");
    assert!(!spans.push(Span { left: 105, right: 105 }), "it is empty");
    assert!(spans.push(Span { left: 101, right: 105 }));
    assert!(!spans.push(Span { left: 105, right: 106 }), "it touches");
    assert!(!spans.push(Span { left: 200, right: 100 + (1 << 32) }), "too far");
    assert!(spans.push(Span { left: 106, right: 99 + (1 << 32) }));
    assert!(!spans.push(Span { left: 110, right: 112 }), "full");
    assert_eq!(spans.iter().map(|s| s.right - s.left).sum::<u64>(), 4 + (1 << 32) - 7);
}

#[test]
fn options_show_their_names() {
    assert_eq!(format!("{:?} {:?}", Options::SREQ | Options::EOM, Options::NONE), "SREQ|EOM 0");
    assert_eq!((Options::SREQ | Options::EOM).without(Options::SREQ), Options::EOM);
    assert_eq!(Options::of_cmd(u32::MAX).bits(), 0x7ffe_0000);
}

#[test]
fn an_address_segment_is_that_of_what_is_below() {
    let at = |addr: &str| addr.parse::<SocketAddr>().unwrap();
    let (local4, local6) = (at("192.0.2.2:0").ip(), at("[2001:db8::2]:0").ip());
    let (ip4, ip6) = (at("192.0.2.1:0"), at("[2001:db8::1]:0"));
    let (udp4, udp6) = (at("192.0.2.1:7"), at("[2001:db8::1]:7"));
    let v4 = |dst: &str, src: &str| {
        let (dsthost, srchost) = (dst.parse().unwrap(), src.parse().unwrap());
        Address::V4 { dsthost, srchost, dstport: 9, srcport: 0 }
    };
    let v6 = |dst: &str, src: &str| {
        let (dsthost, srchost) = (dst.parse().unwrap(), src.parse().unwrap());
        Address::V6 { dsthost, srchost, dstport: 9, srcport: 0 }
    };
    let none = (v4("0.0.0.0", "0.0.0.0"), v6("::", "::"));
    for (remote, local, made) in [
        (udp4, local4, none.0),
        (udp6, local6, none.0),
        (ip4, local4, none.0),
        (ip6, local6, none.1),
    ] {
        assert_eq!(Address::towards(remote, 9), made);
        assert_eq!(made.fits(local, remote), Ok(()));
        let other = if made == none.0 { none.1 } else { none.0 };
        assert_eq!(other.fits(local, remote), Err(Reason::AddressFormat));
        assert_eq!(Address::Null.fits(local, remote), Err(Reason::AddressFormat));
    }
    // Hosts are those of IP's header, and in UDP nobody's.
    let wrong = Err(Reason::MalformedAddress);
    for (dst, src, over_ip) in [
        ("192.0.2.2", "192.0.2.1", Ok(())),
        ("192.0.2.2", "0.0.0.0", Ok(())),
        ("0.0.0.0", "192.0.2.1", Ok(())),
        ("192.0.2.1", "0.0.0.0", wrong),
        ("0.0.0.0", "192.0.2.9", wrong),
    ] {
        assert_eq!(v4(dst, src).fits(local4, ip4), over_ip, "{dst} {src}");
        assert_eq!(v4(dst, src).fits(local4, udp4), wrong, "{dst} {src}");
    }
    assert_eq!(v6("2001:db8::2", "2001:db8::1").fits(local6, ip6), Ok(()));
    assert_eq!(v6("2001:db8::2", "2001:db8::2").fits(local6, ip6), wrong);
    // Who does not know its own address cannot compare.
    assert_eq!(v4("198.51.100.1", "192.0.2.1").fits(at("0.0.0.0:0").ip(), ip4), Ok(()));
}

#[test]
fn a_kept_header_stays_small() {
    assert!(size_of::<Header<SpanList<16>>>() <= 216, "{}", size_of::<Header<SpanList<16>>>());
}
