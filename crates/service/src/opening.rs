//! How the session of two ends begins: over TCP or XTP in UDP, whatever carries their ADUs then.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use fusewire_device::{Device, udp};
use fusewire_session::{
    Allow, ClientConfig, Fingerprint, Identity, ServerConfig, Settings, Terms, Trust,
};
use fusewire_stack::{self as stack, Connection, Endpoint};

use crate::profile::{Profile, is_without};
use crate::stream::{config, taken_len_max};
use crate::{Error, Result};

/// What this end says in the handshake.
pub(crate) fn say<P: Profile>(settings: &mut Settings) {
    settings.ciphers = P::CIPHERS.to_vec();
    settings.body_len_max = u32::try_from(taken_len_max::<P>()).unwrap_or(u32::MAX);
    settings.terms = Terms::of(P::CLAUSES);
    settings.data_pass = P::data_pass();
    settings.allow_insecure |= is_without::<P>("encryption");
}

/// A socket for sessions.
pub(crate) fn device<P: Profile>(local: SocketAddr) -> Result<Box<dyn Device>> {
    let device = udp::Udp::bind(local, &udp_config::<P>());
    Ok(Box::new(device.map_err(stack::Error::os("binding the UDP socket"))?))
}

/// Settings of the sockets of an end.
pub(crate) fn udp_config<P: Profile>() -> udp::Config {
    udp::Config { dscp: P::DSCP, ..udp::Config::default() }
}

/// The connection of an end to a server with this key.
pub(crate) fn connect<P: Profile>(
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
) -> Result<Connection> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    open::<P>(device::<P>(local)?, server, identity, key, Terms::of(P::CLAUSES))
}

/// [`connect`], over a device and with these terms.
pub(crate) fn open<P: Profile>(
    device: Box<dyn Device>,
    server: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    terms: Terms,
) -> Result<Connection> {
    let mut client = ClientConfig::new(identity, Trust::Pinned(key));
    say::<P>(&mut client.settings);
    client.settings.terms = terms;
    let connection = Endpoint::new(device, config::<P>())?.connect(server, &client);
    connection.map_err(|error| Error::of(error, P::CLAUSES))
}

/// Takes the connections of one role's ends.
pub(crate) struct Listener<P> {
    endpoint: Endpoint,
    pub listener: stack::Listener,
    profile: PhantomData<fn() -> P>,
}

impl<P: Profile> Listener<P> {
    /// At an address, for those clients.
    pub fn bind(local: SocketAddr, identity: Arc<Identity>, allow: Allow) -> Result<Listener<P>> {
        let endpoint = Endpoint::new(device::<P>(local)?, config::<P>())?;
        let mut server = ServerConfig::new(identity);
        server.allow = allow;
        say::<P>(&mut server.settings);
        let listener = endpoint.listen(server)?;
        Ok(Listener { endpoint, listener, profile: PhantomData })
    }

    /// Where it is.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }
}
