//! A receiver of a group's stream, over a device.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use fusewire_base::Sum;
use fusewire_device::{Device, Waker, udp};
use fusewire_kernels::Level;
use fusewire_transport::machine::{DropCause, Initial, Verdict};
use fusewire_transport::xtp::Header;
use fusewire_transport::xtp::group as machine;
use fusewire_wire::xtp::Key;

use super::turns::Turns;
use super::{Counters, Reason, ReceiverConfig, address};
use crate::asked::Asked;
use crate::trace::Kind;
use crate::{Error, Result};

/// A group that was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    machine: machine::Heard,
}

impl Heard {
    /// Where its packets come from.
    pub fn from(&self) -> SocketAddr {
        self.machine.from
    }

    /// The key of its stream.
    pub fn key(&self) -> u64 {
        self.machine.key.bits()
    }

    /// Where its sender's sessions are to be had, if it says so.
    pub fn sessions(&self) -> Option<SocketAddr> {
        use fusewire_wire::xtp::Address;
        let (Address::V4 { srcport, .. } | Address::V6 { srcport, .. }) = self.machine.address
        else {
            return None;
        };
        let mut sessions = self.machine.from;
        sessions.set_port(srcport);
        (srcport != 0).then_some(sessions)
    }

    /// Members answer, and what they miss goes again.
    pub fn is_reliable(&self) -> bool {
        self.machine.is_reliable()
    }

    /// The most that is sent, in bytes a second, if there is a bound.
    pub fn rate(&self) -> Option<u32> {
        self.machine.rate()
    }

    /// Bytes a second below which a member is dropped for which others wait.
    pub fn floor(&self) -> u32 {
        self.machine.floor()
    }

    /// How long a member may be silent.
    pub fn silence(&self) -> Duration {
        self.machine.silence()
    }
}

/// What happened to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiverEvent {
    /// There is a group: [`Receiver::join`].
    Heard(Heard),
    /// It is a member.
    Joined {
        /// Its first byte.
        begins_at: u64,
    },
    /// It may not join.
    Refused(Reason),
    /// It is a member no more: what has come may not be all.
    Dropped(Reason),
    /// Bytes in which a message lies that did not come whole (without answers).
    Lost(Range<u64>),
    /// Everything has come, up to the end.
    Finished {
        /// The end.
        offset: u64,
    },
    /// The sender knows that.
    Ended,
    /// Nothing was heard for too long.
    TimedOut,
}

/// A receiver. It does something only while it is driven ([`Receiver::drive`]).
pub struct Receiver<D = udp::Member> {
    pub(super) turns: Turns<D>,
    pub(super) machine: machine::Receiver,
    memory: Box<[u8]>,
    /// A message that does not lie in one piece.
    whole: Vec<u8>,
    pub(super) asked: Option<Asked<Receiver<D>>>,
}

impl Receiver {
    /// Listens for groups by UDP.
    ///
    /// # Errors
    /// As [`ReceiverConfig::udp_device`].
    pub fn open(config: &ReceiverConfig) -> Result<Receiver> {
        Ok(Receiver::over(config.udp_device()?, config))
    }
}

impl<D: Device> Receiver<D> {
    /// Listens over a device.
    pub fn over(device: D, config: &ReceiverConfig) -> Receiver<D> {
        let turns = Turns::new(device);
        let config = machine::ReceiverConfig {
            address: address(config.group, turns.device.named(config.group), 0),
            tpdu_len: turns.device.caps().max_datagram,
            nocheck: config.nocheck,
            recv_window: u32::try_from(config.buffer).unwrap_or(u32::MAX),
            ctimeout: config.patience,
            ..machine::ReceiverConfig::default()
        };
        let memory = vec![0; config.recv_window as usize].into_boxed_slice();
        let machine = machine::Receiver::new(&config, turns.clock.now());
        Receiver { turns, machine, memory, whole: Vec::new(), asked: None }
    }

