//! One context of a responder's.

use crate::machine::{Connection as _, Stage};
use core::net::SocketAddr;

use super::super::connection::{Connection, INITIAL_ALLOC, first_sync};
use super::super::half_open::Place;
use super::super::headers::when;
use super::super::receive::{nothing, plan};
use super::super::{Config, Header, Transmit};
use super::connection::Asked;
use super::{WHOLE, is_whole_message, packet, unchecked};
use crate::machine::{DropCause, Initial};
use crate::ranges::Ranges;
use fusewire_base::Instant;
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, HEADER_LEN, Key, Limits, Options, Reason, Service,
};

/// Pieces of a request that lie apart.
const PIECES: usize = 32;

/// What a request has come to.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing was taken yet.
    New,
    /// Not all of it has come.
    Gathering(Box<Gathered>),
    /// The application has it.
    Handed,
    /// The answer is one packet that asks nothing, and is kept.
    Answered { len: u32, proves_itself: bool },
    /// Service 2: it was handed over.
    Delivered,
    /// The application has given it up.
    Refused,
    /// Its initiator was told that it came.
    Talking(Box<Connection>),
    /// There is nothing to be said.
    Spent,
}

/// What has come of a request.
#[derive(Debug)]
pub(super) struct Gathered {
    nxt: u64,
    ranges: Ranges,
    end: Option<u64>,
}

/// A request, and what is said to it.
#[derive(Debug)]
pub(super) struct Context {
    pub remote: SocketAddr,
    pub peer: Key,
    pub own: Key,
    pub service: Service,
    pub btag: Option<u64>,
    pub phase: Phase,
    /// Bytes of the request.
    pub len: u32,
    /// Bytes of a packet on its path, where that is known.
    pub tpdu_len: Option<usize>,
    /// The priority of what is said.
    sort: Option<u16>,
    /// It has something to say.
    pub is_ready: bool,
    /// Nothing new will be said in it.
    pub is_retired: bool,
    address: Address,
    limits: Option<Limits>,
    /// The latest of the initiator's.
    sync: u32,
    /// Bytes that may be sent.
    credit: u64,
    place: Option<Place>,
    /// The answer has left before.
    again: bool,
}

impl Context {
    /// Its application has not answered, and somebody waits for that.
    pub fn waits_for_answer(&self) -> bool {
        match &self.phase {
            Phase::Handed => self.service == Service::Transaction,
            Phase::Talking(c) => {
                !self.is_retired && c.stage() != Stage::Closed && !c.send.finishing
            }
            _ => false,
        }
    }

    /// Of the first packet of a request, which was verified and is not taken yet.
    pub fn new(
        h: &Header,
        first: &First,
        remote: SocketAddr,
        keys: (Key, Key),
        (credit, place): (u64, Option<Place>),
        sort: Option<u16>,
    ) -> Context {
        Context {
            remote,
            peer: keys.1,
            own: keys.0,
            service: first.traffic.service,
            btag: None,
            phase: Phase::New,
            len: 0,
            tpdu_len: None,
            sort,
            is_ready: false,
            is_retired: false,
            address: first.address,
            limits: first.traffic.limits,
            sync: h.sync,
            credit,
            place,
            again: false,
        }
    }

    /// A verified packet of this context has come: it may be answered by as much.
    pub fn credit(&mut self, h: &Header) {
        self.sync = h.sync;
        self.credit = self.credit.saturating_add(h.packet_len() as u64);
    }

    /// FIRST, while not all has come: which part of it is new.
    pub fn plan(&self, h: &Header, len: u32) -> Result<Initial, DropCause> {
        let end = h.seq + u64::from(len);
        let planned = match &self.phase {
            Phase::Gathering(_) if end > INITIAL_ALLOC => return Err(DropCause::OutOfWindow),
            Phase::Gathering(gathered) => plan(&gathered.ranges, gathered.nxt, h.seq..end, end)?,
            _ => nothing(h.seq, len),
        };
        Ok(if len == 0 { Initial::Control } else { Initial::Payload(planned) })
    }

