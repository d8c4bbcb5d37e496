//! Groups are joined and left aloud, and routers of every version are answered (RFC 2236, RFC 3376, RFC 2710, RFC
//! 3810).

mod wire;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_net::MembershipChange::{Block, Join, JoinSource, Leave, LeaveSource, Unblock};
use fusewire_net::{Cast, Cause, Input, MAX_SOURCES, MembershipChange};
use fusewire_wire::groups::{self, IGMP, Version};
use fusewire_wire::icmpv6;
use wire::{Craft, Wire, config};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

fn group6() -> Ipv6Addr {
    "ff15::77".parse().unwrap()
}

fn one() -> Wire {
    let mut wire = Wire::new(vec![config(1, &["10.0.0.1/24", "fe80::1/64"])]);
    wire.pass(Duration::from_secs(20));
    wire.log.clear();
    wire
}

/// IGMP messages that were sent, and when.
fn igmp_sent(wire: &Wire) -> Vec<(Instant, Vec<u8>)> {
    let of = |f: &&(Instant, usize, Vec<u8>)| f.2[12..14] == [8, 0] && f.2[23] == IGMP;
    let message = |f: &(Instant, usize, Vec<u8>)| {
        let frame = &f.2;
        assert_eq!(frame[14], 0x46, "router alert");
        assert_eq!(frame[22], 1, "no further than the link");
        assert!(Sum::of(&frame[14..38]).verifies() && Sum::of(&frame[38..]).verifies());
        (f.0, frame[38..].to_vec())
    };
    wire.log.iter().filter(of).map(message).collect()
}

/// MLD messages that were sent, and when.
fn mld_sent(wire: &Wire) -> Vec<(Instant, Vec<u8>)> {
    let of = |f: &&(Instant, usize, Vec<u8>)| f.2[12..14] == [0x86, 0xdd] && f.2[20] == 0;
    let message = |f: &(Instant, usize, Vec<u8>)| {
        let frame = &f.2;
        assert_eq!(frame[21], 1, "hop limit");
        assert_eq!(frame[54..62], [58, 0, 5, 2, 0, 0, 1, 0], "router alert");
        let mut octets = [[0; 16]; 2];
        octets[0].copy_from_slice(&frame[22..38]);
        octets[1].copy_from_slice(&frame[38..54]);
        let [from, to] = octets.map(|o| IpAddr::V6(o.into()));
        let len = frame.len() - 62;
        let sum = fusewire_net::pseudo_header_sum(from, to, icmpv6::NUMBER, len);
        assert!((sum + Sum::of(&frame[62..])).verifies());
        (f.0, frame[62..].to_vec())
    };
    wire.log.iter().filter(of).map(message).collect()
}

/// Records of reports of version 3, message by message: kind, group, sources.
type Record = (u8, IpAddr, Vec<IpAddr>);

fn records(message: &[u8]) -> Vec<Record> {
    let width = if message[0] == 0x22 { 4 } else { 16 };
    let address = |bytes: &[u8]| match width {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
    };
    let mut rest = &message[8..];
    let mut all = Vec::new();
    for _ in 0..u16::from_be_bytes([message[6], message[7]]) {
        let count = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let (record, more) = rest.split_at(4 + width * (1 + count));
        let mut addresses = record[4..].chunks(width).map(address);
        all.push((record[0], addresses.next().unwrap(), addresses.collect()));
        rest = more;
    }
    assert!(rest.is_empty(), "not a byte more");
    all
}

/// What was reported of groups since the log was cleared, without who says an address is his.
fn reported(wire: &Wire, v6: bool) -> Vec<Vec<Record>> {
    let sent = if v6 { mld_sent(wire) } else { igmp_sent(wire) };
    let solicited = |group: &IpAddr| group.to_string().starts_with("ff02::1:ff");
    let of = |m: &(Instant, Vec<u8>)| {
        let mut records = records(&m.1);
        records.retain(|(_, group, _)| !solicited(group));
        records
    };
    sent.iter().map(of).filter(|records| !records.is_empty()).collect()
}

fn change(wire: &mut Wire, socket: u32, group: IpAddr, change: MembershipChange) {
    let now = wire.now;
    wire.layers[0].change_membership(now, socket, group, change).unwrap();
}

fn igmp_query(version: Version, group: Ipv4Addr, code: u8) -> Vec<u8> {
    query(version, group.into(), code.into(), &[])
}

