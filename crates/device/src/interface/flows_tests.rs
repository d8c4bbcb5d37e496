//! The filter against the flows that it was made from, run by a small interpreter on packets of every kind.

use std::net::Ipv4Addr;

use super::*;

/// What the kernel would do; packets are untagged.
fn run(program: &[Instruction], packet: &[u8]) -> u32 {
    let load = |at: u32, len: usize| -> Option<u32> {
        let at = at as usize;
        let bytes = packet.get(at..at + len)?;
        Some(bytes.iter().fold(0, |value, b| value << 8 | u32::from(*b)))
    };
    let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
    loop {
        let i = program[at];
        at += 1;
        let loaded = match i.code {
            LD_WORD if i.k == VLAN_PRESENT => Some(0),
            LD_WORD => load(i.k, 4),
            LD_HALF => load(i.k, 2),
            LD_BYTE => load(i.k, 1),
            LD_HALF_X => load(i.k + x, 2),
            LD_BYTE_X => load(i.k + x, 1),
            LDX_IP_LEN => load(i.k, 1).map(|b| {
                x = 4 * (b & 0xf);
                a
            }),
            RETURN => return i.k,
            JUMP => {
                at += i.k as usize;
                continue;
            }
            _ => {
                let holds = match i.code {
                    JEQ => a == i.k,
                    JGE => a >= i.k,
                    JSET => a & i.k != 0,
                    other => panic!("instruction {other:#x}"),
                };
                at += usize::from(if holds { i.jt } else { i.jf });
                continue;
            }
        };
        // A load behind the end drops the packet.
        let Some(value) = loaded else { return 0 };
        a = value;
    }
}

fn passes(flows: &Flows, packet: &[u8]) -> bool {
    let program = assemble(flows).unwrap();
    assert!(program.len() <= MAX_INSTRUCTIONS);
    run(&program, packet) != 0
}

fn v4(to: Ipv4Addr, protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x46];
    packet.resize(38, 0);
    packet[20..22].copy_from_slice(&fragment.to_be_bytes());
    packet[23] = protocol;
    packet[30..34].copy_from_slice(&to.octets());
    packet.extend_from_slice(rest);
    packet
}

fn v6(to: Ipv6Addr, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60];
    packet.resize(54, 0);
    packet[20] = next;
    packet[38..54].copy_from_slice(&to.octets());
    packet.extend_from_slice(rest);
    packet
}

fn to_port(port: u16) -> [u8; 8] {
    let [high, low] = port.to_be_bytes();
    [9, 9, high, low, 0, 8, 0, 0]
}

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1);
const OTHER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 1);

#[test]
fn ports_pass_and_nothing_else_does() {
    let port = |addr, protocol, port| Port { addr, protocol, port };
    // More than a conditional jump could skip.
    let mut all: Vec<_> = (5000..5300).map(|p| port(HOST.into(), Protocol::Udp, p)).collect();
    all.push(port(HOST.into(), Protocol::Tcp, 80));
    all.push(port(HOST6.into(), Protocol::Tcp, 81));
    all.push(port(OTHER.into(), Protocol::Tcp, 82));
    let flows = Flows::ports(all);
    let ours = |packet: &[u8]| passes(&flows, packet);
    assert!(ours(&v4(HOST, 17, 0, &to_port(5000))) && ours(&v4(HOST, 17, 0, &to_port(5299))));
    assert!(ours(&v4(HOST, 6, 0, &to_port(80))) && ours(&v4(OTHER, 6, 0, &to_port(82))));
    assert!(ours(&v6(HOST6, 6, &to_port(81))));
    assert!(!ours(&v4(HOST, 17, 0, &to_port(5300))) && !ours(&v4(HOST, 17, 0, &to_port(80))));
    assert!(!ours(&v4(HOST, 6, 0, &to_port(82))) && !ours(&v4(OTHER, 6, 0, &to_port(80))));
    assert!(!ours(&v6(HOST6, 17, &to_port(81))) && !ours(&v6(OTHER6, 6, &to_port(81))));
    assert!(!ours(&v4(HOST, 132, 0, &to_port(80))));
}

