//! DHCP for IPv4 (RFC 2131, RFC 2132): messages as a client reads and writes them.

use core::net::Ipv4Addr;

use crate::Error;
use crate::ethernet::Address;

/// Port of servers.
pub const SERVER_PORT: u16 = 67;
/// Port of clients.
pub const CLIENT_PORT: u16 = 68;
/// Length of a message before its options, with the magic cookie, in bytes.
pub const FIXED_LEN: usize = 240;
/// Length of what [`Message::emit`] writes: a BOOTP message, which old relays insist on.
pub const EMIT_LEN: usize = 300;
/// Servers of a kind that are kept.
pub const MAX_SERVERS: usize = 3;
/// Classless routes that are kept.
pub const MAX_ROUTES: usize = 16;

const PROTOCOL: &str = "dhcp";
const MAGIC: [u8; 4] = [99, 130, 83, 99];
const FILE: core::ops::Range<usize> = 108..236;
const SNAME: core::ops::Range<usize> = 44..108;

const PAD: u8 = 0;
const SUBNET_MASK: u8 = 1;
const ROUTER: u8 = 3;
const DNS: u8 = 6;
const INTERFACE_MTU: u8 = 26;
const CLASSLESS_ROUTES: u8 = 121;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const OVERLOAD: u8 = 52;
const MESSAGE_TYPE: u8 = 53;
const SERVER_ID: u8 = 54;
const PARAMETERS: u8 = 55;
const MAX_SIZE: u8 = 57;
const T1: u8 = 58;
const T2: u8 = 59;
const CLIENT_ID: u8 = 61;
const END: u8 = 255;

/// What a message is (RFC 2132, section 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Client: who has an address for me?
    Discover,
    /// Server: here is one.
    Offer,
    /// Client: I take it, or want to keep it.
    Request,
    /// Client: somebody has it already.
    Decline,
    /// Server: it is yours.
    Ack,
    /// Server: it is not.
    Nak,
    /// Client: I do not need it any more.
    Release,
    /// Client: what else should I know?
    Inform,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Discover,
        Kind::Offer,
        Kind::Request,
        Kind::Decline,
        Kind::Ack,
        Kind::Nak,
        Kind::Release,
        Kind::Inform,
    ];
}

/// A few servers' addresses, in the order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    addresses: [Option<Ipv4Addr>; MAX_SERVERS],
}

impl Servers {
    fn read(bytes: &[u8]) -> Servers {
        let mut addresses = [None; MAX_SERVERS];
        for (slot, b) in addresses.iter_mut().zip(bytes.chunks_exact(4)) {
            *slot = Some(Ipv4Addr::new(b[0], b[1], b[2], b[3]));
        }
        Servers { addresses }
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.addresses.iter().flatten().copied()
    }
}

/// A way to a network (RFC 3442).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClasslessRoute {
    /// The network's address; the bits behind its prefix are zero.
    pub network: Ipv4Addr,
    /// Leading bits of it that count.
    pub prefix_len: u8,
    /// The router; unspecified: the network is on the link.
    pub router: Ipv4Addr,
}

impl ClasslessRoute {
    /// A route and what follows it: width, as many octets of the network as it takes, router.
    fn read(bytes: &[u8]) -> Option<(ClasslessRoute, &[u8])> {
        let (&prefix_len, rest) = bytes.split_first()?;
        let significant = usize::from(prefix_len).div_ceil(8);
        let mut network = [0; 4];
        network.get_mut(..significant)?.copy_from_slice(rest.get(..significant)?);
        let (router, rest) = rest[significant..].split_first_chunk::<4>()?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0);
        let network = Ipv4Addr::from_bits(u32::from_be_bytes(network) & mask);
        Some((ClasslessRoute { network, prefix_len, router: (*router).into() }, rest))
    }
}

/// A few classless routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClasslessRoutes {
    routes: [Option<ClasslessRoute>; MAX_ROUTES],
}

