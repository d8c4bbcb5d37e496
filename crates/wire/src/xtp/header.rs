//! The header and the bodies behind it (`docs/xtp.md`, sections 1 to 3 and 6).

use fusewire_base::Sum;

use super::options::BTAG;
use super::{
    Address, CHECK_AT, Code, Diag, Error, Format, HEADER_LEN, Key, OFFSET_MAX, Options, RTN,
    Reason, SpanList, SpanSlice, Spans, TRAILER_LEN, Traffic, VERSION, Writer, half, length, long,
    take, truncated, upper, value, word,
};

const CONTROL_LEN: usize = 20;
const TRAFFIC_CONTROL_LEN: usize = 32;
const SPAN_LEN: usize = 16;

/// What was received of a stream, and how much may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Everything below has come.
    pub rseq: u64,
    /// What lies below may be sent; `alloc ≥ rseq`.
    pub alloc: u64,
    /// The latest `sync` that was heard.
    pub echo: u32,
}

impl Control {
    fn parse(bytes: &[u8; CONTROL_LEN]) -> Result<Control, Error> {
        let control =
            Control { rseq: long(bytes, 0), alloc: long(bytes, 8), echo: word(bytes, 16) };
        if control.rseq > OFFSET_MAX {
            return Err(value("rseq", upper(control.rseq)));
        }
        if control.alloc < control.rseq || control.alloc > OFFSET_MAX {
            return Err(value("alloc", upper(control.alloc)));
        }
        Ok(control)
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.long(self.rseq);
        to.long(self.alloc);
        to.word(self.echo);
    }
}

/// What FIRST has before its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// What is asked for; not null.
    pub address: Address,
    /// For what; with limits.
    pub traffic: Traffic,
    /// The sender's own key where the header has a returned one, which is a cookie.
    pub xkey: Option<Key>,
    /// Eight bytes of the user's.
    pub btag: Option<u64>,
}

/// What TCNTL has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficControl {
    /// What was received.
    pub control: Control,
    /// In multicast the delay of a receiver, in µs; otherwise 0.
    pub delay_us: u32,
    /// The sender's own key, to be returned.
    pub xkey: Key,
    /// What the sender of this wants.
    pub traffic: Traffic,
}

impl TrafficControl {
    fn take(bytes: &mut &[u8]) -> Result<(Control, u32, Key), Error> {
        let control = Control::parse(take::<CONTROL_LEN>(bytes, HEADER_LEN)?)?;
        let rest = take::<12>(bytes, HEADER_LEN + CONTROL_LEN)?;
        Ok((control, word(rest, 0), Key::parse("xkey", long(rest, 4))?))
    }

    fn write(&self, to: &mut Writer<'_>) {
        self.control.write(to);
        to.word(self.delay_us);
        to.long(self.xkey.bits());
    }
}

/// What JCNTL has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinControl {
    /// As in TCNTL.
    pub traffic: TrafficControl,
    /// The group; not null.
    pub address: Address,
}

/// FIRST or JCNTL with segments that nobody takes. All of its body counts as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What its sender is told.
    pub diag: Diag,
    /// The sender's key: that of the header, or JCNTL's xkey.
    pub key: Key,
}

/// What lies between the header and the data, by format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<S> {
    /// DATA.
    Data {
        /// Eight bytes of the user's.
        btag: Option<u64>,
    },
    /// CNTL.
    Cntl(Control),
    /// FIRST.
    First(First),
    /// ECNTL.
    Ecntl(Control, S),
    /// TCNTL.
    Tcntl(TrafficControl),
    /// JCNTL.
    Jcntl(JoinControl),
    /// DIAG; its data are text.
    Diag(Diag),
    /// A question or an answer about the path; its data are the question or the answer.
    Path,
    /// FIRST or JCNTL that is refused for what its segments say.
    Unfit(Unfit),
}

