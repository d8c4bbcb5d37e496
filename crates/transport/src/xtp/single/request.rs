//! The initiator of one message.

use super::super::connection::{Connection, Name, first_sync};
use super::super::headers::when;
use super::super::sync::Sync;
use super::super::{Config, Header, Transmit};
use super::{
    Message, Patience, TooLong, WHOLE, first_payload, is_whole_message, message_len_max, packet,
    take_all, unchecked,
};
use crate::machine::{
    self, Again, Connection as _, DropCause, Drops, Initial, ResetCause, Stage, Verdict,
};
use crate::rtt::{self, Estimator};
use core::net::SocketAddr;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, HEADER_LEN, Key, Limits, Options, Reason, Service,
    Traffic, TrafficControl,
};
use std::sync::Arc;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Service 1: it has left, and there is no more to know.
    Sent,
    /// Service 2: it was handed over.
    Delivered,
    /// Service 3: here is the answer.
    Answered {
        /// Bytes of it.
        len: u64,
    },
    /// Nobody takes it.
    Refused(Reason),
    /// Who took it gave it up, or is gone.
    Reset,
    /// Nothing came in time.
    TimedOut,
}

/// What is said while nobody has told that the request came.
#[derive(Debug)]
struct Asking {
    /// The listener's cookie.
    cookie: Option<Key>,
    sync: Sync,
    rtt: Estimator,
    /// Where the next FIRST begins, if one is due.
    due: Option<u32>,
    /// What it waits before it goes again for the first time, where that is not WTIMER.
    probe: Option<Duration>,
    wtimer: Option<Instant>,
}

/// When all of it left.
#[derive(Clone, Copy, Debug)]
struct Left {
    first: Instant,
    last: Instant,
    times: u32,
}

#[derive(Debug)]
enum Phase {
    Asking(Box<Asking>),
    /// It came, and the answer takes long, or is long.
    Talking(Box<Connection>),
    Over,
}

/// One message of services 1 to 3 and its answer, without I/O (`docs/xtp.md`, section 15). It is driven as a
/// [`machine::Connection`] is; the payloads of what it transmits are ranges of the message, and those of what it takes
/// ranges of the answer.
#[derive(Debug)]
pub struct Request {
    settings: Arc<Config>,
    message: Message,
    own: Key,
    address: Address,
    /// When it gives up, while nobody has answered.
    gives_up: Instant,
    phase: Phase,
    left: Left,
    rtt_min: Duration,
    took: Option<Duration>,
    outcome: Option<Outcome>,
    /// The outcome was told.
    told: bool,
    drops: Drops,
}

