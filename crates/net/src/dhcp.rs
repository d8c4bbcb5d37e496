//! The DHCP client (RFC 2131, section 4.4), without I/O.
//!
//! ```text
//!              OFFER              ACK
//!   Selecting ───────▶ Requesting ────▶ Bound ──T1──▶ Renewing ──T2──▶ Rebinding ──expiry──▶ Selecting
//!       ▲ NAK, silence ──┘                ▲ ACK ─────────┴────────────────┘
//!       └──────────── NAK, or the address is somebody's (DECLINE first) ──┘
//! ```

use core::net::Ipv4Addr;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::dhcp::{ClasslessRoutes, Kind, Message, Servers};
use fusewire_wire::ethernet::Address;

use crate::random::Random;

/// First wait for an answer; it doubles each time (RFC 2131, section 4.1).
const FIRST_WAIT: Duration = Duration::from_secs(4);
/// Longest wait for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// Requests without an answer after which another offer is sought.
const REQUESTS_MAX: u8 = 4;
/// Least time between requests to renew (section 4.4.5).
const LEAST_RENEW: Duration = Duration::from_secs(60);
/// Wait after an address was declined (section 3.1, step 5).
const DECLINE_WAIT: Duration = Duration::from_secs(10);
/// Longest wait before the first message (section 4.4.1 asks for up to ten seconds; so much does to spread the
/// clients of a segment).
const START_WAIT: Duration = Duration::from_secs(1);
/// Shortest lease that is taken: a server that gives less keeps the client busy.
const LEAST_LEASE: Duration = Duration::from_secs(10);
/// Least time from a request to the next that a server may ask for, for the same reason.
const LEAST_TIME: Duration = Duration::from_secs(5);

/// An address lent by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Leading bits of its network.
    pub prefix_len: u8,
    /// Who lent it.
    pub server: Ipv4Addr,
    /// Routers, the one to take first.
    pub routers: Servers,
    /// Routes to networks; where there are some, they count in place of `routers` (RFC 3442).
    pub routes: ClasslessRoutes,
    /// Servers of names.
    pub dns: Servers,
    /// The link's MTU, where the server says it.
    pub mtu: Option<u16>,
    /// When the server is asked to go on.
    pub t1: Option<Instant>,
    /// When any server is.
    pub t2: Option<Instant>,
    /// When the lease is over; `None`: never.
    pub until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Selecting,
    Requesting { address: Ipv4Addr, server: Ipv4Addr },
    Bound,
    Renewing,
    Rebinding,
}

/// What a message or time has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Nothing,
    /// The message is not the answer to us.
    Ignored,
    /// The lease is there, or goes on.
    Bound(Lease),
    /// The lease is over.
    Lost(Lease),
}

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub message: Message,
    /// From the leased address to the server; otherwise from nobody to all.
    pub unicast: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// The client.
