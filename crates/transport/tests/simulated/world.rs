//! Two ends, the links between them, and virtual time.

use core::time::Duration;

use fusewire_base::{Instant, Seq};
use fusewire_testkit::{Content, Impairments, Link, Random};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{Listener as _, Secrets};
use fusewire_transport::tcp::{Config, Connection, Listener, ListenerAction, Ports, Tuple};
use fusewire_wire::tcp::{Flags, Header};

use crate::frame::{Frame, Payload};
use crate::side::{App, Setup, Side};

pub const CLIENT_PORT: u16 = 40_000;
pub const SERVER_PORT: u16 = 7;

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub client: Config,
    pub server: Config,
    pub client_app: App,
    pub server_app: App,
    /// Client to server, and back.
    pub links: [Impairments; 2],
    pub backlog: usize,
    /// The client's initial sequence number.
    pub iss: Option<Seq>,
    /// Payloads are bytes; otherwise only ranges, for long runs.
    pub with_bytes: bool,
    /// Virtual time after which a run that has not ended is a failure.
    pub limit: Duration,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            client: Config::default(),
            server: Config::default(),
            client_app: App::default(),
            server_app: App::default(),
            links: [Impairments::default(), Impairments::default()],
            backlog: 8,
            iss: None,
            with_bytes: true,
            limit: Duration::from_secs(4 * 3600),
        }
    }
}

/// Everything.
pub struct World {
    pub now: Instant,
    pub client: Side,
    pub server: Option<Side>,
    pub listener: Listener,
    pub links: [Link<Frame>; 2],
    scenario: Scenario,
    contents: [Content; 2],
    random: Random,
    tuple: Tuple,
    syn: Option<Header>,
    syn_ack: Option<Header>,
    pub steps: u64,
    /// `FUSEWIRE_TRACE` is set: what is sent and received is printed.
    traced: bool,
}

impl World {
    pub fn new(scenario: &Scenario, random: &mut Random) -> World {
        let contents = [Content::new(random.next_u64()), Content::new(random.next_u64())];
        // The clock's origin is anywhere: timestamps wrap in some runs.
        let now = Instant::from_ms(random.below(1 << 33));
        let iss = scenario.iss.unwrap_or(Seq(random.next_u32()));
        let start = Start { iss, timestamp_offset: random.next_u32() };
        let conn = Connection::connect(&scenario.client, CLIENT_PORT, SERVER_PORT, start, now);
        let mut keys = [[0; 16]; 2];
        keys.iter_mut().for_each(|key| random.fill(key));
        let secrets = Secrets { isn: keys[0], cookie: keys[1] };
        let client = Side::new(Setup {
            conn,
            config: &scenario.client,
            app: scenario.client_app.clone(),
            sends: contents[0],
            expects: contents[1],
            with_bytes: scenario.with_bytes,
            random: random.fork(),
        });
        World {
            now,
            client,
            server: None,
            listener: Listener::new(&scenario.server, scenario.backlog, &secrets),
            links: [0, 1].map(|i| Link::new(scenario.links[i].clone(), random.fork())),
            scenario: scenario.clone(),
            contents,
            random: random.fork(),
            tuple: Tuple {
                local: ([10, 0, 0, 1], 4433).into(),
                remote: ([10, 0, 0, 2], 5544).into(),
                flow: Ports { local: SERVER_PORT, remote: CLIENT_PORT },
            },
            syn: None,
            syn_ack: None,
            steps: 0,
            traced: std::env::var_os("FUSEWIRE_TRACE").is_some(),
        }
    }

    pub fn server(&self) -> &Side {
        self.server.as_ref().expect("a connection was accepted")
    }

    /// Runs until both ends have nothing more to do.
    pub fn run(&mut self) {
        self.run_with(|_| {});
    }

    /// Runs until both ends have nothing more to do; `each` may interfere before each step.
    pub fn run_with(&mut self, mut each: impl FnMut(&mut World)) {
        let end = self.now + self.scenario.limit;
        self.settle();
        while !(self.client.is_done() && self.server.as_ref().is_some_and(Side::is_done)) {
            each(self);
            self.settle();
            let Some(next) = self.next_event() else {
                panic!("stuck at {}\n{}", self.now, self.describe());
            };
            assert!(next <= end, "too long\n{}", self.describe());
            self.step_to(next);
        }
    }

