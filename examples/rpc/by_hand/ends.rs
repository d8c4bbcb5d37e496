//! The two ends by hand: settings, a header, calls and their answers on a connection's stream, deadlines, errors.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_codec::lws;
use fusewire_codec::pipeline::{Marshal, Message, Sealing};
use fusewire_session::{ClientConfig, ServerConfig, Trust};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Config, Connection, Endpoint};

pub use fusewire_session::{Allow, Fingerprint, Identity};
pub use types::kv::{Get, Got};

/// The types, by the ASN.1 compiler alone.
mod types {
    include!(concat!(env!("OUT_DIR"), "/by_hand.rs"));
}

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const GET: u8 = 0;
const GOT: u8 = 1;
/// Type, and the number of the call.
const HEADER_LEN: usize = 8;
const ADU_LEN_MAX: usize = 16_440;
const DEADLINE: Duration = Duration::from_millis(250);

fn config() -> Config {
    let transport = transport::Config::of_records(Protocol::Tcp);
    // Who waits for an answer looks for it rather than sleep.
    let spin = Duration::from_micros(200);
    Config { transport, max_adu: Some(ADU_LEN_MAX as u32), packs: false, spin, ..Config::default() }
}

/// A message behind the number of its type and of its call.
struct Headed<M>(u8, u32, M);

impl<M: Marshal> Marshal for Headed<M> {
    fn marshalled_len(&self) -> usize {
        HEADER_LEN + self.2.marshalled_len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&[self.0, 0, 0, 0]);
        to.put(&self.1.to_be_bytes());
        self.2.marshal(to);
    }
}

/// The type, the call and the body of a message.
fn parsed(adu: &[u8]) -> Result<(u8, u32, &[u8])> {
    let ([kind, 0, 0, 0, call @ ..], body) =
        adu.split_first_chunk::<HEADER_LEN>().ok_or("too short")?
    else {
        return Err("no header".into());
    };
    Ok((*kind, u32::from_be_bytes(*call), body))
}

pub struct Client {
    connection: Connection,
    memory: Vec<u8>,
    calls: u32,
    is_late: bool,
}

impl Client {
    pub fn connect(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint) -> Result<Client> {
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let device = fusewire_device::udp::Udp::bind(any.parse()?, &Default::default())?;
        let endpoint = Endpoint::new(Box::new(device), config())?;
        let mut client = ClientConfig::new(identity, Trust::Pinned(key));
        client.settings.body_len_max = ADU_LEN_MAX as u32;
        let connection = endpoint.connect(at, &client)?;
        Ok(Client { connection, memory: vec![0; ADU_LEN_MAX], calls: 0, is_late: false })
    }

    pub fn ask_get(&mut self, get: &Get<'_>) -> Result<Got<'_>> {
        let asked = Instant::now();
        self.calls = self.calls.wrapping_add(1);
        self.connection.send_message(&Headed(GET, self.calls, Message::lws::<u32>(get)?))?;
        let len = self.connection.recv(&mut self.memory)?.ok_or("the server has ended")?;
        self.is_late = asked.elapsed() > DEADLINE;
        match parsed(&self.memory[..len])? {
            (GOT, call, body) if call == self.calls => Ok(lws::from_bytes::<u32, _>(body)?),
            _ => Err("the server answered something else".into()),
        }
    }

    pub fn is_late(&self) -> bool {
        self.is_late
    }

    pub fn finish(self) -> Result<()> {
        Ok(self.connection.finish()?)
    }
}

pub struct Listener {
    endpoint: Endpoint,
    listener: fusewire_stack::Listener,
}

impl Listener {
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    pub fn accept(&self) -> Result<Server> {
        Ok(Server { connection: self.listener.accept()?, memory: vec![0; ADU_LEN_MAX] })
    }
}

pub struct Server {
    connection: Connection,
    memory: Vec<u8>,
}

pub enum AskServer<'a> {
    Get(Get<'a>, Answer<'a>),
}

/// Answers one call.
pub struct Answer<'a>(&'a Connection, u32);

impl Answer<'_> {
    pub fn send(self, got: &Got<'_>) -> Result<()> {
        Ok(self.0.send_message(&Headed(GOT, self.1, Message::lws::<u32>(got)?))?)
    }
}

impl Server {
    pub fn listen(at: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener> {
        let device = fusewire_device::udp::Udp::bind(at, &Default::default())?;
        let endpoint = Endpoint::new(Box::new(device), config())?;
        let mut server = ServerConfig::new(identity);
        server.allow = allow;
        server.settings.body_len_max = ADU_LEN_MAX as u32;
        let listener = endpoint.listen(server)?;
        Ok(Listener { endpoint, listener })
    }

    pub fn next_call(&mut self) -> Result<Option<AskServer<'_>>> {
        let Some(len) = self.connection.recv(&mut self.memory)? else { return Ok(None) };
        match parsed(&self.memory[..len])? {
            (GET, call, body) => {
                let get = lws::from_bytes::<u32, _>(body)?;
                Ok(Some(AskServer::Get(get, Answer(&self.connection, call))))
            }
            _ => Err("the client asked something else".into()),
        }
    }

    pub fn finish(self) -> Result<()> {
        Ok(self.connection.finish()?)
    }
}
