//! One type of ADU at every corner of the network: what it loses, how long it takes, what it loads, with each way to
//! recover that is left.

mod again;
mod queue;
mod waiting;

pub use queue::{Known, RATE_SHARE, allowed_bits, fair_bits};

use super::channel::{Channel, Overtaking, run_share};
use crate::catalogue::{Function, Mechanism as M, Set};
use crate::language::specification::{Adu, CODECS, Preference, Specification};
use crate::language::value::Range;
use crate::plan::{Fec, FecStep, Late, Playout};

/// Bytes of IP and UDP in front of a packet (RFC 8200, RFC 768).
pub const IP_BYTES: f64 = 48.0;
/// Bytes of a record's header (`docs/records.md`, section 5).
pub const RECORD_BYTES: f64 = 16.0;
/// Bytes of the constant header of an ADU in its record.
pub const ADU_HEADER_BYTES: f64 = 4.0;
/// Bytes of TCP's header with timestamps (RFC 7323).
pub const TCP_BYTES: f64 = 32.0;
/// Bytes of XTP's header, and of the tag of a message that begins in a packet (`docs/xtp.md`, sections 2 and 5).
pub const XTP_BYTES: f64 = 40.0;
/// Bytes of a datagram's id, of length and number of a packet in it, and of what goes before a piece of an ADU, the ADU's own
/// header with it (`docs/service.md`).
pub const DATAGRAM_BYTES: f64 = 26.0;
/// Bytes of parity beside the longest packet that it is made of: number, length, and what goes before it (`docs/service.md`).
const PARITY_BYTES: f64 = 16.0;
/// Bytes of a tag.
pub const TAG_BYTES: f64 = 16.0;
/// Bytes of an ADU that has no bound: what a record holds beside the longest header of an ADU, a group's.
pub const ADU_BYTES_MAX: f64 = 16_777_200.0;
/// How many may miss a deadline behind which they are still delivered.
pub const LATE_SHARE_MAX: f64 = 0.001;
/// More packets of data and parity than these are no block of Reed and Solomon's code over bytes.
const BLOCK_PACKETS_MAX: u16 = 255;
/// More parity than this is no correction any more.
const PARITY_MAX: u8 = 32;
/// Copies that are later than this wait too long for anybody.
const DISTANCE_MAX: u8 = 16;
/// Of what is sent again a path has room for so many times as much: it comes in rows.
const AGAIN_ROOM: f64 = 4.0;
/// Runs of losses that are longer than a clause lets may begin with so many ADUs.
pub const RUN_SHARE_MAX: f64 = 0.001;

/// What all types of ADU share, as far as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carrier {
    /// The machine.
    pub machine: M,
    /// Records have a tag.
    pub is_sealed: bool,
    /// The codec.
    pub codec: M,
}

impl Carrier {
    /// What carries a type that has these mechanisms: beside datagrams what is sent again goes in a stream.
    pub fn of_way(self, set: Set) -> Carrier {
        let machine = if self.is_beside(set) { M::Tcp } else { self.machine };
        Carrier { machine, ..self }
    }

    /// Whether such a type goes beside datagrams.
    pub fn is_beside(&self, set: Set) -> bool {
        self.machine == M::Datagram && set.has(M::Selective)
    }

    /// Bytes in front of and behind an ADU in its packet.
    pub fn overhead(&self) -> f64 {
        let machine = match self.machine {
            M::Tcp => TCP_BYTES + ADU_HEADER_BYTES,
            M::Datagram => DATAGRAM_BYTES,
            _ => XTP_BYTES + ADU_HEADER_BYTES,
        };
        let tag = if self.is_sealed { TAG_BYTES } else { 0.0 };
        IP_BYTES + machine + RECORD_BYTES + tag
    }

    /// Bytes of an ADU in one packet.
    pub fn payload(&self, of: &Specification) -> f64 {
        (of.network.mtu_bytes.value - self.overhead()).max(64.0)
    }