    /// Runs for a time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.step_to(next);
        }
        self.now = end;
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let now = self.now;
        let links = self.links.iter().filter_map(Link::next_arrival);
        let sides = [Some(&self.client), self.server.as_ref()];
        let sides = sides.into_iter().flatten().filter_map(|side| side.next_wake(now));
        links.chain(sides).chain(self.listener.poll_timeout()).min().map(|at| at.max(now))
    }

    /// Time moves to `next`; what has arrived is received, everyone acts.
    pub fn step_to(&mut self, next: Instant) {
        self.now = next;
        self.steps += 1;
        while let Some(frame) = self.links[0].poll(next) {
            self.trace("       to server", &frame);
            self.arrive_at_server(&frame);
        }
        while let Some(frame) = self.links[1].poll(next) {
            self.trace("       to client", &frame);
            self.client.receive(&frame, next);
        }
        self.settle();
    }

    /// Both ends act, transmit and are checked.
    pub fn settle(&mut self) {
        let now = self.now;
        let [up, down] = &mut self.links;
        let ends = [("client", Some(&mut self.client), up), ("server", self.server.as_mut(), down)];
        for (side_name, side, link) in ends {
            let Some(side) = side else { continue };
            side.collect();
            side.act(now);
            side.transmit(now, |frame| {
                if self.traced {
                    eprintln!("{now} {} {frame}", side_name);
                }
                link.send(now, frame);
            });
            side.collect();
            side.check();
        }
        while let Some((tuple, header)) = self.listener.poll_reply(now) {
            if tuple == self.tuple {
                self.answer(&header);
            }
        }
        self.check_both();
    }

    fn trace(&self, what: &str, frame: &Frame) {
        if self.traced {
            eprintln!("{} {what} {frame}", self.now);
        }
    }

    /// What only one who sees both ends can know.
    fn check_both(&self) {
        let Some(server) = &self.server else { return };
        for (sender, receiver) in [(&self.client, server), (server, &self.client)] {
            let whole = receiver.received.contiguous();
            assert!(sender.acked <= whole, "{} taken for received of {whole}", sender.acked);
        }
    }

    /// A frame arrives at the server's address.
    pub fn arrive_at_server(&mut self, frame: &Frame) {
        if let Some(server) = &mut self.server {
            server.receive(frame, self.now);
            return;
        }
        let Some(header) = frame.header().filter(|_| frame.verifies()) else { return };
        let len = frame.payload_len();
        match self.listener.handle_stray(self.now, &self.tuple, &header, len) {
            ListenerAction::Reply(reply) => {
                if reply.flags.has(Flags::SYN) {
                    (self.syn, self.syn_ack) = (Some(header), Some(reply));
                }
                self.answer(&reply);
            }
            ListenerAction::Accept(conn) => {
                let server = self.accept(*conn, &header);
                self.server.insert(server).receive(frame, self.now);
            }
            ListenerAction::Drop(_) => {}
        }
    }

    fn answer(&mut self, header: &Header) {
        let frame = Frame::forged(header, Payload::none(self.scenario.with_bytes));
        self.links[1].send(self.now, frame);
    }

    fn accept(&mut self, conn: Connection, header: &Header) -> Side {
        self.listener.taken();
        let mut side = Side::new(Setup {
            conn,
            config: &self.scenario.server,
            app: self.scenario.server_app.clone(),
            sends: self.contents[1],
            expects: self.contents[0],
            with_bytes: self.scenario.with_bytes,
            random: self.random.fork(),
        });
        // The last SYN-ACK's options, and the number of the one that is answered.
        let syn_ack = self.syn_ack.expect("SYN-ACK went");
        let seq = Seq(header.ack.0.wrapping_sub(1));
        side.adopt(&self.syn.expect("SYN came"), &Header { seq, ..syn_ack });
        side
    }

    /// For a failure.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (name, side) in [("client", Some(&self.client)), ("server", self.server.as_ref())] {
            let Some(side) = side else {
                text += &format!("{name}: none\n");
                continue;
            };
            text += &format!("{name}: {:?} {}\n", side.conn.state(), side.describe());
        }
        for (name, link) in ["up", "down"].iter().zip(&self.links) {
            text += &format!("{name}: {:?}\n", link.counts());
        }
        text
    }
}
