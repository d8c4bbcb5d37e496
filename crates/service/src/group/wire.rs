//! What stands before each ADU to the group, and what a receiver's session carries.
//!
//! ```text
//! to the group, in a record of its stream's key
//!  0        1               4               8                               16
//! +--------+---------------+---------------+-------------------------------+----------
//! | number | 0             | index         | when it was sent, in µs       | the ADU …
//! +--------+---------------+---------------+-------------------------------+----------
//! receiver ─▶ sender   1, 0 (7)   its key in the group (8)
//! receiver ─▶ sender   4, 0 (7)   it hears both streams
//! sender ─▶ receiver   2, family (1), port (2), ports that the two streams come from (2 each)   address (16)
//!                      keys of the two streams (8 each)
//! sender ─▶ receiver   3, 0 (1), cipher (2), epochs of the two streams (4 each), 0 (4)   where they began (8 each)
//!                      their secrets (32 each)
//! ```
//! Numbers are big-endian. `index` counts the ADUs of a type; the time is of the sender's clock. Everything here comes from the
//! network: parsers are total.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fusewire_base::Instant;
use fusewire_codec::pipeline::{Marshal, Sealing};
use fusewire_session::Cipher;
use fusewire_session::group::GroupKey;
use zeroize::Zeroizing;

/// Bytes before an ADU: a multiple of what arrays of its type are aligned to.
pub(super) const HEAD_LEN: usize = 16;
/// Bytes of the longest message of a session.
pub(super) const TOLD_MAX: usize = KEYS_LEN;
const JOIN_LEN: usize = 16;
const WELCOME_LEN: usize = 40;
const KEYS_LEN: usize = 96;
const JOIN: u8 = 1;
const WELCOME: u8 = 2;
const KEYS: u8 = 3;

/// What a receiver says when it hears both streams.
pub(super) const READY: [u8; 8] = [4, 0, 0, 0, 0, 0, 0, 0];

/// A number of eight bytes at a place where they are.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// What stands before an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub number: u8,
    pub index: u32,
    pub sent: Instant,
}

impl Head {
    fn emit(self) -> [u8; HEAD_LEN] {
        let (Head { number, index, sent }, mut head) = (self, [0; HEAD_LEN]);
        head[0] = number;
        head[4..8].copy_from_slice(&index.to_be_bytes());
        head[8..].copy_from_slice(&(sent.as_ns() / 1000).to_be_bytes());
        head
    }

    /// Of what a member sealed: the head, and the ADU.
    pub fn parse(body: &[u8]) -> Option<(Head, &[u8])> {
        let (head, adu) = body.split_first_chunk::<HEAD_LEN>()?;
        let [number, 0, 0, 0, index @ ..] = *head else { return None };
        let index = u32::from_be_bytes(*index.first_chunk()?);
        let sent = Instant::from_ns(u64_at(head, 8).checked_mul(1000)?);
        Some((Head { number, index, sent }, adu))
    }
}

/// An ADU behind its head.
pub(super) struct Headed<'m, M: ?Sized> {
    head: [u8; HEAD_LEN],
    message: &'m M,
}

impl<'m, M: ?Sized> Headed<'m, M> {
    pub fn new(head: Head, message: &'m M) -> Headed<'m, M> {
        Headed { head: head.emit(), message }
    }
}

impl<M: Marshal + ?Sized> Marshal for Headed<'_, M> {
    #[inline]
    fn marshalled_len(&self) -> usize {
        HEAD_LEN + self.message.marshalled_len()
    }

    #[inline]
    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&self.head);
        self.message.marshal(to);
    }
}

/// What a receiver says: under this key the group's packets know it.
pub(super) fn join(key: u64) -> [u8; JOIN_LEN] {
    let mut message = [0; JOIN_LEN];
    message[0] = JOIN;
    message[8..].copy_from_slice(&key.to_be_bytes());
    message
}

/// The key, if it is such a message and may be one.
pub(super) fn parse_join(message: &[u8]) -> Option<u64> {
    let [JOIN, 0, 0, 0, 0, 0, 0, 0, key @ ..] = message else { return None };
    let key = u64::from_be_bytes(key.try_into().ok()?);
    (key != 0 && key >> 63 == 0).then_some(key)
}

/// Where the group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    /// Of what is sent again; what is not has the next port.
    pub group: SocketAddr,
    /// Keys of the two streams; 0: there is none.
    pub streams: [u64; 2],
    /// The sender's ports that they come from, at the address of its sessions.
    pub ports: [u16; 2],
}

impl Welcome {
    pub fn emit(&self) -> [u8; WELCOME_LEN] {
        let mut message = [0; WELCOME_LEN];
        message[0] = WELCOME;
        let ports = [self.group.port(), self.ports[0], self.ports[1]];
        for (place, port) in message[2..8].as_chunks_mut().0.iter_mut().zip(ports) {
            *place = port.to_be_bytes();
        }
        match self.group.ip() {
            IpAddr::V4(ip) => {
                message[1] = 4;
                message[8..12].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                message[1] = 6;
                message[8..24].copy_from_slice(&ip.octets());
            }
        }
        for (place, key) in message[24..].as_chunks_mut().0.iter_mut().zip(self.streams) {
            *place = key.to_be_bytes();
        }
        message
    }

