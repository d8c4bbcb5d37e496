//! The examples' packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use fusewire_wire::xtp::{
    self, Address, Body, Code, Control, Diag, First, JoinControl, Key, Limits, Options, Reason,
    Service, Span, SpanList, Traffic, TrafficControl,
};

/// Of the initiator or sender; of the responder; a cookie; of a receiver; of the sender for it alone.
const A: u64 = 0x1122_3344_5566_7788;
const B: u64 = 0x0fed_cba9_8765_4321;
const COOKIE: u64 = 0x5c5c_5c5c_5c5c_5c5c;
const R: u64 = 0x2222_2222_2222_2222;
const S: u64 = 0x3333_3333_3333_3333;

pub type Header = xtp::Header<SpanList<16>>;

pub struct Example {
    pub name: &'static str,
    pub header: Header,
    pub data: Vec<u8>,
}

impl Example {
    /// The packet, with trailer and check.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.header.emit_len()];
        self.header.emit(&mut bytes);
        bytes.extend(&self.data);
        bytes.extend(self.trailer().iter().flat_map(|cxor| cxor.to_be_bytes()));
        xtp::seal(&mut bytes);
        bytes
    }

    /// CXOR as `docs/check-functions.md` has it, over tag and data.
    pub fn trailer(&self) -> Option<u32> {
        let Body::Data { btag } = self.header.body else { return None };
        if !self.header.options.has(Options::RES) {
            return None;
        }
        let mut covered = btag.map_or(vec![], |btag| btag.to_be_bytes().to_vec());
        covered.extend(&self.data);
        let (mut xor, mut rxor) = (0u16, 0u16);
        for (i, word) in covered.chunks(2).enumerate() {
            let word = u16::from(word[0]) << 8 | word.get(1).map_or(0, |low| u16::from(*low));
            xor ^= word;
            rxor ^= word.rotate_left(i as u32 % 16);
        }
        Some(u32::from(xor) << 16 | u32::from(rxor))
    }
}

fn key(bits: u64) -> Key {
    Key::new(bits).expect("it is not zero")
}

/// A packet for who has the key `bits`, or from him if that is not `returned`.
fn header(bits: u64, returned: bool, options: Options, body: Body<SpanList<16>>) -> Header {
    Header {
        key: key(bits),
        returned,
        options,
        check: 0,
        sort: 0,
        sync: 0x0102_0304,
        seq: 0,
        data_len: 0,
        body,
    }
}

fn traffic(service: Service) -> Traffic {
    Traffic { service, limits: Some(Limits { maxdata: 1356, ..Limits::default() }) }
}

fn first(service: Service) -> First {
    let address = Address::in_udp(9293);
    First { address, traffic: traffic(service), xkey: None, btag: None }
}

fn tcntl(control: Control, xkey: u64, traffic: Traffic) -> TrafficControl {
    TrafficControl { control, delay_us: 0, xkey: key(xkey), traffic }
}

fn group() -> Address {
    Address::V4 {
        dsthost: Ipv4Addr::new(239, 1, 2, 3),
        srchost: Ipv4Addr::new(192, 0, 2, 1),
        dstport: 9294,
        srcport: 0,
    }
}

/// All of them, in the document's order.
pub fn examples() -> Vec<Example> {
    let mut all = streams();
    all.extend(others());
    all
}

fn example(name: &'static str, mut header: Header, data: &[u8]) -> Example {
    header.data_len = data.len() as u32;
    Example { name, header, data: data.to_vec() }
}

