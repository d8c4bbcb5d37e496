//! ADUs of many types in datagrams beside a session: what comes late is worth nothing, so nothing is sent again, or only as long as
//! it comes in time.
//!
//! ```text
//!  push ──▶ lifetime ──▶ cut ──▶ record ──▶ copies, parity ──▶ bucket ──▶ datagram
//!           (the most important first)    ▲                      ▲
//!                       lost, and in time ┴───────── reports ────┤
//!           target: bits, hz ◀── Adapt ◀── NADA ◀── reports ─────┘
//!  datagram ──▶ record, once ──▶ arrivals, restored ──▶ ADU ──▶ playout ──▶ order ──▶ Event
//! ```
//! An [`End`] does no I/O and reads no clock: give it what came ([`End::handle_datagram`]) and time
//! ([`End::handle_timeout`]), send what it has ([`End::poll_transmit`]), and ask it for events ([`End::poll_event`]). It is generic
//! over a [`Profile`] of constants, and allocates when it is made, and then only where a key epoch of 65,536 packets begins.
//! The keys come from a session ([`Datagrams`]), whatever carries that; [`udp`] puts an end on a socket, and [`session`] both together
//! is what generated ends are made of.

mod again;
mod packet;
mod receiver;
mod sender;
pub mod session;
pub mod udp;
/// What stands beside generated ends; a role or a type of theirs that is called so is in its place.
pub mod ends {
    pub use super::session::{Arrived, Came, Listener, Told};
    pub use crate::{Allow, Error, Fingerprint, Identity, Result, codec};
}

use core::fmt;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_session::Datagrams;
use fusewire_transport::media::{self, Adapt, Made};
use fusewire_wire::feedback;

use crate::lifetime::{Skip, Why};
use crate::profile::{Adapted, Profile};
use receiver::Receiver;
use sender::Sender;

/// Lanes of one direction at most.
pub const LANES_MAX: usize = 127;

/// Why an ADU is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is empty, or longer than its lane's.
    Length,
    /// Nothing that waits is less important.
    Full,
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// An ADU of the peer's.
    Adu {
        /// Its lane, of those that are taken.
        lane: usize,
        /// Its number there.
        number: u64,
        /// Its bytes, until the next event is asked for.
        bytes: &'a [u8],
        /// How long it was on its way, and held, beyond the fastest of its lane.
        behind: Duration,
        /// It came after its deadline.
        is_late: bool,
    },
    /// These will not come.
    Gap(Skip),
    /// One came after its deadline, and was dropped.
    Late {
        /// Its lane.
        lane: usize,
        /// Its number.
        number: u64,
    },
    /// One of one's own was not sent, or not all of it; or it was lost, and could not be sent again in time.
    Lost {
        /// Its lane, of those that are sent.
        lane: usize,
        /// Its number.
        number: u64,
        /// Why.
        why: Why,
    },
    /// What to make of this lane from now on.
    Target {
        /// The lane.
        lane: usize,
        /// As much.
        made: Made,
    },
    /// Nothing is sent any more (RFC 8083, RFC 8084), until [`End::close_breaker`].
    Tripped(media::Cause),
}

/// What became of datagrams and ADUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that were sent; and their bytes, headers of IP and UDP included.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Of them, copies and parity.
    pub sent_correction_bytes: u64,
    /// Packets that were sent again.
    pub sent_again: u64,
    /// Packets that came and were opened.
    pub opened: u64,
    /// Packets that came and were none, or had come before.
    pub refused: u64,
    /// Packets that came back from others.
    pub restored: u64,
    /// ADUs that were delivered.
    pub delivered: u64,
    /// ADUs that were late.
    pub late: u64,
    /// ADUs of which a part did not come before others took their place.
    pub incomplete: u64,
    /// Pieces of ADUs that came while all of their lane's window waited to be asked for, or had newer ones.
    pub no_room: u64,
}

/// One end of a session's datagrams.
pub struct End<P> {
    sender: Sender<P>,
    receiver: Receiver<P>,
    adapt: Option<(usize, Adapt)>,
    made: Option<Made>,
    is_tripped: bool,
}

/// A target is told anew when it has moved by this share.
const MOVED: f64 = 0.02;

impl<P: Profile> End<P> {
    /// An end of the session that these are of. The peer's must have the same constants, which nothing here compares: ends
    /// of one specification do so in their handshake.
    ///
    /// # Errors
    /// [`Misuse::BodyTooLong`](fusewire_session::Misuse::BodyTooLong): the peer takes no records as long as the profile's datagrams.
    ///
    /// # Panics
    /// If the profile has more lanes than [`LANES_MAX`], a lane has a length that is zero or takes more than 255 packets, one
    /// that is copied takes more than one, or a datagram has no room for what is around a piece.
    pub fn new(now: Instant, datagrams: Datagrams) -> Result<End<P>, fusewire_session::Error> {
        const { assert!(P::RATES.0 > 0 && P::RATES.0 <= P::RATES.1, "a profile of datagrams has rates") };
        let Datagrams { id, sender, receiver } = datagrams;
        assert!(P::SENDS.len() <= LANES_MAX && P::TAKES.len() <= LANES_MAX);
        let adapts = P::SENDS.iter().enumerate().find_map(|(at, lane)| {
            let Adapted { bits, hz, order } = lane.adapted?;
            Some((at, Adapt::new(bits.0..=bits.1, hz.0..=hz.1, order)))
        });
        Ok(End {
            sender: Sender::new(now, id, sender)?,
            receiver: Receiver::new(id, receiver),
            adapt: adapts,
            made: None,
            is_tripped: false,
        })
    }

