//! The sender of a group's stream, over a device.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use fusewire_device::{Device, Waker, udp};
use fusewire_transport::machine::DropCause;
use fusewire_transport::xtp::Rate;
use fusewire_transport::xtp::group::{self as machine, Leaving, MemberInfo, To};
use fusewire_wire::xtp::{Body, Service};

use super::receiver::summed;
use super::turns::Turns;
use super::{AskId, Counters, MemberId, SenderConfig, address, draw_key};
use crate::asked::Asked;
use crate::trace::Kind;
use crate::{Error, Result};

/// Packets to one member each go out in batches of at most so many before data.
const TURNS_MAX: usize = 8;
/// RTIMER of a rate that the user has set.
const BURSTS_A_SECOND: u32 = 500;

/// What happened to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderEvent {
    /// Somebody wants to join: [`Sender::accept`] or [`Sender::deny`].
    Asked {
        /// Its own key, which it may have told in a session before.
        ask: AskId,
        /// Where it is.
        from: SocketAddr,
    },
    /// Who was accepted knows it.
    Joined {
        /// The member.
        member: MemberId,
        /// Its first byte.
        begins_at: u64,
    },
    /// All members have everything below.
    Acked {
        /// The offset.
        upto: u64,
    },
    /// A member has everything up to the end.
    Done {
        /// The member.
        member: MemberId,
    },
    /// Somebody is a member no more.
    Left {
        /// Who was.
        member: MemberId,
        /// Why.
        why: Leaving,
    },
    /// All have everything, or are members no more.
    Ended,
}

/// Memory of what is not acknowledged by all. A message lies in one piece: one that begins before the end of the ring may
/// reach into what lies behind it, and the next begins where it would in the ring.
struct Ring {
    memory: Box<[u8]>,
    len: u64,
    /// Messages that are kept, in order.
    messages: VecDeque<Range<u64>>,
}

impl Ring {
    fn new(len: usize, message_max: usize) -> Ring {
        let memory = vec![0; len + message_max].into_boxed_slice();
        Ring { memory, len: len as u64, messages: VecDeque::new() }
    }

    /// Where the bytes of a message that begins at `start` lie.
    fn place(&self, start: u64, range: &Range<u64>) -> Range<usize> {
        let at = (start % self.len) as usize + (range.start - start) as usize;
        at..at + (range.end - range.start) as usize
    }

    fn begin(&mut self, message: Range<u64>) -> &mut [u8] {
        let place = self.place(message.start, &message);
        self.messages.push_back(message);
        &mut self.memory[place]
    }

    /// Where bytes lie that are part of one message.
    fn locate(&self, range: &Range<u64>) -> Range<usize> {
        let at = self.messages.partition_point(|message| message.end <= range.start);
        let start = self.messages.get(at).map_or(range.start, |message| message.start);
        self.place(start, range)
    }

    fn release(&mut self, upto: u64) {
        while self.messages.front().is_some_and(|message| message.end <= upto) {
            self.messages.pop_front();
        }
    }
}

/// A stream to a group. It does something only while it is driven ([`Sender::drive`]).
pub struct Sender<D = udp::Udp> {
    pub(super) turns: Turns<D>,
    pub(super) machine: machine::Sender,
    ring: Ring,
    pub(super) group: SocketAddr,
    pub(super) asked: Option<Asked<Sender<D>>>,
}

impl Sender {
    /// Opens a group by UDP: it is announced by the first [`Sender::drive`].
    ///
    /// # Errors
    /// As [`SenderConfig::udp_device`] and [`Sender::over`].
    pub fn open(config: &SenderConfig) -> Result<Sender> {
        Sender::over(config.udp_device()?, config)
    }
}