#[test]
fn what_has_no_port_in_its_place_passes_by_address() {
    let flows = Flows::ports([
        Port { addr: HOST.into(), protocol: Protocol::Udp, port: 53 },
        Port { addr: HOST6.into(), protocol: Protocol::Udp, port: 53 },
    ]);
    let ours = |packet: &[u8]| passes(&flows, packet);
    assert!(ours(&v4(HOST, 17, 0x2000, &to_port(53))), "a first fragment has its port");
    assert!(!ours(&v4(HOST, 17, 0x2000, &to_port(54))));
    assert!(ours(&v4(HOST, 17, 0x2001, &[])) && !ours(&v4(OTHER, 17, 0x2001, &[])));
    for kind in [3, 11, 12] {
        assert!(ours(&v4(HOST, 1, 0, &[kind, 0])) && !ours(&v4(OTHER, 1, 0, &[kind, 0])));
    }
    assert!(!ours(&v4(HOST, 1, 0, &[8, 0])), "an echo is the kernel's");
    assert!(ours(&v6(HOST6, 58, &[2, 0])) && !ours(&v6(HOST6, 58, &[135, 0])));
    assert!(ours(&v6(HOST6, 44, &[17, 0])) && !ours(&v6(OTHER6, 44, &[17, 0])));
}

#[test]
fn xtp_has_no_ports_and_is_ours_as_a_whole() {
    let xtp = |addr| Port { addr, protocol: Protocol::Xtp, port: 0 };
    let udp = Port { addr: OTHER.into(), protocol: Protocol::Udp, port: 53 };
    let flows = Flows::ports([xtp(HOST.into()), xtp(HOST6.into()), udp]);
    let ours = |packet: &[u8]| passes(&flows, packet);
    for bytes in [&[0xff; 8][..], &[0; 2]] {
        assert!(ours(&v4(HOST, 36, 0, bytes)) && !ours(&v4(OTHER, 36, 0, bytes)));
        assert!(ours(&v6(HOST6, 36, bytes)) && !ours(&v6(OTHER6, 36, bytes)));
    }
    assert!(ours(&v4(HOST, 36, 0x2000, &[])) && ours(&v4(HOST, 36, 0x2001, &[])));
    assert!(!ours(&v4(HOST, 17, 0, &to_port(0))) && !ours(&v4(HOST, 37, 0, &to_port(0))));
    assert!(!ours(&v4(HOST, 17, 0, &to_port(53))) && ours(&v4(OTHER, 17, 0, &to_port(53))));
    assert!(!ours(&v6(HOST6, 17, &to_port(0))));
    assert!(ours(&v4(HOST, 1, 0, &[3, 2])) && ours(&v6(HOST6, 58, &[4, 1])), "what is said of it");
}

#[test]
fn an_address_of_our_own_gets_all_that_is_meant_for_it() {
    let flows = Flows::addrs([HOST.into(), HOST6.into()]);
    let ours = |packet: &[u8]| passes(&flows, packet);
    assert!(ours(&v4(HOST, 47, 0, &[])) && !ours(&v4(OTHER, 47, 0, &[])));
    assert!(ours(&v6(HOST6, 0, &[])) && !ours(&v6(OTHER6, 0, &[])));
    let mut arp = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    arp.resize(42, 0);
    assert!(!ours(&arp));
    arp[38..].copy_from_slice(&HOST.octets());
    assert!(ours(&arp));
    let mut group = v4(OTHER, 17, 0, &[]);
    group[0] = 1;
    assert!(ours(&group) && !passes(&Flows { groups: false, ..flows.clone() }, &group));
}

#[test]
fn every_cut_of_a_packet_is_decided() {
    let flows = Flows {
        addrs: vec![OTHER.into(), OTHER6.into()],
        ports: vec![
            Port { addr: HOST.into(), protocol: Protocol::Tcp, port: 80 },
            Port { addr: HOST6.into(), protocol: Protocol::Tcp, port: 80 },
        ],
        ..Flows::default()
    };
    for packet in [v4(HOST, 6, 0, &to_port(80)), v6(HOST6, 6, &to_port(80))] {
        let shortest = (0..=packet.len()).find(|len| passes(&flows, &packet[..*len]));
        assert_eq!(shortest, Some(packet.len() - 4), "all up to the port");
    }
    assert_eq!(assemble(&Flows::everything()), None);
    assert!(!passes(&Flows::default(), &v4(HOST, 6, 0, &to_port(80))));
}