impl ClasslessRoutes {
    /// `None` for what RFC 3442 does not describe.
    fn read(mut bytes: &[u8]) -> Option<ClasslessRoutes> {
        let mut routes = [None; MAX_ROUTES];
        let mut slots = routes.iter_mut();
        while !bytes.is_empty() {
            let (route, rest) = ClasslessRoute::read(bytes)?;
            if let Some(slot) = slots.next() {
                *slot = Some(route);
            }
            bytes = rest;
        }
        Some(ClasslessRoutes { routes })
    }

    /// The routes.
    pub fn iter(&self) -> impl Iterator<Item = ClasslessRoute> + '_ {
        self.routes.iter().flatten().copied()
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.routes[0].is_none()
    }
}

impl FromIterator<ClasslessRoute> for ClasslessRoutes {
    /// The first of them.
    fn from_iter<I: IntoIterator<Item = ClasslessRoute>>(from: I) -> ClasslessRoutes {
        let mut routes = [None; MAX_ROUTES];
        for (slot, route) in routes.iter_mut().zip(from) {
            *slot = Some(route);
        }
        ClasslessRoutes { routes }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Transaction ID, chosen by the client.
    pub xid: u32,
    /// Seconds since the client began.
    pub secs: u16,
    /// The client cannot take what is sent to an address that is not its own yet.
    pub broadcast: bool,
    /// The client's address, when it has one and uses it (`ciaddr`).
    pub client: Ipv4Addr,
    /// The address that the server gives (`yiaddr`).
    pub yours: Ipv4Addr,
    /// The client's hardware address (`chaddr`).
    pub chaddr: Address,
    /// Who the server is.
    pub server: Option<Ipv4Addr>,
    /// The address that the client would like.
    pub requested: Option<Ipv4Addr>,
    /// For how long, in seconds; `u32::MAX`: for ever.
    pub lease_s: Option<u32>,
    /// When to renew, in seconds.
    pub t1_s: Option<u32>,
    /// When to ask any server, in seconds.
    pub t2_s: Option<u32>,
    /// Leading ones of the subnet mask.
    pub prefix_len: Option<u8>,
    /// Routers.
    pub routers: Servers,
    /// Routes to networks; where there are some, `routers` mean nothing (RFC 3442).
    pub routes: ClasslessRoutes,
    /// Servers of names.
    pub dns: Servers,
    /// The interface's MTU.
    pub mtu: Option<u16>,
}

impl Message {
    /// A message of a client, without options.
    pub fn new(kind: Kind, xid: u32, chaddr: Address) -> Message {
        Message {
            kind,
            xid,
            secs: 0,
            broadcast: false,
            client: Ipv4Addr::UNSPECIFIED,
            yours: Ipv4Addr::UNSPECIFIED,
            chaddr,
            server: None,
            requested: None,
            lease_s: None,
            t1_s: None,
            t2_s: None,
            prefix_len: None,
            routers: Servers::default(),
            routes: ClasslessRoutes::default(),
            dns: Servers::default(),
            mtu: None,
        }
    }

    /// Whether it goes from a server to a client.
    pub const fn is_reply(&self) -> bool {
        matches!(self.kind, Kind::Offer | Kind::Ack | Kind::Nak)
    }