    /// Of a group that there can be.
    pub fn parse(message: &[u8]) -> Option<Welcome> {
        let message: &[u8; WELCOME_LEN] = message.try_into().ok()?;
        let [WELCOME, family, high, low, ..] = *message else { return None };
        let port = u16::from_be_bytes([high, low]);
        let ports = [4, 6].map(|at| u16::from_be_bytes([message[at], message[at + 1]]));
        let octets: [u8; 16] = message[8..].first_chunk().copied()?;
        let ip: IpAddr = match (family, octets) {
            (4, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) => {
                Ipv4Addr::new(a, b, c, d).into()
            }
            (6, octets) => octets.into(),
            _ => return None,
        };
        let streams = [u64_at(message, 24), u64_at(message, 32)];
        let is_one = ip.is_multicast() && port != 0 && port != u16::MAX && streams != [0, 0];
        is_one.then(|| Welcome { group: SocketAddr::new(ip, port), streams, ports })
    }
}

/// The keys of now: each of the two streams has epochs of its own.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub epochs: [GroupKey; 2],
    /// The streams' offsets where those began: nothing behind them is sealed with older keys.
    pub begins: [u64; 2],
}

impl Keys {
    pub fn emit(&self) -> Zeroizing<[u8; KEYS_LEN]> {
        let mut message = Zeroizing::new([0; KEYS_LEN]);
        message[0] = KEYS;
        message[2..4].copy_from_slice(&self.epochs[0].cipher.code());
        for (place, key) in message[4..12].as_chunks_mut().0.iter_mut().zip(&self.epochs) {
            *place = key.epoch.to_be_bytes();
        }
        for (place, begins) in message[16..32].as_chunks_mut().0.iter_mut().zip(self.begins) {
            *place = begins.to_be_bytes();
        }
        for (place, key) in message[32..].as_chunks_mut().0.iter_mut().zip(&self.epochs) {
            *place = *key.secret();
        }
        message
    }

    /// Of a cipher that has tags.
    pub fn parse(message: &[u8]) -> Option<Keys> {
        let message: &[u8; KEYS_LEN] = message.try_into().ok()?;
        let [KEYS, 0, id, parameter, _, _, _, _, _, _, _, _, 0, 0, 0, 0, ..] = *message else {
            return None;
        };
        let cipher = Cipher::from_code([id, parameter]).filter(|cipher| !cipher.is_insecure())?;
        let (epochs, secrets) = (message[4..12].as_chunks().0, message[32..].as_chunks().0);
        let key = |at: usize| GroupKey::new(u32::from_be_bytes(epochs[at]), cipher, secrets[at]);
        let begins = [16, 24].map(|at| u64_at(message, at));
        Some(Keys { epochs: [0, 1].map(key), begins })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        let streams = [7, 1 << 62];
        let welcome =
            |group: &str| Welcome { group: group.parse().unwrap(), streams, ports: [8, 9] };
        for group in ["239.1.2.3:9000", "[ff15::7]:9000"] {
            assert_eq!(Welcome::parse(&welcome(group).emit()), Some(welcome(group)));
        }
        for group in ["192.0.2.1:9000", "239.1.2.3:0", "239.1.2.3:65535"] {
            assert_eq!(Welcome::parse(&welcome(group).emit()), None, "{group}");
        }
        assert_eq!(parse_join(&join(5)), Some(5));
        assert_eq!([0, 1 << 63].map(|key| parse_join(&join(key))), [None, None]);
        let keys = [(9, [1; 32]), (1 << 30, [2; 32])];
        let key = |(epoch, secret)| GroupKey::new(epoch, Cipher::AES_128_GCM, secret);
        let begins = [1 << 40, 3];
        let heard = Keys::parse(&*Keys { epochs: keys.map(key), begins }.emit()).unwrap();
        assert_eq!(heard.epochs.map(|key| (key.epoch, *key.secret())), keys);
        assert_eq!(heard.begins, begins);
        let head = Head { number: 3, index: 8, sent: Instant::from_us(77) };
        let body = [&head.emit()[..], b"adu"].concat();
        assert_eq!(Head::parse(&body), Some((head, &b"adu"[..])));
    }

    /// Every length, and every byte set to another: nothing panics, and what is another is not taken for what was said.
    #[test]
    fn what_is_not_whole_is_nothing() {
        let key = |secret| GroupKey::new(9, Cipher::AES_128_GCM, secret);
        let keys = Keys { epochs: [[1; 32], [2; 32]].map(key), begins: [3, 4] };
        let group = "239.1.2.3:9000".parse().unwrap();
        let welcome = Welcome { group, streams: [7, 8], ports: [1, 2] }.emit();
        for message in [&join(5)[..], &welcome, &*keys.emit()] {
            for len in 0..message.len() {
                let short = &message[..len];
                assert!(parse_join(short).is_none() && Keys::parse(short).is_none());
                assert!(Welcome::parse(short).is_none());
            }
            for at in 0..message.len() {
                for byte in 0..=255 {
                    let mut other = message.to_vec();
                    other[at] = byte;
                    let taken = [
                        parse_join(&other).is_some(),
                        Keys::parse(&other).is_some(),
                        Welcome::parse(&other).is_some(),
                    ];
                    assert!(taken.iter().filter(|is| **is).count() <= 1);
                }
            }
        }
        let body = Head { number: 3, index: 8, sent: Instant::ZERO }.emit();
        assert!((0..HEAD_LEN).all(|len| Head::parse(&body[..len]).is_none()));
        let mut far = body;
        far[8..].fill(255);
        assert_eq!(Head::parse(&far), None, "a time that no clock has");
    }
}