impl<S: Spans> Body<S> {
    /// The format that says so.
    pub const fn format(&self) -> Format {
        match self {
            Body::Data { .. } => Format::Data,
            Body::Cntl(_) => Format::Cntl,
            Body::First(_) => Format::First,
            Body::Ecntl(..) => Format::Ecntl,
            Body::Tcntl(_) => Format::Tcntl,
            Body::Jcntl(_) => Format::Jcntl,
            Body::Diag(_) => Format::Diag,
            Body::Path => Format::Path,
            Body::Unfit(unfit) => match unfit.diag.code {
                Code::JoinRefused => Format::Jcntl,
                _ => Format::First,
            },
        }
    }

    /// What it says was received; an answer always does.
    pub const fn control(&self) -> Option<&Control> {
        match self {
            Body::Cntl(control) | Body::Ecntl(control, _) => Some(control),
            Body::Tcntl(traffic) | Body::Jcntl(JoinControl { traffic, .. }) => {
                Some(&traffic.control)
            }
            _ => None,
        }
    }

    const fn btag(&self) -> Option<u64> {
        match self {
            Body::Data { btag } | Body::First(First { btag, .. }) => *btag,
            _ => None,
        }
    }

    #[inline]
    fn emit_len(&self) -> usize {
        let btag_len = if self.btag().is_some() { 8 } else { 0 };
        match self {
            Body::Data { .. } => btag_len,
            Body::Cntl(_) => CONTROL_LEN,
            Body::First(first) => {
                let xkey_len = if first.xkey.is_some() { 8 } else { 0 };
                first.address.emit_len() + first.traffic.emit_len() + xkey_len + btag_len
            }
            Body::Ecntl(_, spans) => CONTROL_LEN + 4 + SPAN_LEN * spans.iter().len(),
            Body::Tcntl(tcntl) => TRAFFIC_CONTROL_LEN + tcntl.traffic.emit_len(),
            Body::Jcntl(JoinControl { traffic, address }) => {
                TRAFFIC_CONTROL_LEN + address.emit_len() + traffic.traffic.emit_len()
            }
            Body::Diag(_) => 8,
            Body::Path | Body::Unfit(_) => 0,
        }
    }

    /// Behind the header; the tag last.
    #[inline(never)]
    fn write(&self, btag: Option<u64>, to: &mut Writer<'_>) {
        match self {
            Body::Cntl(control) => control.write(to),
            Body::First(first) => {
                first.address.write(to);
                first.traffic.write(to);
                if let Some(xkey) = first.xkey {
                    to.long(xkey.bits());
                }
            }
            Body::Ecntl(control, spans) => {
                control.write(to);
                to.word(spans.iter().len() as u32);
                for span in spans.iter() {
                    to.long(span.left);
                    to.long(span.right);
                }
            }
            Body::Tcntl(tcntl) => {
                tcntl.write(to);
                tcntl.traffic.write(to);
            }
            Body::Jcntl(JoinControl { traffic, address }) => {
                traffic.write(to);
                address.write(to);
                traffic.traffic.write(to);
            }
            Body::Diag(Diag { code, reason }) => {
                to.word(code.number());
                to.word(reason.number());
            }
            Body::Data { .. } | Body::Path | Body::Unfit(_) => {}
        }
        if let Some(btag) = btag {
            to.long(btag);
        }
    }
}

/// What lies before the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<S> {
    /// The context.
    pub key: Key,
    /// RTN: the key is the receiver's own.
    pub returned: bool,
    /// Options.
    pub options: Options,
    /// Check field.
    pub check: u16,
    /// Priority, with SORT.
    pub sort: u16,
    /// Counts the questions of the sender.
    pub sync: u32,
    /// Offset of the first data byte, or behind the last that was sent.
    pub seq: u64,
    /// Bytes of data behind this header, without the trailer.
    pub data_len: u32,
    /// What lies between these fields and the data.
    pub body: Body<S>,
}

impl<S: Spans> Header<S> {
    /// Bytes that [`Header::emit`] writes: all before the data.
    #[inline]
    pub fn emit_len(&self) -> usize {
        HEADER_LEN + self.body.emit_len()
    }