    /// Reads a message between a host on Ethernet and a server.
    ///
    /// # Errors
    /// `Truncated`; `Value` for what is no DHCP over Ethernet, or a direction that does not go with the
    /// message's type; `OptionLength` for an option that leaves its field or is too short for its kind.
    pub fn parse(bytes: &[u8]) -> Result<Message, Error> {
        let Some(fixed) = bytes.first_chunk::<FIXED_LEN>() else {
            let found = bytes.len();
            return Err(Error::Truncated { protocol: PROTOCOL, needed: FIXED_LEN, found });
        };
        let value = |field, found: u32| Error::Value { protocol: PROTOCOL, field, found };
        if fixed[1] != 1 || fixed[2] != 6 {
            return Err(value("htype", u32::from(fixed[1]) << 8 | u32::from(fixed[2])));
        }
        let word = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        if word(236) != MAGIC {
            return Err(value("magic cookie", u32::from_be_bytes(word(236))));
        }
        let s = &fixed[28..34];
        let chaddr = Address([s[0], s[1], s[2], s[3], s[4], s[5]]);
        let mut message = Message {
            secs: u16::from_be_bytes([fixed[8], fixed[9]]),
            broadcast: fixed[10] & 0x80 != 0,
            client: word(12).into(),
            yours: word(16).into(),
            ..Message::new(Kind::Discover, u32::from_be_bytes(word(4)), chaddr)
        };
        let mut seen = Seen { kind: None, overload: 0, routes: [0; ROUTES_BYTES], routes_len: 0 };
        message.options(&bytes[FIXED_LEN..], FIXED_LEN, &mut seen)?;
        // RFC 2132, section 9.3; nothing in there may send the reader on.
        let overload = seen.overload;
        if overload & 1 != 0 {
            message.options(&fixed[FILE], FILE.start, &mut seen)?;
        }
        if overload & 2 != 0 {
            message.options(&fixed[SNAME], SNAME.start, &mut seen)?;
        }
        let routes = ClasslessRoutes::read(&seen.routes[..seen.routes_len]);
        message.routes = routes.ok_or(value("classless routes", seen.routes_len as u32))?;
        message.kind = seen.kind.ok_or(value("message type", 0))?;
        let op = if message.is_reply() { 2 } else { 1 };
        if fixed[0] != op {
            return Err(value("op", fixed[0].into()));
        }
        Ok(message)
    }

