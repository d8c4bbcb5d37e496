//! Messages as calls of Fusewire's own transport over XTP, encrypted: a call and its reply in a packet each where they fit,
//! beside the connection's stream, so that none waits for another. Calls are marshalled in the pass that seals them, and
//! unmarshalled when they have been opened.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::pipeline::{Marshal, Unmarshal, unmarshal};
use fusewire_stack::{Connection, Error, PeerCall};

use crate::adus::io_error;
use crate::message::Outgoing;
use crate::transport::{Arrival, Transport};

/// Messages as calls beside a connection, whose transport is XTP: a client's, or a server's, which answers the call that
/// came last. Each call reaches the server at most once.
///
/// ```no_run
/// # fn client(connection: fusewire_stack::Connection) -> Result<(), Box<dyn std::error::Error>> {
/// use fusewire_rpc::{Client, Config, Transactions};
///
/// // `Endpoint::new` with `transport: either::Config::of_records(Protocol::Xtp)`, and `connect`.
/// let mut client = Client::new(Transactions::client(connection)?, 100_003, 3, Config::default());
/// client.call(0, |_| Ok(()), |_| Ok(()))?;
/// # Ok(())
/// # }
/// ```
pub struct Transactions {
    connection: Connection,
    role: Role,
}

enum Role {
    /// What came while it sent, and was not received yet.
    Client {
        came: VecDeque<Vec<u8>>,
    },
    Server {
        asked: Option<PeerCall>,
    },
}

impl Transactions {
    /// A client's.
    ///
    /// # Errors
    /// The connection's transport is not XTP, or its cipher has no tag.
    pub fn client(connection: Connection) -> io::Result<Transactions> {
        connection.call_len_max().map_err(io_error)?;
        Ok(Transactions { connection, role: Role::Client { came: VecDeque::new() } })
    }

    /// A server's.
    ///
    /// # Errors
    /// The errors of [`Transactions::client`].
    pub fn server(connection: Connection) -> io::Result<Transactions> {
        connection.call_len_max().map_err(io_error)?;
        Ok(Transactions { connection, role: Role::Server { asked: None } })
    }

    /// The connection: its stream is free for whatever else.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The bytes of the next message, if one comes in time.
    fn next(&mut self, patience: Option<Duration>) -> io::Result<Result<Vec<u8>, Arrival>> {
        match &mut self.role {
            Role::Client { came } if !came.is_empty() => {
                Ok(came.pop_front().ok_or(Arrival::Nothing))
            }
            Role::Client { .. } => match self.connection.next_answer(patience) {
                Ok((_, Ok(answer))) => Ok(Ok(answer)),
                // Who waits for it waits as long as for one that is lost.
                Ok((_, Err(error))) => {
                    tracing::debug!(%error, "a call that is not answered");
                    Ok(Err(Arrival::Nothing))
                }
                Err(error) => nothing(error),
            },
            Role::Server { asked } => {
                let call = match patience {
                    None => self.connection.next_call(),
                    Some(patience) => self.connection.next_call_timeout(patience),
                };
                match call {
                    Ok(Some(call)) => {
                        let request = call.request().to_vec();
                        *asked = Some(call);
                        Ok(Ok(request))
                    }
                    Ok(None) => Ok(Err(Arrival::End)),
                    Err(error) => nothing(error),
                }
            }
        }
    }
}

/// Begins a call. While there are as many as may be it takes answers, which nobody else does meanwhile.
fn begin<M: Marshal + ?Sized>(
    connection: &Connection,
    message: &M,
    came: &mut VecDeque<Vec<u8>>,
) -> Result<(), Error> {
    loop {
        match connection.begin_call_timeout(message, Duration::ZERO) {
            Err(Error::Elapsed) => {}
            begun => return begun.map(drop),
        }
        match connection.next_answer(None)? {
            (_, Ok(answer)) => came.push_back(answer),
            (_, Err(error)) => tracing::debug!(%error, "a call that is not answered"),
        }
    }
}

fn nothing<T>(error: Error) -> io::Result<Result<T, Arrival>> {
    match error {
        Error::Elapsed => Ok(Err(Arrival::Nothing)),
        Error::Closed => Ok(Err(Arrival::End)),
        error => Err(io_error(error)),
    }
}

impl Transport for Transactions {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let sent = match &mut self.role {
            Role::Client { came } => begin(&self.connection, message, came),
            Role::Server { asked } => match asked.take() {
                Some(call) => call.answer(message),
                None => return Err(nobody()),
            },
        };
        sent.map_err(io_error)
    }

    fn is_sealed(&self) -> bool {
        true
    }

    fn send_message(&mut self, message: &Outgoing<'_>) -> io::Result<()> {
        let sent = match &mut self.role {
            Role::Client { came } => begin(&self.connection, message, came),
            Role::Server { asked } => match asked.take() {
                Some(call) => call.answer_message(message),
                None => return Err(nobody()),
            },
        };
        sent.map_err(io_error)
    }

    fn receive_message(
        &mut self,
        into: &mut dyn Unmarshal,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        Ok(match self.next(patience)? {
            Ok(message) => {
                unmarshal(&message, into);
                Arrival::Message
            }
            Err(arrival) => arrival,
        })
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        Ok(match self.next(patience)? {
            Ok(received) => {
                *message = received;
                Arrival::Message
            }
            Err(arrival) => arrival,
        })
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        let max = match self.role {
            Role::Client { .. } => self.connection.call_len_max(),
            Role::Server { .. } => self.connection.answer_len_max(),
        };
        max.unwrap_or(0)
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.connection.remote_addr()
    }
}

fn nobody() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "nobody has asked yet")
}