fn streams() -> Vec<Example> {
    const O: Options = Options::NONE;
    let ask = Options::SREQ | Options::FASTNAK;
    let both = Options::RCLOSE | Options::WCLOSE;
    let answer = |rseq, echo| Control { rseq, alloc: rseq + 16_384, echo };
    let mut data = header(B, true, ask | Options::EOM, Body::Data { btag: Some(7) });
    (data.seq, data.sync) = (8, 0x0102_0305);
    let mut spans = SpanList::new(15);
    assert!(spans.push(Span { left: 1371, right: 2727 }));
    assert!(spans.push(Span { left: 4083, right: 6795 }));
    let sorted = Options::NOCHECK | Options::RES | Options::SORT | Options::EDGE;
    let mut cxor = header(B, true, sorted, Body::Data { btag: None });
    (cxor.sort, cxor.seq, cxor.sync) = (0x0100, 6795, 0x0102_0305);
    let mut last = header(B, true, ask | Options::WCLOSE, Body::Cntl(answer(0, 0x0a0b_0c0d)));
    (last.seq, last.sync) = (6800, 0x0102_0306);
    let mut close = header(A, true, both | Options::SREQ, Body::Cntl(answer(6800, 0x0102_0306)));
    close.sync = 0x0a0b_0c0e;
    let end = Options::RCLOSE | Options::WCLOSE | Options::END;
    let mut end = header(B, true, end, Body::Cntl(answer(0, 0x0a0b_0c0e)));
    (end.seq, end.sync) = (6800, 0x0102_0306);
    let from_b = |options, body| Header { sync: 0x0a0b_0c0d, ..header(A, true, options, body) };
    let tformat0 = Traffic { service: Service::Stream, limits: None };
    let none = Control { rseq: 0, alloc: 0, echo: 0x0102_0304 };
    let with_cookie = First { xkey: Some(key(A)), ..first(Service::Stream) };
    let opened = tcntl(answer(8, 0x0102_0304), B, traffic(Service::Stream));
    vec![
        example("first", header(A, false, ask, Body::First(first(Service::Stream))), b"Fusewire"),
        example("tcntl", from_b(O, Body::Tcntl(opened)), b""),
        example("data", data, b"message"),
        example("ecntl", from_b(O, Body::Ecntl(answer(15, 0x0102_0305), spans)), b""),
        example("cxor", cxor, &[0x80, 0x01, 0x80, 0x01, 0x40]),
        example("wclose", last, b""),
        example("rclose", close, b""),
        example("end", end, b""),
        example("cookie", from_b(O, Body::Tcntl(tcntl(none, COOKIE, tformat0))), b""),
        example("shown", header(COOKIE, true, ask, Body::First(with_cookie)), b"Fusewire"),
    ]
}

fn others() -> Vec<Example> {
    const O: Options = Options::NONE;
    let whole = Options::WCLOSE | Options::EOM;
    let transaction = Body::First(first(Service::Transaction));
    let datagram = Body::First(first(Service::UnacknowledgedDatagram));
    let unanswered = Options::NOERR | Options::NOFLOW | Options::RCLOSE | Options::END | whole;
    let over_ip = Address::V6 {
        dsthost: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        srchost: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dstport: 9293,
        srcport: 0,
    };
    let ipv6 = First { address: over_ip, btag: Some(7), ..first(Service::Stream) };
    let sent = Limits {
        maxdata: 1356,
        inrate: 1_000_000,
        inburst: 2000,
        outrate: 12_500_000,
        outburst: 65_536,
    };
    let to_group = Traffic { service: Service::Multicast, limits: Some(sent) };
    let announced = First { address: group(), traffic: to_group, xkey: None, btag: None };
    let mut announced = header(A, false, Options::MULTI, Body::First(announced));
    announced.seq = 1_000_000;
    let wants =
        tcntl(Control { rseq: 0, alloc: 0, echo: 0x0102_0304 }, R, traffic(Service::Multicast));
    let join = Body::Jcntl(JoinControl { traffic: wants, address: group() });
    let join =
        Header { sync: 0x0a0b_0c0d, ..header(A, true, Options::MULTI | Options::SREQ, join) };
    let begins = Control { rseq: 1_000_000, alloc: 1_000_000, echo: 0x0a0b_0c0d };
    let member = TrafficControl { delay_us: 160, ..tcntl(begins, S, to_group) };
    let joined = Body::Jcntl(JoinControl { traffic: member, address: group() });
    let joined = Header { seq: 1_000_000, ..header(R, true, Options::MULTI, joined) };
    let says = |code, reason| Body::Diag(Diag { code, reason });
    let silent = |mut header: Header| {
        header.sync = 0;
        header
    };
    let refused = says(Code::ContextRefused, Reason::NoListener);
    let unknown = says(Code::InvalidContext, Reason::Unspecified);
    let denied = says(Code::JoinRefused, Reason::JoinDenied);
    let path = Header { sync: 2, seq: 0x0123_4567_89ab_cdef, ..header(A, true, O, Body::Path) };
    let tag: Vec<u8> = [1, 0].into_iter().chain(0xa0..0xb0).collect();
    vec![
        example("request", header(A, false, Options::DREQ | whole, transaction), b"call"),
        example(
            "answer",
            header(A, true, Options::RCLOSE | whole, Body::Data { btag: None }),
            b"reply",
        ),
        example("datagram", header(A, false, unanswered, datagram), b"datagram"),
        example("ipv6", header(A, false, Options::SREQ, Body::First(ipv6)), b"Fusewire"),
        example("group", announced, b""),
        example("join", join, b""),
        example("joined", joined, b""),
        example("denied", silent(header(R, true, O, denied)), b""),
        example("refused", silent(header(A, true, O, refused)), b"no such service"),
        example("unknown", silent(header(B, false, O, unknown)), b""),
        example("path", path, &tag),
    ]
}