    /// Asks to be a member, by a key of 63 bits that nobody foretells, until that is answered; without answers it reads at
    /// once.
    ///
    /// # Errors
    /// The key is zero.
    pub fn join(&mut self, heard: &Heard, key: u64) -> Result<()> {
        let key = Key::new(key).ok_or(Error::Misuse("a key of a receiver is not 0"))?;
        self.machine.join(self.turns.clock.now(), &heard.machine, key);
        Ok(())
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
        let (machine, memory, level) = (&mut self.machine, &mut self.memory, self.turns.level);
        let received = self.turns.take(|from, packet| {
            let (header, sum, data) = match packet {
                Ok(packet) => packet,
                Err(cause) => {
                    machine.reject(cause);
                    return Kind::Dropped(cause);
                }
            };
            let initial = machine.handle_initial(from, header, data.len() as u32);
            let verdict = match &initial {
                Initial::Drop(cause) => return Kind::Dropped(*cause),
                Initial::Payload(plan) if plan.len > 0 && plan.is_whole() => {
                    let stored = store(level, memory, plan.offset, data, header.checks_all());
                    match (sum + stored).verifies() {
                        true => Verdict::Accept { len: plan.len },
                        false => Verdict::Reject(DropCause::Checksum),
                    }
                }
                _ if !(sum + summed(level, header, data)).verifies() => {
                    Verdict::Reject(DropCause::Checksum)
                }
                Initial::Payload(plan) if plan.len > 0 => {
                    let data = &data[plan.trim_front as usize..][..plan.len as usize];
                    store(level, memory, plan.offset, data, false);
                    Verdict::Accept { len: plan.len }
                }
                _ => Verdict::Control,
            };
            machine.handle_final(now, from, header, &initial, verdict);
            Kind::of(&initial, &verdict)
        })?;
        self.machine.handle_timeout(now);
        let mut sent = 0;
        while let Some(transmit) = self.machine.poll_transmit(now) {
            if let Some(peer) = self.machine.peer() {
                self.turns.plan(peer, &transmit, &[], 0..0);
                sent += self.turns.give(&[]);
            }
        }
        Ok(received + sent > 0)
    }

    /// What happened; `None` when there is nothing new.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        use machine::ReceiverEvent as E;
        Some(match self.machine.poll_event()? {
            E::Heard(machine) => ReceiverEvent::Heard(Heard { machine }),
            E::Joined { begins_at } => ReceiverEvent::Joined { begins_at },
            E::Refused(reason) => ReceiverEvent::Refused(reason),
            E::Dropped(reason) => ReceiverEvent::Dropped(reason),
            E::Lost(range) => ReceiverEvent::Lost(range),
            E::Finished { offset } => ReceiverEvent::Finished { offset },
            E::Ended => ReceiverEvent::Ended,
            E::TimedOut => ReceiverEvent::TimedOut,
        })
    }

    /// The next message, if it has come: `take` gets the stream's offset where it begins, and its bytes, which it may
    /// change. Their memory is free again afterwards.
    pub fn recv<T>(&mut self, take: impl FnOnce(u64, &mut [u8]) -> T) -> Option<T> {
        let range = self.machine.poll_message()?.range;
        let len = (range.end - range.start) as usize;
        let at = (range.start % self.memory.len() as u64) as usize;
        let taken = if at + len <= self.memory.len() {
            take(range.start, &mut self.memory[at..at + len])
        } else {
            let (behind, front) =
                (&self.memory[at..], &self.memory[..at + len - self.memory.len()]);
            self.whole.clear();
            self.whole.extend_from_slice(behind);
            self.whole.extend_from_slice(front);
            take(range.start, &mut self.whole)
        };
        self.machine.consumed(range.end);
        Some(taken)
    }

    /// Is a member no more, and says so with the next [`Receiver::drive`].
    pub fn leave(&mut self) {
        self.machine.leave();
    }

    /// Everything below this offset has come.
    pub fn position(&self) -> u64 {
        self.machine.rcv_nxt()
    }

    /// Everything has come, up to the end.
    pub fn has_finished(&self) -> bool {
        self.machine.has_finished()
    }

    /// It will do nothing more, unless it joins.
    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    /// Time until [`Receiver::drive`] has something to do though nothing has come: for who sleeps on several devices'
    /// descriptors. `None`: it has not.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.turns.due(self.machine.poll_timeout())
    }

    /// Wakes [`Receiver::drive`] from another thread.
    pub fn waker(&self) -> Waker {
        self.turns.device.waker()
    }

    /// What came, and what was dropped.
    pub fn counters(&self) -> &Counters {
        self.machine.counters()
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.turns.device
    }

    /// The device, to change what it takes.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.turns.device
    }
}

/// The sum over data, where the check covers them.
pub(super) fn summed(level: Level, header: &Header, data: &[u8]) -> Sum {
    if header.checks_all() { fusewire_kernels::sum(level, data) } else { Sum::ZERO }
}

/// Copies to where `offset` lies in the ring, and sums in the same pass if `sums`.
fn store(level: Level, memory: &mut [u8], offset: u64, data: &[u8], sums: bool) -> Sum {
    let at = (offset % memory.len() as u64) as usize;
    let room = memory.len() - at;
    if sums && data.len() <= room {
        return fusewire_kernels::copy_sum(level, data, &mut memory[at..at + data.len()]);
    }
    let (behind, front) = data.split_at(room.min(data.len()));
    memory[at..at + behind.len()].copy_from_slice(behind);
    memory[..front.len()].copy_from_slice(front);
    if sums { fusewire_kernels::sum(level, data) } else { Sum::ZERO }
}
