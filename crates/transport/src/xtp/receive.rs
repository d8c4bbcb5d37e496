//! The receive half: what has come, what may come, and what the peer has asked for.

use super::config::Config;
use super::connection::Connection;
use super::state::State;
use crate::autotune::Round;
use crate::machine::{DropCause, PayloadPlan};
use crate::ranges::Ranges;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Span, SpanList};
use std::collections::VecDeque;

/// Gaps that are passed over and not yet told.
const GAPS_MAX: usize = 256;

/// The receive half of a context.
#[derive(Debug, Default)]
pub(super) struct Receive {
    /// rseq: everything below has come, or was passed over.
    pub nxt: u64,
    /// alloc as it was given; never moves left.
    pub adv: u64,
    /// What lies below was consumed by the application.
    pub consumed: u64,
    /// Size of the window now, in bytes.
    pub window: u32,
    /// Size up to which autotuning goes.
    pub window_max: u32,
    pub ranges: Ranges,
    /// Where the peer's stream ends; `u64::MAX` until it is known.
    pub fin: u64,
    /// All of it has come.
    pub done: bool,
    /// The peer looks at no alloc.
    pub noflow: bool,
    /// Records from here on prove themselves.
    pub proves_from: Option<u64>,
    /// An answer is owed when everything below is consumed.
    pub delivery_asked: Option<u64>,
    /// Bytes below `nxt` that were passed over, and not yet told: the first gap, and all.
    pub gaps: VecDeque<(u64, u64)>,
    /// Most payload in one packet so far.
    pub segment_len_max: u32,
    pub heard_at: Instant,
    pub data_at: Instant,
    round: Round,
}

impl Receive {
    pub fn new(cfg: &Config, now: Instant) -> Receive {
        let window_max = cfg.recv_window.max(1);
        let window = cfg.initial_recv_window.clamp(1, window_max);
        Receive {
            window,
            window_max,
            adv: window.into(),
            ranges: Ranges::new(cfg.max_ranges),
            fin: u64::MAX,
            heard_at: now,
            data_at: now,
            round: Round::begin(0, 0, window),
            ..Receive::default()
        }
    }

    /// Frees memory when nothing will be received any more.
    pub fn release(&mut self) {
        self.ranges = Ranges::new(1);
        self.gaps = VecDeque::new();
    }

    /// Whether data at `start..end` may have been sent by who knows what we gave (section 9, rule 4).
    pub fn is_acceptable(&self, start: u64, end: u64) -> bool {
        let edge = if self.noflow { self.nxt + (1 << 31) } else { self.adv };
        start <= end && self.nxt <= end && end <= edge
    }

    /// The stream begins at `offset` for who receives it.
    pub fn begin_at(&mut self, offset: u64) {
        (self.nxt, self.consumed) = (offset, offset);
        self.adv = offset + u64::from(self.window);
        self.round = Round::begin(offset, offset, self.window);
    }

    /// What of a packet's data at `start..end` is new, inside the window and has room.
    pub fn plan(&self, start: u64, end: u64) -> Result<PayloadPlan, DropCause> {
        plan(&self.ranges, self.nxt, start..end, self.adv.min(self.fin))
    }

    /// `start..end`, which was planned, has come; true when that opens a gap before it. What is missing before it is
    /// passed over when nothing is sent again (`noerr`).
    pub fn take(&mut self, start: u64, end: u64, noerr: bool) -> bool {
        if start == self.nxt {
            self.nxt = self.ranges.advance(end);
            return false;
        }
        if noerr {
            self.pass_over(start, end);
            return false;
        }
        let opens_gap = start > self.ranges.end();
        self.ranges.insert(start, end);
        opens_gap
    }

    /// The application has consumed everything below `upto`; false when it had before.
    pub fn consume(&mut self, upto: u64) -> bool {
        let upto = upto.min(self.nxt);
        if upto <= self.consumed {
            return false;
        }
        self.consumed = upto;
        self.window = self.round.window(self.window, self.window_max, self.nxt, upto);
        true
    }

    /// What was exhausted has opened by a quarter or by a packet: that is told unasked.
    pub fn has_opened(&self) -> bool {
        let edge = self.consumed + u64::from(self.window);
        let gain = edge.saturating_sub(self.adv);
        let packet = u64::from(self.segment_len_max.max(1));
        let quarter = u64::from(self.window / 4).max(1);
        self.adv - self.nxt < packet && gain >= quarter.min(2 * packet)
    }

    /// Moves alloc as far as silly-window avoidance lets it, and gives it.
    pub fn advertise(&mut self) -> u64 {
        let edge = self.consumed + u64::from(self.window);
        let worth = u64::from(self.window / 2).min(u64::from(self.segment_len_max.max(1)));
        if edge >= self.adv + worth {
            self.adv = edge;
        }
        self.adv
    }

