//! Addresses and routers from advertisements, with all their lifetimes (RFC 4861, section 6.3; RFC 4862, section 5.5).

mod wire;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use fusewire_net::addresses::{Origin, State};
use fusewire_net::{Cause, Config, Identifier, Input, Link, NoPath};
use fusewire_wire::ndp::{Message, NdpOption, Prefix, Router};
use wire::{Craft, Wire, config, mac_address};

const EUI64: &str = "2001:db8:5::ff:fe00:1";

fn host(identifier: Identifier) -> Config {
    let mut config = Config::new(Link::Ethernet(mac_address(1)));
    config.slaac = true;
    config.identifier = identifier;
    config
}

fn up() -> Wire {
    let mut wire = Wire::new(vec![host(Identifier::Eui64)]);
    wire.pass(Duration::from_millis(2_500));
    wire
}

fn advertisement(
    lifetime_s: u16,
    prefixes: &[(&str, u8, u32, u32)],
    more: &[NdpOption],
) -> Vec<u8> {
    limited(33, lifetime_s, prefixes, more)
}

fn limited(
    hop_limit: u8,
    lifetime_s: u16,
    prefixes: &[(&str, u8, u32, u32)],
    more: &[NdpOption],
) -> Vec<u8> {
    let router = Router { hop_limit, lifetime_s, ..Router::default() };
    let mut body = vec![0; 16 + 8 + 32 * prefixes.len() + 8 * more.len()];
    let mut at = Message::RouterAdvertisement(router).emit(&mut body);
    at += NdpOption::SourceAddress(mac_address(9)).emit(&mut body[at..]);
    for &(prefix, len, valid, preferred) in prefixes {
        let prefix = Prefix {
            prefix: prefix.parse().unwrap(),
            len,
            on_link: true,
            autonomous: true,
            valid_lifetime_s: valid,
            preferred_lifetime_s: preferred,
        };
        at += NdpOption::Prefix(prefix).emit(&mut body[at..]);
    }
    for option in more {
        at += option.emit(&mut body[at..]);
    }
    let craft = Craft { hop_limit: 255, ..Craft::new(9, 1, "fe80::9", "ff02::1") };
    craft.icmpv6(&body)
}

fn tell(wire: &mut Wire, frame: &[u8]) {
    assert_eq!(wire.layers[0].handle(wire.now, frame), Input::Consumed);
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn state(wire: &Wire, text: &str) -> Option<State> {
    wire.layers[0].addresses().find(|e| e.cidr.address() == ip(text)).map(|e| e.state)
}

/// Beside somebody who speaks for the interface addresses come up as advertised, nobody is asked for them, and
/// no timer stays due.
#[test]
fn who_is_to_be_silent_probes_nothing() {
    let mut silent = host(Identifier::Eui64);
    silent.responds = false;
    let mut wire = Wire::new(vec![silent]);
    tell(&mut wire, &advertisement(1800, &[("2001:db8:5::", 64, 7200, 3600)], &[]));
    for _ in 0..30 {
        wire.pass(Duration::from_secs(1));
        let due = wire.layers[0].poll_timeout().filter(|at| *at <= wire.now);
        assert_eq!(due, None, "at {}", wire.now);
    }
    assert_eq!(state(&wire, EUI64), Some(State::Preferred));
    assert!(wire.log.iter().all(|f| f.2.get(54) != Some(&135)), "{:?}", wire.log);
}

#[test]
fn routers_are_asked_three_times_from_the_link_local_address() {
    let mut wire = Wire::new(vec![host(Identifier::Eui64)]);
    wire.pass(Duration::from_secs(60));
    assert_eq!(state(&wire, "fe80::ff:fe00:1"), Some(State::Preferred));
    let asked: Vec<_> = wire.log.iter().filter(|f| f.2.get(54) == Some(&133)).collect();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].2[..6], [0x33, 0x33, 0, 0, 0, 2]);
    assert_eq!((asked[2].0 - asked[1].0), Duration::from_secs(4));
    assert_eq!(asked[0].2[62..70], [1, 1, 2, 0, 0, 0, 0, 1], "our MAC address");
}

