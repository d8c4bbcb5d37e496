//! A host and itself.

mod wire;

use std::net::IpAddr;

use fusewire_base::Instant;
use fusewire_net::{Config, Input, LOOPBACK_MTU, Layer, Link, Packet};
use fusewire_wire::{icmp, icmpv6};
use wire::{Craft, config};

const NOW: Instant = Instant::from_ms(1_000_000);

fn looping(link: Option<Link>) -> Layer {
    let plain = config(1, &["10.0.0.1/24", "2001:db8::1/64"]);
    let link = link.unwrap_or(plain.link);
    let mut layer = Layer::new(Config { loopback: true, link, ..plain }, &[3; 32], NOW);
    // It says that it is there.
    while layer.poll_transmit(NOW, &mut [0; 1514]).is_some() {}
    layer
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn an_echo_to_ourselves_is_answered_and_comes_back() {
    for link in [None, Some(Link::Ip)] {
        let mut layer = looping(link);
        for (to, from) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.8.8.8", "127.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
            ("::1", "::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            let via = layer.route(NOW, ip(to), None).expect("a path");
            assert_eq!((via.source, via.mtu, via.loops), (ip(from), LOOPBACK_MTU, true));
            let mut frame = vec![0; via.header_len()];
            let protocol = if via.source.is_ipv4() { icmp::NUMBER } else { icmpv6::NUMBER };
            via.emit(&Packet::new(protocol, 20), &mut frame);
            let mut body = [0x61; 20];
            let sum = via.source.is_ipv6().then(|| via.pseudo_header_sum(protocol, 20));
            icmp::Message::EchoRequest { id: 7, seq: 1 }.emit(sum, &mut body);
            frame.extend(body);
            assert!(layer.is_looped_frame(&frame));
            for len in 0..frame.len() {
                let _ = layer.is_looped_frame(&frame[..len]);
            }
            assert_eq!(layer.handle_looped(NOW, &frame, false), Input::Consumed, "{to}");
            let mut out = [0; 1514];
            let len = layer.poll_transmit(NOW, &mut out).expect("the answer, at once");
            assert!(layer.is_looped_frame(&out[..len]));
            assert_eq!(layer.poll_transmit(NOW, &mut [0; 1514]), None);
        }
    }
}

#[test]
fn from_the_link_an_address_of_ours_is_a_lie() {
    let mut layer = looping(None);
    for (from, to) in [
        ("127.0.0.1", "10.0.0.1"),
        ("10.0.0.2", "127.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "2001:db8::1"),
        ("2001:db8::2", "::1"),
    ] {
        let frame = Craft::new(2, 1, from, to).udp((7, 9), b"?");
        assert!(matches!(layer.handle(NOW, &frame), Input::Dropped(_)), "{from} {to}");
    }
    let frame = Craft::new(2, 1, "10.0.0.2", "10.0.0.1").udp((7, 9), b"?");
    assert!(!layer.is_looped_frame(&Craft::new(1, 2, "10.0.0.1", "10.0.0.2").udp((7, 9), b"?")));
    assert!(matches!(layer.handle(NOW, &frame), Input::Transport(_)));
}
