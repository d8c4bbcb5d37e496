//! A lease's whole life (RFC 2131, section 4.4): discovered, requested, renewed, rebound, expired, refused, declined.

mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::{Cause, Config, Input, Link};
use fusewire_wire::dhcp::{ClasslessRoute, EMIT_LEN, Kind, Message};
use fusewire_wire::udp;
use wire::{Craft, Wire, config, mac_address};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

fn client(detection: bool) -> Wire {
    let mut config = Config::new(Link::Ethernet(mac_address(1)));
    config.dhcp = true;
    config.duplicate_detection = detection;
    Wire::new(vec![config])
}

/// The DHCP messages among the frames since the last look, with their times and destinations.
fn messages(wire: &mut Wire) -> Vec<(Instant, Message, Ipv4Addr)> {
    let read = |(at, _, frame): (Instant, usize, Vec<u8>)| {
        if frame[12..14] != [8, 0] || frame[23] != udp::NUMBER {
            return None;
        }
        let header = udp::Header::parse(&frame[34..]).expect("UDP");
        assert_eq!((header.src_port, header.dst_port), (68, 67));
        let (from, to) = (&frame[26..30], &frame[30..34]);
        let of = |b: &[u8]| IpAddr::V4(Ipv4Addr::new(b[0], b[1], b[2], b[3]));
        let sum = fusewire_net::pseudo_header_sum(of(from), of(to), 17, header.len.into());
        assert!(header.verifies(sum, &frame[34..]));
        let message = Message::parse(header.payload(&frame[34..])).expect("DHCP");
        assert_eq!(message.chaddr, mac_address(1));
        Some((at, message, Ipv4Addr::new(to[0], to[1], to[2], to[3])))
    };
    std::mem::take(&mut wire.log).into_iter().filter_map(read).collect()
}

fn reply(kind: Kind, to: &Message) -> Message {
    let server = Some(SERVER);
    let lease = (kind != Kind::Nak).then_some(3600);
    let yours = if kind == Kind::Nak { Ipv4Addr::UNSPECIFIED } else { LEASED };
    let mask = (kind != Kind::Nak).then_some(24);
    Message {
        yours,
        server,
        lease_s: lease,
        prefix_len: mask,
        ..Message::new(kind, to.xid, to.chaddr)
    }
}

fn frame(message: &Message) -> Vec<u8> {
    let mut body = [0; EMIT_LEN];
    message.emit(&mut body);
    Craft::new(9, 1, "10.0.0.9", "10.0.0.77").udp((67, 68), &body)
}

fn tell(wire: &mut Wire, message: &Message) -> Input {
    let input = wire.layers[0].handle(wire.now, &frame(message));
    wire.settle();
    input
}

/// From nothing to a lease of an hour.
fn bound(wire: &mut Wire) {
    wire.pass(Duration::from_secs(1));
    let discover = messages(wire);
    assert_eq!(discover.len(), 1);
    let (_, message, to) = discover[0];
    assert_eq!((message.kind, to), (Kind::Discover, Ipv4Addr::BROADCAST));
    assert_eq!(tell(wire, &reply(Kind::Offer, &message)), Input::Consumed);
    let request = messages(wire);
    assert_eq!(request.len(), 1);
    let (_, message, to) = request[0];
    assert_eq!((message.kind, to), (Kind::Request, Ipv4Addr::BROADCAST));
    assert_eq!((message.requested, message.server), (Some(LEASED), Some(SERVER)));
    assert!(message.client.is_unspecified(), "RFC 2131, table 5");
    assert_eq!(tell(wire, &reply(Kind::Ack, &message)), Input::Consumed);
}

fn has_address(wire: &Wire) -> bool {
    wire.layers[0].is_own(LEASED.into())
}

#[test]
fn discovered_requested_bound() {
    let mut wire = client(false);
    assert_eq!(wire.layers[0].lease(), None);
    bound(&mut wire);
    assert!(has_address(&wire));
    let lease = *wire.layers[0].lease().expect("a lease");
    assert_eq!((lease.address, lease.prefix_len, lease.server), (LEASED, 24, SERVER));
    let neighbor = "10.0.0.5".parse().unwrap();
    assert!(
        wire.layers[0]
            .route(wire.now, neighbor, None)
            .is_err_and(|e| { e == fusewire_net::NoPath::Resolving })
    );
}

#[test]
fn a_silent_server_is_asked_ever_more_rarely() {
    let mut wire = client(false);
    wire.pass(Duration::from_secs(300));
    let times: Vec<_> = messages(&mut wire).iter().map(|m| m.0).collect();
    let waits: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
    for (wait, expected) in waits.iter().zip([4.0, 8.0, 16.0, 32.0, 64.0, 64.0]) {
        assert!((wait - expected).abs() <= 1.0, "{waits:?}");
    }
    assert!(waits.len() >= 6);
}