    /// A FIRST was verified, and what is new of it stored: true if the request is whole with it.
    ///
    /// # Errors
    /// It contradicts what came before.
    pub fn take(&mut self, h: &Header, initial: &Initial, payload_len: u32) -> Result<bool, ()> {
        if let (Phase::New, Body::First(first)) = (&self.phase, &h.body) {
            if is_whole_message(h) {
                (self.btag, self.len) = (first.btag, payload_len);
                self.phase = Phase::Handed;
                return Ok(true);
            }
            let gathered = Gathered { nxt: 0, ranges: Ranges::new(PIECES), end: None };
            self.phase = Phase::Gathering(Box::new(gathered));
        }
        let Phase::Gathering(gathered) = &mut self.phase else { return Ok(false) };
        let end = h.seq + u64::from(payload_len);
        let had = gathered.nxt.max(gathered.ranges.end());
        if h.options.has(Options::WCLOSE) && gathered.end != Some(end) {
            if gathered.end.is_some() || end < had {
                return Err(());
            }
            gathered.end = Some(end);
        }
        if gathered.end.is_some_and(|last| end > last) {
            return Err(());
        }
        if let Body::First(First { btag: Some(btag), .. }) = h.body
            && h.seq == 0
        {
            self.btag = Some(btag);
        }
        if let Initial::Payload(plan) = initial
            && plan.len > 0
        {
            let (from, to) = (plan.offset, plan.offset + u64::from(plan.len));
            if from == gathered.nxt {
                gathered.nxt = gathered.ranges.advance(to);
            } else {
                gathered.ranges.insert(from, to);
            }
        }
        if gathered.end != Some(gathered.nxt) {
            return Ok(false);
        }
        self.len = gathered.nxt as u32;
        self.phase = Phase::Handed;
        Ok(true)
    }

    /// An answer of so many bytes is one packet that may leave now.
    pub fn fits(&self, cfg: &Config, len: u32) -> bool {
        let packet_len = HEADER_LEN as u64 + u64::from(len);
        let maxdata = self.limits.map_or(u32::MAX, |limits| limits.dlen_max());
        packet_len <= self.tpdu_len.unwrap_or(cfg.send_tpdu_len) as u64
            && len <= maxdata
            && len <= cfg.answer_alloc
            && packet_len <= self.credit
    }

    /// Its initiator is told that the request came.
    pub fn talk(&mut self, cfg: &Config, now: Instant) -> &mut Connection {
        if !matches!(self.phase, Phase::Talking(_)) {
            let asked = Asked {
                own: self.own,
                peer: self.peer,
                address: self.address,
                len: self.len.into(),
                sync: self.sync,
                limits: self.limits,
                credit: self.credit,
            };
            let send_tpdu_len = self.tpdu_len.unwrap_or(cfg.send_tpdu_len);
            let cfg = Config { send_tpdu_len, ..cfg.clone() };
            self.phase = Phase::Talking(Box::new(asked.context(&cfg, self.service, now)));
        }
        let Phase::Talking(c) = &mut self.phase else { unreachable!("it was made") };
        c
    }

    /// Its peer has shown our key.
    pub fn proven(&mut self, now: Instant) {
        if let Some(place) = self.place.take() {
            place.shown(now);
        }
    }

    /// Its peer need not prove itself any more.
    pub fn leave_place(&mut self) {
        self.place = None;
    }

    /// What is to be said now.
    pub fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        let end = match &mut self.phase {
            Phase::Talking(c) => return c.poll_transmit(now),
            _ if !self.is_ready => return None,
            Phase::New | Phase::Gathering(_) | Phase::Handed => return None,
            Phase::Answered { len, proves_itself } => {
                let options = WHOLE | unchecked(*proves_itself);
                let len = *len;
                return self.say(options, len, Body::Data { btag: None }, 0);
            }
            Phase::Delivered => Options::RCLOSE | Options::WCLOSE | Options::END,
            Phase::Refused => Options::END,
            Phase::Spent => {
                let diag = Diag { code: Code::ProtocolError, reason: Reason::Unspecified };
                let sent = self.say(Options::NONE, 0, Body::Diag(diag), 0);
                return sent;
            }
        };
        let rseq = u64::from(self.len);
        self.say(end, 0, Body::Cntl(Control { rseq, alloc: rseq, echo: self.sync }), 0)
    }

    fn say(
        &mut self,
        options: Options,
        len: u32,
        body: Body<super::super::Spans>,
        seq: u64,
    ) -> Option<Transmit> {
        self.is_ready = false;
        let sync = if matches!(body, Body::Diag(_)) { 0 } else { first_sync(self.own) };
        let is_data = matches!(body, Body::Data { .. });
        let header = Header {
            key: self.peer,
            returned: true,
            options: options | when(self.sort.is_some(), Options::SORT),
            check: 0,
            sort: self.sort.unwrap_or(0),
            sync,
            seq,
            data_len: len,
            body,
        };
        let packet_len = header.packet_len() as u64;
        // What came again may have been shorter: it is answered by no more than it was.
        self.credit = self.credit.checked_sub(packet_len)?;
        let again = core::mem::replace(&mut self.again, true);
        Some(packet(header, is_data.then_some(0..u64::from(len)), again))
    }
}

/// FIRST that has a whole message, of a service that takes one.
pub(super) fn is_datagram(h: &Header) -> bool {
    is_whole_message(h) && h.options.has(WHOLE | Options::END)
}
