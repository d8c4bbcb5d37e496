//! Forged segments while a transfer runs, and a flood of SYNs: the transfer ends as if they had never
//! come.

use core::net::SocketAddr;
use core::time::Duration;

use fusewire_base::Seq;
use fusewire_testkit::{Impairments, Random, for_each_seed, for_each_seed_of};
use fusewire_transport::machine::{Event, Listener as _};
use fusewire_transport::tcp::{Config, ListenerAction, Ports, Tuple};
use fusewire_wire::tcp::{Flags, Header, Options};

use crate::account::{CLIENT_PORT, SERVER_PORT, Scenario, Side, Target, World, has_all_of, target};
use crate::frame::{Frame, Payload};
use crate::two_ends::{App, Frame as _};

/// A transfer both ways over a link that is not perfect.
fn scenario(random: &mut Random) -> Scenario {
    let link = Impairments {
        rate: Some(1_000_000),
        delay: Duration::from_millis(random.range(1..50)),
        queue_bytes: 100_000,
        loss: 0.02 * random.unit(),
        reorder: 0.05 * random.unit(),
        reorder_delay: Duration::from_millis(20),
        ..Impairments::default()
    };
    let config = Config {
        timestamps: random.chance(0.5),
        sack: random.chance(0.8),
        recv_window: 1 << random.range(14..20),
        initial_recv_window: 1 << 14,
        ..Config::default()
    };
    // The receiver does not always read at once: what was received and not read stays as it is.
    let app = App {
        total: random.range(20_000..200_000),
        stall: Duration::from_millis(100),
        stall_chance: 0.05,
        ..App::default()
    };
    Scenario {
        client: config.clone(),
        server: config,
        client_app: app.clone(),
        server_app: app,
        links: [link.clone(), link],
        ..Scenario::default()
    }
}

/// One who knows addresses, ports and windows, but not the numbers of what is acknowledged.
struct Attacker {
    random: Random,
    to_server: bool,
    forged: u64,
}

impl Attacker {
    fn header(&self, flags: Flags, seq: Seq, ack: Seq) -> Header {
        let (src_port, dst_port) =
            if self.to_server { (CLIENT_PORT, SERVER_PORT) } else { (SERVER_PORT, CLIENT_PORT) };
        Header { src_port, dst_port, seq, ack, flags, ..Header::default() }
    }

    /// An acknowledgement that is of nothing the target sent: beyond SND.NXT, or long before SND.UNA.
    fn wrong_ack(&mut self, target: &Target) -> Seq {
        let beyond = target.snd_nxt + 2 + self.random.below(1 << 30) as u32;
        let before =
            Seq(target.snd_una.0.wrapping_sub((1 << 21) + self.random.below(1 << 30) as u32));
        *self.random.pick(&[beyond, before])
    }

    fn inside(&mut self, target: &Target) -> Seq {
        target.rcv_nxt + 1 + self.random.below(u64::from(target.window.max(2)) - 1) as u32
    }

    fn bytes(&mut self, most: u64) -> Payload {
        let mut bytes = vec![0; self.random.range(1..most) as usize];
        self.random.fill(&mut bytes);
        Payload::Bytes(bytes)
    }

    fn forge(&mut self, target: &Target) -> Frame {
        self.forged += 1;
        let anywhere = Seq(self.random.next_u32());
        let none = Payload::none(true);
        let (flags, seq, ack, payload) = match self.random.below(8) {
            0 => (Flags::RST, self.inside(target), anywhere, none),
            1 => (Flags::RST | Flags::ACK, self.inside(target), target.snd_una, none),
            2 => (Flags::SYN, self.inside(target), anywhere, none),
            3 => (Flags::SYN | Flags::ACK, anywhere, target.snd_nxt, none),
            4 => (Flags::ACK, target.rcv_nxt, self.wrong_ack(target), none),
            5 => (Flags::ACK | Flags::FIN, target.rcv_nxt, self.wrong_ack(target), none),
            // Over what was received and not read, and over what is not there yet.
            6 => {
                let seq = Seq(target.rcv_nxt.0.wrapping_sub(self.random.below(20_000) as u32));
                (Flags::ACK, seq, target.snd_una, self.bytes(3000))
            }
            _ => (
                Flags::ACK | Flags::PSH,
                self.inside(target),
                self.wrong_ack(target),
                self.bytes(3000),
            ),
        };
        let window = self.random.next_u32() as u16;
        let mut header = Header { window, ..self.header(flags, seq, ack) };
        if self.random.chance(0.3) {
            header.options = Options {
                timestamps: Some((self.random.next_u32(), self.random.next_u32())),
                ..Options::default()
            };
        }
        if seq == target.rcv_nxt && flags.has(Flags::RST) {
            header.flags = Flags::ACK;
        }
        Frame::forged(&header, payload)
    }
}

