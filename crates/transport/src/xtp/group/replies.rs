//! What a receiver says, after its delay.

use super::super::{Header, SPANS, Transmit, headers::when};
use super::alone;
use super::receiver::{Receiver, Stage, Timer};
use crate::machine::TransmitKind;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Control, JoinControl, OFFSET_MAX, Options, TrafficControl};

impl Receiver {
    /// There may be something to say: after the delay it is looked at what.
    pub(super) fn schedule(&mut self, now: Instant) {
        if (self.asked || self.gap) && !self.timers.is_set(Timer::Answer) && self.answers() {
            self.timers.set(Timer::Answer, now + self.delay);
        }
    }

    /// The next packet, for [`Receiver::peer`]; `None` until something happens or `poll_timeout` comes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(last) = self.last.take() {
            self.counters.segments_sent += 1;
            return Some(last);
        }
        let transmit = match self.stage {
            Stage::Joining if core::mem::take(&mut self.join_due) => self.jcntl(now)?,
            Stage::Member => {
                self.schedule(now);
                if !self.timers.take(Timer::Answer, now) {
                    return None;
                }
                let asked = core::mem::take(&mut self.asked);
                let gap = core::mem::take(&mut self.gap) && !self.recv.ranges.is_empty();
                // Who has repaired it for another has repaired it for us.
                if !asked && !gap {
                    return None;
                }
                self.answer(now)?
            }
            _ => return None,
        };
        self.counters.segments_sent += 1;
        Some(transmit)
    }

    /// May I join?
    fn jcntl(&mut self, now: Instant) -> Option<Transmit> {
        let (sender, own) = (self.sender?, self.own?);
        self.sync.raise(now, 0);
        self.timers.set(Timer::W, now + self.wtimer());
        let control = Control { rseq: 0, alloc: 0, echo: self.sync.peer.unwrap_or(0) };
        let traffic = TrafficControl { control, delay_us: 0, xkey: own, traffic: self.traffic() };
        let header = Header {
            key: sender.key,
            returned: true,
            options: Options::MULTI | Options::SREQ,
            check: 0,
            sort: 0,
            sync: self.sync.latest,
            seq: 0,
            data_len: 0,
            body: Body::Jcntl(JoinControl { traffic, address: sender.address }),
        };
        Some(alone(header, TransmitKind::Syn))
    }

    /// What has come.
    fn answer(&mut self, now: Instant) -> Option<Transmit> {
        let control = self.control();
        let body = match self.recv.ranges.is_empty() {
            true => Body::Cntl(control),
            false => Body::Ecntl(control, self.recv.spans::<SPANS>()),
        };
        if self.finished {
            self.timers.set(Timer::W, now + self.wtimer());
        }
        self.control_header(Options::MULTI | when(self.finished, Options::RCLOSE), body)
            .map(|header| alone(header, TransmitKind::Ack))
    }

    fn control(&mut self) -> Control {
        Control {
            rseq: self.recv.nxt,
            alloc: self.recv.advertise().min(OFFSET_MAX),
            echo: self.sync.peer.unwrap_or(0),
        }
    }

    fn control_header(&self, options: Options, body: Body<super::super::Spans>) -> Option<Header> {
        Some(Header {
            key: self.peer?,
            returned: true,
            options,
            check: 0,
            sort: 0,
            sync: self.sync.latest,
            seq: 0,
            data_len: 0,
            body,
        })
    }

    /// RCLOSE and END: a member no more.
    pub(super) fn goodbye(&mut self) -> Option<Transmit> {
        let control = self.control();
        let options = Options::MULTI | Options::RCLOSE | Options::END;
        let header = self.control_header(options, Body::Cntl(control))?;
        Some(alone(header, TransmitKind::Fin))
    }
}
