//! Two stacks in one thread, joined by a network in memory: what a transport costs both ends, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use fusewire_device::memory::{self, Memory, Network};
use fusewire_session::{Cipher, ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::transport::{self, Secrets};
use fusewire_stack::{Config, ConnectionId, Event, Keep, Stack};

use crate::transfer::Transport;
use crate::{Error, Result};

/// The server's port, in its transport.
const SERVICE: u16 = 9293;
/// Turns after which what is waited for does not come.
const TURNS: usize = 100_000;

/// Two stacks with a connection.
pub(crate) struct Joined {
    pub client: Stack,
    pub server: Stack,
    network: Network,
    id: ConnectionId,
    served: ConnectionId,
}

/// Where hosts are.
pub(crate) fn address(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

fn attach(network: &Network, at: SocketAddr) -> Result<Memory> {
    network.attach(at).map_err(Error::os("attaching to the network in memory"))
}

fn stack(network: &Network, host: u8, config: &Config) -> Result<Stack> {
    let device = attach(network, address(host, 1))?;
    // Nobody else is here: what is drawn need not be secret.
    Ok(Stack::new(Box::new(device), config.clone(), &[host; 32]))
}

fn wrong(what: String) -> Error {
    Error::Wrong { method: "two stacks in memory".into(), what }
}

impl Joined {
    /// A connection over that transport, for ADUs of so many bytes.
    pub fn new(transport: Transport, cipher: Cipher, adu_bytes: usize) -> Result<Joined> {
        transport.fits(cipher)?;
        let mut config = Config { check: transport.check, ..Config::default() };
        config.max_adu = u32::try_from(adu_bytes).ok();
        config.transport = transport::Config::of_records(transport.protocol);
        config.transport.set_retransmission(transport.retransmission);
        let mailbox_bytes = (8 << 20) + 4 * adu_bytes;
        let network = Network::new(memory::Config { mailbox_bytes, ..memory::Config::default() });
        let (mut client, mut server) = (stack(&network, 1, &config)?, stack(&network, 2, &config)?);
        let identity = Arc::new(Identity::ephemeral()?);
        let mut serving = ServerConfig::new(identity.clone());
        serving.settings.ciphers = vec![cipher];
        serving.settings.allow_insecure = cipher.is_insecure();
        server.listen(SERVICE, serving, &Secrets { isn: [3; 16], cookie: [4; 16] });
        let mut asking = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
        asking.settings.ciphers = vec![cipher];
        asking.settings.allow_insecure = cipher.is_insecure();
        let id = client.connect(server.local_addr(), SERVICE, &asking)?;
        let mut served = None;
        for _ in 0..TURNS {
            client.poll(&mut Keep)?;
            server.poll(&mut Keep)?;
            while let Some((id, event)) = server.poll_event() {
                if matches!(event, Event::Connected { .. }) {
                    served = Some(id);
                }
            }
            if let (Some(served), Some(_)) = (served, client.session(id)) {
                return Ok(Joined { client, server, network, id, served });
            }
        }
        Err(wrong(format!("no connection over {transport}")))
    }

    /// Another host, which no stack is at.
    pub fn host(&self, at: SocketAddr) -> Result<Memory> {
        attach(&self.network, at)
    }

    /// The first packet that a client of the same kind would send to the server.
    pub fn first_packet(&self, config: &Config) -> Result<Vec<u8>> {
        use fusewire_device::{Device, RxBatch};
        let (mut sink, mut batch) = (self.host(address(8, 1))?, RxBatch::new(1));
        let mut client = stack(&self.network, 9, config)?;
        let identity = Arc::new(Identity::ephemeral()?);
        let asking = ClientConfig::new(identity, Trust::Ask);
        client.connect(address(8, 1), SERVICE, &asking)?;
        sink.receive(&mut batch).map_err(Error::os("receiving"))?;
        let first = batch
            .iter()
            .next()
            .map(|packet| packet.bytes[..packet.segment_len.min(packet.bytes.len())].to_vec());
        first.ok_or_else(|| wrong("a client sends nothing".into()))
    }

    /// An ADU from the client to the server's `into`. How long it is there.
    pub fn carry(&mut self, adu: &[u8], into: &mut [u8]) -> Result<usize> {
        let mut turns = 0..TURNS;
        while !self.client.send(self.id, adu)? {
            self.turn(&mut turns)?;
        }
        self.client.flush();
        loop {
            if let Some(len) = self.server.recv_into(self.served, into)? {
                return Ok(len);
            }
            self.turn(&mut turns)?;
        }
    }

    fn turn(&mut self, turns: &mut std::ops::Range<usize>) -> Result<()> {
        turns.next().ok_or_else(|| wrong("an ADU does not come".into()))?;
        self.server.poll(&mut Keep)?;
        self.client.poll(&mut Keep)?;
        for stack in [&mut self.client, &mut self.server] {
            while let Some((_, event)) = stack.poll_event() {
                if let Event::Closed(why) = event {
                    return Err(wrong(format!("the connection ended: {why:?}")));
                }
            }
        }
        Ok(())
    }
}
