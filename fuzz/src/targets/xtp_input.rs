//! The XTP machine in virtual time: packets of anybody's, with keys that are right, against one context or a listener, from
//! the bytes of a packet to what the application hears.
use core::time::Duration;

use crate::Choices;
use fusewire_base::Instant;
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::{
    Cut, DropCause, Ends, Header as _, Initial, Listener as _, Protocol as _, Secrets, Verdict,
};
use fusewire_transport::xtp::{
    Config, Connection, Header, Listener, ListenerAction, Retransmission, State,
};
use fusewire_wire::xtp::{self, Body, HEADER_LEN, Key};

const BEGIN: Instant = Instant::from_ms(1000);
const SERVICE: u16 = 7;
/// Packets that one turn may give out besides those with new bytes: more than the largest ring holds.
const OUTPUT_MAX: u64 = 2000;
const STEPS_MAX: usize = 600;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let cfg = config(&mut choices);
    let own = Key::new(0x1234_5678_9abc).expect("not zero");
    let mut now = BEGIN;
    let mut listener = Listener::new(&cfg, 2, &Secrets { isn: [1; 16], cookie: [2; 16] });
    let mut end = End::new(Connection::connect(&cfg, own, SERVICE, now));
    let calls = choices.u8() & 1 == 0;
    for _ in 0..STEPS_MAX {
        end.output(&cfg, now);
        if choices.is_empty() || end.xtp.state() == State::Quiescent {
            break;
        }
        match choices.u8() {
            0..120 => {
                let mut bytes = packet(&mut choices, end.xtp.key(), end.sync);
                xtp::seal(&mut bytes);
                let Ok(header) = cfg.parse(&bytes) else { continue };
                if calls {
                    end.input(now, &header, choices.u8());
                } else {
                    // Who is called becomes the one that is spoken to.
                    let at = ([192, 0, 2, 1], 7).into();
                    let ends = Ends { local: at, remote: at, flow: header.flow() };
                    match listener.handle_stray(now, &ends, &header, header.data_len) {
                        ListenerAction::Accept(xtp) if end.committed == 0 => {
                            listener.taken();
                            end = End::new(*xtp);
                            end.input(now, &header, 0);
                        }
                        _ => end.input(now, &header, choices.u8()),
                    }
                    assert!(listener.half_open() <= 2);
                }
            }
            120..150 => end.commit(choices.u16().into()),
            150..170 => end.xtp.consumed(choices.u16().into()),
            170..180 => end.xtp.consumed(u64::MAX),
            180..184 => end.xtp.finish(),
            184 => end.xtp.abort(),
            185..190 => end.xtp.set_tpdu_len(choices.u16().into()),
            190..194 => end.xtp.resend_all(now),
            194..220 => now += Duration::from_micros(choices.u16().into()),
            220..225 => end.xtp.set_tag(choices.u8().into()),
            _ => now = end.xtp.poll_timeout().unwrap_or(now).max(now),
        }
        end.xtp.handle_timeout(now);
    }
}

/// The examples of the document, one behind the other.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![0x5a, 0x33, 0];
    for example in super::xtp_packet::seeds() {
        all.extend([1, 0x0d, example.len() as u8]);
        all.extend(&example);
        all.extend([1, 130, 2, 0, 230]);
    }
    let mut called = all.clone();
    called[2] = 1;
    vec![all, called]
}

fn config(choices: &mut Choices<'_>) -> Config {
    let bits = choices.u16();
    let is = |n: u16| bits >> n & 1 == 1;
    Config {
        send_tpdu_len: if is(0) { 1472 } else { 300 },
        send_buffer: if is(1) { 1 << 20 } else { 5000 },
        max_packets_in_flight: if is(2) { 256 } else { 6 },
        recv_window: if is(3) { 1 << 20 } else { 17_000 },
        initial_recv_window: 16_384,
        max_ranges: if is(4) { 16 } else { 1 },
        retransmission: if is(5) { Retransmission::GoBackN } else { Retransmission::default() },
        fastnak: is(6),
        noerr: is(7),
        noflow: is(8),
        nocheck: is(9),
        edge: is(10),
        cxor: is(11),
        btag: is(12),
        messages: is(13),
        congestion: is(14).then_some(if is(15) { Algorithm::Bbr } else { Algorithm::Cubic }),
        ..Config::default()
    }
}