fn mld_query(version: Version, group: Ipv6Addr, code: u16) -> Vec<u8> {
    query(version, group.into(), code, &[])
}

fn query(version: Version, group: IpAddr, code: u16, sources: &[IpAddr]) -> Vec<u8> {
    let mut body = [0; 256];
    let len = groups::emit_query(version, group, code, sources, &mut body);
    let all: [IpAddr; 2] = ["224.0.0.1", "ff02::1"].map(|all| all.parse().unwrap());
    let to = if group.is_unspecified() { all[usize::from(group.is_ipv6())] } else { group };
    if group.is_ipv4() {
        return Craft::new(9, 1, "10.0.0.9", &to.to_string()).packet(IGMP, &body[..len]);
    }
    let craft = Craft { hop_limit: 1, ..Craft::new(9, 1, "fe80::9", &to.to_string()) };
    let plain = craft.icmpv6(&body[..len]);
    let payload = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &plain[54..]].concat();
    craft.packet(0, &payload)
}

/// For both versions of IP: a group and sources of it.
fn ssm() -> [(IpAddr, [IpAddr; 4]); 2] {
    let v4 = [1, 2, 3, 4].map(|n| IpAddr::from([10, 0, 0, 100 + n]));
    let v6 = [1, 2, 3, 4].map(|n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]));
    [("232.1.2.3".parse().unwrap(), v4), ("ff35::77".parse().unwrap(), v6)]
}

#[test]
fn only_groups_that_were_joined_are_heard() {
    let mut wire = one();
    for group in [IpAddr::V4(GROUP), IpAddr::V6(group6())] {
        let source = if group.is_ipv4() { "10.0.0.9" } else { "fe80::9" };
        let frame = Craft::new(9, 1, source, &group.to_string()).udp((1, 2), b"news");
        let unheard = Input::Dropped(Cause::DestinationGroup);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), unheard);
        change(&mut wire, 1, group, Join);
        change(&mut wire, 2, group, Join);
        change(&mut wire, 1, group, Leave);
        let Input::Transport(datagram) = wire.layers[0].handle(wire.now, &frame) else { panic!() };
        assert_eq!(datagram.cast, Cast::Multicast);
        change(&mut wire, 2, group, Leave);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), unheard);
    }
    let nobody = wire.layers[0].change_membership(wire.now, 1, "10.0.0.9".parse().unwrap(), Join);
    assert!(nobody.is_err());
}

#[test]
fn joining_and_leaving_are_said_twice_in_version_3() {
    let mut wire = one();
    let begin = wire.now;
    change(&mut wire, 1, GROUP.into(), Join);
    change(&mut wire, 1, group6().into(), Join);
    wire.pass(Duration::from_secs(5));
    change(&mut wire, 1, GROUP.into(), Leave);
    change(&mut wire, 1, group6().into(), Leave);
    wire.pass(Duration::from_secs(5));
    let sent = igmp_sent(&wire);
    let kinds: Vec<u8> = sent.iter().map(|s| s.1[8]).collect();
    assert_eq!(kinds, [4, 4, 3, 3]);
    assert_eq!(sent[0].0, begin, "at once");
    assert!(sent[1].0 - begin <= Duration::from_secs(1), "Unsolicited Report Interval");
    assert!(sent.iter().all(|s| s.1[0] == 0x22 && s.1[12..16] == GROUP.octets()));
    let sent = mld_sent(&wire);
    let kinds: Vec<u8> = sent.iter().map(|s| s.1[8]).collect();
    assert_eq!(kinds, [4, 4, 3, 3]);
    assert!(sent.iter().all(|s| s.1[0] == 143 && s.1[12..28] == group6().octets()));
    assert!(wire.log.iter().all(|f| f.2[..6] == [1, 0, 0x5e, 0, 0, 22] || f.2[0] == 0x33));
}

