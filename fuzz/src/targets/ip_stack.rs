//! The IP stack from frame to delivery: any packets with any notes of the device, of sockets that are in the middle
//! of something, and any calls of an application. It never fails; what it sends is well-formed; sockets come
//! to an end when everybody is silent.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::Waker;
use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket,
};
use fusewire_net::{Packet, Via};
use fusewire_stack::ip::{Config, SocketId, Stack};
use fusewire_wire::tcp::{self, Flags, Header};
use fusewire_wire::{ipv4, ipv6, udp};

use crate::Choices;

const OWN: [&str; 2] = ["10.0.0.1", "2001:db8::1"];
const THEIRS: [&str; 2] = ["10.0.0.2", "2001:db8::2"];
const MAX_STEPS: usize = 3_000;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut host = Host::new(choices.u8());
    for _ in 0..MAX_STEPS {
        if choices.is_empty() {
            break;
        }
        host.step(&mut choices);
        host.drive();
    }
    for id in std::mem::take(&mut host.streams) {
        // It may be gone already.
        let _ = host.stack.close(host.now, id);
    }
    // Orphans are given up, and TIME-WAIT ends.
    for _ in 0..200 {
        host.now += Duration::from_secs(5);
        host.drive();
    }
    assert!(host.stack.sockets() <= 3, "{:?}", host.stack.snapshot());
}

type Queued = (Vec<u8>, Checksum, Segmentation);

/// What both ends of the interface see.
#[derive(Default)]
struct Wire {
    inward: VecDeque<Queued>,
    /// The last TCP header that the stack sent, and where to.
    last: Option<(Header, IpAddr)>,
}

struct Scripted {
    wire: Arc<Mutex<Wire>>,
    batch: Vec<Queued>,
    capabilities: Capabilities,
    waker: Waker,
    full: bool,
}

impl Interface for Scripted {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        // Full every other time, if at all.
        self.full = !self.full && self.capabilities.name == "full";
        let count = if self.full { packets.len() / 2 } else { packets.len() };
        for packet in &packets[..count] {
            let mut bytes = packet.header.to_vec();
            packet.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
            self.look(&bytes, packet);
        }
        Ok(count)
    }
    fn receive(&mut self) -> io::Result<usize> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        self.batch = wire.inward.drain(..).collect();
        Ok(self.batch.len())
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        let (bytes, checksum, segmentation) = &self.batch[index];
        RxPacket { bytes, checksum: *checksum, segmentation: *segmentation }
    }
    fn wait(&mut self, _: Option<Duration>, _: bool) -> io::Result<bool> {
        Ok(false)
    }
    fn waker(&self) -> Waker {
        self.waker.clone()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn dropped(&self) -> u64 {
        0
    }
}

impl Scripted {
    /// What the stack sends is a packet within bounds.
    fn look(&mut self, bytes: &[u8], packet: &TxPacket<'_>) {
        let (start, protocol, remote) = if bytes[0] >> 4 == 4 {
            let header = ipv4::Header::parse(bytes).expect("a legal header");
            assert_eq!(usize::from(header.total_len), bytes.len());
            if header.is_fragment() {
                return;
            }
            (usize::from(header.header_len), header.protocol, header.destination.into())
        } else {
            let header = ipv6::Header::parse(bytes).expect("a legal header");
            (ipv6::HEADER_LEN, header.next_header, IpAddr::V6(header.destination))
        };
        let whole = packet.segmentation == Segmentation::None;
        assert!(!whole || bytes.len() <= self.capabilities.mtu, "{} bytes", bytes.len());
        match protocol {
            tcp::NUMBER => {
                let header = Header::parse(&bytes[start..]).expect("a legal header");
                let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
                wire.last = Some((header, remote));
            }
            udp::NUMBER => {
                udp::Header::parse(&bytes[start..]).expect("a legal header");
            }
            _ => {}
        }
    }
}

struct Host {
    stack: Stack,
    wire: Arc<Mutex<Wire>>,
    now: Instant,
    streams: Vec<SocketId>,
    listener: SocketId,
    udp: SocketId,
}

