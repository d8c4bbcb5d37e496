//! A client's messages over a connection that the first of them opens: it goes with the handshake, and is answered a round
//! trip sooner.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::pipeline::{Marshal, Unmarshal, marshal};
use fusewire_stack::{Link, Result};

use crate::adus::{Adus, io_error};
use crate::message::Outgoing;
use crate::transport::{Arrival, Transport};

/// [`Adus`] of a connection that there is not yet: `connect` opens it, and has it carry these ADUs first.
///
/// ```no_run
/// # fn call(
/// #     endpoint: fusewire_stack::Endpoint,
/// #     server: std::net::SocketAddr,
/// #     config: fusewire_session::ClientConfig,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use fusewire_rpc::{Client, Config, OpenedByCall};
///
/// let connection = OpenedByCall::new(|first| endpoint.connect_sending(server, &config, first));
/// let mut client = Client::new(connection, 100_003, 3, Config::default());
/// client.call(0, |_| Ok(()), |_| Ok(()))?;
/// # Ok(())
/// # }
/// ```
///
/// How long connecting may take is the connection's own to say: a call's time begins behind it.
pub struct OpenedByCall<L, F> {
    connect: Option<F>,
    open: Option<Adus<L>>,
}

impl<L: Link, F: FnOnce(&[&[u8]]) -> Result<L>> OpenedByCall<L, F> {
    /// Nothing happens before the first call.
    pub fn new(connect: F) -> OpenedByCall<L, F> {
        OpenedByCall { connect: Some(connect), open: None }
    }

    /// The connection, once there was a call.
    pub fn link(&self) -> Option<&L> {
        self.open.as_ref().map(|adus| &adus.0)
    }

    fn open(&mut self) -> io::Result<&mut Adus<L>> {
        self.open.as_mut().ok_or_else(|| {
            let what = match self.connect {
                Some(_) => "nothing was called yet",
                None => "the call that was to open the connection failed",
            };
            io::Error::new(io::ErrorKind::NotConnected, what)
        })
    }

    /// Opens it with the first message; false when it is open.
    fn opens(&mut self, message: impl FnOnce() -> Vec<u8>) -> io::Result<bool> {
        let Some(connect) = self.connect.take() else { return Ok(false) };
        self.open = Some(Adus(connect(&[&message()]).map_err(io_error)?));
        Ok(true)
    }
}

impl<L: Link, F: FnOnce(&[&[u8]]) -> Result<L>> Transport for OpenedByCall<L, F> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        if self.opens(|| message.to_vec())? { Ok(()) } else { self.open()?.send(message) }
    }

    fn is_sealed(&self) -> bool {
        true
    }

    fn send_message(&mut self, message: &Outgoing<'_>) -> io::Result<()> {
        let bytes = || {
            let mut bytes = vec![0; message.marshalled_len()];
            marshal(message, &mut bytes);
            bytes
        };
        if self.opens(bytes)? { Ok(()) } else { self.open()?.send_message(message) }
    }

    fn receive_message(
        &mut self,
        into: &mut dyn Unmarshal,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        self.open()?.receive_message(into, patience)
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        self.open()?.receive(message, patience)
    }

    fn is_reliable(&self) -> bool {
        true
    }

    /// What the connection takes is known when it is open; whoever opens it refuses what is longer.
    fn message_len_max(&self) -> usize {
        self.open.as_ref().map_or(usize::MAX, Transport::message_len_max)
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.open.as_ref().and_then(Transport::peer)
    }
}
