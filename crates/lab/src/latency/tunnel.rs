//! IP in datagrams of a device: hosts of ours meet over whatever path that device is.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket,
};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame, Waker};

/// Where IPv4 has its addresses.
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

/// An interface of IPv4. Who has sent from an address is who has it; who has not sent yet is `first`.
pub(super) struct Tunnel {
    device: Box<dyn Device>,
    first: Option<SocketAddr>,
    hosts: HashMap<[u8; 4], SocketAddr>,
    batch: RxBatch,
    packets: Vec<Vec<u8>>,
    capabilities: Capabilities,
}

impl Tunnel {
    pub fn over(device: Box<dyn Device>, first: Option<SocketAddr>) -> Tunnel {
        let mtu = 1400;
        let capabilities = Capabilities {
            name: "tunnel",
            link: Link::Ip,
            mac: None,
            mtu,
            checksum: false,
            tcp_segmentation: false,
            udp_segmentation: false,
            receive_offload: false,
            max_packet_bytes: mtu,
            notes: Vec::new(),
        };
        let (hosts, packets) = (HashMap::new(), Vec::new());
        Tunnel { device, first, hosts, batch: RxBatch::new(8), packets, capabilities }
    }
}

fn address(packet: &[u8], at: usize) -> Option<[u8; 4]> {
    packet.get(at..)?.first_chunk().copied()
}

impl Interface for Tunnel {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        for (n, packet) in packets.iter().enumerate() {
            let mut bytes = packet.header.to_vec();
            packet.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
            let known = address(&bytes, DESTINATION).and_then(|host| self.hosts.get(&host));
            // What is for nobody is gone, as on a wire.
            let Some(&peer) = known.or(self.first.as_ref()) else { continue };
            let frame = TxFrame { peer, header: &bytes, payload: &[], ecn: Ecn::NotEct };
            if self.device.transmit(&[frame])? == 0 {
                return Ok(n);
            }
        }
        Ok(packets.len())
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.device.receive(&mut self.batch)?;
        self.packets.clear();
        for packet in self.batch.iter() {
            for frame in packet.frames() {
                if let Some(host) = address(frame, SOURCE) {
                    self.hosts.insert(host, packet.peer);
                }
                self.packets.push(frame.to_vec());
            }
        }
        Ok(self.packets.len())
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        let bytes = &self.packets[index];
        RxPacket { bytes, checksum: Checksum::InPlace, segmentation: Segmentation::None }
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.device.wait(timeout, want_write)
    }

    fn waker(&self) -> Waker {
        self.device.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