    fn options(&mut self, bytes: &[u8], offset: usize, seen: &mut Seen) -> Result<(), Error> {
        let mut at = 0;
        while let Some(&kind) = bytes.get(at) {
            match kind {
                PAD => {
                    at += 1;
                    continue;
                }
                END => break,
                _ => {}
            }
            let found = bytes.get(at + 1).copied().unwrap_or(0);
            let wrong = Error::OptionLength { protocol: PROTOCOL, kind, at: offset + at, found };
            let start = at + 2;
            let data = bytes.get(start..start + usize::from(found)).ok_or(wrong)?;
            at = start + data.len();
            let four = || data.first_chunk::<4>().copied().ok_or(wrong);
            match kind {
                MESSAGE_TYPE => {
                    let number = *data.first().ok_or(wrong)?;
                    let kind = Kind::ALL.get(usize::from(number).wrapping_sub(1)).copied();
                    let found = number.into();
                    let field = "message type";
                    let error = Error::Value { protocol: PROTOCOL, field, found };
                    seen.kind = Some(kind.ok_or(error)?);
                }
                SUBNET_MASK => {
                    let mask = u32::from_be_bytes(four()?);
                    let (field, found) = ("subnet mask", mask);
                    if mask.leading_ones() + mask.trailing_zeros() < 32 {
                        return Err(Error::Value { protocol: PROTOCOL, field, found });
                    }
                    self.prefix_len = Some(mask.leading_ones() as u8);
                }
                ROUTER => self.routers = Servers::read(data),
                DNS => self.dns = Servers::read(data),
                INTERFACE_MTU => {
                    let &[high, low, ..] = data else { return Err(wrong) };
                    self.mtu = Some(u16::from_be_bytes([high, low]));
                }
                REQUESTED_ADDRESS => self.requested = Some(four()?.into()),
                SERVER_ID => self.server = Some(four()?.into()),
                LEASE_TIME => self.lease_s = Some(u32::from_be_bytes(four()?)),
                T1 => self.t1_s = Some(u32::from_be_bytes(four()?)),
                T2 => self.t2_s = Some(u32::from_be_bytes(four()?)),
                CLASSLESS_ROUTES => {
                    // Of many routes the option is cut, and its pieces belong together (RFC 3396).
                    let room = seen.routes.get_mut(seen.routes_len..seen.routes_len + data.len());
                    room.ok_or(wrong)?.copy_from_slice(data);
                    seen.routes_len += data.len();
                }
                OVERLOAD => seen.overload = *data.first().ok_or(wrong)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the message and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`EMIT_LEN`], or there are more routes than it has room for.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..EMIT_LEN];
        out.fill(0);
        let op = if self.is_reply() { 2 } else { 1 };
        out[..4].copy_from_slice(&[op, 1, 6, 0]);
        out[4..8].copy_from_slice(&self.xid.to_be_bytes());
        out[8..10].copy_from_slice(&self.secs.to_be_bytes());
        out[10] = u8::from(self.broadcast) << 7;
        out[12..16].copy_from_slice(&self.client.octets());
        out[16..20].copy_from_slice(&self.yours.octets());
        out[28..34].copy_from_slice(&self.chaddr.0);
        out[236..240].copy_from_slice(&MAGIC);
        let mut at = FIXED_LEN;
        let mut option = |kind: u8, data: &[u8]| {
            out[at..at + 2].copy_from_slice(&[kind, data.len() as u8]);
            out[at + 2..at + 2 + data.len()].copy_from_slice(data);
            at += 2 + data.len();
        };
        option(MESSAGE_TYPE, &[self.kind as u8 + 1]);
        let addresses = [(SERVER_ID, self.server), (REQUESTED_ADDRESS, self.requested)];
        for (kind, address) in addresses {
            if let Some(address) = address {
                option(kind, &address.octets());
            }
        }
        for (kind, word) in [(LEASE_TIME, self.lease_s), (T1, self.t1_s), (T2, self.t2_s)] {
            if let Some(word) = word {
                option(kind, &word.to_be_bytes());
            }
        }
        if let Some(len) = self.prefix_len {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            option(SUBNET_MASK, &mask.to_be_bytes());
        }
        for (kind, servers) in [(ROUTER, self.routers), (DNS, self.dns)] {
            if let Some(first) = servers.iter().next() {
                option(kind, &first.octets());
            }
        }
        for ClasslessRoute { network, prefix_len, router } in self.routes.iter() {
            let ([a, b, c, d], [e, f, g, h]) = (network.octets(), router.octets());
            let whole = [prefix_len, a, b, c, d, e, f, g, h];
            let significant = usize::from(prefix_len).div_ceil(8);
            let mut bytes = [0; 9];
            bytes[..=significant].copy_from_slice(&whole[..=significant]);
            bytes[significant + 1..significant + 5].copy_from_slice(&whole[5..]);
            option(CLASSLESS_ROUTES, &bytes[..significant + 5]);
        }
        if !self.is_reply() {
            let [a, b, c, d, e, g] = self.chaddr.0;
            option(CLIENT_ID, &[1, a, b, c, d, e, g]);
        }
        if matches!(self.kind, Kind::Discover | Kind::Request) {
            // RFC 3442: before the routers, or a server with little room leaves it out.
            let wanted =
                [CLASSLESS_ROUTES, SUBNET_MASK, ROUTER, DNS, INTERFACE_MTU, LEASE_TIME, T1, T2];
            option(PARAMETERS, &wanted);
            option(MAX_SIZE, &1472u16.to_be_bytes());
        }
        out[at] = END;
        EMIT_LEN
    }
}

/// What options say about the message itself.
struct Seen {
    kind: Option<Kind>,
    overload: u8,
    /// Pieces of the classless routes, one after the other.
    routes: [u8; ROUTES_BYTES],
    routes_len: usize,
}

/// Bytes of all classless routes of a message: more than anybody sends.
const ROUTES_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const CHADDR: Address = Address([2, 0, 0, 0, 0, 9]);

    fn ack() -> Message {
        let server = Some(Ipv4Addr::new(10, 0, 0, 1));
        Message {
            yours: Ipv4Addr::new(10, 0, 0, 77),
            server,
            lease_s: Some(3600),
            t1_s: Some(1800),
            t2_s: Some(3150),
            prefix_len: Some(24),
            routers: Servers::read(&[10, 0, 0, 1]),
            dns: Servers::read(&[10, 0, 0, 53]),
            routes: ClasslessRoutes::read(&[9, 10, 128, 10, 0, 0, 2]).unwrap_or_default(),
            ..Message::new(Kind::Ack, 0x1234_5678, CHADDR)
        }
    }

