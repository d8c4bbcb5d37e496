//! XTP straight over IP, as protocol 36 (`docs/xtp.md`, section 14): a socket has all of it that is sent to an address.
//! Its packets are handled as UDP's datagrams are, without ports and without a checksum here: theirs is in what they
//! carry, and whoever reads it verifies it.
//!
//! What ICMP says of a packet is believed when it quotes the key of one that left: who has not seen it would have to guess
//! 63 bits (RFC 5927, section 4, asks no more than TCP's 32).

use std::net::{IpAddr, SocketAddr};

use fusewire_base::Instant;
use fusewire_net::{Cast, Datagram, MembershipChange, PathError};
use fusewire_wire::xtp;

use super::config::{Error, Event, Result, SocketId};
use super::input::Direct;
use super::sharing::{Claim, Sharing};
use super::stack::{Core, Stack};
use super::table::Protocol;
use super::udp::{Incoming, Messages, UdpState};
use crate::drops::Cause;

/// Keys that are remembered.
const KEYS: usize = 256;

/// Keys of packets that left, and where they went: the last with each low byte.
#[derive(Debug)]
pub struct Keys([Option<(IpAddr, [u8; 8])>; KEYS]);

impl Keys {
    fn new() -> Box<Keys> {
        Box::new(Keys([None; KEYS]))
    }

    #[inline]
    fn note(&mut self, peer: IpAddr, key: [u8; 8]) {
        self.0[usize::from(key[7])] = Some((peer, key));
    }

    fn has(&self, peer: IpAddr, key: [u8; 8]) -> bool {
        self.0[usize::from(key[7])] == Some((peer, key))
    }
}

impl UdpState {
    /// A packet with this header leaves for `peer`.
    #[inline]
    pub fn note_key(&mut self, peer: IpAddr, header: &[u8]) {
        if let (Some(keys), Some(key)) = (&mut self.keys, header.first_chunk()) {
            keys.note(peer, *key);
        }
    }
}

impl Stack {
    /// A socket for all of XTP, as protocol 36 of IP, that is sent to `local`. It carries a transport
    /// ([`Stack::udp_carry`]), and the calls on UDP sockets are its own; its peers' names have port 0. An ICMP "too big" is
    /// believed if it quotes the key of a packet that left.
    ///
    /// # Errors
    /// [`Error::InUse`], when somebody has it already; [`Error::NotOurs`], [`Error::Denied`], [`Error::TooManySockets`].
    pub fn xtp_bind(&mut self, local: IpAddr) -> Result<SocketId> {
        let local = SocketAddr::new(local, 0);
        self.reserve_whole(Protocol::Xtp, Claim { local, sharing: Sharing::default() })?;
        let id = self.bind_datagrams(Protocol::Xtp, local)?;
        let socket = self.core.table.udp(id)?;
        socket.keys = Some(Keys::new());
        self.core.speak_xtp();
        self.udp_carry(id)?;
        Ok(id)
    }

    /// The socket takes what is sent to `group`, too. Beside the kernel that joins it and tells routers.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is no group, or there is no room for another; beside the kernel [`Error::Denied`],
    /// [`Error::NotOurs`], [`Error::TooManySockets`].
    pub fn xtp_join(&mut self, now: Instant, id: SocketId, group: IpAddr) -> Result<()> {
        self.core.table.udp(id)?;
        let joined =
            self.core.layer.change_membership(now, id.index, group, MembershipChange::Join);
        joined.map_err(Error::Misuse)?;
        self.core.layer_speaks = true;
        self.join_beside(group)
    }
}

impl Core {
    /// Lets the IP layer know whether it is spoken.
    pub(super) fn speak_xtp(&mut self) {
        self.layer.speak(xtp::NUMBER, !self.table.bound(Protocol::Xtp, 0).is_empty());
    }

    /// A packet of XTP.
    pub(super) fn xtp_input(
        &mut self,
        now: Instant,
        frame: &[u8],
        datagram: &Datagram,
        bytes: &[u8],
        direct: &mut Direct<'_>,
    ) {
        let messages = Messages {
            from: SocketAddr::new(datagram.source, 0),
            to: datagram.destination,
            is_shared: datagram.cast != Cast::Unicast,
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            bytes,
            message_len: bytes.len().max(1),
        };
        let incoming = Incoming { messages, head: None };
        if datagram.cast != Cast::Unicast {
            return self.xtp_deliver_to_all(&incoming, direct);
        }
        match self.best_fit(Protocol::Xtp, 0, &incoming) {
            Ok(index) => self.udp_deliver(index, &incoming, direct),
            _ => self.stray(now, Cause::XtpStray, "XTP is not spoken there", frame, datagram),
        }
    }

    /// To a group: every socket that has joined it. Nobody is told that none has.
    fn xtp_deliver_to_all(&mut self, incoming: &Incoming<'_>, direct: &mut Direct<'_>) {
        let Messages { to, from, .. } = incoming.messages;
        let mut delivered = false;
        for at in 0..self.table.bound(Protocol::Xtp, 0).len() {
            let index = self.table.bound(Protocol::Xtp, 0)[at];
            if self.layer.is_listening(index, to, from.ip()) {
                delivered = true;
                self.udp_deliver(index, incoming, direct);
            }
        }
        if !delivered {
            self.dropped(Cause::XtpStray);
        }
    }

    /// The socket from which a packet left that an ICMP error quotes.
    pub(super) fn xtp_sender(&self, error: &PathError) -> Option<u32> {
        let has = |index: &u32| {
            let keys = self.table.udp_seen(*index).and_then(|socket| socket.keys.as_ref());
            keys.is_some_and(|keys| keys.has(error.remote, error.upper))
        };
        self.table.bound(Protocol::Xtp, 0).iter().copied().find(has)
    }

    /// ICMP says that a packet of ours did not arrive.
    pub(super) fn xtp_failed(&mut self, error: &PathError, what: Error) {
        let Some(index) = self.xtp_sender(error) else { return self.dropped(Cause::IcmpStray) };
        if what == Error::TimedOut {
            return;
        }
        if let Some(socket) = self.table.udp_at(index) {
            socket.fail(SocketAddr::new(error.remote, 0), what);
            self.notify(index, Event::Error);
        }
    }
}