    /// Bytes of the trailer behind the data.
    #[inline]
    pub const fn trailer_len(&self) -> usize {
        match self.body {
            Body::Data { .. } if self.options.has(Options::RES) => TRAILER_LEN,
            _ => 0,
        }
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn packet_len(&self) -> usize {
        self.emit_len() + self.data_len as usize + self.trailer_len()
    }

    /// Whether the check covers more than the first [`HEADER_LEN`] bytes.
    #[inline]
    pub const fn checks_all(&self) -> bool {
        !self.options.has(Options::NOCHECK)
    }

    /// Writes what lies before the data and returns its length. The check is written as it stands.
    ///
    /// # Panics
    /// When `out` is shorter than [`Header::emit_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = self.emit_len();
        let (head, rest) = out[..len].split_at_mut(HEADER_LEN);
        let btag = self.body.btag();
        let key = self.key.bits() | if self.returned { RTN } else { 0 };
        let cmd = self.options.bits() | if btag.is_some() { BTAG } else { 0 };
        let cmd = cmd | u32::from(VERSION) << 5 | self.body.format() as u32;
        let dlen = rest.len() as u32 + self.data_len + self.trailer_len() as u32;
        head[..8].copy_from_slice(&key.to_be_bytes());
        head[8..12].copy_from_slice(&cmd.to_be_bytes());
        head[12..16].copy_from_slice(&dlen.to_be_bytes());
        head[CHECK_AT..18].copy_from_slice(&self.check.to_be_bytes());
        head[18..20].copy_from_slice(&self.sort.to_be_bytes());
        head[20..24].copy_from_slice(&self.sync.to_be_bytes());
        head[24..].copy_from_slice(&self.seq.to_be_bytes());
        if !rest.is_empty() {
            self.body.write(btag, &mut Writer { out: rest, at: 0 });
        }
        len
    }
}

impl Header<SpanSlice<'_>> {
    /// The same, with no more of its packet than the first `N` spans.
    #[inline]
    pub fn keep<const N: usize>(&self) -> Header<SpanList<N>> {
        let body = match self.body {
            Body::Data { btag } => Body::Data { btag },
            Body::Cntl(control) => Body::Cntl(control),
            Body::First(first) => Body::First(first),
            Body::Ecntl(control, spans) => {
                let mut kept = SpanList::new(control.rseq);
                let _ = spans.iter().all(|span| kept.push(span));
                Body::Ecntl(control, kept)
            }
            Body::Tcntl(tcntl) => Body::Tcntl(tcntl),
            Body::Jcntl(jcntl) => Body::Jcntl(jcntl),
            Body::Diag(diag) => Body::Diag(diag),
            Body::Path => Body::Path,
            Body::Unfit(unfit) => Body::Unfit(unfit),
        };
        let Header { key, returned, options, check, sort, sync, seq, data_len, .. } = *self;
        Header { key, returned, options, check, sort, sync, seq, data_len, body }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What lies before the data.
    pub header: Header<SpanSlice<'a>>,
    /// The data.
    pub data: &'a [u8],
    /// CXOR of body and data, where it was sent.
    pub trailer: Option<u32>,
}

