//! Calls beside connections of ours over XTP: a request and its answer in a packet each.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fusewire_device::udp::{self, Udp};
use fusewire_session::{ClientConfig, Identity, Trust};
use fusewire_stack::transport::{Config as Transport, Protocol};
use fusewire_stack::{CallId, Config, Connection, Endpoint, PeerCall};

use super::fusewire::{ask_blocking, serve};
use super::talk::{Message, Talk};
use super::{BYTES, Side, Task};
use crate::{Error, Result};

/// Who calls: one call at a time.
struct Calling {
    connection: Connection,
    call: Option<CallId>,
}

impl Talk for Calling {
    fn send(&mut self, message: &Message) -> Result<()> {
        self.call = Some(self.connection.begin_call(&message[..])?);
        Ok(())
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        if self.call.take().is_none() {
            // Nothing comes unasked; who is idle waits for ever.
            return Ok(self.connection.next_call()?.is_some());
        }
        let (_, answer) = self.connection.next_answer(None)?;
        Ok(taken(&answer?, message))
    }
}

/// Who is called.
struct Called {
    connection: Connection,
    asked: Option<PeerCall>,
}

impl Talk for Called {
    fn send(&mut self, message: &Message) -> Result<()> {
        match self.asked.take() {
            Some(call) => Ok(call.answer(message)?),
            None => Ok(()),
        }
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        self.asked = self.connection.next_call()?;
        Ok(self.asked.as_ref().is_some_and(|call| taken(call.request(), message)))
    }
}

fn taken(bytes: &[u8], message: &mut Message) -> bool {
    let is_message = bytes.len() == BYTES;
    if is_message {
        message.copy_from_slice(bytes);
    }
    is_message
}

/// One side.
pub fn work(task: &Task) -> Result<()> {
    let device = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp::Config::default())
        .map_err(Error::os("binding the UDP socket"))?;
    let config = Config { transport: Transport::of_records(Protocol::Xtp), ..Config::default() };
    let endpoint = Endpoint::new(Box::new(device), config)?;
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    match task.side {
        Side::Serve => {
            serve(task, &endpoint, identity, |connection| Called { connection, asked: None })
        }
        Side::Ask(to) => {
            let client = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
            let calling = |connection| Calling { connection, call: None };
            ask_blocking(task, &endpoint, to, &client, calling)
        }
    }
}
