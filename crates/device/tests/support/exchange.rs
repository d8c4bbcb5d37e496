//! A kernel socket at one end of an interface, and us at the other: what must pass between them.

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use etherparse::{TcpHeader, TcpOptionElement, TransportSlice};
use fusewire_device::interface::{Checksum, Interface, Segmentation, TxPacket};
use fusewire_device::udp::{self, Udp};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};

use super::{Flow, content, receive_until, slice, udp_payload, whole};

/// Single datagrams, both ways.
pub fn datagrams(tap: &mut dyn Interface, flow: Flow) {
    let link = tap.capabilities().link;
    let socket = UdpSocket::bind(flow.to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (payload, mut buffer) = (content(1400), [0; 2000]);
    let header = flow.udp(&payload);
    let pieces: Vec<_> = payload.chunks(100).map(IoSlice::new).collect();
    assert_eq!(tap.transmit(&[whole(&header, &pieces); 3]).unwrap(), 3);
    for _ in 0..3 {
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&payload[..], flow.from.into()));
    }
    for len in [1, 100, 1400] {
        socket.send_to(&payload[..len], flow.from).unwrap();
    }
    let mut lens = Vec::new();
    receive_until(tap, |packet| {
        if let Some(got) = udp_payload(link, packet.bytes, 7000) {
            assert_eq!(got, &payload[..got.len()]);
            assert!(matches!(packet.checksum, Checksum::Partial { offset: 6, .. }));
            lens.push(got.len());
        }
        lens.len() == 3
    });
    assert_eq!(lens, [1, 100, 1400]);
}

/// UDP super-frames, both ways.
pub fn udp_super_frames(tap: &mut dyn Interface, flow: Flow) {
    let link = tap.capabilities().link;
    if !tap.capabilities().udp_segmentation {
        return eprintln!("skipped: {:?}", tap.capabilities().notes);
    }
    let mut socket = Udp::bind(flow.to.into(), &udp::Config::default()).unwrap();
    let payload = content(50 * 1000 + 10);
    let mut header = flow.udp(&payload);
    let checksum = flow.partial(&mut header, payload.len(), 17);
    let segmentation = Segmentation::Udp { segment_len: 1000 };
    let pieces = [IoSlice::new(&payload[..777]), IoSlice::new(&payload[777..])];
    let packet = TxPacket { header: &header, payload: &pieces, checksum, segmentation };
    assert_eq!(tap.transmit(&[packet]).unwrap(), 1);
    let (mut batch, mut lens, mut all) = (RxBatch::new(4), Vec::new(), Vec::new());
    while lens.len() < 51 {
        assert!(socket.wait(Some(Duration::from_secs(5)), false).unwrap(), "{lens:?}");
        socket.receive(&mut batch).unwrap();
        for frame in batch.iter().flat_map(|s| s.frames()) {
            lens.push(frame.len());
            all.extend_from_slice(frame);
        }
    }
    assert!(lens[..50].iter().all(|len| *len == 1000) && lens[50] == 10, "{lens:?}");
    assert!(all == payload);

    let frame =
        |bytes| TxFrame { peer: flow.from.into(), header: &[], payload: bytes, ecn: Ecn::NotEct };
    let frames: Vec<_> = payload.chunks(1000).map(frame).collect();
    assert_eq!(socket.transmit(&frames).unwrap(), 51);
    let (mut all, mut largest) = (Vec::new(), 0);
    receive_until(tap, |packet| {
        if let Some(got) = udp_payload(link, packet.bytes, 7000) {
            assert_eq!(packet.segmentation, Segmentation::Udp { segment_len: 1000 });
            all.extend_from_slice(got);
            largest = largest.max(got.len());
        }
        all.len() >= payload.len()
    });
    assert!(all == payload && largest > 20_000, "{largest}");
}

/// Opens a connection from the kernel to us by hand, and returns it with our next sequence numbers.
fn accept(tap: &mut dyn Interface, flow: &Flow) -> (TcpStream, u32, u32) {
    let (to, link) = (flow.from, tap.capabilities().link);
    let thread = std::thread::spawn(move || TcpStream::connect(to).unwrap());
    let mut peer = (0, 0);
    receive_until(tap, |packet| {
        let transport = slice(link, packet.bytes).and_then(|s| s.transport);
        let Some(TransportSlice::Tcp(tcp)) = transport else { return false };
        peer = (tcp.source_port(), tcp.sequence_number().wrapping_add(1));
        tcp.syn()
    });
    let flow = Flow { to: SocketAddrV4::new(*flow.to.ip(), peer.0), ..*flow };
    let mut header = TcpHeader::new(0, 0, 1000, 65_535);
    (header.syn, header.ack, header.acknowledgment_number) = (true, true, peer.1);
    header.set_options(&[TcpOptionElement::MaximumSegmentSize(1460)]).unwrap();
    assert_eq!(tap.transmit(&[whole(&flow.tcp(header, &[]), &[])]).unwrap(), 1);
    (thread.join().unwrap(), 1001, peer.1)
}

/// TCP super-frames, both ways, over a connection that the kernel opens.
pub fn tcp_super_frames(tap: &mut dyn Interface, flow: Flow) {
    let link = tap.capabilities().link;
    let _listener = TcpListener::bind(flow.to).unwrap();
    let (mut stream, ours, theirs) = accept(tap, &flow);
    let SocketAddr::V4(peer) = stream.local_addr().unwrap() else { panic!() };
    let flow = Flow { to: peer, ..flow };
    let payload = content(20 * 1460);
    let mut header = TcpHeader::new(0, 0, ours, 65_535);
    (header.ack, header.acknowledgment_number) = (true, theirs);
    let mut header = flow.tcp(header, &payload);
    let checksum = flow.partial(&mut header, payload.len(), 6);
    let segmentation = Segmentation::Tcp { segment_len: 1460, ecn: false };
    let pieces = [IoSlice::new(&payload)];
    let packet = TxPacket { header: &header, payload: &pieces, checksum, segmentation };
    assert_eq!(tap.transmit(&[packet]).unwrap(), 1);
    let mut got = vec![0; payload.len()];
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.read_exact(&mut got).unwrap();
    assert!(got == payload);

    stream.write_all(&payload[..10_000]).unwrap();
    let (mut all, mut largest) = (Vec::new(), 0);
    receive_until(tap, |packet| {
        let transport = slice(link, packet.bytes).and_then(|s| s.transport);
        let Some(TransportSlice::Tcp(tcp)) = transport else { return false };
        if tcp.payload().len() > 1460 {
            let whole = Segmentation::Tcp { segment_len: 1460, ecn: false };
            assert_eq!(packet.segmentation, whole);
        }
        largest = largest.max(tcp.payload().len());
        all.extend_from_slice(tcp.payload());
        all.len() >= 10_000
    });
    assert!(all == payload[..10_000] && largest > 1460, "{largest}");
}