    #[test]
    fn round_trips() {
        let request = Message {
            secs: 7,
            broadcast: true,
            requested: Some(Ipv4Addr::new(10, 0, 0, 77)),
            server: Some(Ipv4Addr::new(10, 0, 0, 1)),
            ..Message::new(Kind::Request, 1, CHADDR)
        };
        for message in [ack(), request, Message::new(Kind::Discover, 2, CHADDR)] {
            let mut bytes = [0xee; EMIT_LEN];
            assert_eq!(message.emit(&mut bytes), EMIT_LEN);
            assert_eq!(Message::parse(&bytes), Ok(message));
            bytes[0] ^= 3;
            assert!(matches!(Message::parse(&bytes), Err(Error::Value { field: "op", .. })));
        }
        assert_eq!(ack().routers.iter().count(), 1);
        let many = Servers::read(&[1; 18]);
        assert_eq!(many.iter().count(), 3);
    }

    #[test]
    fn every_truncation_is_told_or_loses_an_option() {
        let mut bytes = [0; EMIT_LEN];
        ack().emit(&mut bytes);
        for len in 0..FIXED_LEN + 3 {
            assert!(Message::parse(&bytes[..len]).is_err(), "{len}");
        }
        for len in FIXED_LEN + 3..EMIT_LEN {
            let parsed = Message::parse(&bytes[..len]);
            assert!(parsed.is_err() || parsed.is_ok_and(|m| m.yours == ack().yours), "{len}");
        }
        let wrong = Error::OptionLength { protocol: PROTOCOL, kind: SERVER_ID, at: 243, found: 4 };
        assert_eq!(Message::parse(&bytes[..248]), Err(wrong));
    }

    #[test]
    fn options_go_on_in_file_and_name_but_not_round_and_round() {
        let mut bytes = [0; EMIT_LEN];
        ack().emit(&mut bytes);
        bytes[FIXED_LEN..].fill(0);
        bytes[240..249].copy_from_slice(&[MESSAGE_TYPE, 1, 5, OVERLOAD, 1, 3, END, 0, 0]);
        bytes[108..115].copy_from_slice(&[LEASE_TIME, 4, 0, 0, 0, 9, END]);
        bytes[44..54].copy_from_slice(&[OVERLOAD, 1, 3, SERVER_ID, 4, 10, 0, 0, 1, END]);
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.kind, message.lease_s), (Kind::Ack, Some(9)));
        assert_eq!(message.server, Some(Ipv4Addr::new(10, 0, 0, 1)));
    }

    #[test]
    fn classless_routes_are_read_as_the_specification_writes_them() {
        // The table of RFC 3442: subnet 10.17.0.0, mask 255.255.0.0 is 16.10.17; behind the prefix nothing counts.
        let bytes = [16, 10, 17, 10, 0, 0, 1, 25, 10, 229, 0, 255, 0, 0, 0, 0];
        let routes = ClasslessRoutes::read(&bytes).unwrap();
        let found: Vec<_> = routes.iter().map(|r| (r.network, r.prefix_len, r.router)).collect();
        assert_eq!(found[0], ([10, 17, 0, 0].into(), 16, [10, 0, 0, 1].into()));
        assert_eq!(found[1], ([10, 229, 0, 128].into(), 25, Ipv4Addr::UNSPECIFIED));
        for len in 1..bytes.len() {
            assert_eq!(ClasslessRoutes::read(&bytes[..len]).is_some(), len == 7, "{len}");
        }
        assert_eq!(ClasslessRoutes::read(&[33, 1, 2, 3, 4, 5, 0, 0, 0, 0]), None);
        let many = [0, 10, 0, 0, 1].repeat(MAX_ROUTES + 5);
        assert_eq!(ClasslessRoutes::read(&many).unwrap().iter().count(), MAX_ROUTES);
    }

    #[test]
    fn foreign_values_are_refused() {
        let mut bytes = [0; EMIT_LEN];
        ack().emit(&mut bytes);
        for at in [1, 2, 236, 239] {
            let mut other = bytes;
            other[at] ^= 0x40;
            assert!(matches!(Message::parse(&other), Err(Error::Value { .. })), "byte {at}");
        }
        let mask = (FIXED_LEN..EMIT_LEN).find(|&at| bytes[at..at + 2] == [SUBNET_MASK, 4]);
        bytes[mask.unwrap() + 2] = 0x0f;
        assert!(matches!(Message::parse(&bytes), Err(Error::Value { field: "subnet mask", .. })));
    }
}