impl<D: Device> Sender<D> {
    /// Opens a group over a device.
    ///
    /// # Errors
    /// There are no random numbers; a stream without answers has no rate.
    pub fn over(device: D, config: &SenderConfig) -> Result<Sender<D>> {
        if !config.reliable && config.rate.is_none() {
            return Err(Error::Misuse("a stream to a group without answers needs a rate"));
        }
        let turns = Turns::new(device);
        let group = turns.device.named(config.group);
        let rate = config.rate.map_or(Rate::NONE, |rate| Rate {
            rate,
            burst: (rate / BURSTS_A_SECOND).max(config.packet_len as u32),
        });
        let packet_len = config.packet_len.min(turns.device.caps().max_datagram);
        let machine = machine::SenderConfig {
            address: address(config.group, group, config.sessions),
            service: match config.reliable {
                true => Service::Multicast,
                false => Service::UnacknowledgedMulticast,
            },
            send_tpdu_len: packet_len,
            nocheck: config.nocheck,
            send_buffer: u32::try_from(config.buffer).unwrap_or(u32::MAX),
            max_packets_in_flight: (4 * config.buffer / packet_len).max(1024),
            out_rate: rate,
            carried_by: config.carried_by,
            floor: config.floor,
            silence: config.silence,
            members_max: config.members_max,
            congestion: config.congestion,
            ..machine::SenderConfig::default()
        };
        let key = draw_key().map_err(Error::os("drawing a key"))?;
        let machine = machine::Sender::new(&machine, key, turns.clock.now());
        let ring = Ring::new(config.buffer, machine.max_message() as usize);
        Ok(Sender { turns, machine, ring, group, asked: None })
    }

    /// Where members say what has come.
    pub fn local_addr(&self) -> SocketAddr {
        self.turns.device.local_addr()
    }

    /// The key of the stream.
    pub fn key(&self) -> u64 {
        self.machine.key().bits()
    }

    /// Most bytes of a message.
    pub fn max_message(&self) -> usize {
        self.machine.max_message() as usize
    }

    /// Most bytes of a message that fit one packet.
    pub fn payload(&self) -> usize {
        self.machine.max_payload() as usize
    }

    /// Bytes of a message that may be sent now.
    pub fn room(&self) -> usize {
        self.machine.send_room() as usize
    }

    /// Sends a message of `len` bytes, which `write` fills: it gets the stream's offset where the message begins. Where it
    /// lies in the stream; `None` when there is no room now: drive, and try again.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a message without a byte, and after [`Sender::finish`]; [`Error::TooLong`] for more than
    /// [`Sender::max_message`].
    pub fn send(
        &mut self,
        len: usize,
        write: impl FnOnce(u64, &mut [u8]),
    ) -> Result<Option<Range<u64>>> {
        let max = self.max_message();
        if self.machine.is_finishing() {
            return Err(Error::Misuse("a message after the last"));
        }
        if len == 0 {
            return Err(Error::Misuse("a message has a byte"));
        }
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let Some(reservation) = self.machine.reserve(len as u32) else { return Ok(None) };
        let start = reservation.offset();
        let range = start..start + len as u64;
        write(start, self.ring.begin(range.clone()));
        self.machine.commit(reservation);
        Ok(Some(range))
    }

    /// Sends and receives what can be, rings timers, and if there was nothing to do sleeps until there is, for `timeout` at
    /// most (`None`: for ever).
    ///
    /// # Errors
    /// The device is broken.
    pub fn drive(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.turn()? {
            return Ok(());
        }
        self.turns.sleep(self.machine.poll_timeout(), timeout)?;
        self.turn()?;
        Ok(())
    }