#[test]
fn renewed_at_half_time_with_its_server_and_rebound_with_any() {
    let mut wire = client(false);
    bound(&mut wire);
    wire.layers[0].set_neighbor(SERVER.into(), Some(mac_address(9)));
    let from = wire.now;
    wire.log.clear();
    wire.pass(Duration::from_secs(1801));
    let renewals = messages(&mut wire);
    assert_eq!(renewals.len(), 1);
    let (at, renewal, to) = renewals[0];
    assert!((at - from).as_secs().abs_diff(1800) <= 1, "T1");
    assert_eq!((renewal.kind, to, renewal.client), (Kind::Request, SERVER, LEASED));
    assert_eq!((renewal.requested, renewal.server), (None, None), "RFC 2131, table 5");
    tell(&mut wire, &reply(Kind::Ack, &renewal));
    wire.pass(Duration::from_secs(1700));
    assert!(messages(&mut wire).is_empty(), "an hour from the renewal on");
    assert!(has_address(&wire));

    wire.pass(Duration::from_secs(1500));
    let asked = messages(&mut wire);
    assert!(asked.len() >= 3 && asked.iter().any(|m| m.2 == SERVER));
    let last = asked.last().expect("one");
    assert_eq!((last.2, last.1.client), (Ipv4Addr::BROADCAST, LEASED), "T2");
    assert!(has_address(&wire));
    let waits: Vec<_> =
        asked.windows(2).filter(|w| w[0].2 == w[1].2).map(|w| w[1].0 - w[0].0).collect();
    assert!(waits.iter().all(|w| *w >= Duration::from_secs(59)), "{waits:?}");
    assert!(waits[0] > Duration::from_secs(600), "half of what is left (section 4.4.5): {waits:?}");
    let other = Message { server: Some(Ipv4Addr::new(10, 0, 0, 8)), ..reply(Kind::Ack, &last.1) };
    tell(&mut wire, &other);
    assert_eq!(wire.layers[0].lease().map(|l| l.server), Some(Ipv4Addr::new(10, 0, 0, 8)));
}

#[test]
fn a_server_that_wants_to_be_asked_at_once_does_not_keep_us_busy() {
    let mut wire = client(false);
    bound(&mut wire);
    wire.layers[0].set_neighbor(SERVER.into(), Some(mac_address(9)));
    wire.pass(Duration::from_secs(1801));
    let (_, mut request, _) = messages(&mut wire)[0];
    let mut asked = 0;
    let end = wire.now + Duration::from_secs(60);
    while wire.now < end && asked < 1000 {
        let busy = Message {
            lease_s: Some(1),
            t1_s: Some(0),
            t2_s: Some(0),
            ..reply(Kind::Ack, &request)
        };
        tell(&mut wire, &busy);
        wire.pass(Duration::from_millis(10));
        for (_, next, _) in messages(&mut wire) {
            (request, asked) = (next, asked + 1);
        }
    }
    assert!((3..=12).contains(&asked), "{asked} requests in a minute");
}

#[test]
fn an_expired_lease_is_not_used_and_another_is_sought() {
    let mut wire = client(false);
    bound(&mut wire);
    let generation = wire.layers[0].generation();
    wire.pass(Duration::from_secs(3590));
    assert!(has_address(&wire));
    wire.pass(Duration::from_secs(15));
    assert!(!has_address(&wire) && wire.layers[0].lease().is_none());
    assert_ne!(wire.layers[0].generation(), generation);
    let last = *messages(&mut wire).last().expect("a message");
    assert_eq!(last.1.kind, Kind::Discover);
}

#[test]
fn refused_when_renewing_and_when_requesting() {
    let mut wire = client(false);
    bound(&mut wire);
    wire.pass(Duration::from_secs(2000));
    wire.layers[0].set_neighbor(SERVER.into(), Some(mac_address(9)));
    wire.pass(Duration::from_secs(1000));
    let renewal = messages(&mut wire).last().expect("one").1;
    tell(&mut wire, &reply(Kind::Nak, &renewal));
    assert!(!has_address(&wire));
    let discover = messages(&mut wire)[0].1;
    assert_eq!(discover.kind, Kind::Discover);
    assert_ne!(discover.xid, renewal.xid);
    tell(&mut wire, &reply(Kind::Offer, &discover));
    let request = messages(&mut wire)[0].1;
    tell(&mut wire, &reply(Kind::Nak, &request));
    assert_eq!(messages(&mut wire)[0].1.kind, Kind::Discover);
}

#[test]
fn an_address_that_somebody_has_is_declined() {
    let mut wire = client(true);
    wire.layers.push(fusewire_net::Layer::new(config(2, &["10.0.0.77/24"]), &[5; 32], wire.now));
    bound(&mut wire);
    let begin = wire.now;
    wire.pass(Duration::from_secs(5));
    assert!(!has_address(&wire));
    let said = messages(&mut wire);
    assert_eq!(said.len(), 1);
    let decline = said[0].1;
    assert_eq!((decline.kind, decline.requested), (Kind::Decline, Some(LEASED)));
    assert_eq!(decline.server, Some(SERVER));
    wire.pass(Duration::from_secs(7));
    let again = messages(&mut wire);
    assert_eq!(again[0].1.kind, Kind::Discover);
    assert!(again[0].0 - begin >= Duration::from_secs(10), "ten seconds later");
}