    /// Its datagrams go over IPv6: rates and counters have 20 more bytes of each than over IPv4.
    pub fn set_ipv6(&mut self) {
        self.sender.set_ipv6();
    }

    /// Queues an ADU; its number.
    ///
    /// # Errors
    /// [`Refused`].
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn push(&mut self, now: Instant, lane: usize, adu: &[u8]) -> Result<u64, Refused> {
        self.sender.push(now, lane, adu.len(), |bytes| bytes.extend_from_slice(adu))
    }

    /// [`push`](Self::push) of an ADU of so many bytes, which `fill` writes into an empty vector with room for them.
    pub(crate) fn push_with(
        &mut self,
        now: Instant,
        lane: usize,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, Refused> {
        self.sender.push(now, lane, len, fill)
    }

    /// A datagram came, with these two bits of ECN. What is not the peer's is passed over.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8], ecn: u8) {
        // The fixed part: queues of one's own direction say nothing of this one's, which are in what is `behind` the fastest.
        let one_way = self.sender.seen().rtt_least / 2;
        if let Some(report) = self.receiver.handle_datagram(now, one_way, datagram, ecn)
            && let Ok(report) = feedback::Report::parse(report)
        {
            self.sender.on_report(now, &report);
        }
    }

    /// Writes the next datagram that may leave, and says how long it is; `out` has room for [`Profile::MTU`].
    ///
    /// # Errors
    /// Those of [`NumberedSender::seal`](fusewire_session::record::NumberedSender::seal): after 2^32 packets the session is at its end.
    /// [`IntegrityLimit`](fusewire_session::Error::IntegrityLimit) when more came that was forged than its cipher bears: the session must end.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
    ) -> Result<Option<usize>, fusewire_session::Error> {
        if let Some(error) = self.receiver.take_error() {
            return Err(error);
        }
        self.sender.poll_transmit(now, self.receiver.arrivals(), out)
    }

    /// The next of what there is to tell.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event<'_>> {
        Some(match self.poll(now)? {
            Event::Adu { lane, number, behind, is_late, .. } => {
                Event::Adu { lane, number, behind, is_late, bytes: self.bytes() }
            }
            event => event,
        })
    }

    /// [`poll_event`](Self::poll_event) without the bytes of an ADU, which [`bytes`](Self::bytes) has.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Event<'static>> {
        self.poll_told().or_else(|| self.receiver.poll_event(now))
    }

    /// The ADU that was delivered last, until the next event is asked for.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.receiver.bytes_of_last()
    }

    /// Events are to be asked for before more datagrams come: a lane has no room left ([`Adu::window`](crate::profile::Adu::window)).
    pub fn is_crowded(&self) -> bool {
        self.receiver.is_crowded()
    }

    /// Whether something of a lane waits to leave.
    pub(crate) fn is_waiting(&self, lane: usize) -> bool {
        self.sender.is_waiting(lane)
    }

    /// What the sender has to tell.
    fn poll_told(&mut self) -> Option<Event<'static>> {
        if let Some((lane, number, why)) = self.sender.poll_lost() {
            return Some(Event::Lost { lane, number, why });
        }
        if let Some(cause) = self.sender.tripped().filter(|_| !self.is_tripped) {
            self.is_tripped = true;
            return Some(Event::Tripped(cause));
        }
        let (lane, adapt) = self.adapt.as_ref()?;
        let made = adapt.to(self.sender.share_of(*lane));
        let far = |a: f64, b: f64| (a - b).abs() > MOVED * b;
        let is_new = self.made.is_none_or(|before| {
            far(made.bits as f64, before.bits as f64)
                || far(made.hz, before.hz)
                || made.is_below != before.is_below
        });
        if !is_new {
            return None;
        }
        self.made = Some(made);
        Some(Event::Target { lane: *lane, made })
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, a datagram may leave, or an event is due; `None`: not
    /// before something comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.sender.poll_timeout(), self.receiver.poll_timeout()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    /// What the peer's last report showed.
    pub fn seen(&self) -> &media::Seen {
        self.sender.seen()
    }

    /// What may be sent now, in bits a second, headers included.
    pub fn target_bits(&self) -> u64 {
        self.sender.target_bits()
    }

    /// What to make now of the lane that adapts, as it was told last.
    pub fn made(&self) -> Option<Made> {
        self.made
    }

    /// How long behind the fastest a lane's ADUs are handed over now.
    pub fn playout_delay(&self, lane: usize) -> Duration {
        self.receiver.playout_delay(lane)
    }

    /// Somebody has seen to it: after [`Event::Tripped`] datagrams go again.
    pub fn close_breaker(&mut self, now: Instant) {
        self.is_tripped = false;
        self.sender.close_breaker(now);
    }

    /// What became of datagrams and ADUs.
    pub fn counters(&self) -> Counters {
        self.receiver.counters().with(self.sender.counters())
    }
}

impl Counters {
    /// Those of a receiver with those of a sender.
    fn with(self, sender: &Counters) -> Counters {
        let Counters { sent, sent_bytes, sent_correction_bytes, sent_again, .. } = *sender;
        Counters { sent, sent_bytes, sent_correction_bytes, sent_again, ..self }
    }
}

impl<P: Profile> fmt::Debug for End<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