impl Host {
    fn new(how: u8) -> Host {
        let offload = how & 1 != 0;
        let wire = Arc::<Mutex<Wire>>::default();
        let interface = Scripted {
            wire: wire.clone(),
            batch: Vec::new(),
            capabilities: Capabilities {
                name: if how & 2 != 0 { "full" } else { "scripted" },
                link: Link::Ip,
                mac: None,
                mtu: 1500,
                checksum: offload,
                tcp_segmentation: offload,
                udp_segmentation: offload,
                receive_offload: true,
                max_packet_bytes: 65_535,
                notes: Vec::new(),
            },
            waker: Waker::new().expect("a descriptor"),
            full: false,
        };
        let mut net = Stack::net_config(&interface);
        net.addresses = OWN.map(|a| format!("{a}/24").parse().expect("a network")).to_vec();
        let mut config = Config { max_sockets: 16, max_time_wait: 4, ..Config::default() };
        config.tcp.recv_window = 64 << 10;
        config.tcp.send_buffer = 64 << 10;
        config.tcp.ecn = how & 4 != 0;
        let now = Instant::from_ms(1_000_000);
        let mut stack = Stack::new(Box::new(interface), net, config, [3; 32], now);
        let any: SocketAddr = "[::]:80".parse().expect("an address");
        let listener = stack.tcp_listen(any, 4).expect("a free port");
        let udp = stack.udp_bind(SocketAddr::new(any.ip(), 7)).expect("a free port");
        Host { stack, wire, now, streams: Vec::new(), listener, udp }
    }

    fn drive(&mut self) {
        for _ in 0..8 {
            if !self.stack.poll(self.now).expect("an interface that does not fail") {
                break;
            }
        }
        while self.stack.poll_event().is_some() {}
        assert!(self.stack.sockets() <= 16);
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.u8() % 8 {
            0 => {
                let len = usize::from(choices.u8());
                let bytes = choices.bytes(len).to_vec();
                self.give(bytes, choices);
            }
            1 | 2 => self.segment(choices),
            3 => self.datagram(choices),
            4 => self.now += Duration::from_millis(choices.u16().into()),
            5 => {
                let v6 = usize::from(choices.u8() & 1);
                let remote: IpAddr = THEIRS[v6].parse().expect("an address");
                if let Ok(id) = self.stack.tcp_connect(self.now, SocketAddr::new(remote, 9)) {
                    self.streams.push(id);
                }
            }
            6 => {
                if let Ok(Some((id, _))) = self.stack.tcp_accept(self.listener) {
                    self.streams.push(id);
                }
                let mut out = [0; 300];
                while let Ok(Some(_)) = self.stack.udp_recv(self.udp, &mut out) {}
            }
            _ => self.call(choices),
        }
    }

    fn give(&mut self, bytes: Vec<u8>, choices: &mut Choices<'_>) {
        let how = choices.u8();
        let checksum = match how & 3 {
            0 if how & 0x80 != 0 => Checksum::Summed(Sum::of(&bytes)),
            0 => Checksum::InPlace,
            1 | 2 => Checksum::Verified,
            _ => Checksum::Partial {
                start: if how & 4 == 0 { 20 } else { choices.u16() },
                offset: if how & 8 == 0 { 16 } else { 6 },
            },
        };
        let segmentation = match how >> 4 & 3 {
            0 | 1 => Segmentation::None,
            2 => Segmentation::Tcp { segment_len: choices.u8().into(), ecn: false },
            _ => Segmentation::Udp { segment_len: choices.u8().into() },
        };
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        wire.inward.push_back((bytes, checksum, segmentation));
    }

    fn via(v6: usize) -> Via {
        Via {
            source: THEIRS[v6].parse().expect("an address"),
            destination: OWN[v6].parse().expect("an address"),
            next_hop: OWN[v6].parse().expect("an address"),
            macs: None,
            mtu: 65_535,
            may_fragment: false,
            hop_limit: 64,
            loops: false,
            is_shared: false,
            generation: 0,
        }
    }

