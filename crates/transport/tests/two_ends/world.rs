//! Two ends, the links between them, and virtual time.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Content, Impairments, Link, Random};
use fusewire_transport::machine::{Listener as _, Secrets};

use super::side::{Setup, Side};
use super::{Account, App, Connection, Frame as _, Header, Listener};

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Scenario<A: Account> {
    pub client: A::Config,
    pub server: A::Config,
    pub client_app: App,
    pub server_app: App,
    /// Client to server, and back.
    pub links: [Impairments; 2],
    pub backlog: usize,
    /// Payloads are bytes; otherwise only ranges, for long runs.
    pub with_bytes: bool,
    /// Virtual time after which a run that has not ended is a failure.
    pub limit: Duration,
    pub told: A::Told,
}

impl<A: Account<Config: Default>> Default for Scenario<A> {
    fn default() -> Self {
        Scenario {
            client: A::Config::default(),
            server: A::Config::default(),
            client_app: App::default(),
            server_app: App::default(),
            links: [Impairments::default(), Impairments::default()],
            backlog: 8,
            with_bytes: true,
            limit: Duration::from_secs(400_000),
            told: A::Told::default(),
        }
    }
}

/// Everything.
pub struct World<A: Account> {
    pub now: Instant,
    pub client: Side<A>,
    pub server: Option<Side<A>>,
    pub listener: Listener<A>,
    pub links: [Link<A::Frame>; 2],
    pub around: A::Around,
    pub scenario: Scenario<A>,
    contents: [Content; 2],
    random: Random,
    pub steps: u64,
    /// All frames that left, if they are wanted.
    pub recorded: Option<Vec<A::Frame>>,
    /// `FUSEWIRE_TRACE` is set: what is sent and received is printed.
    traced: bool,
}

impl<A: Account> World<A> {
    pub fn new(scenario: &Scenario<A>, random: &mut Random) -> World<A> {
        let contents = [Content::new(random.next_u64()), Content::new(random.next_u64())];
        // The clock's origin is anywhere: timestamps wrap in some runs.
        let now = Instant::from_ms(random.below(1 << 33));
        let (conn, around) = A::connect(scenario, random, now);
        let mut keys = [[0; 16]; 2];
        keys.iter_mut().for_each(|key| random.fill(key));
        let secrets = Secrets { isn: keys[0], cookie: keys[1] };
        let client = Side::new(Setup {
            conn,
            config: &scenario.client,
            told: &scenario.told,
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
            listener: A::listen(scenario, &secrets),
            links: [0, 1].map(|i| Link::new(scenario.links[i].clone(), random.fork())),
            around,
            scenario: scenario.clone(),
            contents,
            random: random.fork(),
            steps: 0,
            recorded: None,
            traced: std::env::var_os("FUSEWIRE_TRACE").is_some(),
        }
    }

    pub fn server(&self) -> &Side<A> {
        self.server.as_ref().expect("a connection was accepted")
    }

    /// Runs until both ends have nothing more to do.
    pub fn run(&mut self) {
        self.run_with(|_| {});
    }

    /// Runs until both ends have nothing more to do; `each` may interfere before each step.
    pub fn run_with(&mut self, mut each: impl FnMut(&mut World<A>)) {
        let end = self.now + self.scenario.limit;
        self.settle();
        while !A::is_over(self) {
            each(self);
            self.settle();
            let Some(next) = self.next_event() else {
                panic!("nothing will happen, at {}\n{}", self.now, self.describe());
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
            A::arrive_at_server(self, &frame);
        }
        while let Some(frame) = self.links[1].poll(next) {
            self.trace("       to client", &frame);
            A::arrive_at_client(self, &frame);
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
                self.recorded.iter_mut().for_each(|all| all.push(frame.clone()));
                link.send(now, frame);
            });
            side.collect();
            side.check();
        }
        while let Some((ends, header)) = self.listener.poll_reply(now) {
            if A::is_the_clients(&ends) {
                self.answer(1, &header);
            }
        }
        self.check_both();
    }

    fn trace(&self, what: &str, frame: &A::Frame) {
        if self.traced {
            eprintln!("{} {what} {frame}", self.now);
        }
    }

    /// What only one who sees both ends can know.
    fn check_both(&self) {
        let Some(server) = &self.server else { return };
        for (sender, receiver) in [(&self.client, server), (server, &self.client)] {
            let whole = receiver.whole();
            assert!(sender.acked <= whole, "{} taken for received of {whole}", sender.acked);
        }
    }

    /// Something without payload leaves, over the link of this number.
    pub fn answer(&mut self, link: usize, header: &Header<A>) {
        let frame = A::Frame::control(header, self.scenario.with_bytes);
        self.trace("answer", &frame);
        self.recorded.iter_mut().for_each(|all| all.push(frame.clone()));
        self.links[link].send(self.now, frame);
    }

    /// The server's end of what its listener made.
    pub fn accept(&mut self, conn: Connection<A>) -> Side<A> {
        self.listener.taken();
        Side::new(Setup {
            conn,
            config: &self.scenario.server,
            told: &self.scenario.told,
            app: self.scenario.server_app.clone(),
            sends: self.contents[1],
            expects: self.contents[0],
            with_bytes: self.scenario.with_bytes,
            random: self.random.fork(),
        })
    }

    /// For a failure.
    pub fn describe(&self) -> String {
        let mut text = format!("at {}\n", self.now);
        for (name, side) in [("client", Some(&self.client)), ("server", self.server.as_ref())] {
            let side = side.map_or("none".into(), Side::describe);
            text += &format!("{name}: {side}\n");
        }
        for (name, link) in ["up", "down"].iter().zip(&self.links) {
            text += &format!("{name}: {:?}\n", link.counts());
        }
        text
    }
}