/// A segment that is acceptable, number and acknowledgement, and brings nothing that a tag guards counts
/// with window and timestamp: nobody can tell it from the peer's. Case 6 knows all that, and where it
/// reaches into the window it therefore says nothing new.
fn harmless(frame: Frame, genuine: Option<(u32, u32)>, window: u16) -> Frame {
    let header = frame.header().expect("a header of ours");
    let options = Options { timestamps: genuine, ..Options::default() };
    Frame::forged(&Header { window, options, ..header }, frame.payload)
}

fn was_reset(side: &Side) -> bool {
    side.events.iter().any(|event| matches!(event, Event::Reset(_) | Event::TimedOut))
}

#[test]
fn forged_segments_do_not_disturb_a_transfer() {
    for_each_seed("forged_segments_do_not_disturb_a_transfer", |_, random| {
        let scenario = scenario(random);
        let mut world = World::new(&scenario, random);
        let mut attacker = Attacker { random: random.fork(), to_server: true, forged: 0 };
        let start = world.now;
        world.run_with(|world| {
            let now = world.now;
            attacker.to_server = attacker.random.chance(0.5);
            let side =
                if attacker.to_server { world.server.as_mut() } else { Some(&mut world.client) };
            let Some(side) = side.filter(|side| side.is_established && !side.is_closed) else {
                return;
            };
            let Some(target) = target(side) else { return };
            let mut frame = attacker.forge(&target);
            let header = frame.header().expect("a header of ours");
            let reaches_in = target.rcv_nxt.lt(header.seq + frame.payload_len());
            let is_acceptable = header.ack == target.snd_una && !header.flags.has(Flags::RST);
            if is_acceptable && reaches_in && has_all_of(side, &frame, now) {
                let Some((timestamps, window)) = side.account.last_heard else { return };
                frame = harmless(frame, timestamps, window);
            }
            side.receive_forged(&frame, now);
        });
        let seconds = (world.now - start).as_secs() as u32 + 2;
        assert!(attacker.forged > 0);
        for side in [&world.client, world.server()] {
            assert!(!was_reset(side), "reset by a forgery: {:?}", side.events);
            let challenges = side.conn.counters().challenge_acks;
            assert!(challenges <= 10 * seconds, "{challenges} challenges in {seconds} s");
        }
    });
}

/// A SYN from anywhere.
fn stray(random: &mut Random) -> (Tuple, Header) {
    let remote = SocketAddr::from((random.next_u32().to_be_bytes(), random.next_u32() as u16));
    let flow = Ports { local: SERVER_PORT, remote: random.next_u32() as u16 };
    let tuple = Tuple { local: ([10, 0, 0, 1], 4433).into(), remote, flow };
    let header = Header {
        src_port: flow.remote,
        dst_port: SERVER_PORT,
        seq: Seq(random.next_u32()),
        flags: Flags::SYN,
        window: 65_535,
        options: Options { mss: Some(1460), timestamps: Some((1, 0)), ..Options::default() },
        ..Header::default()
    };
    (tuple, header)
}

#[test]
fn a_client_gets_through_a_flood_of_syns() {
    for_each_seed_of(100, "a_client_gets_through_a_flood_of_syns", |_, random| {
        let mut scenario = scenario(random);
        scenario.backlog = random.range(1..100) as usize;
        let mut world = World::new(&scenario, random);
        let mut flood = random.fork();
        world.run_with(|world| {
            for _ in 0..200 {
                let (tuple, header) = stray(&mut flood);
                match world.listener.handle_stray(world.now, &tuple, &header, 0) {
                    ListenerAction::Reply(h) if h.flags.has(Flags::SYN) => {}
                    // No guess of the last segment is ever right.
                    other => panic!("a SYN led to {other:?}"),
                }
            }
            // One of 2^28 guesses is right: few enough here that none is.
            let (tuple, header) = stray(&mut flood);
            let ack = Header { flags: Flags::ACK, ack: Seq(flood.next_u32()), ..header };
            let action = world.listener.handle_stray(world.now, &tuple, &ack, 0);
            assert!(!matches!(action, ListenerAction::Accept(_)), "a guess was right");
            assert!(world.listener.half_open() <= scenario.backlog);
        });
        assert!(!was_reset(&world.client) && !was_reset(world.server()));
        let (issued, accepted) = world.listener.cookies();
        assert!(issued > 0 && accepted <= 1, "{issued} cookies, {accepted} accepted");
    });
}