    /// An answer to what the stack sent last, more or less.
    fn segment(&mut self, choices: &mut Choices<'_>) {
        let last = self.wire.lock().unwrap_or_else(PoisonError::into_inner).last;
        let (mine, to) =
            last.unwrap_or((Header::default(), THEIRS[0].parse().expect("an address")));
        let how = choices.u8();
        let fresh = how & 1 != 0 || last.is_none();
        let ahead = |base: Seq, by: u8| Seq(base.0.wrapping_add((by as i8 as u32).wrapping_mul(7)));
        let mut header = Header {
            src_port: if fresh { choices.u8().into() } else { mine.dst_port },
            dst_port: if fresh { 80 } else { mine.src_port },
            seq: if how & 2 == 0 { mine.ack } else { ahead(mine.ack, choices.u8()) },
            ack: if how & 4 == 0 { mine.seq + 1 } else { ahead(mine.seq, choices.u8()) },
            flags: if how & 8 == 0 { Flags::ACK } else { Flags(choices.u8()) },
            window: choices.u16(),
            urgent: u16::from(choices.u8()),
            ..Header::default()
        };
        if let Some((value, _)) = mine.options.timestamps {
            header.options.timestamps = Some((value, value));
        }
        if mine.flags.has(Flags::SYN) && !fresh && how & 16 == 0 {
            header.flags =
                if mine.flags.has(Flags::ACK) { Flags::ACK } else { Flags::SYN | Flags::ACK };
            header.options.window_scale = Some(choices.u8() % 16);
            header.options.mss = Some(choices.u16());
            header.options.sack_permitted = true;
        }
        if how & 32 != 0 {
            let left = ahead(mine.seq, choices.u8());
            header.options.push_sack(left, left + u32::from(choices.u8()));
        }
        let len = usize::from(choices.u16()) % 3000 * usize::from(how >> 6 & 1);
        let v6 = usize::from(if fresh { how & 128 != 0 } else { to.is_ipv6() });
        let mut out = vec![0; 200];
        let tcp_len = header.emit_len();
        let start = Self::via(v6).emit(&Packet::new(tcp::NUMBER, tcp_len + len), &mut out);
        header.emit(&mut out[start..]);
        out.truncate(start + tcp_len);
        out.resize(start + tcp_len + len, 0x5a);
        self.give(out, choices);
    }

    fn datagram(&mut self, choices: &mut Choices<'_>) {
        let len = usize::from(choices.u16()) % 5000;
        let v6 = usize::from(choices.u8() & 1);
        let header = udp::Header {
            src_port: choices.u16(),
            dst_port: 7 + u16::from(choices.u8() & 1),
            len: if choices.u8() & 7 == 0 { choices.u16() } else { 8 + len as u16 },
            checksum: choices.u16(),
        };
        let mut out = vec![0; 100];
        let start = Self::via(v6).emit(&Packet::new(udp::NUMBER, 8 + len), &mut out);
        header.emit(&mut out[start..]);
        out.truncate(start + 8);
        out.resize(start + 8 + len, 0xa5);
        self.give(out, choices);
    }

    /// A call on some connection. That it fails is an answer too, here to nobody.
    fn call(&mut self, choices: &mut Choices<'_>) {
        let how = choices.u8();
        if self.streams.is_empty() {
            return;
        }
        let at = usize::from(how >> 3) % self.streams.len();
        let id = self.streams[at];
        let mut memory = vec![0x77; usize::from(choices.u16())];
        match how & 7 {
            0 | 1 => {
                let _ = self.stack.tcp_write(id, &memory);
            }
            2 => {
                let _ = self.stack.tcp_read(id, &mut memory);
            }
            3 => {
                let _ = self.stack.tcp_read_into(self.now, id, &mut memory);
            }
            4 => {
                let _ = self.stack.tcp_finish(id);
            }
            5 => {
                let _ = self.stack.abort(self.now, id);
            }
            6 => {
                let _ = self.stack.close(self.now, id);
                self.streams.swap_remove(at);
            }
            _ => {
                let to = Some(SocketAddr::new(THEIRS[at & 1].parse().expect("an address"), 5));
                let len = 1 + usize::from(how >> 3);
                let _ = self.stack.udp_send_batch(self.now, self.udp, &memory, len, to);
            }
        }
    }
}

/// Long runs of chance: they reach further than what a fuzzer begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut state = 88_172_645_463_325_252u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..24).map(|_| (0..6000).map(|_| byte()).collect()).collect()
}
