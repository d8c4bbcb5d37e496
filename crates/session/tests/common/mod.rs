//! Two sides in memory.
#![allow(dead_code, reason = "each test file uses a part of it")]

use fusewire_session::{
    Allow, ClientConfig, Error, Established, Handshake, Identity, ServerConfig, Trust,
};
use std::sync::Arc;

/// Two keys and the configurations to begin with: each side knows the other.
pub struct Sides {
    pub client: ClientConfig,
    pub server: ServerConfig,
}

impl Sides {
    pub fn new() -> Sides {
        let client = Arc::new(Identity::ephemeral().unwrap());
        let server = Arc::new(Identity::ephemeral().unwrap());
        let trust = Trust::Pinned(server.fingerprint());
        let list = [client.fingerprint()].into_iter().collect();
        let mut sides =
            Sides { client: ClientConfig::new(client, trust), server: ServerConfig::new(server) };
        sides.server.allow = Allow::List(Arc::new(list));
        sides
    }

    /// Runs a handshake to its end with chunks of `chunk` bytes.
    pub fn run(&self, chunk: usize) -> (Result<Established, Error>, Result<Established, Error>) {
        let client = Handshake::client(&self.client).unwrap();
        let server = Handshake::server(&self.server).unwrap();
        let mut link = Link::new(client, server);
        link.chunk = chunk;
        link.run()
    }

    pub fn established(&self) -> (Established, Established) {
        let (client, server) = self.run(usize::MAX);
        (client.unwrap(), server.unwrap())
    }
}

/// A handshake over a perfect wire; `tamper` sees the bytes of each flight first.
pub struct Link<'a> {
    pub client: Handshake,
    pub server: Handshake,
    pub chunk: usize,
    pub tamper: Tamper<'a>,
    /// All bytes that went each way.
    pub sent: [Vec<u8>; 2],
}

type Tamper<'a> = Box<dyn FnMut(Direction, &mut Vec<u8>) + 'a>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

impl<'a> Link<'a> {
    pub fn new(client: Handshake, server: Handshake) -> Link<'a> {
        Link {
            client,
            server,
            chunk: usize::MAX,
            tamper: Box::new(|_, _| {}),
            sent: [vec![], vec![]],
        }
    }

    pub fn run(&mut self) -> (Result<Established, Error>, Result<Established, Error>) {
        let (mut at_client, mut at_server) = (None, None);
        loop {
            let mut moved = false;
            for direction in [Direction::ToServer, Direction::ToClient] {
                let (from, to, to_result) = match direction {
                    Direction::ToServer => (&mut self.client, &mut self.server, &mut at_server),
                    Direction::ToClient => (&mut self.server, &mut self.client, &mut at_client),
                };
                let mut flight = Vec::new();
                from.write(&mut flight);
                (self.tamper)(direction, &mut flight);
                self.sent[direction as usize].extend(&flight);
                for piece in flight.chunks(self.chunk.min(flight.len().max(1))) {
                    moved = true;
                    if to_result.is_some() {
                        continue;
                    }
                    match to.read(piece) {
                        Ok(n) => assert_eq!(n, piece.len(), "a handshake leaves nothing behind"),
                        Err(error) => *to_result = Some(Err(error)),
                    }
                }
            }
            for (side, result) in
                [(&mut self.client, &mut at_client), (&mut self.server, &mut at_server)]
            {
                if result.is_none()
                    && let Some(done) = side.poll()
                {
                    *result = Some(Ok(done));
                }
            }
            if !moved {
                break;
            }
        }
        let ended = |side: &Handshake| Err(side.ended());
        (
            at_client.unwrap_or_else(|| ended(&self.client)),
            at_server.unwrap_or_else(|| ended(&self.server)),
        )
    }
}

/// What a wrong result looks like, without printing keys.
pub fn error(result: Result<Established, Error>) -> Error {
    match result {
        Ok(_) => panic!("the handshake must not succeed"),
        Err(error) => error,
    }
}
