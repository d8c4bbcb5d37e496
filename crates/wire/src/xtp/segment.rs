//! Address and traffic segments (`docs/xtp.md`, section 2).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Error, Reason, Writer, half, length, take, truncated, value, word};

/// Bytes of a segment before what its format has: length, domain or service, format.
const HEAD_LEN: usize = 4;
/// The least `maxdata`.
pub const MAXDATA_MIN: u32 = 512;
/// What `maxdata` is when it says nothing.
const MAXDATA_UNSAID: u32 = 1168;

/// An address segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Format 0: none.
    Null,
    /// Format 1.
    V4 {
        /// The responder, or a group.
        dsthost: Ipv4Addr,
        /// The initiator.
        srchost: Ipv4Addr,
        /// The service that is asked for.
        dstport: u16,
        /// The initiator's own, or 0.
        srcport: u16,
    },
    /// Format 6.
    V6 {
        /// See `V4`.
        dsthost: Ipv6Addr,
        /// See `V4`.
        srchost: Ipv6Addr,
        /// See `V4`.
        dstport: u16,
        /// See `V4`.
        srcport: u16,
    },
}

impl Address {
    /// As it is within UDP, whose own header has the addresses.
    pub const fn in_udp(dstport: u16) -> Address {
        let none = Ipv4Addr::UNSPECIFIED;
        Address::V4 { dsthost: none, srchost: none, dstport, srcport: 0 }
    }

    /// As it is towards `remote`: in UDP, or where that has no port as IP protocol 36, of its version. The hosts are zero,
    /// since address translation would make anything else false.
    pub const fn towards(remote: SocketAddr, dstport: u16) -> Address {
        match remote {
            SocketAddr::V6(v6) if v6.port() == 0 => {
                let none = Ipv6Addr::UNSPECIFIED;
                Address::V6 { dsthost: none, srchost: none, dstport, srcport: 0 }
            }
            _ => Address::in_udp(dstport),
        }
    }

    /// Whether it may come from `remote`, which has no port where there is no UDP, to `local`, which may be unspecified.
    ///
    /// # Errors
    /// Another format than [`Address::towards`] has; a host that is neither zero nor the IP header's.
    pub fn fits(&self, local: IpAddr, remote: SocketAddr) -> Result<(), Reason> {
        let (dsthost, srchost): (IpAddr, IpAddr) = match (*self, Address::towards(remote, 0)) {
            (Address::V4 { dsthost, srchost, .. }, Address::V4 { .. }) => {
                (dsthost.into(), srchost.into())
            }
            (Address::V6 { dsthost, srchost, .. }, Address::V6 { .. }) => {
                (dsthost.into(), srchost.into())
            }
            _ => return Err(Reason::AddressFormat),
        };
        // UDP may be over either version of IP, and behind address translation.
        let in_udp = remote.port() != 0;
        let is = |host: IpAddr, ips: IpAddr| host.is_unspecified() || (!in_udp && host == ips);
        let to_us = is(dsthost, local) || (!in_udp && local.is_unspecified());
        if to_us && is(srchost, remote.ip()) { Ok(()) } else { Err(Reason::MalformedAddress) }
    }

    /// The service that is asked for.
    pub const fn dstport(&self) -> Option<u16> {
        match *self {
            Address::Null => None,
            Address::V4 { dstport, .. } | Address::V6 { dstport, .. } => Some(dstport),
        }
    }

    /// Takes a segment off the front of `bytes`, which lies `before` bytes behind the packet's front.
    ///
    /// # Errors
    /// `Truncated`; `Length` of alen; `Value` of aformat and adomain.
    pub(super) fn take(bytes: &mut &[u8], before: usize) -> Result<Address, Error> {
        let [a0, a1, adomain, aformat] = *take::<HEAD_LEN>(bytes, before)?;
        let before = before + HEAD_LEN;
        let alen = usize::from(u16::from_be_bytes([a0, a1]));
        let expected = match aformat {
            0 => 8,
            1 => 16,
            6 => 40,
            _ => return Err(value("aformat", aformat.into())),
        };
        if alen != expected {
            return Err(length("alen", alen));
        }
        if adomain != 0 {
            return Err(value("adomain", adomain.into()));
        }
        let Some((body, rest)) = bytes.split_at_checked(alen - HEAD_LEN) else {
            return Err(truncated(before + alen - HEAD_LEN, before + bytes.len()));
        };
        *bytes = rest;
        Ok(match body.len() {
            12 => Address::V4 {
                dsthost: Ipv4Addr::from_bits(word(body, 0)),
                srchost: Ipv4Addr::from_bits(word(body, 4)),
                dstport: half(body, 8),
                srcport: half(body, 10),
            },
            36 => Address::V6 {
                dsthost: host(body, 0),
                srchost: host(body, 16),
                dstport: half(body, 32),
                srcport: half(body, 34),
            },
            _ if word(body, 0) != 0 => return Err(value("address", word(body, 0))),
            _ => Address::Null,
        })
    }