    /// alloc as far as there is room: where nobody is told, no step is too small.
    pub fn widen(&mut self) {
        self.adv = self.adv.max(self.consumed + u64::from(self.window));
    }

    /// `from..to` never comes. Nobody asks: where there are too many gaps the last grows, over what has come between.
    fn note_gap(&mut self, from: u64, to: u64) {
        let full = self.gaps.len() >= GAPS_MAX;
        match self.gaps.back_mut() {
            _ if from >= to => {}
            Some(last) if full => last.1 = to,
            _ => self.gaps.push_back((from, to)),
        }
    }

    /// What of `consumed..start` has come counts as missing, too, and is passed over with the rest.
    pub fn give_up(&mut self, start: u64) {
        let mut from = self.consumed;
        while let Some(gap) = self.gaps.pop_back_if(|gap| gap.1 > self.consumed) {
            from = from.min(gap.0);
        }
        self.note_gap(from, start);
        self.nxt = self.nxt.max(start);
    }

    /// This byte has come.
    pub fn has(&self, at: u64) -> bool {
        at < self.nxt || self.ranges.range_at(at).is_some()
    }

    /// The peer sends nothing again: what is missing below `end` is passed over, and `start..end` has come.
    pub fn pass_over(&mut self, start: u64, end: u64) {
        while self.nxt < start {
            let (from, to) = self.ranges.first_gap(self.nxt, start);
            self.note_gap(from, to);
            self.nxt = self.ranges.advance(to);
        }
        self.nxt = self.ranges.advance(self.nxt.max(end));
    }

    /// The lowest spans, and in the last place the one that changed last if it is not among them.
    pub fn spans<const N: usize>(&self) -> SpanList<N> {
        let mut spans = SpanList::new(self.nxt);
        for (left, right) in self.ranges.iter().take(N - 1) {
            spans.push(Span { left, right });
        }
        let next = self.ranges.iter().nth(N - 1);
        let latest =
            self.ranges.latest().filter(|latest| next.is_some_and(|next| next.0 < latest.0));
        if let Some((left, right)) = latest.or(next) {
            spans.push(Span { left, right });
        }
        spans
    }
}

/// What of a packet's data is new below `edge`, and has room, where everything below `nxt` has come and `ranges` beyond it.
pub(super) fn plan(
    ranges: &Ranges,
    nxt: u64,
    data: core::ops::Range<u64>,
    edge: u64,
) -> Result<PayloadPlan, DropCause> {
    let to = data.end.min(edge);
    let (from, to) = ranges.first_gap(data.start.max(nxt).min(to), to);
    if from >= to {
        return Ok(nothing(data.start, (data.end - data.start) as u32));
    }
    if from > nxt && !ranges.has_room(from, to) {
        return Err(DropCause::TooManyRanges);
    }
    Ok(PayloadPlan {
        offset: from,
        len: (to - from) as u32,
        trim_front: (from - data.start) as u32,
        trim_back: (data.end - to) as u32,
        in_order: from == nxt,
        duplicate: false,
    })
}

/// A plan to take nothing of a payload.
pub(super) fn nothing(start: u64, payload_len: u32) -> PayloadPlan {
    PayloadPlan {
        offset: start,
        len: 0,
        trim_front: payload_len,
        trim_back: 0,
        in_order: false,
        duplicate: true,
    }
}

impl Connection {
    /// The application has consumed everything below the stream offset `upto`.
    pub fn consumed(&mut self, upto: u64) {
        let receives = self.receives();
        let recv = &mut self.recv;
        if !recv.consume(upto) {
            return;
        }
        let upto = recv.consumed;
        if recv.delivery_asked.is_some_and(|asked| upto >= asked) {
            recv.delivery_asked = None;
            self.events.answer |= receives;
        }
        self.events.answer |= recv.has_opened() && receives;
        self.messages.consumed(upto);
    }

    /// The receiver holds more than it did.
    pub fn widen_window(&mut self, bytes: u32) {
        let recv = &mut self.recv;
        let window = bytes.min(recv.window_max);
        if window > recv.window {
            recv.window = window;
            recv.round = Round::begin(recv.consumed, recv.nxt, window);
            self.events.answer |= self.receives();
        }
    }

    /// A control should leave now.
    pub fn wants_ack(&self) -> bool {
        self.events.answer || self.events.gap || self.events.traffic
    }

    /// Data may still come.
    pub(super) fn receives(&self) -> bool {
        matches!(self.state, State::Open | State::HalfOpen) && !self.recv.done
    }
}