#[derive(Debug)]
pub(crate) struct Dhcp {
    state: State,
    mac: Address,
    xid: u32,
    began: Instant,
    next: Option<Instant>,
    tries: u8,
    asked: Instant,
    lease: Option<Lease>,
    declines: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Dhcp {
    pub fn new(now: Instant, mac: Address, random: &mut Random) -> Dhcp {
        let mut dhcp = Dhcp {
            state: State::Selecting,
            mac,
            xid: 0,
            began: now,
            next: None,
            tries: 0,
            asked: now,
            lease: None,
            declines: None,
        };
        dhcp.select(now + random.between(Duration::ZERO, START_WAIT), random);
        dhcp
    }

    /// The lease that is in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The host is without an address: messages to it may come to any.
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Selecting | State::Requesting { .. })
    }

    fn select(&mut self, at: Instant, random: &mut Random) {
        self.state = State::Selecting;
        self.lease = None;
        self.begin(at, random);
    }

    fn begin(&mut self, at: Instant, random: &mut Random) {
        self.xid = random.bits() as u32;
        self.began = at;
        self.tries = 0;
        self.next = Some(at);
    }

    /// The wait after the try of that number, a second more or less.
    fn wait(&self, random: &mut Random) -> Duration {
        let wait = FIRST_WAIT.saturating_mul(1 << self.tries.min(5)).min(LONGEST_WAIT);
        let second = Duration::from_secs(1);
        random.between(wait - second, wait + second)
    }

    /// A message from a server, whose checksum is right.
    pub fn handle(&mut self, now: Instant, message: &Message, random: &mut Random) -> Outcome {
        let ours = message.is_reply()
            && message.xid == self.xid
            && message.chaddr == self.mac
            && self.tries > 0;
        if !ours {
            return Outcome::Ignored;
        }
        match (self.state, message.kind) {
            (State::Selecting, Kind::Offer) => {
                let Some(server) = message.server.filter(|_| is_host(message.yours)) else {
                    return Outcome::Ignored;
                };
                self.state = State::Requesting { address: message.yours, server };
                self.tries = 0;
                self.next = Some(now);
                Outcome::Nothing
            }
            (State::Requesting { address, server }, Kind::Ack)
                if message.server.is_none_or(|s| s == server) && message.yours == address =>
            {
                self.bind(message, server)
            }
            (State::Renewing | State::Rebinding, Kind::Ack) => match self.lease {
                Some(lease) if message.yours == lease.address => {
                    self.bind(message, message.server.unwrap_or(lease.server))
                }
                _ => Outcome::Ignored,
            },
            (State::Requesting { server, .. }, Kind::Nak)
                if message.server.is_none_or(|s| s == server) =>
            {
                self.lost(now, random)
            }
            (State::Renewing | State::Rebinding, Kind::Nak) => self.lost(now, random),
            _ => Outcome::Ignored,
        }
    }

    fn lost(&mut self, now: Instant, random: &mut Random) -> Outcome {
        let lease = self.lease;
        self.select(now, random);
        lease.map_or(Outcome::Nothing, Outcome::Lost)
    }

    /// Times count from when the request was sent (section 4.4.1).
    fn bind(&mut self, message: &Message, server: Ipv4Addr) -> Outcome {
        let length = match message.lease_s {
            None => return Outcome::Ignored,
            Some(u32::MAX) => None,
            Some(s) => Some(Duration::from_secs(s.into()).max(LEAST_LEASE)),
        };
        let said =
            |s: Option<u32>| s.map(|s| Duration::from_secs(s.into())).filter(|s| *s >= LEAST_TIME);
        // Section 4.4.5: half of the lease, and seven eighths.
        let t2 = length.map(|l| said(message.t2_s).filter(|t| *t < l).unwrap_or(l / 8 * 7));
        let t1 = t2
            .zip(length)
            .map(|(t2, l)| said(message.t1_s).filter(|t| *t < t2).unwrap_or((l / 2).min(t2)));
        let after = |d: Option<Duration>| d.map(|d| self.asked + d);
        let lease = Lease {
            address: message.yours,
            prefix_len: message.prefix_len.unwrap_or(classful(message.yours)),
            server,
            routers: message.routers,
            routes: message.routes,
            dns: message.dns,
            mtu: message.mtu,
            t1: after(t1),
            t2: after(t2),
            until: after(length),
        };
        self.state = State::Bound;
        self.lease = Some(lease);
        self.next = None;
        self.tries = 0;
        Outcome::Bound(lease)
    }

    /// Another host has the address: the server is told, and asked for another one.
    pub fn decline(&mut self, now: Instant, random: &mut Random) {
        let Some(lease) = self.lease else { return };
        self.declines = Some((lease.address, lease.server));
        self.select(now + DECLINE_WAIT, random);
    }

    /// The message to be sent now, if any.
    pub fn poll_transmit(&mut self, now: Instant, random: &mut Random) -> Option<Outgoing> {
        let secs = (now - self.began).as_secs().min(u64::from(u16::MAX)) as u16;
        if let Some((address, server)) = self.declines.take() {
            let message = Message {
                requested: Some(address),
                server: Some(server),
                ..Message::new(Kind::Decline, random.bits() as u32, self.mac)
            };
            return Some(Outgoing { message, unicast: None });
        }
        if self.next.is_none_or(|at| at > now) {
            return None;
        }
        let kind = match self.state {
            State::Selecting => Kind::Discover,
            _ => Kind::Request,
        };
        let mut message = Message { secs, ..Message::new(kind, self.xid, self.mac) };
        let mut unicast = None;
        let mut wait = self.wait(random);
        match self.state {
            State::Selecting => {}
            State::Requesting { .. } if self.tries == REQUESTS_MAX => {
                self.select(now, random);
                return self.poll_transmit(now, random);
            }
            State::Requesting { address, server } => {
                message.requested = Some(address);
                message.server = Some(server);
            }
            State::Bound => {
                self.next = None;
                return None;
            }
            State::Renewing | State::Rebinding => {
                let lease = self.lease?;
                message.client = lease.address;
                let renewing = matches!(self.state, State::Renewing);
                unicast = renewing.then_some((lease.address, lease.server));
                let end = if renewing { lease.t2 } else { lease.until };
                wait = end.map_or(LEAST_RENEW, |end| (end - now) / 2).max(LEAST_RENEW);
            }
        }
        self.tries = self.tries.saturating_add(1);
        self.asked = now;
        self.next = Some(now + wait);
        Some(Outgoing { message, unicast })
    }

    /// The message of the last [`Dhcp::poll_transmit`] could not go yet.
    pub fn postpone(&mut self, now: Instant) {
        self.next = Some(now + Duration::from_secs(1));
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant, random: &mut Random) -> Outcome {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let Some(lease) = self.lease else { return Outcome::Nothing };
        if due(lease.until) {
            return self.lost(now, random);
        }
        let rebinds = matches!(self.state, State::Bound | State::Renewing);
        if due(lease.t2) && rebinds {
            self.state = State::Rebinding;
            self.begin(now, random);
        } else if due(lease.t1) && matches!(self.state, State::Bound) {
            self.state = State::Renewing;
            self.begin(now, random);
        }
        Outcome::Nothing
    }

    /// When something is to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let lease = self.lease.and_then(|lease| match self.state {
            State::Bound => lease.t1,
            State::Renewing => lease.t2,
            _ => lease.until,
        });
        let declines = self.declines.map(|_| Instant::ZERO);
        [self.next, lease, declines].into_iter().flatten().min()
    }
}

/// An address that a host can have.
fn is_host(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// The network's length when a server does not say it (RFC 1122, section 3.2.1.3).
fn classful(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}
