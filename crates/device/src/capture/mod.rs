//! What passes a device, written as pcapng that tshark and Wireshark dissect as TCP ([`tpdu`]); and captures
//! that are begun and ended while a stack runs ([`feed`]).

pub mod feed;
#[cfg(feature = "interfaces")]
pub mod packets;
pub mod tpdu;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use crate::pcapng::Direction;
use crate::pcapng::{self, LINKTYPE_ETHERNET};
use crate::{Capabilities, Device, Ecn, RxBatch, TxFrame};
use tpdu::{Tpdu, Tpdus};

/// Writes TPDUs as pcapng.
pub struct Writer<W: Write> {
    out: W,
    tpdus: Tpdus,
    blocks: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture of one interface, `device`, whose own address is `local`, with TPDUs of the `protocol` that has
    /// that number in IP.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W, device: &str, local: SocketAddr, protocol: u8) -> io::Result<Self> {
        let mut blocks = Vec::new();
        pcapng::section(&mut blocks);
        pcapng::interface(&mut blocks, LINKTYPE_ETHERNET, device, 0);
        let tpdus = Tpdus::new(&mut blocks, local, protocol);
        out.write_all(&blocks)?;
        Ok(Writer { out, tpdus, blocks })
    }

    /// Writes one TPDU.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn write(
        &mut self,
        time: Duration,
        direction: Direction,
        peer: SocketAddr,
        ecn: Ecn,
        parts: [&[u8]; 2],
    ) -> io::Result<()> {
        self.blocks.clear();
        let tpdu = Tpdu { time, direction, peer, ecn, comment: "", snap_len: usize::MAX };
        self.tpdus.write(&mut self.blocks, &tpdu, parts);
        self.out.write_all(&self.blocks)
    }

    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A device whose frames are captured. A capture that cannot be written ends, and the device goes on.
pub struct Capture<D, W: Write = BufWriter<File>> {
    inner: D,
    writer: Option<Writer<W>>,
    clock: Box<dyn FnMut() -> Duration + Send>,
    /// The inner device's capabilities, with a note when the capture ended.
    ended: Option<Capabilities>,
}

impl<D: Device> Capture<D> {
    /// Captures TPDUs of a `protocol`, by its number in IP, into a new file, in the time of the day.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn to_file(inner: D, path: &Path, protocol: u8) -> io::Result<Self> {
        let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::new(inner, BufWriter::with_capacity(1 << 18, File::create(path)?), protocol, clock)
    }
}

impl<D: Device, W: Write + Send> Capture<D, W> {
    /// Captures TPDUs of a `protocol` into `out`; `clock` gives the time since the start of 1970.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(
        inner: D,
        out: W,
        protocol: u8,
        clock: impl FnMut() -> Duration + Send + 'static,
    ) -> io::Result<Self> {
        let writer = Writer::new(out, inner.caps().name, inner.local_addr(), protocol)?;
        Ok(Capture { inner, writer: Some(writer), clock: Box::new(clock), ended: None })
    }

    /// Why the capture ended early, if it did.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_ref().and_then(|caps| caps.notes.last()).map(String::as_str)
    }

    /// Writes frames until one fails.
    fn record<'a>(
        &mut self,
        direction: Direction,
        frames: impl Iterator<Item = (SocketAddr, Ecn, [&'a [u8]; 2])>,
    ) {
        let Some(writer) = &mut self.writer else { return };
        let time = (self.clock)();
        for (peer, ecn, parts) in frames {
            if let Err(e) = writer.write(time, direction, peer, ecn, parts) {
                self.end(&e);
                return;
            }
        }
    }

    fn end(&mut self, e: &io::Error) {
        self.writer = None;
        let mut caps = self.inner.caps().clone();
        caps.notes.push(format!("capture ended: {e}"));
        self.ended = Some(caps);
    }
}

impl<D, W: Write> Drop for Capture<D, W> {
    fn drop(&mut self) {
        if let Some(writer) = &mut self.writer {
            // Nobody is left to be told.
            let _ = writer.flush();
        }
    }
}

impl<D: Device, W: Write + Send> Device for Capture<D, W> {
    crate::forward!(self => self.inner; local_addr named next_timeout waker as_fd drops poll_event);

    fn caps(&self) -> &Capabilities {
        self.ended.as_ref().unwrap_or_else(|| self.inner.caps())
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let taken = self.inner.transmit(frames)?;
        let sent = frames[..taken].iter().filter(|frame| !frame.is_empty());
        self.record(Direction::Out, sent.map(|f| (f.peer, f.ecn, [f.header, f.payload])));
        Ok(taken)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let count = self.inner.receive(batch)?;
        let frames = batch.iter().flat_map(|p| p.frames().map(move |f| (p.peer, p.ecn, [f, &[]])));
        self.record(Direction::In, frames);
        Ok(count)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        // Idle: a reader of the file may as well see what there is.
        if let Some(writer) = &mut self.writer
            && timeout != Some(Duration::ZERO)
            && let Err(e) = writer.flush()
        {
            self.end(&e);
        }
        self.inner.wait(timeout, want_write)
    }
}