    /// Bytes of encoded values.
    pub fn size(&self, adu: &Adu) -> Range {
        let place = CODECS.iter().position(|(codec, _)| mechanism_of(*codec) == self.codec);
        let extent = adu.extents[place.unwrap_or(0)];
        let (low, high) = (extent.low as f64, extent.high.map_or(ADU_BYTES_MAX, |n| n as f64));
        let written = adu.size_bytes.value.unwrap_or(Range::new(0.0, high));
        Range::new(low.max(written.low), high.min(written.high).max(1.0))
    }
}

/// The mechanism of a codec.
pub fn mechanism_of(codec: crate::plan::Codec) -> M {
    use crate::plan::Codec;
    match codec {
        Codec::Lws => M::Lws,
        Codec::Xdr => M::Xdr,
        Codec::Oer => M::Oer,
        Codec::Ber => M::Ber,
        Codec::Der => M::Der,
    }
}

/// A way to serve a type of ADU, and what comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Resending, order, correction and playout.
    pub set: Set,
    /// Correction by packets.
    pub fec: Vec<FecStep>,
    /// The buffer for even arrivals.
    pub playout: Option<Playout>,
    /// The figures.
    pub figures: Figures,
}

/// Figures of a type of ADU at the worst corner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bytes of the ADU that is promised for: the largest, or what rate and frequency make.
    pub bytes: f64,
    /// Its packets.
    pub packets: u16,
    /// Packets with their correction, by packets.
    pub load: f64,
    /// The share that is lost.
    pub loss: f64,
    /// Of it, what newer ones overtake.
    pub overtaken: f64,
    /// How long it takes.
    pub time: Time,
    /// How often it can be sent again in time.
    pub resends: u32,
    /// Bits a second that it loads at least, all headers with it.
    pub least_bits: f64,
    /// Bits a second that it loads at most, if that is bounded.
    pub most_bits: Option<f64>,
    /// Packets a second of these, correction with them.
    pub least_packets: f64,
    /// The same of the most.
    pub most_packets: Option<f64>,
}

impl Figures {
    /// Bits a second that a type makes whatever its path's target: the least of what adapts, the most of what does not. `None`: no
    /// rate is known.
    pub fn unyielding_bits(&self, adu: &Adu) -> Option<f64> {
        if adu.adapt.value.is_empty() { self.most_bits } else { Some(self.least_bits) }
    }
}

/// Milliseconds from when an ADU is given to the sender to when it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// Behind one packet of each other type; of datagrams behind all that comes meanwhile of what is more important, and in turns
    /// with what is as important; infinite where that has no end.
    pub queue: f64,
    /// For its bytes to leave.
    pub bytes: f64,
    /// On the way.
    pub way: f64,
    /// Variation of the way, or the buffer that evens it.
    pub jitter: f64,
    /// For correction that comes later.
    pub correction: f64,
    /// For what is sent again.
    pub resends: f64,
    /// For the answer to a request: its queue, bytes, way and jitter. A deadline of a request is kept for the round trip.
    pub answer: f64,
}

impl Time {
    /// All of it.
    pub fn all(&self) -> f64 {
        let Time { queue, bytes, way, jitter, correction, resends, answer } = *self;
        queue + bytes + way + jitter + correction + resends + answer
    }

    /// In words.
    pub fn words(&self) -> String {
        if !self.queue.is_finite() {
            return "any time: what goes before it, or in turn, may come as fast as it leaves"
                .to_owned();
        }
        let parts = [
            ("queue", self.queue),
            ("bytes", self.bytes),
            ("way", self.way),
            ("jitter", self.jitter),
            ("correction", self.correction),
            ("answer", self.answer),
            ("resending", self.resends),
        ];
        let parts =
            parts.iter().filter(|(_, ms)| *ms >= 0.5).map(|(name, ms)| format!("{name} {ms:.0}"));
        format!("{:.0} ms ({})", self.all(), parts.collect::<Vec<_>>().join(" + "))
    }
}

