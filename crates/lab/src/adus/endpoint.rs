//! Runs over our own TCP in UDP: an endpoint's records, without a cipher, as there is no TCP of ours without a session.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use fusewire_device::udp::{self, Udp};
use fusewire_session::{Cipher, ClientConfig, Identity, ServerConfig, Settings, Trust};
use fusewire_stack::transport::{Config as Transport, Protocol};
use fusewire_stack::{Config, Connection, Endpoint};

use super::{Report, Task, look, rest, runs, wrong};
use crate::inca::numbered::Runs;
use crate::process::{self, listens};
use crate::{Error, Result};

pub(super) fn work(task: &Task) -> Result<()> {
    let device = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp::Config::default())
        .map_err(Error::os("binding the UDP socket"))?;
    let config = Config {
        transport: Transport::of_records(Protocol::Tcp),
        datagram_bytes: Some(task.packet_bytes),
        ..Config::default()
    };
    let endpoint = Endpoint::new(Box::new(device), config)?;
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    match task.to {
        Some(to) => {
            let trust = Trust::Pinned(identity.fingerprint());
            let mut client = ClientConfig::new(identity, trust);
            unprotected(&mut client.settings);
            let mut connection = endpoint.connect(to, &client)?;
            let send = |connection: &mut Connection, adu: &[u8]| Ok(connection.send(adu)?);
            let sent = runs(task, &mut connection, send, rest)?;
            connection.finish()?;
            process::report(&Report { sent, ..Report::default() })
        }
        None => {
            let mut server = ServerConfig::new(identity);
            unprotected(&mut server.settings);
            let listener = endpoint.listen(server)?;
            listens(endpoint.local_addr())?;
            receive(task, &listener.accept()?)
        }
    }
}

fn unprotected(settings: &mut Settings) {
    settings.ciphers = vec![Cipher::NONE];
    settings.allow_insecure = true;
}

fn receive(task: &Task, connection: &Connection) -> Result<()> {
    let (mut runs, mut adu) = (Runs::new(task.adus), vec![0; task.adu_bytes]);
    while !runs.is_over() {
        let Some(len) = connection.recv(&mut adu)? else {
            return Err(wrong(task.means, "the connection ended"));
        };
        let (run, number) = look(task, [&adu[..len], &[]])?;
        runs.see(run, number, Instant::now);
    }
    // The sender hears that all is here.
    while connection.recv(&mut adu)?.is_some() {}
    connection.finish()?;
    process::report(&Report { rates: runs.rates, ..Report::default() })
}
