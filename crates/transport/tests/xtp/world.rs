//! Two ends, the links between them, and virtual time.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Content, Impairments, Link, Random};
use fusewire_transport::machine::{Header as _, Listener as _, Secrets};
use fusewire_transport::xtp::{Config, Connection, Ends, Header, Listener, ListenerAction, State};
use fusewire_wire::xtp::Key;

use crate::frame::Frame;
use crate::side::{App, Setup, Side};

pub const SERVICE: u16 = 7;

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
    /// The client's key.
    pub key: Option<u64>,
    /// Nobody listens.
    pub refuses: bool,
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
            key: None,
            refuses: false,
            limit: Duration::from_secs(400_000),
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
    /// Contexts that were made of FIRSTs of the client's: one, or another after the first was gone.
    pub accepted: u64,
    pub diags: u64,
    pub steps: u64,
    /// All packets that left, if they are wanted.
    pub recorded: Option<Vec<Vec<u8>>>,
    traced: bool,
}

impl World {
    pub fn new(scenario: &Scenario, random: &mut Random) -> World {
        let contents = [Content::new(random.next_u64()), Content::new(random.next_u64())];
        let now = Instant::from_ms(random.below(1 << 33));
        let key = scenario.key.unwrap_or(random.next_u64());
        let key = Key::new(key).expect("not zero");
        let conn = Connection::connect(&scenario.client, key, SERVICE, now);
        let mut keys = [[0; 16]; 2];
        keys.iter_mut().for_each(|key| random.fill(key));
        let secrets = Secrets { isn: keys[0], cookie: keys[1] };
        let client = Side::new(Setup {
            conn,
            config: &scenario.client,
            app: scenario.client_app.clone(),
            sends: contents[0],
            expects: contents[1],
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
            accepted: 0,
            diags: 0,
            steps: 0,
            recorded: None,
            traced: std::env::var_os("FUSEWIRE_TRACE").is_some(),
        }
    }

    pub fn server(&self) -> &Side {
        self.server.as_ref().expect("a context was accepted")
    }

    /// Runs until both ends have nothing more to do.
    pub fn run(&mut self) {
        self.run_with(|_| {});
    }

    /// Runs until both ends have nothing more to do; `each` may interfere before each step.
    pub fn run_with(&mut self, mut each: impl FnMut(&mut World)) {
        let end = self.now + self.scenario.limit;
        self.settle();
        while let Some(next) = self.next_event() {
            assert!(next <= end, "has not ended:\n{}", self.describe());
            each(self);
            self.step_to(next);
            if self.is_over() {
                return;
            }
        }
        assert!(self.is_over(), "nothing will happen:\n{}", self.describe());
    }

    /// Runs for a time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next_event().filter(|at| *at <= end) {
            self.step_to(next);
        }
        self.now = end;
    }

    /// Both have all, and both contexts are gone, or stay as they are.
    fn is_over(&self) -> bool {
        let Some(server) = &self.server else { return self.client.is_closed };
        let finishes = self.scenario.client_app.finishes && self.scenario.server_app.finishes;
        if finishes || self.client.is_closed || server.is_closed {
            self.client.is_closed && server.is_closed
        } else {
            self.client.is_done() && server.is_done()
        }
    }

    /// All went well: everything came, and both closed in order.
    pub fn assert_graceful(&self) {
        let server = self.server();
        for (sender, receiver) in [(&self.client, server), (server, &self.client)] {
            let got = receiver.received.contiguous();
            assert_eq!(got, sender.app.total, "all has come\n{}", self.describe());
            assert_eq!(receiver.peer_finished, Some(got), "{}", self.describe());
            assert_eq!(sender.acked, got, "{}", self.describe());
            assert!(sender.is_closed, "{}", self.describe());
            use fusewire_transport::machine::Event;
            let bad = |e: &&Event| matches!(e, Event::Reset(_) | Event::TimedOut);
            assert!(!sender.events.iter().any(|e| bad(&e)), "{}", self.describe());
        }
        assert_eq!(self.accepted, 1);
    }

    pub fn next_event(&self) -> Option<Instant> {
        let now = self.now;
        let links = self.links.iter().filter_map(Link::next_arrival);
        let sides = [Some(&self.client), self.server.as_ref()];
        let sides = sides.into_iter().flatten().filter_map(|side| side.next_wake(now));
        links.chain(sides).min().map(|at| at.max(now))
    }

    /// Time moves to `next`; what has arrived is received, everyone acts.
    pub fn step_to(&mut self, next: Instant) {
        self.now = next;
        self.steps += 1;
        assert!(self.steps < 3_000_000, "goes on and on:\n{}", self.describe());
        while let Some(frame) = self.links[0].poll(next) {
            self.trace("       to server", &frame);
            self.arrive_at_server(&frame);
        }
        while let Some(frame) = self.links[1].poll(next) {
            self.trace("       to client", &frame);
            self.arrive_at_client(&frame);
        }
        self.settle();
    }

    /// Both ends act, transmit and are checked.
    pub fn settle(&mut self) {
        let now = self.now;
        let [up, down] = &mut self.links;
        let ends = [("client", Some(&mut self.client), up), ("server", self.server.as_mut(), down)];
        for (name, side, link) in ends {
            let Some(side) = side else { continue };
            side.collect();
            side.act(now);
            side.transmit(now, |frame| {
                if self.traced {
                    eprintln!("{now} {name} {frame}");
                }
                if let Some(recorded) = &mut self.recorded {
                    recorded.push(frame.bytes.clone());
                }
                link.send(now, frame);
            });
            side.collect();
            side.check();
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
            let whole = receiver.conn.rcv_nxt_offset();
            assert!(sender.acked <= whole, "{} taken for received of {whole}", sender.acked);
        }
    }

    fn is_for(side: &Side, header: &Header) -> bool {
        let name = header.flow();
        side.conn.state() != State::Quiescent
            && (name == side.conn.name() || Some(name) == side.conn.also())
    }

    /// A frame arrives at the client's address.
    pub fn arrive_at_client(&mut self, frame: &Frame) {
        let Some((header, data)) = frame.parse() else {
            frame.assert_changed();
            return;
        };
        if World::is_for(&self.client, &header) {
            return self.client.receive(frame, self.now);
        }
        if frame.verifies()
            && let Some(diag) = header.refusal(data.len() as u32)
        {
            self.diags += 1;
            self.links[0].send(self.now, Frame::forged(&diag, &[]));
        }
    }

    /// A frame arrives at the server's address.
    pub fn arrive_at_server(&mut self, frame: &Frame) {
        let Some((header, data)) = frame.parse() else {
            frame.assert_changed();
            return;
        };
        if let Some(server) = self.server.as_mut().filter(|s| World::is_for(s, &header)) {
            return server.receive(frame, self.now);
        }
        if !frame.verifies() {
            return;
        }
        let len = data.len() as u32;
        let ends = Ends {
            local: ([10, 0, 0, 1], 4433).into(),
            remote: ([10, 0, 0, 2], 5544).into(),
            flow: header.flow(),
        };
        let reply = if self.scenario.refuses || header.service() != Some(SERVICE) {
            header.refusal(len)
        } else if self.server.is_some() {
            // A FIRST that comes late: what it opens nobody will show a key to. It is not looked at here.
            return;
        } else {
            match self.listener.handle_stray(self.now, &ends, &header, len) {
                ListenerAction::Reply(reply) => Some(reply),
                ListenerAction::Accept(conn) => {
                    self.accepted += 1;
                    self.listener.taken();
                    let server = self.side(*conn);
                    self.server.insert(server).receive(frame, self.now);
                    None
                }
                ListenerAction::Drop(_) => None,
            }
        };
        if let Some(reply) = reply {
            self.diags += 1;
            let frame = Frame::forged(&reply, &[]);
            self.trace("server", &frame);
            if let Some(recorded) = &mut self.recorded {
                recorded.push(frame.bytes.clone());
            }
            self.links[1].send(self.now, frame);
        }
    }

    fn side(&mut self, conn: Connection) -> Side {
        Side::new(Setup {
            conn,
            config: &self.scenario.server,
            app: self.scenario.server_app.clone(),
            sends: self.contents[1],
            expects: self.contents[0],
            random: self.random.fork(),
        })
    }

    /// For a failure.
    pub fn describe(&self) -> String {
        let mut text = format!("at {}\n", self.now);
        for (name, side) in [("client", Some(&self.client)), ("server", self.server.as_ref())] {
            let Some(side) = side else {
                text += &format!("{name}: none\n");
                continue;
            };
            text += &format!("{name}: {}\n", side.describe());
        }
        for (name, link) in ["up", "down"].iter().zip(&self.links) {
            text += &format!("{name}: {:?}\n", link.counts());
        }
        text
    }
}