/// One way of a round trip.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// Milliseconds until all of it has arrived, if nothing is lost.
    ms: f64,
    /// The share of ADUs of which something is lost.
    loss: f64,
}

/// Why a way will not do.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// In words, with the numbers.
    pub why: String,
    /// The clauses that it comes of.
    pub clauses: Vec<String>,
    /// How many times more there is than may be; infinite where it is no matter of how much.
    pub excess: f64,
}

/// Failures that are closer than this to the first are no nearer than that: of those that are alike the simplest says best what is wrong.
const NEARER: f64 = 0.95;

/// Of all that will not do, which is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The simplest, which comes first.
    First,
    /// What comes nearest to what is asked for.
    Nearest,
}

impl Told {
    /// The one of two that is told.
    pub fn of(self, first: Option<Failure>, other: Failure) -> Failure {
        match first {
            Some(first) if self == Told::First || other.excess >= NEARER * first.excess => first,
            _ => other,
        }
    }
}

impl Failure {
    /// One that is no matter of how much.
    pub fn new(why: impl Into<String>, clauses: Vec<String>) -> Failure {
        Failure { why: why.into(), clauses, excess: f64::INFINITY }
    }

    /// There is so much, and no more than `may_be`.
    pub fn by(self, is: f64, may_be: f64) -> Failure {
        let excess = is / may_be;
        Failure { excess: if excess.is_nan() { f64::INFINITY } else { excess }, ..self }
    }
}

/// A type of ADU among others on a path.
pub struct Subject<'s> {
    /// The specification.
    pub of: &'s Specification,
    /// Which type.
    pub place: usize,
    /// What carries it.
    pub carrier: Carrier,
    /// At which rate datagrams leave at the worst corner.
    pace_kbit: f64,
    /// How long is waited, of ways that were looked at.
    known: &'s Known,
}