#[test]
fn a_general_query_is_answered_once_for_all_groups_within_its_time() {
    let mut wire = one();
    let groups = [GROUP, Ipv4Addr::new(239, 9, 9, 9)];
    for group in groups {
        change(&mut wire, 1, group.into(), Join);
    }
    change(&mut wire, 1, group6().into(), Join);
    wire.pass(Duration::from_secs(5));
    wire.log.clear();
    let asked = wire.now;
    wire.layers[0].handle(wire.now, &igmp_query(Version::V3, Ipv4Addr::UNSPECIFIED, 50));
    wire.layers[0].handle(wire.now, &igmp_query(Version::V3, Ipv4Addr::UNSPECIFIED, 50));
    wire.layers[0].handle(wire.now, &mld_query(Version::V3, Ipv6Addr::UNSPECIFIED, 5000));
    wire.pass(Duration::from_secs(20));
    let sent = igmp_sent(&wire);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].0 - asked <= Duration::from_secs(5));
    assert_eq!((sent[0].1.len(), sent[0].1[7], sent[0].1[8]), (24, 2, 2));
    let sent = mld_sent(&wire);
    assert_eq!(sent.len(), 1);
    // The solicited-node group of fe80::1 is reported too.
    assert_eq!((sent[0].1.len(), sent[0].1[7]), (8 + 2 * 20, 2));
}

#[test]
fn a_general_query_is_answered_for_every_group_however_many() {
    let mut wire = one();
    for n in 0..64 {
        change(&mut wire, 1, Ipv4Addr::from_bits(GROUP.to_bits() + n).into(), Join);
        let v6 = Ipv6Addr::from_bits(group6().to_bits() + u128::from(n));
        change(&mut wire, 1, v6.into(), Join);
    }
    wire.pass(Duration::from_secs(5));
    wire.log.clear();
    for query in [
        igmp_query(Version::V3, Ipv4Addr::UNSPECIFIED, 10),
        mld_query(Version::V3, Ipv6Addr::UNSPECIFIED, 1000),
    ] {
        assert_eq!(wire.layers[0].handle(wire.now, &query), Input::Consumed);
    }
    wire.pass(Duration::from_secs(2));
    let mut groups = std::collections::BTreeSet::new();
    for (_, message) in mld_sent(&wire) {
        let count = usize::from(u16::from_be_bytes([message[6], message[7]]));
        assert_eq!(message.len(), 8 + 20 * count);
        groups.extend(message[8..].chunks(20).map(|record| record[4..].to_vec()));
    }
    assert_eq!(groups.len(), 64 + 1, "and the solicited node's");
    let [(_, message)] = &igmp_sent(&wire)[..] else { panic!("one message holds them") };
    assert_eq!(message.len(), 8 + 8 * 64);
}

#[test]
fn a_query_for_a_group_is_answered_by_its_members_alone() {
    let mut wire = one();
    change(&mut wire, 1, GROUP.into(), Join);
    wire.pass(Duration::from_secs(5));
    wire.log.clear();
    let other = igmp_query(Version::V3, Ipv4Addr::new(239, 9, 9, 9), 10);
    assert_eq!(wire.layers[0].handle(wire.now, &other), Input::Dropped(Cause::DestinationGroup));
    wire.layers[0].handle(wire.now, &igmp_query(Version::V3, GROUP, 10));
    wire.pass(Duration::from_secs(2));
    assert_eq!(igmp_sent(&wire).len(), 1);
}

#[test]
fn an_old_router_is_spoken_to_in_its_own_version_until_it_is_gone() {
    let mut wire = one();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V2, Ipv4Addr::UNSPECIFIED, 100));
    wire.layers[0].handle(wire.now, &mld_query(Version::V2, Ipv6Addr::UNSPECIFIED, 1000));
    wire.pass(Duration::from_secs(11));
    wire.log.clear();
    change(&mut wire, 1, GROUP.into(), Join);
    change(&mut wire, 1, group6().into(), Join);
    wire.pass(Duration::from_secs(11));
    let (v4, v6) = (igmp_sent(&wire), mld_sent(&wire));
    assert_eq!(v4.iter().map(|s| s.1[0]).collect::<Vec<_>>(), [0x16, 0x16]);
    assert_eq!(v6.iter().map(|s| s.1[0]).collect::<Vec<_>>(), [131, 131]);
    assert_eq!(v4[0].1[4..8], GROUP.octets());
    wire.log.clear();
    change(&mut wire, 1, GROUP.into(), Leave);
    change(&mut wire, 1, group6().into(), Leave);
    wire.settle();
    assert_eq!(igmp_sent(&wire)[0].1[0], 0x17);
    assert_eq!(mld_sent(&wire)[0].1[0], 132);
    assert_eq!(wire.log[0].2[..6], [1, 0, 0x5e, 0, 0, 2], "to all routers");
    wire.pass(Duration::from_secs(260));
    wire.log.clear();
    change(&mut wire, 1, GROUP.into(), Join);
    wire.settle();
    assert_eq!(igmp_sent(&wire)[0].1[0], 0x22, "version 3 again");
}