    /// Bytes of the segment.
    pub const fn emit_len(&self) -> usize {
        match self {
            Address::Null => 8,
            Address::V4 { .. } => 16,
            Address::V6 { .. } => 40,
        }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.half(self.emit_len() as u16);
        match self {
            Address::Null => {
                to.half(0);
                to.word(0);
            }
            Address::V4 { dsthost, srchost, dstport, srcport } => {
                to.half(1);
                to.bytes(&dsthost.octets());
                to.bytes(&srchost.octets());
                to.half(*dstport);
                to.half(*srcport);
            }
            Address::V6 { dsthost, srchost, dstport, srcport } => {
                to.half(6);
                to.bytes(&dsthost.octets());
                to.bytes(&srchost.octets());
                to.half(*dstport);
                to.half(*srcport);
            }
        }
    }
}

fn host(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// What a context is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Service {
    /// What the listener has.
    Unspecified = 0,
    /// A datagram without answer.
    UnacknowledgedDatagram = 1,
    /// A datagram with one.
    AcknowledgedDatagram = 2,
    /// A request and its answer.
    Transaction = 3,
    /// Two streams.
    #[default]
    Stream = 4,
    /// One stream to many, as it may.
    UnacknowledgedMulticast = 5,
    /// One stream to many.
    Multicast = 6,
}

impl Service {
    fn parse(bits: u8) -> Result<Service, Error> {
        use Service::{
            AcknowledgedDatagram, Multicast, Stream, Transaction, UnacknowledgedDatagram,
            UnacknowledgedMulticast, Unspecified,
        };
        [
            Unspecified,
            UnacknowledgedDatagram,
            AcknowledgedDatagram,
            Transaction,
            Stream,
            UnacknowledgedMulticast,
            Multicast,
        ]
        .into_iter()
        .find(|service| *service as u8 == bits)
        .ok_or(value("service", bits.into()))
    }

    /// One of those to a group.
    pub const fn is_multicast(self) -> bool {
        matches!(self, Service::UnacknowledgedMulticast | Service::Multicast)
    }
}

/// What traffic format 1 says, as it is on the wire: of all but `maxdata` 0 and all ones are no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The largest dlen that is taken; 0 says nothing.
    pub maxdata: u32,
    /// Bytes a second to be sent at most to who says this.
    pub inrate: u32,
    /// Bytes at once to be sent at most to who says this.
    pub inburst: u32,
    /// Bytes a second that are sent at most by who says this.
    pub outrate: u32,
    /// Bytes at once that are sent at most by who says this.
    pub outburst: u32,
}

impl Limits {
    /// The largest dlen that is taken.
    pub const fn dlen_max(&self) -> u32 {
        if self.maxdata == 0 { MAXDATA_UNSAID } else { self.maxdata }
    }
}

/// A traffic segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What the context is for.
    pub service: Service,
    /// Format 1, or format 0, which says nothing more.
    pub limits: Option<Limits>,
}

impl Traffic {
    /// Takes a segment off the front of `bytes`, which lies `before` bytes behind the packet's front.
    ///
    /// # Errors
    /// `Truncated`; `Length` of tlen; `Value` of tformat, service, traffic and maxdata.
    pub(super) fn take(bytes: &mut &[u8], before: usize) -> Result<Traffic, Error> {
        let [t0, t1, service, tformat] = *take::<HEAD_LEN>(bytes, before)?;
        let before = before + HEAD_LEN;
        let tlen = usize::from(u16::from_be_bytes([t0, t1]));
        let expected = match tformat {
            0 => 8,
            1 => 24,
            _ => return Err(value("tformat", tformat.into())),
        };
        if tlen != expected {
            return Err(length("tlen", tlen));
        }
        let service = Service::parse(service)?;
        let limits = if tformat == 0 {
            let traffic = word(take::<4>(bytes, before)?, 0);
            if traffic != 0 {
                return Err(value("traffic", traffic));
            }
            None
        } else {
            let fields = take::<20>(bytes, before)?;
            let [maxdata, inrate, inburst, outrate, outburst] =
                [0, 4, 8, 12, 16].map(|at| word(fields, at));
            if (1..MAXDATA_MIN).contains(&maxdata) {
                return Err(value("maxdata", maxdata));
            }
            Some(Limits { maxdata, inrate, inburst, outrate, outburst })
        };
        Ok(Traffic { service, limits })
    }

    /// Bytes of the segment.
    pub const fn emit_len(&self) -> usize {
        if self.limits.is_some() { 24 } else { 8 }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.half(self.emit_len() as u16);
        to.bytes(&[self.service as u8, self.limits.is_some().into()]);
        match self.limits {
            None => to.word(0),
            Some(Limits { maxdata, inrate, inburst, outrate, outburst }) => {
                for field in [maxdata, inrate, inburst, outrate, outburst] {
                    to.word(field);
                }
            }
        }
    }
}