impl Subject<'_> {
    fn adu(&self) -> &Adu {
        &self.of.adus[self.place]
    }

    fn clauses(&self, own: &[&str], network: &[&str]) -> Vec<String> {
        let own = own.iter().map(|key| format!("adu.{}.{key}", self.adu().name));
        own.chain(network.iter().map(|key| format!("network.{key}"))).collect()
    }

    /// Every way that candidates leave, good or not.
    pub fn ways(&self, candidates: Set) -> Vec<(Set, Result<Way, Failure>)> {
        let of = |function| candidates.of_function(function);
        let mut ways = Vec::new();
        for order in of(Function::Order) {
            for resend in of(Function::Resend) {
                for fec in of(Function::Fec) {
                    for playout in of(Function::Playout) {
                        let set = Set::of([order, resend, fec, playout]);
                        let subject = Subject { carrier: self.carrier.of_way(set), ..*self };
                        let way = match self.carrier.is_beside(set) {
                            true => self
                                .unlike_a_stream(fec, playout)
                                .map_or_else(|| subject.way(set, resend, fec, playout), Err),
                            false => subject.way(set, resend, fec, playout),
                        };
                        ways.push((set, way));
                    }
                }
            }
        }
        ways
    }

    /// Why a stream beside datagrams does not carry this.
    fn unlike_a_stream(&self, fec: M, playout: M) -> Option<Failure> {
        let adu = self.adu();
        let (why, own, network): (_, &[&str], &[&str]) = if fec != M::NoFec {
            ("what is sent again needs no correction", &["reliability"], &[])
        } else if playout != M::NoPlayout {
            (
                "what is sent again comes when it comes",
                &["reliability", "jitter_ms"],
                &["jitter_ms"],
            )
        } else if !adu.adapt.value.is_empty() {
            (
                "a target is one for datagrams, and what is sent again is none",
                &["reliability", "adapt"],
                &[],
            )
        } else if adu.deadline_ms.value.is_some() && adu.late.value == Late::Drop {
            (
                "what is sealed into a stream cannot be dropped",
                &["reliability", "deadline_ms", "late"],
                &[],
            )
        } else {
            return None;
        };
        Some(Failure::new(why, self.clauses(own, network)))
    }

    /// Bytes of an ADU and how many a second, at each corner of what the application makes.
    fn loads(&self) -> Vec<(f64, f64)> {
        let adu = self.adu();
        let size = self.carrier.size(adu);
        match (adu.bitrate_kbit.value, adu.rate_hz.value) {
            (Some(bits), Some(rate)) if rate.low > 0.0 => {
                let of = |kbit: f64, hz: f64| {
                    ((kbit * 125.0 / hz).clamp(size.low.max(1.0).min(size.high), size.high), hz)
                };
                // Who lowers the frequency does so when quality is at its least.
                vec![of(bits.high, rate.high), of(bits.low, rate.low)]
            }
            (_, rate) => vec![(size.high, rate.map_or(0.0, |rate| rate.low))],
        }
    }

    fn packets(&self, bytes: f64) -> u16 {
        let packets = (bytes / self.carrier.payload(self.of)).ceil().clamp(1.0, 60_000.0);
        packets as u16
    }

    /// Bytes of all packets of an ADU, headers and correction with it. A packet of parity is as long as the longest of those
    /// behind which it goes, and its headers are those of all of them.
    fn sent_bytes(&self, bytes: f64, steps: &[FecStep]) -> f64 {
        let over = self.carrier.overhead();
        let room = self.carrier.payload(self.of);
        let whole = |packets: u16| bytes + f64::from(packets) * over;
        let packets = self.packets(bytes);
        let repairs = match step_of(steps, packets) {
            Fec::None => return whole(packets),
            Fec::Copy { .. } => return 2.0 * whole(packets),
            Fec::Xor => 1.0,
            Fec::ReedSolomon { parity } => f64::from(parity),
        };
        let room = (room - PARITY_BYTES).max(64.0);
        let packets = (bytes / room).ceil().clamp(1.0, 60_000.0) as u16;
        whole(packets) + repairs * (bytes.min(room) + over + PARITY_BYTES)
    }

    fn way(&self, set: Set, resend: M, fec: M, playout: M) -> Result<Way, Failure> {
        let network = &self.of.network;
        // Packets of an ADU leave one after the other.
        let whole = self.carrier.size(self.adu()).high.min(self.carrier.payload(self.of));
        let channel = self.channel(self.leave(whole + self.carrier.overhead()));
        let mut worst: Option<Figures> = None;
        let most = self.packets(self.carrier.size(self.adu()).high);
        let loads = self.loads();
        let promised = loads.iter().map(|(bytes, _)| self.packets(*bytes)).max().unwrap_or(1);
        let wanted = self.wanted_loss();
        if resend == M::UntilDeadline {
            self.sent_again_in_time(set, fec)?;
        }
        let steps = self.steps(fec, &channel, promised, most)?;
        for (bytes, hz) in loads {
            let packets = self.packets(bytes);
            let step = step_of(&steps, packets);
            let apart = self.channel(if hz > 0.0 { 1000.0 / hz } else { f64::INFINITY });
            // A copy goes with a later ADU.
            let its = if matches!(step, Fec::Copy { .. }) { &apart } else { &channel };
            let mut first = first_loss(its, packets, step);
            let mut figures = self.figures((bytes, hz), packets, step);
            if let Some(answer) = self.answer(&channel) {
                figures.time.answer = answer.ms;
                // Either of the two is sent again.
                first += (1.0 - first) * answer.loss;
            }
            let is_bounded = self.adu().deadline_ms.value.is_some() || playout != M::NoPlayout;
            if is_bounded && !figures.time.queue.is_finite() {
                return Err(self.too_much(&steps).unwrap_or_else(|| self.without_end()));
            }
            let (resends, resend_ms) = self.resends(resend, &figures, first, wanted);
            if resend == M::UntilDeadline && resends == 0 {
                return Err(self.too_late_again(&figures));
            }
            let loss = match resend {
                M::NoResend => first,
                M::UntilDeadline => self.lost_after(resends, packets, first),
                _ => 0.0,
            };
            let load = figures.load * self.sent_again(resend, 1.0);
            let newer = if set.has(M::Newest) && set.has(M::NoPlayout) {
                if fec == M::Copy {
                    return Err(self.copies_overtaken());
                }
                Overtaking::new(self.hz_most(hz), network.jitter_ms.value, packets)
            } else {
                None
            };
            let overtaken = newer.map_or(0.0, |newer| newer.share(1));
            let all = loss + (1.0 - loss) * overtaken;
            let mut figures = Figures { loss: all, overtaken, resends, load, ..figures };
            self.check_loss(&figures, resend, wanted)?;
            self.check_run(|run| apart.run_loss(loss, packets, run), newer)?;
            figures.time.resends = resend_ms;
            self.check_time(&figures, resend, first)?;
            if playout == M::NoPlayout {
                self.check_even(&figures)?;
            }
            if worst.as_ref().is_none_or(|w| figures.time.all() > w.time.all()) {
                let loss = worst.map_or(0.0, |w| w.loss).max(figures.loss);
                worst = Some(Figures { loss, ..figures });
            } else if let Some(w) = &mut worst {
                w.loss = w.loss.max(figures.loss);
            }
        }
        let mut figures = worst.unwrap_or_default();
        self.rates(&mut figures, &steps, self.sent_again(resend, AGAIN_ROOM));
        let playout = self.playout(playout, &figures);
        let fec = if fec == M::NoFec { Vec::new() } else { steps };
        Ok(Way { set, fec, playout, figures })
    }

    /// The loss that packets at this distance meet.
    fn channel(&self, apart_ms: f64) -> Channel {
        let network = &self.of.network;
        match network.loss_burst_ms.value {
            Some(burst_ms) => Channel::timed(network.loss.value, burst_ms, apart_ms),
            None => Channel::new(network.loss.value, network.loss_burst.value),
        }
    }

    /// The type that answers this one, if it is a request.
    fn reply(&self) -> Option<usize> {
        let name = self.adu().reply.value.as_ref()?;
        self.of.adus.iter().position(|adu| adu.name == *name)
    }

    /// The answer to a request at the worst corner, as a stream carries it.
    fn answer(&self, channel: &Channel) -> Option<Leg> {
        let place = self.reply().filter(|_| matches!(self.carrier.machine, M::Tcp | M::Xtp))?;
        let reply = Subject { place, ..*self };
        let legs = reply.loads().into_iter().map(|load| {
            let packets = reply.packets(load.0);
            let ms = reply.figures(load, packets, Fec::None).time.all();
            Leg { ms, loss: first_loss(channel, packets, Fec::None) }
        });
        legs.reduce(|a, b| Leg { ms: a.ms.max(b.ms), loss: a.loss.max(b.loss) })
    }

    /// How many a second come at most at a corner: where nobody says how quality and frequency go together, at the largest.
    fn hz_most(&self, hz: f64) -> f64 {
        let adu = self.adu();
        let rate = adu.rate_hz.value.unwrap_or(Range::new(0.0, 0.0));
        if adu.bitrate_kbit.value.is_some() && rate.low > 0.0 { hz } else { rate.high }
    }

    fn copies_overtaken(&self) -> Failure {
        let why = "a copy comes behind newer ones, and what is older than the newest is dropped";
        Failure::new(why, self.clauses(&["order", "jitter_ms"], &["jitter_ms"]))
    }

    /// The share that may be lost.
    fn wanted_loss(&self) -> f64 {
        let adu = self.adu();
        if adu.reliability.value == Preference::Require { 1.0 } else { adu.loss.value }
    }

    /// Correction by packets, up to the longest ADU; it must do up to `promised` packets.
    fn steps(
        &self,
        fec: M,
        channel: &Channel,
        promised: u16,
        most: u16,
    ) -> Result<Vec<FecStep>, Failure> {
        let none = |packets_max| vec![FecStep { packets_max, fec: Fec::None }];
        // Without a wish for fewer losses there is nothing to correct; what is sent again asks for none.
        let wanted = self.wanted_loss();
        let fail = |why: String| {
            Failure::new(why, self.clauses(&["loss"], &["loss", "loss_burst", "loss_burst_ms"]))
        };
        match fec {
            M::Copy => {
                if most > 1 {
                    let why = format!("copies are of ADUs of one packet, and this may have {most}");
                    return Err(Failure::new(
                        why,
                        self.clauses(&["type", "size_bytes"], &["mtu_bytes"]),
                    ));
                }
                // A copy goes with a later ADU.
                let hz = self.adu().rate_hz.value.map_or(0.0, |rate| rate.low);
                let channel = self.channel(if hz > 0.0 { 1000.0 / hz } else { 0.0 });
                let burst = match self.of.network.loss_burst_ms.value {
                    Some(burst_ms) => burst_ms * hz / 1000.0,
                    None => self.of.network.loss_burst.value,
                };
                let apart = (1..=DISTANCE_MAX).filter(|d| f64::from(*d) > burst);
                let found = apart.clone().find(|d| channel.copy_loss(*d) <= wanted);
                let distance = found.ok_or_else(|| {
                    let least = channel.copy_loss(DISTANCE_MAX);
                    fail(format!(
                        "even copied {DISTANCE_MAX} packets later {} are lost",
                        percent(least)
                    ))
                    .by(least, wanted)
                })?;
                Ok(vec![FecStep { packets_max: 1, fec: Fec::Copy { distance } }])
            }
            M::Xor | M::ReedSolomon => {
                let mut steps: Vec<FecStep> = Vec::new();
                let mut parity = 0_u8;
                for packets in 1..=most.min(BLOCK_PACKETS_MAX - 1) {
                    let room = (BLOCK_PACKETS_MAX - packets).min(PARITY_MAX.into()) as u8;
                    while parity < room && channel.adu_loss(packets, parity) > wanted {
                        parity += 1;
                    }
                    let is_enough = channel.adu_loss(packets, parity) <= wanted;
                    let is_allowed = fec == M::ReedSolomon || parity <= 1;
                    if !(is_enough && is_allowed) {
                        if packets <= promised {
                            let parity = if fec == M::Xor { 1 } else { parity };
                            let lost = channel.adu_loss(packets, parity);
                            let share = percent(lost);
                            let why =
                                format!("{share} of ADUs of {packets}+{parity} packets are lost");
                            return Err(fail(why).by(lost, wanted));
                        }
                        break;
                    }
                    let fec = match parity {
                        0 => Fec::None,
                        1 => Fec::Xor,
                        parity => Fec::ReedSolomon { parity },
                    };
                    match steps.last_mut() {
                        Some(last) if last.fec == fec => last.packets_max = packets,
                        _ => steps.push(FecStep { packets_max: packets, fec }),
                    }
                }
                if promised > BLOCK_PACKETS_MAX - 1 {
                    return Err(fail(format!(
                        "{promised} packets are more than a block of {BLOCK_PACKETS_MAX}"
                    )));
                }
                if steps.iter().all(|step| step.fec == Fec::None) {
                    return Err(fail("nothing is left for it to correct".to_owned()));
                }
                Ok(steps)
            }
            _ => Ok(none(most)),
        }
    }

    fn figures(&self, (bytes, hz): (f64, f64), packets: u16, step: Fec) -> Figures {
        let network = &self.of.network;
        let load = packets_with(packets, step) / f64::from(packets);
        let correction = match step {
            Fec::Copy { distance } if hz > 0.0 => f64::from(distance) * 1000.0 / hz,
            _ => 0.0,
        };
        let whole = self.sent_bytes(bytes, &[FecStep { packets_max: packets, fec: step }]);
        let left = self.leave(whole);
        let (queue, frame) = match self.carrier.machine {
            M::Datagram => self.among_datagrams(bytes, hz, (left, packets_with(packets, step))),
            _ => {
                // Who adapts makes no more than the path's target, so one has left when the next is made.
                let adapts = !self.adu().adapt.value.is_empty() && hz > 0.0;
                (self.queue(), if adapts { left.min(1000.0 / hz) } else { left })
            }
        };
        let time = Time {
            queue,
            bytes: frame,
            way: network.rtt_ms.value.high / 2.0,
            jitter: network.jitter_ms.value,
            correction,
            resends: 0.0,
            answer: 0.0,
        };
        Figures { bytes, packets, load, time, ..Figures::default() }
    }

    fn check_loss(&self, figures: &Figures, resend: M, wanted: f64) -> Result<(), Failure> {
        let adu = self.adu();
        if figures.loss > wanted {
            let again = match (resend, figures.resends) {
                (M::NoResend, _) if adu.reliability.value == Preference::Prohibit => String::new(),
                (M::NoResend, _) => "where nothing is sent again, ".to_owned(),
                (_, 1) => "sent again once in time, ".to_owned(),
                (_, n) => format!("sent again {n} times in time, "),
            };
            let (newer, own, network): (_, &[&str], &[&str]) = match figures.overtaken > 0.0 {
                true => (
                    format!(", {} as newer ones overtake them", percent(figures.overtaken)),
                    &["loss", "order", "rate_hz"],
                    &["loss", "loss_burst", "loss_burst_ms", "jitter_ms"],
                ),
                false => (String::new(), &["loss"], &["loss", "loss_burst", "loss_burst_ms"]),
            };
            let why = format!(
                "{again}{} of {} are lost{newer}, {} may be",
                percent(figures.loss),
                of_packets(figures.packets),
                percent(wanted)
            );
            return Err(Failure::new(why, self.clauses(own, network)).by(figures.loss, wanted));
        }
        Ok(())
    }

    /// No more in a row than may be, of those that are lost and those that newer ones overtake.
    fn check_run(
        &self,
        lost: impl Fn(u32) -> f64,
        newer: Option<Overtaking>,
    ) -> Result<(), Failure> {
        let adu = self.adu();
        let run = adu.loss_run.value.filter(|_| adu.reliability.value != Preference::Require);
        let Some(run) = run.map(|run| run as u32) else { return Ok(()) };
        let (network, share) = (lost(run), run_share(run, &lost, newer));
        if share <= RUN_SHARE_MAX {
            return Ok(());
        }
        let (why, own, causes): (_, &[&str], &[&str]) = match share > network {
            true => (
                ", or that newer ones overtake",
                &["loss_run", "order", "rate_hz"],
                &["loss", "loss_burst", "loss_burst_ms", "jitter_ms"],
            ),
            false => ("", &["loss_run"], &["loss", "loss_burst", "loss_burst_ms"]),
        };
        let why = format!("{} of them begin a run of more than {run} lost{why}", percent(share));
        Err(Failure::new(why, self.clauses(own, causes)).by(share, RUN_SHARE_MAX))
    }

    fn check_time(&self, figures: &Figures, resend: M, first: f64) -> Result<(), Failure> {
        let adu = self.adu();
        let Some(deadline) = adu.deadline_ms.value else { return Ok(()) };
        if figures.time.all() <= deadline {
            return Ok(());
        }
        let network = ["rtt_ms", "rate_mbit", "jitter_ms"];
        let mut clauses = self.clauses(&["deadline_ms"], &network);
        if let Some(place) = self.reply().filter(|_| figures.time.answer > 0.0) {
            let reply = &self.of.adus[place].name;
            clauses.extend(self.clauses(&["reply"], &[]));
            clauses.push(format!("adu.{reply}.size_bytes"));
        }
        let again = match (resend, adu.late.value) {
            (M::NoResend | M::UntilDeadline, _) => String::new(),
            _ if figures.resends == 0 => String::new(),
            (_, Late::Deliver | Late::Drop) => {
                clauses.extend(self.clauses(&["reliability"], &["loss"]));
                format!(
                    " with {} sent again, without which {} would be late",
                    figures.resends,
                    percent(first)
                )
            }
        };
        if self.carrier.machine == M::Datagram {
            clauses.extend(self.without_end().clauses);
        }
        let why = format!("it takes {}{again}; {deadline} may pass", figures.time.words());
        Err(Failure::new(why, clauses).by(figures.time.all(), deadline))
    }

    /// What it loads, at least and at most: bits and packets.
    fn rates(&self, figures: &mut Figures, steps: &[FecStep], again: f64) {
        let adu = self.adu();
        let of_rate = |hz: f64, bytes: f64| {
            let packets = self.packets(bytes);
            let packets = packets_with(packets, step_of(steps, packets));
            (hz * self.sent_bytes(bytes, steps) * again * 8.0, hz * packets * again)
        };
        let size = self.carrier.size(adu);
        // Where nobody says how many there are, and nothing holds them back, they are as short as they may be.
        let is_fixed = || self.of.adus.iter().all(|adu| adu.adapt.value.is_empty());
        let is_short =
            self.carrier.machine == M::Datagram && adu.rate_hz.value.is_none() && is_fixed();
        let least = size.low.max(1.0).min(size.high);
        let bits = |kbit: f64, hz: f64| match hz > 0.0 {
            true => of_rate(hz, kbit * 125.0 / hz),
            false if is_short && kbit > 0.0 => of_rate(kbit * 125.0 / least, least),
            false => of_rate(1.0, kbit * 125.0),
        };
        let (least, most) = match (adu.bitrate_kbit.value, adu.rate_hz.value) {
            (Some(kbit), rate) => {
                let hz = rate.unwrap_or(Range::new(0.0, 0.0));
                (bits(kbit.low, hz.low), Some(bits(kbit.high, hz.high)))
            }
            (None, Some(rate)) => {
                (of_rate(rate.low, size.high), Some(of_rate(rate.high, size.high)))
            }
            (None, None) => ((0.0, 0.0), None),
        };
        (figures.least_bits, figures.least_packets) = least;
        (figures.most_bits, figures.most_packets) = most.unzip();
    }

    fn playout(&self, playout: M, figures: &Figures) -> Option<Playout> {
        let time = &figures.time;
        // From when it was sent: the application hears of it no earlier than the latest that may come.
        let ms = time.bytes + time.way + time.jitter + time.correction + time.resends + time.queue;
        let us = (ms * 1000.0).ceil() as u64;
        match playout {
            M::Fixed => Some(Playout::Fixed { delay_us: us }),
            M::Adaptive => Some(Playout::Adaptive { delay_us_max: us }),
            _ => None,
        }
    }
}