impl Request {
    /// A message that is to leave now. `own` is drawn from a generator that nobody foretells; `patience` is how long an answer
    /// may take before it goes again.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(
        cfg: impl Into<Arc<Config>>,
        message: Message,
        own: Key,
        patience: Patience,
        now: Instant,
    ) -> Result<Request, TooLong> {
        debug_assert!((1..=3).contains(&(message.service as u8)));
        let cfg = cfg.into();
        let max = message_len_max(&cfg, message.service, message.btag.is_some());
        if message.len > max {
            return Err(TooLong { max });
        }
        let rtt = Estimator::new(&rtt::Config {
            rto_initial: patience.wtimer,
            rto_min: cfg.wtimer_min,
            rto_max: cfg.wtimer_max,
            ..rtt::Config::default()
        });
        let asking = Asking {
            cookie: None,
            sync: Sync::new(first_sync(own)),
            probe: patience.probe.filter(|probe| *probe < rtt.rto()),
            rtt,
            due: Some(0),
            wtimer: None,
        };
        Ok(Request {
            message,
            own,
            address: Address::in_udp(message.port),
            gives_up: now + cfg.opening_timeout,
            left: Left { first: now, last: now, times: 0 },
            rtt_min: patience.rtt_min,
            took: None,
            settings: cfg,
            phase: Phase::Asking(Box::new(asking)),
            outcome: None,
            told: false,
            drops: Drops::default(),
        })
    }

    /// The same, to a responder at this address: without a port where there is no UDP.
    #[must_use]
    pub fn towards(self, remote: SocketAddr) -> Request {
        Request { address: Address::towards(remote, self.message.port), ..self }
    }

    /// What names it in packets.
    pub fn name(&self) -> Name {
        Name { key: self.own, returned: true }
    }

    /// What else names it, once that is known: in DIAG 3.
    pub fn also(&self) -> Option<Name> {
        match &self.phase {
            Phase::Talking(c) => c.also(),
            _ => None,
        }
    }

    /// Bytes of it that one packet has, as long as no cookie is asked for.
    pub fn piece_len(&self) -> u32 {
        let address_len = self.address.emit_len() as u32;
        first_payload(&self.settings, address_len, self.message.btag.is_some(), false)
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Why what is sent again now is sent again.
    pub fn again(&self) -> Again {
        match &self.phase {
            Phase::Talking(c) => c.again(),
            Phase::Asking(_) | Phase::Over => Again::Timeout,
        }
    }

    /// What was dropped, by cause.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// What became of it, once.
    pub fn poll_event(&mut self) -> Option<Outcome> {
        let outcome = self.outcome.take()?;
        self.told = true;
        Some(outcome)
    }

    /// How long the answer took, if that is known: what answers a request that went again may answer either.
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// Nothing more is to be said. It may be dropped before, once the outcome is known: what comes for it then is answered
    /// by DIAG 3.
    pub fn is_over(&self) -> bool {
        match &self.phase {
            Phase::Asking(_) => false,
            Phase::Talking(c) => c.stage() == Stage::Closed,
            Phase::Over => true,
        }
    }

    /// Nothing has come from who was asked.
    pub fn is_asking(&self) -> bool {
        matches!(&self.phase, Phase::Asking(asking) if asking.cookie.is_none())
    }

    /// The application does not want the answer any more.
    pub fn abort(&mut self) {
        if let Phase::Talking(c) = &mut self.phase {
            c.abort();
        } else {
            self.phase = Phase::Over;
        }
        self.told = true;
    }

    /// When to call [`Request::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Asking(asking) => asking.wtimer,
            Phase::Talking(c) => c.poll_timeout(),
            Phase::Over => None,
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Asking(asking) => {
                if asking.wtimer.is_none_or(|at| at > now) {
                    return;
                }
                asking.wtimer = None;
                if now >= self.gives_up {
                    return self.end(Outcome::TimedOut);
                }
                if asking.probe.take().is_none() {
                    asking.rtt.back_off();
                }
                asking.due = Some(0);
            }
            Phase::Talking(c) => {
                c.handle_timeout(now);
                self.take_events(now);
            }
            Phase::Over => {}
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.phase = Phase::Over;
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        if !self.told && self.outcome.is_none() {
            self.outcome = Some(outcome);
        }
    }

    /// What has come answers what left first.
    fn note_took(&mut self, now: Instant) {
        self.took = self.took.or(Some(now.saturating_since(self.left.first)));
    }

    /// What has happened in a context.
    fn take_events(&mut self, now: Instant) {
        let Phase::Talking(c) = &mut self.phase else { return };
        let mut outcome = None;
        while let Some(event) = c.poll_event() {
            let what = match event {
                machine::Event::PeerFinished { offset } => Outcome::Answered { len: offset },
                machine::Event::Reset(ResetCause::Refused) => Outcome::Refused(Reason::Unspecified),
                machine::Event::Reset(_) => Outcome::Reset,
                machine::Event::TimedOut => Outcome::TimedOut,
                _ => continue,
            };
            outcome = outcome.or(Some(what));
        }
        if let Some(outcome) = outcome {
            if matches!(outcome, Outcome::Answered { .. }) {
                self.note_took(now);
            }
            self.tell(outcome);
        }
    }

    // ---- output

    /// The next packet to put on the wire; `None` until something happens or `poll_timeout` comes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let asking = match &mut self.phase {
            Phase::Talking(c) => return c.poll_transmit(now),
            Phase::Over => return None,
            Phase::Asking(asking) => asking,
        };
        let message = &self.message;
        let start = asking.due?;
        let tagged = message.btag.is_some();
        let address_len = self.address.emit_len() as u32;
        let most = first_payload(&self.settings, address_len, tagged, asking.cookie.is_some());
        let len = most.min(message.len - start);
        let end = start + len;
        let is_last = end == message.len;
        let unanswered = message.service == Service::UnacknowledgedDatagram;
        if is_last {
            asking.sync.raise(now, end.into());
        }
        let asks = match message.service {
            Service::Transaction => Options::DREQ,
            Service::AcknowledgedDatagram => Options::SREQ,
            _ => Options::NOERR | Options::NOFLOW | Options::RCLOSE | Options::END,
        };
        let header = Header {
            key: asking.cookie.unwrap_or(self.own),
            returned: asking.cookie.is_some(),
            options: when(is_last, asks | Options::WCLOSE | Options::EOM)
                | unchecked(message.proves_itself && start == 0 && is_last)
                | when(self.settings.sort.is_some(), Options::SORT),
            check: 0,
            sort: self.settings.sort.unwrap_or(0),
            sync: asking.sync.latest,
            seq: start.into(),
            data_len: len,
            body: Body::First(First {
                address: self.address,
                traffic: Traffic { service: message.service, limits: Some(limits(&self.settings)) },
                xkey: asking.cookie.is_some().then_some(self.own),
                btag: message.btag.filter(|_| start == 0),
            }),
        };
        let again = self.left.times > 0;
        asking.due = (!is_last).then_some(end);
        if is_last {
            let first = if again { self.left.first } else { now };
            self.left = Left { first, last: now, times: self.left.times.saturating_add(1) };
        }
        if is_last && !unanswered {
            let wait = asking.probe.unwrap_or(asking.rtt.rto());
            let wait = wait.min(self.gives_up.saturating_since(now));
            asking.wtimer = Some(now + wait.max(Duration::from_millis(1)));
        }
        if unanswered {
            self.end(Outcome::Sent);
        }
        Some(packet(header, Some(start.into()..end.into()), again))
    }

    // ---- input

    /// The initial step: where the payload goes. Changes nothing but counters.
    pub fn handle_initial(&mut self, now: Instant, h: &Header, payload_len: u32) -> Initial {
        let cause = match &mut self.phase {
            Phase::Talking(c) => return c.handle_initial(now, h, payload_len),
            Phase::Over => DropCause::Closed,
            Phase::Asking(_) if !h.returned || h.key != self.own => DropCause::Closed,
            Phase::Asking(_) => match self.judge(h, payload_len) {
                Ok(initial) => return initial,
                Err(cause) => cause,
            },
        };
        self.drops.count(cause);
        Initial::Drop(cause)
    }

    /// Whether a packet under our key may answer, while nobody has.
    fn judge(&self, h: &Header, payload_len: u32) -> Result<Initial, DropCause> {
        match h.body {
            Body::Data { .. } if self.message.service == Service::Transaction => {
                let is_whole = is_whole_message(h) && h.options.has(WHOLE);
                // A piece of a longer answer: it comes again to who can say so.
                if !is_whole || payload_len > self.settings.answer_alloc {
                    return Err(DropCause::OutOfWindow);
                }
                if h.options.has(Options::RES) || !h.checks_all() && !self.message.proves_itself {
                    return Err(DropCause::Protocol);
                }
                Ok(take_all(0, payload_len))
            }
            Body::Cntl(_) | Body::Tcntl(_) | Body::Diag(_) if h.checks_all() => {
                Ok(Initial::Control)
            }
            _ => Err(DropCause::Protocol),
        }
    }

    /// The final step: takes the packet with what the integrated step found, or forgets it.
    pub fn handle_final(&mut self, now: Instant, h: &Header, initial: &Initial, verdict: Verdict) {
        if let Phase::Talking(c) = &mut self.phase {
            c.handle_final(now, h, initial, verdict, false);
            return self.take_events(now);
        }
        let cause = match (verdict, &h.body, initial) {
            (Verdict::Reject(cause) | Verdict::Part { rest: cause, .. }, ..) => Some(cause),
            (_, _, Initial::Drop(_)) => None,
            (_, Body::Data { .. }, Initial::Payload(plan)) => self.answer(now, plan.len),
            (_, Body::Data { .. }, Initial::Control) => self.answer(now, 0),
            (_, Body::Cntl(control), _) => self.take_control(h, control),
            (_, Body::Tcntl(tcntl), _) => self.take_traffic(now, h, tcntl),
            (_, Body::Diag(diag), _) => self.take_diag(*diag),
            _ => Some(DropCause::Protocol),
        };
        if let Some(cause) = cause {
            self.drops.count(cause);
        }
    }

    /// The answer is one packet.
    fn answer(&mut self, now: Instant, len: u32) -> Option<DropCause> {
        let Left { last, times, .. } = self.left;
        if times == 1 || now.saturating_since(last) < self.rtt_min {
            self.note_took(now);
        }
        self.end(Outcome::Answered { len: len.into() });
        None
    }

    /// Service 2's answer, or that nobody answers.
    fn take_control(&mut self, h: &Header, control: &Control) -> Option<DropCause> {
        let Phase::Asking(asking) = &self.phase else { return Some(DropCause::Closed) };
        if !asking.sync.may_be_echoed(control.echo) || control.rseq > self.message.len.into() {
            return Some(DropCause::BadAck);
        }
        if !h.options.has(Options::END) {
            return Some(DropCause::Protocol);
        }
        let all = h.options.has(Options::RCLOSE | Options::WCLOSE)
            && control.rseq == u64::from(self.message.len);
        let delivered = all && self.message.service == Service::AcknowledgedDatagram;
        self.end(if delivered { Outcome::Delivered } else { Outcome::Reset });
        None
    }

    /// The request has come, or the responder wants a cookie shown.
    fn take_traffic(
        &mut self,
        now: Instant,
        h: &Header,
        tcntl: &TrafficControl,
    ) -> Option<DropCause> {
        let Phase::Asking(asking) = &mut self.phase else { return Some(DropCause::Closed) };
        let control = &tcntl.control;
        let len = u64::from(self.message.len);
        if !asking.sync.may_be_echoed(control.echo) || control.rseq > len {
            return Some(DropCause::BadAck);
        }
        if control.alloc == 0 {
            if asking.cookie.is_some() {
                return Some(DropCause::Protocol);
            }
            asking.cookie = Some(tcntl.xkey);
            if let Some(asked) = asking.sync.take_echo(control.echo) {
                let took = now - asked.at;
                asking.rtt.sample(took, now);
                asking.probe = Some(Patience::probe_of(took)).filter(|at| *at < asking.rtt.rto());
            }
            asking.due = Some(0);
            return None;
        }
        let came = control.rseq == len && h.options.has(Options::RCLOSE);
        if !came || self.message.service != Service::Transaction {
            return None;
        }
        let keys = (self.own, asking.cookie);
        let questions = (&asking.sync, &asking.rtt);
        let told = (h, tcntl);
        let context =
            Connection::asked(&self.settings, keys, self.address, len, now, questions, told);
        match context {
            Some(c) => {
                self.phase = Phase::Talking(Box::new(c));
                // One that went again and is told of had come the first time: it waits for the application.
                if self.left.times == 1 {
                    self.note_took(now);
                }
                self.take_events(now);
                None
            }
            None => Some(DropCause::Protocol),
        }
    }

    fn take_diag(&mut self, diag: Diag) -> Option<DropCause> {
        match diag.code {
            Code::ContextRefused => self.end(Outcome::Refused(diag.reason)),
            Code::ContextAbandoned | Code::ProtocolError => self.end(Outcome::Reset),
            _ => return Some(DropCause::BlindReset),
        }
        None
    }

    /// Checks what must hold between calls, for tests.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        match &self.phase {
            Phase::Asking(asking) => {
                assert!(asking.due.is_some() || asking.wtimer.is_some(), "waits for nothing");
                assert!(asking.due.is_none_or(|at| at <= self.message.len));
            }
            Phase::Talking(c) => c.assert_invariants(),
            Phase::Over => assert!(self.told || self.outcome.is_some(), "over, and nobody knows"),
        }
    }
}

/// The largest body that we take, and no rates: nothing is sent fast.
pub(super) fn limits(cfg: &Config) -> Limits {
    let maxdata = cfg.tpdu_len.saturating_sub(HEADER_LEN);
    Limits { maxdata: u32::try_from(maxdata).unwrap_or(u32::MAX).max(512), ..Limits::default() }
}