#[test]
fn a_version_1_router_is_never_told_of_leaving() {
    let mut wire = one();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V1, Ipv4Addr::UNSPECIFIED, 0));
    change(&mut wire, 1, GROUP.into(), Join);
    wire.pass(Duration::from_secs(21));
    let sent = igmp_sent(&wire);
    assert!(sent.len() >= 2 && sent.iter().all(|s| s.1[0] == 0x12), "{sent:?}");
    wire.log.clear();
    change(&mut wire, 1, GROUP.into(), Leave);
    wire.pass(Duration::from_secs(21));
    assert_eq!(igmp_sent(&wire).len(), 0);
}

#[test]
fn another_members_report_makes_ours_needless_in_version_2() {
    let mut wire = one();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V2, Ipv4Addr::UNSPECIFIED, 1));
    change(&mut wire, 1, GROUP.into(), Join);
    wire.pass(Duration::from_secs(21));
    wire.log.clear();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V2, GROUP, 100));
    let mut report = [0; 8];
    groups::emit_report(Version::V2, GROUP.into(), &mut report);
    let report = Craft::new(9, 1, "10.0.0.9", &GROUP.to_string()).packet(IGMP, &report);
    assert_eq!(wire.layers[0].handle(wire.now, &report), Input::Consumed);
    wire.pass(Duration::from_secs(21));
    assert_eq!(igmp_sent(&wire).len(), 0);
    change(&mut wire, 1, GROUP.into(), Leave);
    wire.pass(Duration::from_secs(21));
    assert_eq!(igmp_sent(&wire).len(), 0, "the last report was another's");
}

#[test]
fn what_does_not_come_from_the_link_is_no_query() {
    let mut wire = one();
    let ignored = Input::Dropped(Cause::GroupIgnored);
    let good = mld_query(Version::V3, Ipv6Addr::UNSPECIFIED, 1000);
    let mut far = good.clone();
    far[21] = 64;
    assert_eq!(wire.layers[0].handle(wire.now, &far), ignored);
    let mut body = [0; 28];
    groups::emit_query(Version::V3, Ipv6Addr::UNSPECIFIED.into(), 1000, &[], &mut body);
    let craft = Craft { hop_limit: 1, ..Craft::new(9, 1, "fe80::9", "ff02::1") };
    assert_eq!(wire.layers[0].handle(wire.now, &craft.icmpv6(&body)), ignored, "no alert");
    assert_eq!(wire.layers[0].handle(wire.now, &good), Input::Consumed);
    let mut broken = igmp_query(Version::V3, Ipv4Addr::UNSPECIFIED, 1);
    broken[40] ^= 1;
    let malformed = Input::Dropped(Cause::GroupMalformed);
    assert_eq!(wire.layers[0].handle(wire.now, &broken), malformed);
}

#[test]
fn groups_are_bounded() {
    let mut wire = one();
    let (now, layer) = (wire.now, &mut wire.layers[0]);
    let group = |n: u32| IpAddr::from(Ipv4Addr::from_bits(GROUP.to_bits() + n));
    let joined = (0..1000).filter(|n| layer.change_membership(now, 1, group(*n), Join).is_ok());
    let joined = joined.count();
    assert!((128..160).contains(&joined), "{joined}");
    layer.leave_groups(now, 1);
    let source = |n: u32| JoinSource(Ipv4Addr::from_bits(0x0a00_0000 + n).into());
    for socket in 1..=4 {
        for n in 0..MAX_SOURCES as u32 {
            layer.change_membership(now, socket, group(0), source(100 * socket + n)).unwrap();
        }
        let more = layer.change_membership(now, socket, group(0), source(9999));
        assert!(more.is_err(), "of one socket");
    }
    assert!(layer.change_membership(now, 5, group(0), source(9999)).is_err(), "of all together");
    layer.change_membership(now, 5, group(0), source(101)).unwrap();
    wire.pass(Duration::from_secs(3));
}

