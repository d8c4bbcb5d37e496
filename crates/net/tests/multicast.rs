//! Groups are joined and left aloud, and routers of every version are answered (RFC 2236, RFC 3376, RFC 2710, RFC
//! 3810).

mod wire;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_net::{Cast, Cause, Input};
use fusewire_wire::igmp::{self, Version};
use fusewire_wire::{icmpv6, mld};
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
    let of = |f: &&(Instant, usize, Vec<u8>)| f.2[12..14] == [8, 0] && f.2[23] == igmp::NUMBER;
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

fn igmp_query(version: Version, group: Ipv4Addr, code: u8) -> Vec<u8> {
    let mut body = [0; 12];
    let len = igmp::emit_query(version, group, code, &mut body);
    let to = if group.is_unspecified() { Ipv4Addr::new(224, 0, 0, 1) } else { group };
    Craft::new(9, 1, "10.0.0.9", &to.to_string()).packet(igmp::NUMBER, &body[..len])
}

fn mld_query(version: Version, group: Ipv6Addr, code: u16) -> Vec<u8> {
    let mut body = [0; 28];
    let len = mld::emit_query(version, group, code, &mut body);
    let to = if group.is_unspecified() { "ff02::1".parse().unwrap() } else { group };
    let craft = Craft { hop_limit: 1, ..Craft::new(9, 1, "fe80::9", &to.to_string()) };
    let plain = craft.icmpv6(&body[..len]);
    let payload = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &plain[54..]].concat();
    craft.packet(0, &payload)
}

#[test]
fn only_groups_that_were_joined_are_heard() {
    let mut wire = one();
    for group in [IpAddr::V4(GROUP), IpAddr::V6(group6())] {
        let source = if group.is_ipv4() { "10.0.0.9" } else { "fe80::9" };
        let frame = Craft::new(9, 1, source, &group.to_string()).udp((1, 2), b"news");
        let unheard = Input::Dropped(Cause::DestinationGroup);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), unheard);
        assert!(wire.layers[0].join(wire.now, group));
        assert!(wire.layers[0].join(wire.now, group));
        wire.layers[0].leave(wire.now, group);
        let Input::Transport(datagram) = wire.layers[0].handle(wire.now, &frame) else { panic!() };
        assert_eq!(datagram.cast, Cast::Multicast);
        wire.layers[0].leave(wire.now, group);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), unheard);
    }
    assert!(!wire.layers[0].join(wire.now, "10.0.0.9".parse().unwrap()));
}

#[test]
fn joining_and_leaving_are_said_twice_in_version_3() {
    let mut wire = one();
    let begin = wire.now;
    wire.layers[0].join(wire.now, GROUP.into());
    wire.layers[0].join(wire.now, group6().into());
    wire.pass(Duration::from_secs(5));
    wire.layers[0].leave(wire.now, GROUP.into());
    wire.layers[0].leave(wire.now, group6().into());
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
        wire.layers[0].join(wire.now, group.into());
    }
    wire.layers[0].join(wire.now, group6().into());
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
        assert!(wire.layers[0].join(wire.now, Ipv4Addr::from_bits(GROUP.to_bits() + n).into()));
        assert!(
            wire.layers[0]
                .join(wire.now, Ipv6Addr::from_bits(group6().to_bits() + u128::from(n)).into())
        );
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
    wire.layers[0].join(wire.now, GROUP.into());
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
    wire.layers[0].join(wire.now, GROUP.into());
    wire.layers[0].join(wire.now, group6().into());
    wire.pass(Duration::from_secs(11));
    let (v4, v6) = (igmp_sent(&wire), mld_sent(&wire));
    assert_eq!(v4.iter().map(|s| s.1[0]).collect::<Vec<_>>(), [0x16, 0x16]);
    assert_eq!(v6.iter().map(|s| s.1[0]).collect::<Vec<_>>(), [131, 131]);
    assert_eq!(v4[0].1[4..8], GROUP.octets());
    wire.log.clear();
    wire.layers[0].leave(wire.now, GROUP.into());
    wire.layers[0].leave(wire.now, group6().into());
    wire.settle();
    assert_eq!(igmp_sent(&wire)[0].1[0], 0x17);
    assert_eq!(mld_sent(&wire)[0].1[0], 132);
    assert_eq!(wire.log[0].2[..6], [1, 0, 0x5e, 0, 0, 2], "to all routers");
    wire.pass(Duration::from_secs(260));
    wire.log.clear();
    wire.layers[0].join(wire.now, GROUP.into());
    wire.settle();
    assert_eq!(igmp_sent(&wire)[0].1[0], 0x22, "version 3 again");
}

#[test]
fn a_version_1_router_is_never_told_of_leaving() {
    let mut wire = one();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V1, Ipv4Addr::UNSPECIFIED, 0));
    wire.layers[0].join(wire.now, GROUP.into());
    wire.pass(Duration::from_secs(21));
    let sent = igmp_sent(&wire);
    assert!(sent.len() >= 2 && sent.iter().all(|s| s.1[0] == 0x12), "{sent:?}");
    wire.log.clear();
    wire.layers[0].leave(wire.now, GROUP.into());
    wire.pass(Duration::from_secs(21));
    assert_eq!(igmp_sent(&wire).len(), 0);
}

#[test]
fn another_members_report_makes_ours_needless_in_version_2() {
    let mut wire = one();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V2, Ipv4Addr::UNSPECIFIED, 1));
    wire.layers[0].join(wire.now, GROUP.into());
    wire.pass(Duration::from_secs(21));
    wire.log.clear();
    wire.layers[0].handle(wire.now, &igmp_query(Version::V2, GROUP, 100));
    let mut report = [0; 8];
    igmp::emit_report(Version::V2, GROUP, &mut report);
    let report = Craft::new(9, 1, "10.0.0.9", &GROUP.to_string()).packet(igmp::NUMBER, &report);
    assert_eq!(wire.layers[0].handle(wire.now, &report), Input::Consumed);
    wire.pass(Duration::from_secs(21));
    assert_eq!(igmp_sent(&wire).len(), 0);
    wire.layers[0].leave(wire.now, GROUP.into());
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
    mld::emit_query(Version::V3, Ipv6Addr::UNSPECIFIED, 1000, &mut body);
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
    let joined = (0..1000u32)
        .filter(|n| {
            let group = Ipv4Addr::from_bits(GROUP.to_bits() + n);
            wire.layers[0].join(wire.now, group.into())
        })
        .count();
    assert!((128..160).contains(&joined), "{joined}");
    wire.pass(Duration::from_secs(3));
}
