//! Frames in and out, and when to sleep: what both ends of a group have in common.

use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
#[cfg(feature = "view")]
use fusewire_device::capture::feed::{self, Blocks, Options};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_kernels::Level;
use fusewire_transport::machine::{Again, DropCause};
use fusewire_transport::xtp::{Header, SPANS, Transmit};
use fusewire_wire::xtp::{CHECK_AT, HEADER_LEN, Packet};

use crate::trace::{Kind, Trace};
use crate::watch::Watch;
use crate::{Clock, Error, Result};

/// Frames that are given to the device at once.
const FRAMES: usize = 128;
/// The longest header of ours: ECNTL with all spans, or JCNTL with IPv6's segment.
const HEADER_MAX: usize = HEADER_LEN + 24 + 16 * SPANS;
/// Super-packets that are taken at once, and how often that is done in one turn while more wait.
const SLOTS: usize = 8;
const TAKES_MAX: usize = 8;
/// A timer that is nearer than this is waited for awake.
const SPIN: Duration = Duration::from_micros(60);
/// How long the device may stay full before what is left counts as lost.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// A frame that came: its header, the header's sum with its check, and the data; or why none of that can be read.
pub(super) type Read<'a> = std::result::Result<(&'a Header, Sum, &'a [u8]), DropCause>;

/// A device, a clock, and frames on their way out.
pub(super) struct Turns<D> {
    pub device: D,
    pub clock: Clock,
    pub level: Level,
    /// What came and left last.
    pub trace: Trace,
    watch: Watch,
    batch: RxBatch,
    headers: Box<[[u8; HEADER_MAX]; FRAMES]>,
    planned: Vec<Planned>,
}

/// A frame on its way out.
struct Planned {
    peer: SocketAddr,
    header_len: usize,
    /// Where its payload lies.
    payload: std::ops::Range<usize>,
    kind: Kind,
}

impl<D: Device> Turns<D> {
    pub fn new(device: D) -> Turns<D> {
        Turns {
            device,
            clock: Clock::new(),
            level: Level::detect(),
            trace: Trace::default(),
            watch: Watch::default(),
            batch: RxBatch::new(SLOTS),
            headers: vec![[0; HEADER_MAX]; FRAMES].try_into().expect("so many"),
            planned: Vec::with_capacity(FRAMES),
        }
    }

    /// No frame more can be planned.
    pub fn is_full(&self) -> bool {
        self.planned.len() == FRAMES
    }

    /// A frame leaves with the next [`Turns::give`]; its payload lies in `memory`.
    pub fn plan(
        &mut self,
        peer: SocketAddr,
        transmit: &Transmit,
        memory: &[u8],
        payload: std::ops::Range<usize>,
    ) {
        let header = &transmit.header;
        // What goes to a group again is what members say that they miss.
        let kind = Kind::leaving(transmit, Again::Rack);
        self.trace.segment(kind, self.clock.now(), header, header.data_len);
        let room = &mut self.headers[self.planned.len()];
        let header_len = header.emit(room);
        let mut sum = Sum::of_few(&room[..header_len]);
        if header.checks_all() {
            sum += fusewire_kernels::sum(self.level, &memory[payload.clone()]);
        }
        room[CHECK_AT..][..2].copy_from_slice(&sum.checksum().to_be_bytes());
        self.planned.push(Planned { peer, header_len, payload, kind });
    }

    /// Gives the device what is planned; how many frames that were.
    pub fn give(&mut self, memory: &[u8]) -> usize {
        let Some(first) = self.planned.first() else { return 0 };
        let nothing = TxFrame { peer: first.peer, header: &[], payload: &[], ecn: Ecn::NotEct };
        let mut frames = [nothing; FRAMES];
        for (n, (frame, planned)) in frames.iter_mut().zip(&self.planned).enumerate() {
            frame.peer = planned.peer;
            frame.header = &self.headers[n][..planned.header_len];
            frame.payload = &memory[planned.payload.clone()];
        }
        let count = self.planned.len();
        self.watch.now = self.clock.now();
        self.watch.sent_tpdus(&frames[..count], |at| self.planned[at].kind.words());
        let mut left = &frames[..count];
        while !left.is_empty() {
            match self.device.transmit(left) {
                Ok(taken) => left = &left[taken..],
                Err(error) => {
                    tracing::warn!(%error, "cannot send");
                    break;
                }
            }
            if !left.is_empty() && !self.device.wait(Some(FULL_WAIT), true).unwrap_or(false) {
                break;
            }
        }
        self.planned.clear();
        count
    }

    /// Takes what waits in the device; `each` gets who sent it and what it is, and says what became of it. How many there
    /// were.
    pub fn take(&mut self, mut each: impl FnMut(SocketAddr, Read<'_>) -> Kind) -> Result<usize> {
        let mut count = 0;
        let now = self.clock.now();
        self.watch.now = now;
        for _ in 0..TAKES_MAX {
            self.device.receive(&mut self.batch).map_err(Error::os("receiving"))?;
            for packet in self.batch.iter() {
                for frame in packet.frames() {
                    count += 1;
                    let kind = take_frame(now, packet.peer, frame, &mut self.trace, &mut each);
                    self.watch.became(kind);
                    self.watch.received_tpdu(packet.peer, packet.ecn, frame);
                }
            }
            if self.batch.len() < self.batch.capacity() {
                break;
            }
        }
        self.watch.flush();
        Ok(count)
    }

    /// Begins a capture of every packet that comes and leaves; `None` when one is under way.
    #[cfg(feature = "view")]
    pub fn capture(&mut self, options: Options) -> Option<Blocks> {
        let (caps, local, now) = (self.device.caps(), self.device.local_addr(), self.clock.now());
        let number = fusewire_wire::xtp::NUMBER;
        self.watch.begin(|| feed::of_device(caps.name, local, number, options, now))
    }

    /// Time until `next`, or until the device has something by itself.
    pub fn due(&self, next: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        let next = next.map(|at| at.saturating_since(now));
        [next, self.device.next_timeout()].into_iter().flatten().min()
    }

    /// Sleeps until something comes, `next` or `timeout`; a near timer is waited for awake.
    pub fn sleep(&mut self, next: Option<Instant>, timeout: Option<Duration>) -> Result<()> {
        let now = self.clock.now();
        let next = next.map(|at| at.saturating_since(now));
        let wait = match (next, timeout) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if wait.is_some_and(|wait| wait < SPIN) {
            std::hint::spin_loop();
            return Ok(());
        }
        self.device.wait(wait, false).map_err(Error::os("waiting"))?;
        Ok(())
    }
}

fn take_frame(
    now: Instant,
    from: SocketAddr,
    frame: &[u8],
    trace: &mut Trace,
    each: &mut impl FnMut(SocketAddr, Read<'_>) -> Kind,
) -> Kind {
    let Ok(parsed) = Packet::parse(frame) else { return each(from, Err(DropCause::Malformed)) };
    if parsed.trailer.is_some() {
        return each(from, Err(DropCause::Protocol));
    }
    let header = parsed.header.keep::<SPANS>();
    let before = frame.len() - parsed.data.len();
    let covered = if header.checks_all() { before } else { HEADER_LEN };
    let kind = each(from, Ok((&header, Sum::of_few(&frame[..covered]), parsed.data)));
    trace.segment(kind, now, &header, header.data_len);
    kind
}