#[test]
fn an_advertisement_gives_address_router_and_limits() {
    let mut wire = up();
    let asked = wire.log.iter().filter(|f| f.2.get(54) == Some(&133)).count();
    let frame = advertisement(1800, &[("2001:db8:5::", 64, 7200, 3600)], &[NdpOption::Mtu(1400)]);
    tell(&mut wire, &frame);
    assert_eq!(state(&wire, EUI64), Some(State::Tentative));
    wire.pass(Duration::from_secs(3));
    assert_eq!(state(&wire, EUI64), Some(State::Preferred));
    let via = wire.layers[0].route(wire.now, ip("2001:db8:99::1"), None).expect("a path");
    assert_eq!((via.source, via.next_hop), (ip(EUI64), ip("fe80::9")));
    assert_eq!((via.mtu, via.hop_limit), (1400, 33));
    assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(9)), "it said its MAC address");
    let neighbor = wire.layers[0].route(wire.now, ip("2001:db8:5::7"), None);
    assert_eq!(neighbor, Err(NoPath::Resolving), "on the link");
    wire.pass(Duration::from_secs(30));
    let still = wire.log.iter().filter(|f| f.2.get(54) == Some(&133)).count();
    assert_eq!(still, asked, "one was found: no more is asked");
}

#[test]
fn addresses_are_deprecated_and_expire() {
    let mut wire = up();
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 100, 50)], &[]));
    wire.pass(Duration::from_secs(49));
    assert_eq!(state(&wire, EUI64), Some(State::Preferred));
    wire.pass(Duration::from_secs(2));
    assert_eq!(state(&wire, EUI64), Some(State::Deprecated));
    assert!(wire.layers[0].is_own(ip(EUI64)));
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 200, 100)], &[]));
    wire.pass(Duration::from_secs(1));
    assert_eq!(state(&wire, EUI64), Some(State::Preferred), "refreshed");
    wire.pass(Duration::from_secs(200));
    assert_eq!(state(&wire, EUI64), None);
    let lost = wire.layers[0].route(wire.now, ip("2001:db8:5::7"), None);
    assert_eq!(lost, Err(NoPath::NoRoute), "a link-local address does not reach so far");
}

#[test]
fn nobody_cuts_a_lifetime_below_two_hours() {
    let mut wire = up();
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 86_400, 86_400)], &[]));
    wire.pass(Duration::from_secs(10));
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 1, 1)], &[]));
    wire.pass(Duration::from_secs(7_100));
    assert!(state(&wire, EUI64).is_some());
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 1, 1)], &[]));
    wire.pass(Duration::from_secs(50));
    assert!(state(&wire, EUI64).is_some(), "what is left of two hours is left");
    wire.pass(Duration::from_secs(60));
    assert_eq!(state(&wire, EUI64), None);
}

#[test]
fn a_router_goes_when_it_says_so_or_its_time_is_over() {
    let mut wire = up();
    tell(&mut wire, &advertisement(100, &[("2001:db8:5::", 64, 9000, 9000)], &[]));
    wire.pass(Duration::from_secs(3));
    let far = ip("2001:db8:99::1");
    assert!(wire.layers[0].route(wire.now, far, None).is_ok());
    tell(&mut wire, &advertisement(0, &[], &[]));
    assert_eq!(wire.layers[0].route(wire.now, far, None), Err(NoPath::NoRoute));
    tell(&mut wire, &advertisement(100, &[], &[]));
    assert!(wire.layers[0].route(wire.now, far, None).is_ok());
    wire.pass(Duration::from_secs(101));
    assert_eq!(wire.layers[0].route(wire.now, far, None), Err(NoPath::NoRoute));
}

/// With a router in use, and where to it leads.
fn routed() -> (Wire, IpAddr) {
    let mut wire = up();
    tell(&mut wire, &advertisement(9000, &[("2001:db8:5::", 64, 9000, 9000)], &[]));
    wire.pass(Duration::from_secs(3));
    let far = ip("2001:db8:99::1");
    assert!(wire.layers[0].route(wire.now, far, None).is_ok());
    (wire, far)
}

