//! A DHCP server of one address, as far as a client needs one (RFC 2131), with a classless route (RFC 3442).

use std::net::{Ipv4Addr, UdpSocket};

const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// What it lends, and which way it says that leads elsewhere.
#[derive(Clone, Copy)]
pub struct Lease {
    pub server: Ipv4Addr,
    pub address: Ipv4Addr,
    /// A network of 24 bits, and the router that leads there.
    pub route: (Ipv4Addr, Ipv4Addr),
}

/// Serves from now on, in the namespace of the calling thread. There a route leads to 255.255.255.255.
pub fn serve(lease: Lease) {
    let socket = UdpSocket::bind("0.0.0.0:67").unwrap();
    socket.set_broadcast(true).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((len, _)) = socket.recv_from(&mut bytes) {
            if let Some(reply) = reply(&lease, &bytes[..len]) {
                socket.send_to(&reply, "255.255.255.255:68").unwrap();
            }
        }
    });
}

fn reply(lease: &Lease, request: &[u8]) -> Option<Vec<u8>> {
    let options = request.get(240..)?;
    // The kind of message is the first option that clients send.
    let kind = match options.get(..3)? {
        [53, 1, 1] => 2,
        [53, 1, 3] => 5,
        _ => return None,
    };
    let mut bytes = request[..236].to_vec();
    bytes[0] = 2;
    bytes[16..20].copy_from_slice(&lease.address.octets());
    bytes.extend_from_slice(&COOKIE);
    bytes.extend_from_slice(&[53, 1, kind]);
    let mut option = |code: u8, value: &[u8]| {
        bytes.extend_from_slice(&[code, value.len() as u8]);
        bytes.extend_from_slice(value);
    };
    option(54, &lease.server.octets());
    option(51, &3600u32.to_be_bytes());
    option(1, &[255, 255, 255, 0]);
    let (network, router) = lease.route;
    let [a, b, c, _] = network.octets();
    option(121, &[&[24, a, b, c][..], &router.octets()].concat());
    bytes.push(255);
    Some(bytes)
}