#[test]
fn every_change_of_sources_is_told_as_the_state_of_the_interface_changes() {
    for (group, [a, b, c, _]) in ssm() {
        let mut wire = one();
        let (to_in, to_ex, allow, block) = (3, 4, 5, 6);
        // Of two sockets; a filter of all but some wins, and lacks what the other names (RFC 3376, section 3.2).
        for (socket, what, told) in [
            (1, JoinSource(a), Some((allow, vec![a]))),
            (1, JoinSource(a), None),
            (1, JoinSource(b), Some((allow, vec![b]))),
            (2, JoinSource(b), None),
            (2, LeaveSource(b), None),
            (2, Join, Some((to_ex, vec![]))),
            (2, Block(c), Some((block, vec![c]))),
            (2, Block(a), None),
            (2, Unblock(c), Some((allow, vec![c]))),
            (2, Leave, Some((to_in, vec![a, b]))),
            (1, LeaveSource(a), Some((block, vec![a]))),
            (1, Leave, Some((block, vec![b]))),
        ] {
            wire.log.clear();
            let begin = wire.now;
            change(&mut wire, socket, group, what);
            wire.pass(Duration::from_secs(5));
            let Some((kind, sources)) = told else {
                assert_eq!(reported(&wire, group.is_ipv6()), [] as [Vec<Record>; 0], "{what:?}");
                continue;
            };
            let once = vec![(kind, group, sources)];
            assert_eq!(reported(&wire, group.is_ipv6()), [once.clone(), once], "{what:?}");
            let sent = if group.is_ipv6() { mld_sent(&wire) } else { igmp_sent(&wire) };
            assert!(sent[0].0 == begin && sent[1].0 - begin <= Duration::from_secs(1));
        }
        assert_eq!(wire.layers[0].groups().filter(|known| *known == group).count(), 0);
    }
}

#[test]
fn changes_in_quick_succession_are_told_together() {
    for (group, [a, b, ..]) in ssm() {
        let mut wire = one();
        let v6 = group.is_ipv6();
        let mut after = |steps: &[MembershipChange]| {
            wire.log.clear();
            for step in steps {
                change(&mut wire, 1, group, *step);
                wire.settle();
            }
            wire.pass(Duration::from_secs(5));
            let record = |mut all: Vec<Record>| {
                let (kind, _, sources) = all.remove(0);
                assert!(all.is_empty() || all.len() == 1);
                (kind, sources, all.pop().map(|(kind, _, sources)| (kind, sources)))
            };
            reported(&wire, v6).into_iter().map(record).collect::<Vec<_>>()
        };
        let (a, b) = (vec![a], vec![b]);
        // The second report says both; what was said twice is said no more.
        assert_eq!(
            after(&[JoinSource(a[0]), JoinSource(b[0])]),
            [
                (5, a.clone(), None),
                (5, [a.clone(), b.clone()].concat(), None),
                (5, b.clone(), None)
            ],
        );
        assert_eq!(
            after(&[LeaveSource(a[0]), JoinSource(a[0]), LeaveSource(b[0])]),
            [
                (6, a.clone(), None),
                (5, a.clone(), None),
                (5, a.clone(), Some((6, b.clone()))),
                (6, b.clone(), None)
            ],
        );
        assert_eq!(after(&[Leave]), [(6, a.clone(), None), (6, a.clone(), None)]);
        // While the mode is told, the filter is told whole.
        assert_eq!(
            after(&[Join, Block(a[0])]),
            [(4, vec![], None), (4, a.clone(), None), (6, a.clone(), None)],
        );
    }
}

#[test]
fn queries_are_answered_for_the_sources_that_they_ask_for() {
    for (group, [a, b, c, d]) in ssm() {
        let mut wire = one();
        let answers = |wire: &mut Wire, asked: &[&[IpAddr]]| {
            wire.pass(Duration::from_secs(5));
            wire.log.clear();
            let code = if group.is_ipv6() { 1000 } else { 10 };
            for sources in asked {
                let query = query(Version::V3, group, code, sources);
                assert_eq!(wire.layers[0].handle(wire.now, &query), Input::Consumed);
            }
            wire.pass(Duration::from_secs(2));
            reported(wire, group.is_ipv6()).concat()
        };
        change(&mut wire, 1, group, JoinSource(a));
        change(&mut wire, 1, group, JoinSource(b));
        assert_eq!(answers(&mut wire, &[&[]]), [(1, group, vec![a, b])], "IS_IN");
        assert_eq!(answers(&mut wire, &[&[a, d]]), [(1, group, vec![a])]);
        assert_eq!(answers(&mut wire, &[&[d]]), []);
        assert_eq!(answers(&mut wire, &[&[a], &[d, b, a]]), [(1, group, vec![a, b])], "at once");
        assert_eq!(answers(&mut wire, &[&[a], &[]]), [(1, group, vec![a, b])], "the group");
        change(&mut wire, 1, group, Leave);
        change(&mut wire, 1, group, Join);
        change(&mut wire, 1, group, Block(c));
        assert_eq!(answers(&mut wire, &[&[]]), [(2, group, vec![c])], "IS_EX");
        assert_eq!(answers(&mut wire, &[&[a, c]]), [(1, group, vec![a])]);
        assert_eq!(answers(&mut wire, &[&[c]]), []);
        let unspecified = if group.is_ipv6() { "::" } else { "0.0.0.0" }.parse().unwrap();
        wire.log.clear();
        wire.layers[0].handle(wire.now, &query(Version::V3, unspecified, 10, &[]));
        wire.pass(Duration::from_secs(2));
        assert_eq!(reported(&wire, group.is_ipv6()).concat(), [(2, group, vec![c])]);
    }
}