/// A neighbour advertisement of the router's address that says that it is no router.
fn no_router(from: u8, mac_of: Option<u8>, solicited: bool, override_cache: bool) -> Vec<u8> {
    let target = "fe80::9".parse().unwrap();
    let message =
        Message::NeighborAdvertisement { router: false, solicited, override_cache, target };
    let mut body = [0; 32];
    let mut len = message.emit(&mut body);
    if let Some(n) = mac_of {
        len += NdpOption::TargetAddress(mac_address(n)).emit(&mut body[len..]);
    }
    let craft = Craft::new(from, 1, "fe80::9", "fe80::ff:fe00:1");
    Craft { hop_limit: 255, ..craft }.icmpv6(&body[..len])
}

/// RFC 4861, section 7.2.5: a claim that does not come to be believed says nothing of routers either; and one that
/// nobody asked for is asked about first.
#[test]
fn a_claim_that_nobody_asked_for_does_not_take_the_router_away() {
    for mac_of in [Some(66), Some(9), None] {
        for (solicited, override_cache) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let (mut wire, far) = routed();
            for _ in 0..5 {
                let claim = no_router(66, mac_of, solicited, override_cache);
                let _ = wire.layers[0].handle(wire.now, &claim);
                let path = wire.layers[0].route(wire.now, far, None);
                let path = path.unwrap_or_else(|why| {
                    panic!("{why:?} after {mac_of:?} {solicited} {override_cache}")
                });
                assert_eq!(path.next_hop, ip("fe80::9"));
                assert_eq!(path.macs.map(|s| s.destination), Some(mac_address(9)));
            }
        }
    }
}

/// It is asked, and says the same: it is none any more.
#[test]
fn a_router_that_is_none_any_more_says_so_when_it_is_asked() {
    let (mut wire, far) = routed();
    wire.settle();
    let quiet = wire.log.len();
    tell(&mut wire, &no_router(9, Some(9), false, true));
    wire.settle();
    let question = &wire.log[quiet].2;
    assert_eq!((question[54], &question[..6]), (135, &mac_address(9).0[..]), "it alone is asked");
    assert!(wire.layers[0].route(wire.now, far, None).is_ok());
    tell(&mut wire, &no_router(9, Some(9), true, true));
    assert_eq!(wire.layers[0].route(wire.now, far, None), Err(NoPath::NoRoute));
}

/// Who says that the router has another MAC address speaks for nobody: neither of its end nor of anything else.
#[test]
fn an_advertisement_from_another_mac_changes_nothing() {
    let (mut wire, far) = routed();
    let mut forged = limited(40, 0, &[], &[NdpOption::Mtu(1300)]);
    let own = forged.windows(6).rposition(|w| w == mac_address(9).0).unwrap();
    forged[own..own + 6].copy_from_slice(&mac_address(66).0);
    // With a checksum of its own.
    forged[56..58].fill(0);
    let craft = Craft { hop_limit: 255, ..Craft::new(66, 1, "fe80::9", "ff02::1") };
    let forged = craft.icmpv6(&forged[54..]);
    let contested = Input::Dropped(Cause::NeighborContested);
    assert_eq!(wire.layers[0].handle(wire.now, &forged), contested);
    let path = wire.layers[0].route(wire.now, far, None).expect("the router is there still");
    assert_eq!((path.hop_limit, path.mtu), (33, 1500));
}

/// An advertisement cannot have packets end at the first router (CVE-2015-2922).
#[test]
fn a_hop_limit_that_leads_nowhere_is_not_taken() {
    let (mut wire, far) = routed();
    let limit = |wire: &mut Wire| wire.layers[0].route(wire.now, far, None).unwrap().hop_limit;
    for tiny in [1, 2, 31] {
        tell(&mut wire, &limited(tiny, 9000, &[], &[]));
        assert_eq!(limit(&mut wire), 33, "after an advertisement of {tiny}");
    }
    for plausible in [32, 64, 255] {
        tell(&mut wire, &limited(plausible, 9000, &[], &[]));
        assert_eq!(limit(&mut wire), plausible);
    }
}

