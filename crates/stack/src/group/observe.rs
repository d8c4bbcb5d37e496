//! Both ends of a group, when they are asked what they do.

use std::io;

use fusewire_device::Device;
use fusewire_device::capture::feed::{Blocks, Options};
use fusewire_transport::machine::{Counters, Info, Protocol as _};
use fusewire_transport::xtp;

use super::turns::Turns;
use super::{Receiver, Sender};
use crate::asked::{Asked, Last, Visible};
use crate::observe::{Head, Numbers};

/// A key as views spell it.
fn key(of: u64) -> String {
    format!("{of:016x}")
}

fn service(is_reliable: bool) -> (&'static str, String) {
    ("service", if is_reliable { "multicast" } else { "unacknowledged-multicast" }.into())
}

fn head<D: Device>(turns: &Turns<D>) -> Head {
    let caps = turns.device.caps();
    Head {
        protocol: "xtp",
        device: caps.name,
        address: turns.device.local_addr(),
        mtu: caps.max_datagram,
        dropped: turns.device.drops(),
        counted: Vec::new(),
        past: Counters::default(),
    }
}

/// What came and left last, members' packets with it: of a member alone nothing is kept.
fn last<D: Device>(turns: &Turns<D>, name: &str) -> Option<Last> {
    let entries = match name {
        "group" => turns.trace.iter().copied().collect(),
        _ => Vec::new(),
    };
    Some(Last { entries, letters: xtp::Config::default().letters(), now: turns.clock.now() })
}

impl<D: Device + 'static> Sender<D> {
    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire metrics`, `fusewire
    /// capture`. They are answered by [`Sender::drive`].
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn observe(&mut self) -> io::Result<()> {
        if self.asked.is_none() {
            self.asked = Some(Asked::new(self.turns.device.waker())?);
        }
        Ok(())
    }

    fn stream(&self) -> Numbers {
        let machine = &self.machine;
        let info = machine.info();
        let members = ("members", machine.members().count().to_string());
        Numbers {
            state: match () {
                () if machine.has_ended() => "INACTIVE",
                () => "OPEN",
            },
            remote: Some(self.group),
            send_queue: info.unacked,
            names: vec![("key", key(self.key())), service(machine.is_reliable()), members],
            info: Some(info),
            ..Numbers::new("xtp", "group".into(), self.turns.device.local_addr())
        }
    }

    fn member(&self, member: &super::MemberInfo) -> Numbers {
        let waits = self.machine.sent().saturating_sub(member.rseq);
        Numbers {
            state: match () {
                () if member.is_done => "INACTIVE",
                () if member.is_confirmed => "OPEN",
                () => "HALF-OPEN",
            },
            remote: Some(member.addr),
            send_queue: waits,
            names: vec![("key", key(member.id.bits())), ("peer_key", key(member.key.bits()))],
            info: Some(Info {
                srtt: member.srtt,
                unacked: waits,
                send_window: u32::try_from(member.alloc.saturating_sub(member.rseq))
                    .unwrap_or(u32::MAX),
                segments_lost: u32::try_from(member.lost).unwrap_or(u32::MAX),
                counters: Counters {
                    bytes_acked: member.rseq.saturating_sub(member.begins_at),
                    ..Counters::default()
                },
                ..Info::default()
            }),
            counts: false,
            ..Numbers::new("xtp", key(member.id.bits()), self.turns.device.local_addr())
        }
    }
}

impl<D: Device + 'static> Visible for Sender<D> {
    fn head(&self) -> Head {
        head(&self.turns)
    }

    /// The stream, then its members.
    fn sockets(&self, from: usize, most: usize) -> (Vec<Numbers>, Option<usize>) {
        let mut numbers = Vec::with_capacity(most + 1);
        if from == 0 {
            numbers.push(self.stream());
        }
        let mut members = self.machine.members().enumerate().skip(from);
        numbers.extend(members.by_ref().take(most).map(|(_, member)| self.member(&member)));
        (numbers, members.next().map(|(at, _)| at))
    }

    fn last(&self, name: &str) -> Option<Last> {
        last(&self.turns, name)
    }

    fn begin_capture(&mut self, options: Options) -> Option<Blocks> {
        self.turns.capture(options)
    }
}

impl<D: Device + 'static> Receiver<D> {
    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire metrics`, `fusewire
    /// capture`. They are answered by [`Receiver::drive`].
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn observe(&mut self) -> io::Result<()> {
        if self.asked.is_none() {
            self.asked = Some(Asked::new(self.turns.device.waker())?);
        }
        Ok(())
    }
}

impl<D: Device + 'static> Visible for Receiver<D> {
    fn head(&self) -> Head {
        head(&self.turns)
    }

    /// The one stream that it reads, or waits for.
    fn sockets(&self, _: usize, _: usize) -> (Vec<Numbers>, Option<usize>) {
        let machine = &self.machine;
        let one = Numbers {
            state: match () {
                () if machine.is_over() => "QUIESCENT",
                () if machine.has_finished() => "INACTIVE",
                () if machine.is_joining() => "OPENING",
                () if machine.peer().is_some() => "OPEN",
                () => "LISTEN",
            },
            remote: machine.peer(),
            names: vec![service(true)],
            info: machine.peer().map(|_| Info { counters: *machine.counters(), ..Info::default() }),
            ..Numbers::new("xtp", "group".into(), self.turns.device.local_addr())
        };
        (vec![one], None)
    }

    fn last(&self, name: &str) -> Option<Last> {
        last(&self.turns, name)
    }

    fn begin_capture(&mut self, options: Options) -> Option<Blocks> {
        self.turns.capture(options)
    }
}
