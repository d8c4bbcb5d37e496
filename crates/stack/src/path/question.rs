//! What two ends say of the path between them: questions and answers (`docs/encapsulation.md`, section 4).
//!
//! Both are TPDUs that are no segments of a stream ([`Probe`](fusewire_transport::machine::Probe)). They carry a
//! nonce that nobody foretells; the tag is under a key that only the two ends of the session have, a key for each.

use std::net::{IpAddr, SocketAddr};

use fusewire_session::{Draws, Exporter, MacKey, Side, TAG_LEN};
use fusewire_transport::machine::{Header as _, Says};

use crate::machine::Header;

/// Bytes of an address: 16 of IPv6 (IPv4 mapped: RFC 4291, section 2.5.5.2), 2 of the port.
const ADDRESS_LEN: usize = 18;
/// Bytes of a question's payload, but for what fills it up.
pub const QUESTION_LEN: usize = 2 + ADDRESS_LEN + TAG_LEN;
/// Bytes of an answer's payload.
pub const ANSWER_LEN: usize = 2 + TAG_LEN;
/// Bytes of a question's TPDU: less than three times the shortest segment, so that one segment from a new
/// address is enough for one question there.
pub const QUESTION_TPDU_LEN: usize = Header::LEN_MIN + QUESTION_LEN;
const _: () = assert!(QUESTION_TPDU_LEN <= 3 * Header::LEN_MIN && ANSWER_LEN < QUESTION_LEN);

/// What is asked. An answer to one is none to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Did so large a datagram get through?
    Size = 1,
    /// Are you at this address now?
    New = 2,
    /// Are you still at this address?
    Old = 3,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Size, Kind::New, Kind::Old].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// An address as whoever asks knows it: behind a translation the other end does not know it itself.
fn address(of: SocketAddr) -> [u8; ADDRESS_LEN] {
    let ip = match of.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS_LEN];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&of.port().to_be_bytes());
    bytes
}

/// What a tag is over.
fn message(says: Says, kind: u8, nonce: u64, address: &[u8; ADDRESS_LEN]) -> [u8; 28] {
    let mut bytes = [0; 28];
    (bytes[0], bytes[1]) = (says as u8, kind);
    bytes[2..10].copy_from_slice(&nonce.to_be_bytes());
    bytes[10..].copy_from_slice(address);
    bytes
}

/// The keys of one session: of what we say of the path, and of what the peer says.
#[derive(Debug)]
pub struct Keys {
    own: MacKey,
    peer: MacKey,
}

impl Keys {
    /// Of the end that is `side`.
    pub fn new(exporter: &Exporter, side: Side) -> Keys {
        let [client, server] = [b"path of the client", b"path of the server"]
            .map(|label| exporter.mac_key(label, b""));
        match side {
            Side::Client => Keys { own: client, peer: server },
            Side::Server => Keys { own: server, peer: client },
        }
    }

    /// Of a context without a session, whose keys are all that its ends have in common (`docs/xtp.md`, section 14): ours and
    /// the peer's. Who sees its packets can make them, too.
    pub fn of_context(own: u64, peer: u64) -> Keys {
        let key = |from: u64, to: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&from.to_be_bytes());
            bytes[8..16].copy_from_slice(&to.to_be_bytes());
            MacKey::new(&bytes)
        };
        Keys { own: key(own, peer), peer: key(peer, own) }
    }

    /// The payload of a question to `to`.
    pub fn question(&self, kind: Kind, nonce: u64, to: SocketAddr) -> [u8; QUESTION_LEN] {
        let (address, mut bytes) = (address(to), [0; QUESTION_LEN]);
        bytes[0] = kind as u8;
        bytes[2..20].copy_from_slice(&address);
        bytes[20..].copy_from_slice(&self.own.tag(&message(
            Says::Question,
            kind as u8,
            nonce,
            &address,
        )));
        bytes
    }

    /// The payload of the answer to a question, if the peer asked it.
    pub fn answer(&self, nonce: u64, question: &[u8]) -> Option<[u8; ANSWER_LEN]> {
        let question: &[u8; QUESTION_LEN] = question.first_chunk()?;
        let kind = Kind::from_byte(question[0]).filter(|_| question[1] == 0)? as u8;
        let address: &[u8; ADDRESS_LEN] = question[2..20].first_chunk()?;
        let tag: &[u8; TAG_LEN] = question[20..].first_chunk()?;
        if !self.peer.verify(&message(Says::Question, kind, nonce, address), tag) {
            return None;
        }
        let mut bytes = [0; ANSWER_LEN];
        bytes[0] = kind;
        bytes[2..].copy_from_slice(&self.own.tag(&message(Says::Answer, kind, nonce, address)));
        Some(bytes)
    }

    /// Whether the peer gave this answer to the question `kind` of `nonce`, which went to `asked`.
    pub fn verify(&self, kind: Kind, nonce: u64, asked: SocketAddr, answer: &[u8]) -> bool {
        let Some((head, tag)) = answer.split_first_chunk::<2>() else { return false };
        let Ok(tag) = <&[u8; TAG_LEN]>::try_from(tag) else { return false };
        let message = message(Says::Answer, kind as u8, nonce, &address(asked));
        *head == [kind as u8, 0] && self.peer.verify(&message, tag)
    }
}