#[test]
fn an_address_that_nobody_has_is_used_after_two_probes() {
    let mut wire = client(true);
    bound(&mut wire);
    assert!(!has_address(&wire));
    wire.pass(Duration::from_secs(4));
    assert!(has_address(&wire));
}

#[test]
fn a_router_and_an_mtu_come_with_the_lease_and_go_with_it() {
    let mut wire = client(false);
    wire.pass(Duration::from_secs(1));
    let discover = messages(&mut wire)[0].1;
    tell(&mut wire, &reply(Kind::Offer, &discover));
    let request = messages(&mut wire)[0].1;
    let mut body = [0; EMIT_LEN];
    let len = reply(Kind::Ack, &request).emit(&mut body);
    let end = (240..len).rev().find(|&at| body[at] == 255).expect("an end");
    let extra = [3, 4, 10, 0, 0, 254, 26, 2, 0x05, 0x14, 6, 4, 10, 0, 0, 53, 255];
    body[end..end + extra.len()].copy_from_slice(&extra);
    let frame = Craft::new(9, 1, "10.0.0.9", "255.255.255.255").udp((67, 68), &body);
    assert_eq!(wire.layers[0].handle(wire.now, &frame), Input::Consumed);
    let far = "192.0.2.1".parse().unwrap();
    wire.layers[0].set_neighbor("10.0.0.254".parse().unwrap(), Some(mac_address(9)));
    let via = wire.layers[0].route(wire.now, far, None).expect("through the router");
    assert_eq!((via.next_hop, via.mtu), ("10.0.0.254".parse().unwrap(), 1300));
    let lease = wire.layers[0].lease().expect("a lease");
    assert_eq!(lease.dns.iter().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 53)]);
    wire.pass(Duration::from_secs(3700));
    assert!(wire.layers[0].route(wire.now, far, None).is_err());
}

#[test]
fn answers_to_others_and_forgeries_are_ignored() {
    let mut wire = client(false);
    wire.pass(Duration::from_secs(1));
    let discover = messages(&mut wire)[0].1;
    let offer = reply(Kind::Offer, &discover);
    let wrong = [
        Message { xid: offer.xid ^ 1, ..offer },
        Message { chaddr: mac_address(7), ..offer },
        Message { kind: Kind::Ack, ..offer },
        Message { server: None, ..offer },
        Message { yours: Ipv4Addr::UNSPECIFIED, ..offer },
    ];
    for message in wrong {
        let mut body = [0; EMIT_LEN];
        message.emit(&mut body);
        let frame = Craft::new(9, 1, "10.0.0.9", "255.255.255.255").udp((67, 68), &body);
        let ignored = Input::Dropped(Cause::DhcpIgnored);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), ignored);
    }
    let mut broken = frame(&offer);
    let last = broken.len() - 1;
    broken[last] ^= 1;
    let foreign = wire.layers[0].handle(wire.now, &broken);
    assert!(matches!(foreign, Input::Dropped(_)));
    wire.settle();
    assert!(messages(&mut wire).is_empty());
    tell(&mut wire, &offer);
    let request = messages(&mut wire)[0].1;
    let other = Message { server: Some(Ipv4Addr::new(10, 0, 0, 66)), ..reply(Kind::Ack, &request) };
    tell(&mut wire, &other);
    assert!(!has_address(&wire), "another server's");
}

#[test]
fn classless_routes_count_in_place_of_routers() {
    let mut wire = client(false);
    wire.pass(Duration::from_secs(1));
    let (_, message, _) = messages(&mut wire)[0];
    tell(&mut wire, &reply(Kind::Offer, &message));
    let (_, message, _) = messages(&mut wire)[0];
    let route = |network: [u8; 4], prefix_len, router: [u8; 4]| ClasslessRoute {
        network: network.into(),
        prefix_len,
        router: router.into(),
    };
    let routes = [
        route([10, 9, 0, 0], 16, [10, 0, 0, 2]),
        route([192, 0, 2, 0], 24, [0; 4]),
        route([198, 51, 100, 0], 24, [172, 16, 0, 1]),
    ];
    let ack = Message { routes: routes.into_iter().collect(), ..reply(Kind::Ack, &message) };
    tell(&mut wire, &ack);
    let text = |wire: &Wire| -> Vec<String> {
        let routes = wire.layers[0].routes().iter();
        routes.map(|r| format!("{} {:?}", r.destination, r.gateway)).collect()
    };
    assert_eq!(text(&wire), ["10.9.0.0/16 Some(10.0.0.2)", "192.0.2.0/24 None"]);
    assert_eq!(wire.layers[0].lease().unwrap().routes.iter().count(), 3);
}

#[test]
fn an_offer_that_never_left_this_host_has_no_checksum_yet() {
    let mut wire = client(false);
    wire.pass(Duration::from_secs(1));
    let (_, message, _) = messages(&mut wire)[0];
    let mut offer = frame(&reply(Kind::Offer, &message));
    offer[40] ^= 0x55;
    let now = wire.now;
    assert!(matches!(wire.layers[0].handle(now, &offer), Input::Dropped(_)));
    assert_eq!(wire.layers[0].handle_verified(now, &offer), Input::Consumed);
}
