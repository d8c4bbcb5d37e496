//! Replies that were sent over a transport that may lose them: a call that comes again is answered with the
//! same reply, and not executed again (RFC 5531, section 4). Bounded: the oldest make room.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;

/// Replies kept at most.
const REPLIES_MAX: usize = 256;
/// Bytes of all of them at most.
const BYTES_MAX: usize = 1 << 20;

/// The replies that were sent last, by who called and all of the call.
#[derive(Debug, Default)]
pub struct Replies {
    /// A keyed hash: nobody can make another's call look like the own.
    key: RandomState,
    replies: HashMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    bytes: usize,
}

impl Replies {
    /// The name of a call.
    pub fn name(&self, peer: Option<SocketAddr>, call: &[u8]) -> u64 {
        self.key.hash_one((peer, call))
    }

    /// The reply to it that was sent already.
    pub fn find(&self, name: u64) -> Option<&[u8]> {
        self.replies.get(&name).map(Vec::as_slice)
    }

    /// Keeps a reply.
    pub fn keep(&mut self, name: u64, reply: &[u8]) {
        if reply.len() > BYTES_MAX / 4 || self.replies.contains_key(&name) {
            return;
        }
        self.bytes += reply.len();
        self.replies.insert(name, reply.to_vec());
        self.order.push_back(name);
        while self.order.len() > REPLIES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.replies.remove(&oldest).map_or(0, |reply| reply.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let mut replies = Replies::default();
        for n in 0..10_000_u64 {
            replies.keep(n, &vec![n as u8; (n % 20_000) as usize]);
            assert!(replies.bytes <= BYTES_MAX && replies.replies.len() <= REPLIES_MAX);
            assert_eq!(replies.find(n).map(<[u8]>::len), Some((n % 20_000) as usize));
        }
        assert_eq!(replies.find(0), None);
        let from = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        assert_ne!(replies.name(from(1), b"x"), replies.name(from(2), b"x"));
    }
}