/// Where nonces come from. One draw tells nothing of another, whatever it is for; questions of size, which
/// the peer and everybody on the way see, are drawn from another source than those that say who is where.
#[derive(Debug)]
pub struct Nonces {
    sizes: Draws,
    moves: Draws,
}

impl Nonces {
    /// From secret random bytes.
    pub fn new(seed: &[u8; 32]) -> Nonces {
        Nonces { sizes: Draws::new(seed, b"path size"), moves: Draws::new(seed, b"path move") }
    }

    /// A nonce for one question.
    pub fn draw(&mut self, kind: Kind) -> u64 {
        match kind {
            Kind::Size => self.sizes.draw(),
            Kind::New | Kind::Old => self.moves.draw(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The keys of both ends of a session that is made for a test: the client's and the server's.
    pub fn pair(secret: u8) -> (Keys, Keys) {
        let key = |side: u8| MacKey::new(&[secret ^ side; 32]);
        (Keys { own: key(0), peer: key(0x80) }, Keys { own: key(0x80), peer: key(0) })
    }

    const X: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

    #[test]
    fn an_answer_is_of_one_question_and_of_the_peer_alone() {
        let (client, server) = pair(1);
        let question = client.question(Kind::New, 99, X);
        let answer = server.answer(99, &question).expect("an honest question");
        assert!(client.verify(Kind::New, 99, X, &answer));
        // Of another nonce, at another address; `path::tests` forges everything else.
        assert!(!client.verify(Kind::New, 98, X, &answer));
        for other in ["127.0.0.1:8", "127.0.0.2:7", "[::1]:7"] {
            assert!(!client.verify(Kind::New, 99, other.parse().unwrap(), &answer));
        }
        // Mapped or not, an address is one.
        assert!(client.verify(Kind::New, 99, "[::ffff:127.0.0.1]:7".parse().unwrap(), &answer));
        assert!(!client.verify(Kind::New, 99, X, &[&answer[..], &[0]].concat()), "longer");
        assert!(!server.verify(Kind::New, 99, X, &answer), "its own");
    }

    #[test]
    fn only_the_peers_questions_are_answered() {
        let (client, server) = pair(1);
        let question = client.question(Kind::Size, 5, X);
        assert!(server.answer(5, &[&question[..], &[0; 1000]].concat()).is_some());
        assert!(server.answer(6, &question).is_none(), "another nonce");
        assert!(client.answer(5, &question).is_none(), "our own, sent back");
        assert!(pair(2).1.answer(5, &question).is_none(), "another session's");
        for len in 0..QUESTION_LEN {
            assert!(server.answer(5, &question[..len]).is_none());
        }
        for bit in 0..8 * QUESTION_LEN {
            let mut other = question;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(server.answer(5, &other).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let (client, server) = pair(1);
        let question = client.question(Kind::Old, 0x0102_0304_0506_0708, X);
        let place = [&[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1], &[0, 7]].concat();
        assert_eq!(question[..20], [&[3, 0][..], &place[..]].concat());
        let nonce = [1, 2, 3, 4, 5, 6, 7, 8];
        let tag = |key: u8, says: u8| {
            MacKey::new(&[key; 32]).tag(&[&[says, 3][..], &nonce, &place].concat())
        };
        assert_eq!(question[20..], tag(1, 1));
        let answer = server.answer(0x0102_0304_0506_0708, &question).unwrap();
        assert_eq!(answer[..], [&[3, 0][..], &tag(0x81, 2)[..]].concat());
    }

    #[test]
    fn nonces_are_new_and_apart() {
        let mut nonces = Nonces::new(&[1; 32]);
        let mut seen = std::collections::HashSet::new();
        for kind in [Kind::Size, Kind::New, Kind::Old].into_iter().cycle().take(3000) {
            assert!(seen.insert(nonces.draw(kind)));
        }
        // How many sizes were asked says nothing of the nonces of a move.
        let (mut few, mut many) = (Nonces::new(&[1; 32]), Nonces::new(&[1; 32]));
        many.draw(Kind::Size);
        assert_eq!(few.draw(Kind::New), many.draw(Kind::New));
        assert_ne!(few.draw(Kind::New), Nonces::new(&[2; 32]).draw(Kind::New));
    }
}