#[test]
fn packets_pass_by_their_source() {
    for (group, [a, b, c, _]) in ssm() {
        let mut wire = one();
        let came = |wire: &mut Wire, source: IpAddr| {
            let craft = Craft::new(9, 1, &source.to_string(), &group.to_string());
            match wire.layers[0].handle(wire.now, &craft.udp((1, 2), b"news")) {
                Input::Transport(_) => true,
                Input::Dropped(Cause::SourceUnwanted | Cause::DestinationGroup) => false,
                other => panic!("{other:?}"),
            }
        };
        change(&mut wire, 1, group, JoinSource(a));
        assert_eq!([a, b, c].map(|source| came(&mut wire, source)), [true, false, false]);
        change(&mut wire, 2, group, Join);
        change(&mut wire, 2, group, Block(c));
        change(&mut wire, 2, group, Block(a));
        assert_eq!([a, b, c].map(|source| came(&mut wire, source)), [true, true, false]);
        let listening = |socket, source| wire.layers[0].is_listening(socket, group, source);
        assert_eq!([a, b, c].map(|source| listening(1, source)), [true, false, false]);
        assert_eq!([a, b, c].map(|source| listening(2, source)), [false, true, false]);
        wire.layers[0].leave_groups(wire.now, 1);
        assert_eq!([a, b, c].map(|source| came(&mut wire, source)), [false, true, false]);
        wire.layers[0].leave_groups(wire.now, 2);
        assert_eq!([a, b, c].map(|source| came(&mut wire, source)), [false; 3]);
    }
}

#[test]
fn sources_are_named_or_blocked_and_never_both() {
    for (group, [a, ..]) in ssm() {
        let mut wire = one();
        let (now, layer) = (wire.now, &mut wire.layers[0]);
        let mut may = |what| layer.change_membership(now, 1, group, what).is_ok();
        assert!(!may(Block(a)), "of a group that it is not in");
        assert!(may(JoinSource(a)) && !may(Join) && !may(Block(a)) && !may(Unblock(a)));
        assert!(may(Leave) && may(Join) && !may(JoinSource(a)) && !may(LeaveSource(a)));
        assert!(may(Block(a)) && may(Join) && may(Unblock(a)) && may(Leave) && may(Leave));
    }
}

#[test]
fn an_old_router_is_told_of_groups_whatever_their_sources() {
    for (group, [a, b, ..]) in ssm() {
        let mut wire = one();
        let v6 = group.is_ipv6();
        let unspecified = if v6 { "::" } else { "0.0.0.0" }.parse().unwrap();
        wire.layers[0].handle(wire.now, &query(Version::V2, unspecified, 10, &[]));
        wire.pass(Duration::from_secs(21));
        wire.log.clear();
        for what in [JoinSource(a), JoinSource(b), LeaveSource(a)] {
            change(&mut wire, 1, group, what);
            wire.pass(Duration::from_secs(21));
        }
        change(&mut wire, 1, group, Leave);
        wire.pass(Duration::from_secs(21));
        let sent = if v6 { mld_sent(&wire) } else { igmp_sent(&wire) };
        let (report, leave) = if v6 { (131, 132) } else { (0x16, 0x17) };
        let kinds: Vec<u8> = sent.iter().map(|message| message.1[0]).collect();
        assert_eq!(kinds, [report, report, leave]);
    }
}