    /// True if there was something to do.
    fn turn(&mut self) -> Result<bool> {
        if let Some(question) = self.asked.as_ref().and_then(Asked::next) {
            question(self);
        }
        let now = self.turns.clock.now();
        let (machine, level) = (&mut self.machine, self.turns.level);
        let received = self.turns.take(|from, packet| {
            let right = packet.and_then(|(header, sum, data)| {
                // What is for a sender has no data; a DIAG has a text, and a JCNTL that cannot be read all that it is.
                let may_have = matches!(header.body, Body::Diag(_) | Body::Unfit(_));
                if !(sum + summed(level, header, data)).verifies() {
                    return Err(DropCause::Checksum);
                }
                if data.is_empty() || may_have { Ok(header) } else { Err(DropCause::Protocol) }
            });
            let dropped = match right {
                Ok(header) => machine.handle(now, from, header),
                Err(cause) => {
                    machine.reject(cause);
                    Some(cause)
                }
            };
            dropped.map_or(Kind::Received, Kind::Dropped)
        })?;
        self.machine.handle_timeout(now);
        self.ring.release(self.machine.acked());
        self.heed_device()?;
        let mut sent = 0;
        for _ in 0..TURNS_MAX {
            let now = self.turns.clock.now();
            while !self.turns.is_full()
                && let Some((to, transmit)) = self.machine.poll_transmit(now)
            {
                let peer = match to {
                    To::Group => self.group,
                    To::One(addr) => addr,
                };
                let payload = transmit.payload.as_ref().map_or(0..0, |r| self.ring.locate(r));
                self.turns.plan(peer, &transmit, &self.ring.memory, payload);
            }
            let full = self.turns.is_full();
            sent += self.turns.give(&self.ring.memory);
            if !full {
                break;
            }
        }
        self.ring.release(self.machine.acked());
        Ok(received + sent > 0)
    }

    /// What is larger than the first link takes reaches nobody.
    fn heed_device(&mut self) -> Result<()> {
        while let Some(event) = self.turns.device.poll_event() {
            if let fusewire_device::Event::TooBig { peer, len } = event
                && peer == self.group
            {
                let most = "packets to the group are larger than its network interface takes";
                tracing::warn!(len, "{most}");
                return Err(Error::Misuse(most));
            }
        }
        Ok(())
    }

    /// What happened; `None` when there is nothing new.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        use machine::SenderEvent as E;
        Some(match self.machine.poll_event()? {
            E::Asked { key, from } => SenderEvent::Asked { ask: key, from },
            E::Joined { id, begins_at } => SenderEvent::Joined { member: id, begins_at },
            E::Acked { upto } => SenderEvent::Acked { upto },
            E::Done { id } => SenderEvent::Done { member: id },
            E::Left { id, why } => SenderEvent::Left { member: id, why },
            E::Ended => SenderEvent::Ended,
        })
    }

    /// Who asks becomes a member, and is told so; it begins with the next message. `None` when nobody asks any more.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn accept(&mut self, ask: AskId) -> Result<Option<MemberId>> {
        let id = draw_key().map_err(Error::os("drawing a key"))?;
        Ok(self.machine.accept(self.turns.clock.now(), ask, id).map(|_| id))
    }

    /// Who asks may not join, and is told so.
    pub fn deny(&mut self, ask: AskId) {
        self.machine.deny(self.turns.clock.now(), ask);
    }

    /// A member is one no more, and told so.
    pub fn remove(&mut self, member: MemberId) {
        self.machine.remove(self.turns.clock.now(), member);
    }

    /// Those who are members.
    pub fn members(&self) -> impl Iterator<Item = MemberInfo> + '_ {
        self.machine.members()
    }

    /// All members have everything below.
    pub fn acked(&self) -> u64 {
        self.machine.acked()
    }

    /// No more will be sent: the end follows what was.
    pub fn finish(&mut self) {
        self.machine.finish();
    }

    /// All have everything, or are members no more.
    pub fn has_ended(&self) -> bool {
        self.machine.has_ended()
    }

    /// Nobody will be answered any more.
    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    /// Time until [`Sender::drive`] has something to do though nothing has come: for who sleeps on several devices'
    /// descriptors. `None`: it has not.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.turns.due(self.machine.poll_timeout())
    }

    /// Wakes [`Sender::drive`] from another thread.
    pub fn waker(&self) -> Waker {
        self.turns.device.waker()
    }

    /// What was sent, and what was dropped.
    pub fn counters(&self) -> &Counters {
        self.machine.counters()
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.turns.device
    }
}
