//! Groups in UDP over IPv6, and as protocol 36 of both versions of IP: each side with a stranger on the other.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use fusewire_device::Device;
use fusewire_device::interface::tap::{self, Tap};
use fusewire_stack::group::{Receiver, ReceiverConfig, Sender, SenderConfig};
use fusewire_stack::on_interface::OnInterface;
use fusewire_testkit::namespace::{Need, in_namespace, sh};

use super::groups::over_ip;
use super::stranger::{assert_said, number, said};
use super::{Ours, PATIENT, Way, assert_all, hear, len, stranger};

const COUNT: usize = 60;

/// One of ours, which does not wait for long where a stranger's last word is lost.
fn hearing(group: SocketAddr) -> ReceiverConfig {
    ReceiverConfig { patience: Duration::from_secs(10), ..ReceiverConfig::new(group) }
}

/// A stranger that loses packets gets all that one of ours sends.
fn to_a_stranger<D: Device>(sender: Sender<D>, group: SocketAddr, more: &[&str]) {
    let more = [more, &["--loss", "0.04"]].concat();
    let Some(child) = stranger("receive", group, &more) else { return };
    let mut ours = Ours::over(sender);
    ours.admit(1);
    ours.send(COUNT, len);
    let all = ours.finish(vec![child]);
    let messages = format!("\"messages\": {COUNT},");
    assert_said(&all[0], &["\"outcome\": \"finished\"", &messages, "\"wrong\": 0"]);
    assert!(number(&all[0], "gaps") > 0, "{}", all[0]);
}

/// One of ours gets all that a stranger sends that loses packets.
fn from_a_stranger<D: Device>(mut receiver: Receiver<D>, group: SocketAddr, more: &[&str]) {
    let count = COUNT.to_string();
    let usual = ["--messages", &count, "--loss", "0.04"];
    let more = [more, &usual, &PATIENT].concat();
    let Some(mut sender) = stranger("send", group, &more) else { return };
    let (tells, _joined) = mpsc::channel();
    let (ranges, events) = hear(&mut receiver, 1, Way::Stays, &tells);
    // Its device is there until nobody sends to it.
    let said = said(&mut sender);
    drop(receiver);
    assert_said(&said, &["\"done\": 1", "\"gone\": []"]);
    assert!(number(&said, "again") > 0, "{said}");
    assert_eq!(ranges.len(), COUNT, "{events:?}");
    assert_all(&ranges, number(&said, "begin")..number(&said, "end"));
}

#[test]
fn in_udp_over_ipv6() {
    let setup = "ip link add fw0 type veth peer name fw1\nip link set fw1 up\nip link set fw0 up\n\
                 ip addr add fd09::1/64 dev fw0 nodad";
    in_namespace("carriers::in_udp_over_ipv6", Need::Namespace, setup, || {
        let group: SocketAddr = "[ff02::7:5]:21001".parse().unwrap();
        let more = ["--bind", "fd09::1", "--interface", "fw0"];
        let (interface, local) = (Some("fw0".to_string()), "[fd09::1]:0".parse().unwrap());
        let config =
            SenderConfig { interface: interface.clone(), local, ..SenderConfig::new(group) };
        to_a_stranger(Sender::open(&config).unwrap(), group, &more);
        let config = ReceiverConfig { interface, ..hearing(group) };
        from_a_stranger(Receiver::open(&config).unwrap(), group, &more);
    });
}

/// We have an address of our own behind a TAP, the kernel has the other.
fn behind_a_tap(own: &str) -> OnInterface {
    let tap = Tap::open(&tap::Config { name: "fwgroup".into(), ..tap::Config::default() }).unwrap();
    sh(
        "ip link set fwgroup up\nip addr add 10.9.0.1/24 dev fwgroup\nip addr add fd09::1/64 dev fwgroup nodad",
    );
    over_ip(tap, own)
}

#[test]
fn straight_over_ip() {
    in_namespace("carriers::straight_over_ip", Need::Tap, "", || {
        for (own, kernel, group) in [
            ("10.9.0.2/24", "10.9.0.1", "239.255.7.5:9294"),
            ("fd09::2/64", "fd09::1", "[ff02::7:5]:9294"),
        ] {
            let group: SocketAddr = group.parse().unwrap();
            let more = ["--raw", "--bind", kernel, "--interface", "fwgroup"];
            let device = behind_a_tap(own);
            let sender = Sender::over(device, &SenderConfig::new(group)).unwrap();
            to_a_stranger(sender, group, &more);
            let mut device = behind_a_tap(own);
            device.join(group.ip()).unwrap();
            from_a_stranger(Receiver::over(device, &hearing(group)), group, &more);
        }
    });
}