impl<'a> Packet<'a> {
    /// Reads a packet, which is all of `bytes`. The check is left to [`verifies`].
    ///
    /// # Errors
    /// `Truncated` when a body ends before its fields do; `Length` of dlen, nspan, and of what follows the last field;
    /// `Value` of a field that holds what it must not, with the upper half of one that has 64 bits. Segments that cannot
    /// be taken are no error, but [`Body::Unfit`], unless the key is returned.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let mut rest = bytes;
        let fixed = take::<HEADER_LEN>(&mut rest, 0)?;
        let (name, cmd, dlen) = (long(fixed, 0), word(fixed, 8), word(fixed, 12));
        let key = Key::new(name).ok_or(value("key", upper(name)))?;
        if cmd as u8 >> 5 != VERSION {
            return Err(value("version", cmd >> 5 & 7));
        }
        if dlen as usize != rest.len() {
            return Err(length("dlen", dlen as usize));
        }
        let (returned, options) = (name & RTN != 0, Options::of_cmd(cmd));
        // Most packets are data, and nothing else.
        let body = if cmd & (0x1f | BTAG) == 0 && !options.has(Options::RES) {
            Body::Data { btag: None }
        } else {
            let format = Format::parse(cmd as u8 & 31)?;
            let frame = Frame { key, returned, cmd, options, format };
            frame.check_combination()?;
            frame.take_body(&mut rest)?
        };
        let mut header = Header {
            key,
            returned,
            options,
            check: half(fixed, CHECK_AT),
            sort: half(fixed, 18),
            sync: word(fixed, 20),
            seq: long(fixed, 24),
            data_len: 0,
            body,
        };
        let (data, trailer) = match rest.len().checked_sub(header.trailer_len()) {
            Some(data_len) => rest.split_at(data_len),
            None => return Err(truncated(bytes.len() - rest.len() + TRAILER_LEN, bytes.len())),
        };
        if !trailer.is_empty() && data.is_empty() {
            return Err(value("cmd", cmd));
        }
        let is_control = header.body.control().is_some();
        if is_control && !data.is_empty() {
            return Err(length("dlen", dlen as usize));
        }
        header.data_len = data.len() as u32;
        let end = header.seq.saturating_add(header.data_len.into());
        if end > OFFSET_MAX && !matches!(header.body, Body::Path) {
            return Err(value("seq", upper(header.seq)));
        }
        let trailer = (!trailer.is_empty()).then(|| word(trailer, 0));
        Ok(Packet { header, data, trailer })
    }
}

/// What the fixed header says of what follows.
struct Frame {
    key: Key,
    returned: bool,
    cmd: u32,
    options: Options,
    format: Format,
}

impl Frame {
    /// Options and RTN, by format.
    fn check_combination(&self) -> Result<(), Error> {
        let (cmd, key) = (value("cmd", self.cmd), value("key", upper(self.key.bits())));
        match self.format {
            Format::Data => {
                let trailer = self.options.has(Options::RES);
                if trailer && self.checks_all() { Err(cmd) } else { Ok(()) }
            }
            Format::First => Ok(()),
            _ if self.options.has(Options::EOM) || self.cmd & BTAG != 0 => Err(cmd),
            Format::Diag => Ok(()),
            _ => self.returned.then_some(()).ok_or(key),
        }
    }

    const fn checks_all(&self) -> bool {
        !self.options.has(Options::NOCHECK)
    }

