//! What passes a device, written as pcapng (draft-ietf-opsawg-pcapng) that tshark and Wireshark
//! dissect as TCP.
//!
//! Each TPDU gets an Ethernet and an IPv6 header made for the capture. Their addresses are those of
//! the constant pseudo-header ([`encapsulation::address`]), so that the TPDU's own checksum is right as
//! it stands. Endpoint 0 is the local side; peers are numbered as they are met, and name
//! resolution blocks give the numbers their true addresses.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fusewire_wire::{ethernet, ipv6};

use crate::{Capabilities, Device, Ecn, Event, RxBatch, TxFrame, Waker, encapsulation};

const LINKTYPE_ETHERNET: u16 = 1;
const PROTOCOL_TCP: u8 = 6;
/// Bytes before a TPDU.
const MAX_HEADERS: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + ipv6::JUMBO_LEN;
/// Peers that get a number of their own; all later ones share the last.
const MAX_PEERS: u16 = u16::MAX - 1;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the local side.
    In = 1,
    /// From the local side.
    Out = 2,
}

/// Writes TPDUs as pcapng.
pub struct Writer<W: Write> {
    out: W,
    local: SocketAddr,
    peers: HashMap<SocketAddr, u16>,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture of one interface, `device`, whose own address is `local`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W, device: &str, local: SocketAddr) -> io::Result<Self> {
        let mut writer = Writer { out, local, peers: HashMap::new(), block: Vec::new() };
        // Section header: byte order, version 1.0, section of unknown length.
        writer.block(0x0a0d_0d0a, |block| {
            block.extend(0x1a2b_3c4du32.to_le_bytes());
            block.extend([1, 0, 0, 0]);
            block.extend([0xff; 8]);
            option(block, 4, b"fusewire");
            end_of_options(block);
        })?;
        // Interface description: nanoseconds, no snap length.
        writer.block(1, |block| {
            block.extend(LINKTYPE_ETHERNET.to_le_bytes());
            block.extend([0; 6]);
            option(block, 2, device.as_bytes());
            option(block, 9, &[9]);
            end_of_options(block);
        })?;
        writer.name(0, local)?;
        Ok(writer)
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
        let number = self.number(peer)?;
        let (source, destination) = match direction {
            Direction::In => (number, 0),
            Direction::Out => (0, number),
        };
        let mut headers = [0; MAX_HEADERS];
        let tpdu_len = parts[0].len() + parts[1].len();
        let headers_len = make_headers(&mut headers, source, destination, ecn, tpdu_len);
        let len = u32::try_from(headers_len + tpdu_len).unwrap_or(u32::MAX);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Enhanced packet: interface 0, time, captured and original length, bytes, direction.
        self.block(6, |block| {
            block.extend([0; 4]);
            block.extend(((time >> 32) as u32).to_le_bytes());
            block.extend((time as u32).to_le_bytes());
            block.extend(len.to_le_bytes());
            block.extend(len.to_le_bytes());
            block.extend(&headers[..headers_len]);
            block.extend(parts[0]);
            block.extend(parts[1]);
            pad(block);
            option(block, 2, &(direction as u32).to_le_bytes());
            end_of_options(block);
        })
    }

    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The peer's endpoint number; a new one is written with its address.
    fn number(&mut self, peer: SocketAddr) -> io::Result<u16> {
        if peer == self.local {
            return Ok(1 + MAX_PEERS);
        }
        if let Some(&number) = self.peers.get(&peer) {
            return Ok(number);
        }
        let number = u16::try_from(self.peers.len() + 1).unwrap_or(MAX_PEERS).min(MAX_PEERS);
        if number < MAX_PEERS {
            self.peers.insert(peer, number);
            self.name(number, peer)?;
        }
        Ok(number)
    }

    /// Writes a name resolution block: the true address of an endpoint.
    fn name(&mut self, number: u16, addr: SocketAddr) -> io::Result<()> {
        let name = addr.to_string();
        self.block(4, |block| {
            block.extend(2u16.to_le_bytes());
            block.extend((16 + name.len() as u16 + 1).to_le_bytes());
            block.extend(encapsulation::address(number));
            block.extend(name.as_bytes());
            block.push(0);
            pad(block);
            block.extend([0; 4]);
        })
    }

    /// Writes one block around what `body` appends.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]);
        body(&mut self.block);
        let len = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend(len);
        self.out.write_all(&self.block)
    }
}

/// Fills in Ethernet and IPv6 headers; returns their length.
fn make_headers(
    out: &mut [u8; MAX_HEADERS],
    from: u16,
    to: u16,
    ecn: Ecn,
    tpdu_len: usize,
) -> usize {
    let station = |n: u16| {
        let [a, b] = n.to_be_bytes();
        ethernet::Address([2, 0, 0, 0, a, b])
    };
    let ethernet = ethernet::Header {
        destination: station(to),
        source: station(from),
        ethertype: ethernet::EtherType::IPV6,
        header_len: ethernet::HEADER_LEN as u8,
    };
    let at = ethernet.emit(out);
    let ip = ipv6::Header {
        traffic_class: ecn as u8,
        flow_label: 0,
        payload_len: 0,
        next_header: PROTOCOL_TCP,
        hop_limit: 64,
        source: Ipv6Addr::from(encapsulation::address(from)),
        destination: Ipv6Addr::from(encapsulation::address(to)),
    };
    at + ip.emit_for(PROTOCOL_TCP, tpdu_len, &mut out[at..])
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    pad(block);
}

fn end_of_options(block: &mut Vec<u8>) {
    block.extend([0; 4]);
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
    /// Captures into a new file, in the time of the day.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn to_file(inner: D, path: &Path) -> io::Result<Self> {
        let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::new(inner, BufWriter::with_capacity(1 << 18, File::create(path)?), clock)
    }
}

impl<D: Device, W: Write + Send> Capture<D, W> {
    /// Captures into `out`; `clock` gives the time since the start of 1970.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(
        inner: D,
        out: W,
        clock: impl FnMut() -> Duration + Send + 'static,
    ) -> io::Result<Self> {
        let writer = Writer::new(out, inner.caps().name, inner.local_addr())?;
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
    fn caps(&self) -> &Capabilities {
        self.ended.as_ref().unwrap_or_else(|| self.inner.caps())
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
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

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }
}