/// A packet as it comes, with a length and if so chosen key and sync that are right.
fn packet(choices: &mut Choices<'_>, own: Key, sync: u32) -> Vec<u8> {
    let how = choices.u8();
    let len = usize::from(choices.u8());
    let mut bytes = choices.bytes(len).to_vec();
    bytes.resize(len.max(HEADER_LEN), 0);
    let dlen = (bytes.len() - HEADER_LEN) as u32;
    bytes[12..16].copy_from_slice(&dlen.to_be_bytes());
    if how & 1 == 0 {
        bytes[..8].copy_from_slice(&(own.bits() | 1 << 63).to_be_bytes());
    }
    if how & 2 == 0 {
        bytes[11] = bytes[11] & 31 | 1 << 5;
    }
    if how & 4 == 0 {
        // Sync and seq are small numbers, and so are those that come first behind the header.
        bytes[20..30].fill(0);
        for at in [32, 40] {
            bytes.iter_mut().skip(at).take(6).for_each(|byte| *byte = 0);
        }
    }
    if how & 8 == 0
        && let Some(echo) = bytes.get_mut(48..52)
    {
        echo.copy_from_slice(&sync.to_be_bytes());
    }
    bytes
}

/// One machine and what is known of it from outside.
struct End {
    xtp: Connection,
    sync: u32,
    committed: u64,
}

impl End {
    fn new(xtp: Connection) -> End {
        End { xtp, sync: 0, committed: 0 }
    }

    fn commit(&mut self, len: u32) {
        if let Some(reservation) = self.xtp.reserve(len) {
            assert_eq!(reservation.offset(), self.committed);
            self.committed += u64::from(len);
            let cut = if len & 1 == 0 { Cut::Record } else { Cut::Stream };
            self.xtp.commit(reservation, cut);
        }
    }

    fn input(&mut self, now: Instant, header: &Header, how: u8) {
        let before = self.xtp.rcv_nxt_offset();
        let initial = self.xtp.handle_initial(now, header, header.data_len);
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) => {
                assert_eq!(plan.trim_front + plan.len + plan.trim_back, header.data_len);
                assert!(plan.len == 0 || plan.offset >= before);
                match how & 3 {
                    0 => Verdict::Reject(DropCause::Tag),
                    1 => Verdict::Accept { len: plan.len / 2 },
                    _ if plan.len > 0 => Verdict::Accept { len: plan.len },
                    _ => Verdict::Control,
                }
            }
            Initial::Control => Verdict::Control,
        };
        self.xtp.handle_final(now, header, &initial, verdict, false);
        assert!(self.xtp.rcv_nxt_offset() >= before, "the stream went back");
        while let Some(message) = self.xtp.poll_message(how & 4 == 0) {
            assert!(message.range.start < message.range.end);
        }
        while self.xtp.poll_gap().is_some() {}
    }

    /// All that it has to send.
    fn output(&mut self, cfg: &Config, now: Instant) {
        for n in 0.. {
            // All that is queued may leave at once, in packets as small as they may be.
            assert!(n < OUTPUT_MAX + self.committed, "endless output");
            let Some(transmit) = self.xtp.poll_transmit(now) else { break };
            let header = transmit.header;
            let payload = transmit.payload.unwrap_or(0..0);
            assert!(payload.end <= self.committed, "bytes that were never committed");
            assert_eq!(u64::from(header.data_len), payload.end - payload.start);
            let mut bytes = vec![0; header.packet_len()];
            header.emit(&mut bytes);
            let read = cfg.parse(&bytes).expect("what a machine emits is legal");
            assert!(matches!(read.body, Body::Diag(_)) || read.sync == header.sync);
            self.sync = header.sync;
        }
        while self.xtp.poll_event().is_some() {}
        self.xtp.assert_invariants();
    }
}