    /// Takes all before the data off the front of `rest`, which is all behind the header.
    #[inline(never)]
    fn take_body<'a>(&self, rest: &mut &'a [u8]) -> Result<Body<SpanSlice<'a>>, Error> {
        let dlen = rest.len();
        Ok(match self.format {
            Format::Data => Body::Data { btag: self.take_btag(rest, HEADER_LEN)? },
            Format::Cntl => Body::Cntl(Control::parse(take(rest, HEADER_LEN)?)?),
            Format::First => {
                let whole = *rest;
                match self.take_segments(rest, HEADER_LEN) {
                    Ok((address, traffic)) => {
                        let at = |rest: &[u8]| HEADER_LEN + dlen - rest.len();
                        let xkey = if self.returned {
                            Some(Key::parse("xkey", long(take::<8>(rest, at(rest))?, 0))?)
                        } else {
                            None
                        };
                        let btag = self.take_btag(rest, at(rest))?;
                        Body::First(First { address, traffic, xkey, btag })
                    }
                    Err((error, _)) if self.returned => return Err(error),
                    Err((_, reason)) => {
                        *rest = whole;
                        unfit(Code::ContextRefused, reason, self.key)
                    }
                }
            }
            Format::Ecntl => {
                let control = Control::parse(take(rest, HEADER_LEN)?)?;
                let nspan = word(take::<4>(rest, HEADER_LEN + CONTROL_LEN)?, 0);
                if u64::from(nspan) * SPAN_LEN as u64 != rest.len() as u64 {
                    return Err(length("nspan", nspan as usize));
                }
                let spans = SpanSlice::parse(control.rseq, core::mem::take(rest))?;
                Body::Ecntl(control, spans)
            }
            Format::Tcntl => {
                let (control, delay_us, xkey) = TrafficControl::take(rest)?;
                let traffic = Traffic::take(rest, HEADER_LEN + TRAFFIC_CONTROL_LEN)?;
                Body::Tcntl(TrafficControl { control, delay_us, xkey, traffic })
            }
            Format::Jcntl => {
                let whole = *rest;
                let (control, delay_us, xkey) = TrafficControl::take(rest)?;
                match self.take_segments(rest, HEADER_LEN + TRAFFIC_CONTROL_LEN) {
                    Ok((address, traffic)) => {
                        let traffic = TrafficControl { control, delay_us, xkey, traffic };
                        Body::Jcntl(JoinControl { traffic, address })
                    }
                    Err((_, reason)) => {
                        *rest = whole;
                        unfit(Code::JoinRefused, reason, xkey)
                    }
                }
            }
            Format::Diag => {
                let fields = take::<8>(rest, HEADER_LEN)?;
                Body::Diag(Diag {
                    code: Code::from_number(word(fields, 0)),
                    reason: Reason::from_number(word(fields, 4)),
                })
            }
            Format::Path => Body::Path,
        })
    }

    fn take_btag(&self, rest: &mut &[u8], before: usize) -> Result<Option<u64>, Error> {
        if self.cmd & BTAG == 0 {
            return Ok(None);
        }
        Ok(Some(long(take::<8>(rest, before)?, 0)))
    }

    /// Both segments of FIRST or JCNTL; what is wrong, and what its sender is told of it.
    fn take_segments(
        &self,
        rest: &mut &[u8],
        before: usize,
    ) -> Result<(Address, Traffic), (Error, Reason)> {
        let address = Address::take(rest, before)
            .map_err(|error| (error, Reason::of(error, Reason::MalformedAddress)))?;
        if address == Address::Null {
            return Err((value("aformat", 0), Reason::AddressFormat));
        }
        let before = before + address.emit_len();
        let traffic = Traffic::take(rest, before)
            .map_err(|error| (error, Reason::of(error, Reason::MalformedTraffic)))?;
        let Traffic { service, limits } = traffic;
        if limits.is_none() && self.format == Format::First {
            return Err((value("tformat", 0), Reason::TrafficFormat));
        }
        if service.is_multicast() != self.options.has(Options::MULTI) {
            return Err((value("cmd", self.cmd), Reason::Options));
        }
        Ok((address, traffic))
    }
}

const fn unfit<'a>(code: Code, reason: Reason, key: Key) -> Body<SpanSlice<'a>> {
    Body::Unfit(Unfit { diag: Diag { code, reason }, key })
}

/// What of a whole packet the check covers.
fn covered(packet: &[u8]) -> &[u8] {
    let nocheck = packet.get(8).is_some_and(|cmd| cmd & 0x40 != 0);
    let len = if nocheck { HEADER_LEN.min(packet.len()) } else { packet.len() };
    &packet[..len]
}

/// Whether the check of a whole packet is right.
pub fn verifies(packet: &[u8]) -> bool {
    packet.len() >= HEADER_LEN && Sum::of(covered(packet)).verifies()
}

/// Writes the check of a whole packet.
///
/// # Panics
/// When it is shorter than [`HEADER_LEN`].
pub fn seal(packet: &mut [u8]) {
    packet[CHECK_AT..][..2].fill(0);
    let check = Sum::of(covered(packet)).checksum();
    packet[CHECK_AT..][..2].copy_from_slice(&check.to_be_bytes());
}