fn of_packets(packets: u16) -> String {
    if packets == 1 { "them".to_owned() } else { format!("ADUs of {packets} packets") }
}

/// A share in words.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        p if p >= 1.0 => format!("{p:.1} %"),
        p if p >= 0.01 => format!("{p:.2} %"),
        _ => format!("{percent:.1e} %"),
    }
}

/// The correction of so many packets.
pub fn step_of(steps: &[FecStep], packets: u16) -> Fec {
    let step = steps.iter().find(|step| step.packets_max >= packets).or(steps.last());
    step.map_or(Fec::None, |step| step.fec)
}

/// Packets with their correction.
pub fn packets_with(packets: u16, fec: Fec) -> f64 {
    let packets = f64::from(packets);
    match fec {
        Fec::None => packets,
        Fec::Copy { .. } => 2.0 * packets,
        Fec::Xor => packets + 1.0,
        Fec::ReedSolomon { parity } => packets + f64::from(parity),
    }
}

/// The share that is lost if nothing is sent again.
pub fn first_loss(channel: &Channel, packets: u16, fec: Fec) -> f64 {
    match fec {
        Fec::None => channel.adu_loss(packets.min(4096), 0),
        Fec::Copy { distance } => channel.copy_loss(distance),
        Fec::Xor => channel.adu_loss(packets, 1),
        Fec::ReedSolomon { parity } => channel.adu_loss(packets, parity),
    }
}