#[test]
fn prefixes_that_cannot_be_make_no_addresses() {
    let mut wire = up();
    let before = wire.layers[0].addresses().count();
    let odd = [
        ("fe80::", 64, 100, 100),
        ("2001:db8:5::", 48, 100, 100),
        ("2001:db8:6::", 64, 100, 200),
        ("2001:db8:7::", 255, 100, 100),
        ("ff02::", 64, 100, 100),
        ("2001:db8:8::", 64, 0, 0),
    ];
    tell(&mut wire, &advertisement(100, &odd, &[]));
    wire.pass(Duration::from_secs(3));
    assert_eq!(wire.layers[0].addresses().count(), before);
    let many: Vec<_> = (0..40).map(|n| format!("2001:db8:{n:x}::")).collect();
    for chunk in many.chunks(10) {
        let prefixes: Vec<_> = chunk.iter().map(|p| (p.as_str(), 64, 100, 100)).collect();
        tell(&mut wire, &advertisement(100, &prefixes, &[]));
    }
    wire.pass(Duration::from_secs(3));
    assert!(wire.layers[0].addresses().count() <= 16);
}

#[test]
fn an_advertisement_from_beyond_the_link_is_none() {
    let mut wire = up();
    let good = advertisement(100, &[], &[]);
    let mut far = good.clone();
    far[21] = 254;
    assert_eq!(wire.layers[0].handle(wire.now, &far), Input::Dropped(Cause::NdpForeign));
    let router = Router { lifetime_s: 100, ..Router::default() };
    let mut body = [0; 16];
    Message::RouterAdvertisement(router).emit(&mut body);
    let craft = Craft { hop_limit: 255, ..Craft::new(9, 1, "2001:db8::9", "ff02::1") };
    let global = craft.icmpv6(&body);
    assert_eq!(wire.layers[0].handle(wire.now, &global), Input::Dropped(Cause::NdpMalformed));
    // Without SLAAC nothing is taken from a router.
    let mut plain = Wire::new(vec![config(1, &["fe80::1/64"])]);
    plain.pass(Duration::from_secs(3));
    let ignored = Input::Dropped(Cause::NdpIgnored);
    assert_eq!(plain.layers[0].handle(plain.now, &good), ignored);
}

#[test]
fn opaque_identifiers_last_with_their_key_differ_by_network_and_yield() {
    let made = |key: u8| {
        let mut wire = Wire::new(vec![host(Identifier::Opaque([key; 16]))]);
        wire.pass(Duration::from_secs(2));
        let prefixes = [("2001:db8:5::", 64, 900, 900), ("2001:db8:6::", 64, 900, 900)];
        tell(&mut wire, &advertisement(100, &prefixes, &[]));
        wire.pass(Duration::from_secs(3));
        let mut low: Vec<u64> = wire.layers[0]
            .addresses()
            .filter_map(|e| match e.cidr.address() {
                IpAddr::V6(a) => Some(a.to_bits() as u64),
                IpAddr::V4(_) => None,
            })
            .collect();
        low.sort();
        low
    };
    let (one, again, other) = (made(1), made(1), made(2));
    assert_eq!(one, again);
    let mut all = [one.clone(), other].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "every network and key another one");

    // Somebody has the first: the next is tried.
    let mut wire = Wire::new(vec![host(Identifier::Opaque([1; 16]))]);
    let taken: Ipv6Addr = wire.layers[0]
        .addresses()
        .find_map(|e| match e.cidr.address() {
            IpAddr::V6(a) if e.origin == Origin::LinkLocal => Some(a),
            _ => None,
        })
        .expect("a link-local address");
    let thief = config(2, &[&format!("{taken}/64")]);
    wire.layers.push(fusewire_net::Layer::new(thief, &[5; 32], wire.now));
    wire.pass(Duration::from_secs(6));
    let own: Vec<_> = wire.layers[0].addresses().map(|e| (e.cidr.address(), e.state)).collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].0 != IpAddr::V6(taken) && own[0].1 == State::Preferred, "{own:?}");
}
