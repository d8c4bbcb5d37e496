//! The two ends by hand: settings, a header, dispatch, the order of `Done`, errors.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use fusewire_codec::lws;
use fusewire_codec::pipeline::{Marshal, Message, Sealing};
use fusewire_session::{ClientConfig, ServerConfig, Trust};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Config, Congestion, Connection, Endpoint};

pub use fusewire_session::{Allow, Fingerprint, Identity};
pub use types::bulk::{Block, Done};

/// The types, by the ASN.1 compiler alone.
mod types {
    include!(concat!(env!("OUT_DIR"), "/by_hand.rs"));
}

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BLOCK: u8 = 0;
const DONE: u8 = 1;
const HEADER_LEN: usize = 4;
const ADU_LEN_MAX: u32 = 65_552;

fn config() -> Config {
    let mut transport = transport::Config::of_records(Protocol::Tcp);
    transport.set_congestion(Congestion::Bbr);
    Config { transport, max_adu: Some(ADU_LEN_MAX), ..Config::default() }
}

/// A message behind the number of its type.
struct Headed<M>(u8, M);

impl<M: Marshal> Marshal for Headed<M> {
    fn marshalled_len(&self) -> usize {
        HEADER_LEN + self.1.marshalled_len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        to.put(&[self.0, 0, 0, 0]);
        self.1.marshal(to);
    }
}

pub struct Source(Connection);

impl Source {
    pub fn connect(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint) -> Result<Source> {
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let device = fusewire_device::udp::Udp::bind(any.parse()?, &Default::default())?;
        let endpoint = Endpoint::new(Box::new(device), config())?;
        let client = ClientConfig::new(identity, Trust::Pinned(key));
        Ok(Source(endpoint.connect(at, &client)?))
    }

    pub fn send_block(&self, block: &Block<'_>) -> Result<()> {
        Ok(self.0.send_message(&Headed(BLOCK, Message::lws::<u32>(block)?))?)
    }

    pub fn send_done(&self, done: &Done<'_>) -> Result<()> {
        Ok(self.0.send_message(&Headed(DONE, Message::lws::<u32>(done)?))?)
    }

    pub fn finish(self) -> Result<()> {
        Ok(self.0.finish()?)
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

    pub fn accept(&self) -> Result<Sink> {
        Ok(Sink {
            connection: self.listener.accept()?,
            memory: Vec::new(),
            next: 0,
            early: BTreeSet::new(),
            done: None,
        })
    }
}

pub struct Sink {
    connection: Connection,
    memory: Vec<u8>,
    /// All before this have come, and these beyond it.
    next: u64,
    early: BTreeSet<u64>,
    /// `Done`, and its place, until all before it have come.
    done: Option<(u64, Vec<u8>)>,
}

pub enum ToSink<'a> {
    Block(Block<'a>),
    Done(Done<'a>),
}

impl Sink {
    pub fn listen(at: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener> {
        let device = fusewire_device::udp::Udp::bind(at, &Default::default())?;
        let endpoint = Endpoint::new(Box::new(device), config())?;
        let mut server = ServerConfig::new(identity);
        server.allow = allow;
        server.settings.body_len_max = ADU_LEN_MAX;
        let listener = endpoint.listen(server)?;
        Ok(Listener { endpoint, listener })
    }

    pub fn recv(&mut self) -> Result<Option<ToSink<'_>>> {
        self.connection.recycle(std::mem::take(&mut self.memory));
        loop {
            if let Some((_, done)) = self.done.take_if(|(at, _)| *at == self.next) {
                self.next += 1;
                self.memory = done;
                break;
            }
            let Some((index, adu)) = self.connection.recv_any()? else { return Ok(None) };
            if adu.first() == Some(&DONE) {
                self.done = Some((index, adu));
                continue;
            }
            self.early.insert(index);
            while self.early.remove(&self.next) {
                self.next += 1;
            }
            self.memory = adu;
            break;
        }
        match self.memory[..] {
            [BLOCK, 0, 0, 0, ref body @ ..] => {
                Ok(Some(ToSink::Block(lws::from_bytes::<u32, _>(body)?)))
            }
            [DONE, 0, 0, 0, ref body @ ..] => {
                Ok(Some(ToSink::Done(lws::from_bytes::<u32, _>(body)?)))
            }
            _ => Err("the source sent neither a block nor its end".into()),
        }
    }

    pub fn finish(self) -> Result<()> {
        Ok(self.connection.finish()?)
    }
}
