//! Messages as calls of Fusewire's own transport over XTP, encrypted: a call and its reply in a packet each where they fit,
//! beside the connection's stream, so that none waits for another. Calls are marshalled in the pass that seals them, and
//! unmarshalled when they have been opened.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_codec::pipeline::{Marshal, Unmarshal, unmarshal};
use fusewire_stack::{CallId, Connection, Error, PeerCall};

use crate::adus::io_error;
use crate::message::Outgoing;
use crate::transport::{Arrival, Transport};

/// Answers that came while calls were begun, and wait to be received, at most.
const CAME_MAX: usize = 4096;
/// And their bytes: where there are as many, one more answer may come.
const CAME_BYTES: usize = 16 << 20;

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
    Client(Begun),
    Server { asked: Option<PeerCall> },
}

/// A client's calls, by the transaction of their message.
///
/// A transaction is in `calls`, in `came` or forgotten: `calls` is no longer than the connection lets calls be under way, and
/// `came` no longer than [`CAME_MAX`], and than [`CAME_BYTES`] and an answer.
#[derive(Default)]
struct Begun {
    /// Under way.
    calls: HashMap<CallId, u32>,
    /// Answers that came while another was begun, and were not received yet.
    came: VecDeque<(u32, Vec<u8>)>,
    /// Their bytes.
    came_bytes: usize,
    unwanted: u64,
}

impl Transactions {
    /// A client's.
    ///
    /// # Errors
    /// The connection's transport is not XTP, or its cipher has no tag.
    pub fn client(connection: Connection) -> io::Result<Transactions> {
        connection.call_len_max().map_err(io_error)?;
        Ok(Transactions { connection, role: Role::Client(Begun::default()) })
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

    /// Answers that came and wait to be received: at most 4,096, or 16 MiB and one answer, beyond which no call is begun.
    pub fn waiting(&self) -> usize {
        match &self.role {
            Role::Client(begun) => begun.came.len(),
            Role::Server { .. } => 0,
        }
    }

    /// Answers to calls that were not begun here. Who begins calls by the [`Transactions::connection`] itself loses theirs.
    pub fn unwanted(&self) -> u64 {
        match &self.role {
            Role::Client(begun) => begun.unwanted,
            Role::Server { .. } => 0,
        }
    }

    /// The bytes of the next message, if one comes in time.
    fn next(&mut self, patience: Option<Duration>) -> io::Result<Result<Vec<u8>, Arrival>> {
        match &mut self.role {
            Role::Client(begun) => match begun.came.pop_front() {
                Some((_, answer)) => {
                    begun.came_bytes -= answer.len();
                    Ok(Ok(answer))
                }
                None => match begun.take(&self.connection, patience.and_then(after)) {
                    Ok((_, Ok(answer))) => Ok(Ok(answer)),
                    // Who waits for it waits as long as for one that is lost.
                    Ok((_, Err(_))) => Ok(Err(Arrival::Nothing)),
                    Err(error) => nothing(error),
                },
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

impl Begun {
    /// Begins a call by `until`. While there are as many as may be it takes answers, which nobody else does meanwhile.
    fn begin<M: Marshal + ?Sized>(
        &mut self,
        connection: &Connection,
        message: &M,
        xid: u32,
        until: Option<Instant>,
    ) -> io::Result<()> {
        loop {
            if self.came.len() >= CAME_MAX || self.came_bytes >= CAME_BYTES {
                let (count, bytes) = (self.came.len(), self.came_bytes);
                let what = format!(
                    "{count} answers wait to be received, {bytes} bytes: receive some of them"
                );
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            match connection.begin_call_timeout(message, Duration::ZERO) {
                Err(Error::Elapsed) => {}
                Err(error) => return Err(io_error(error)),
                Ok(call) => {
                    self.calls.insert(call, xid);
                    return Ok(());
                }
            }
            match self.take(connection, until) {
                Ok((xid, Ok(answer))) => {
                    self.came_bytes += answer.len();
                    self.came.push_back((xid, answer));
                }
                Ok((_, Err(_))) => {}
                Err(error @ Error::Elapsed) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, error));
                }
                Err(error) => return Err(io_error(error)),
            }
        }
    }

    /// What becomes by `until` of a call that was begun here.
    fn take(
        &mut self,
        connection: &Connection,
        until: Option<Instant>,
    ) -> Result<(u32, Result<Vec<u8>, Error>), Error> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let (call, answer) = connection.next_answer(left)?;
            if let Err(error) = &answer {
                tracing::debug!(%error, "a call that is not answered");
            }
            match self.calls.remove(&call) {
                Some(xid) => return Ok((xid, answer)),
                None => self.unwanted += 1,
            }
        }
    }

    /// Forgets a call; whether its answer had come.
    fn cancel(&mut self, connection: &Connection, xid: u32) -> bool {
        let Begun { calls, came, came_bytes, .. } = self;
        let mut had_come = false;
        for (call, _) in calls.extract_if(|_, of| *of == xid) {
            had_come |= connection.cancel_call(call);
        }
        came.retain(|(of, answer)| {
            let stays = *of != xid;
            if !stays {
                had_come = true;
                *came_bytes -= answer.len();
            }
            stays
        });
        had_come
    }
}

/// The end of a time from now; none of one that has no end.
fn after(patience: Duration) -> Option<Instant> {
    Instant::now().checked_add(patience)
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
        match &mut self.role {
            Role::Client(begun) => {
                let xid = message.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
                begun.begin(&self.connection, message, xid, None)
            }
            Role::Server { asked } => match asked.take() {
                Some(call) => call.answer(message).map_err(io_error),
                None => Err(nobody()),
            },
        }
    }

    fn is_sealed(&self) -> bool {
        true
    }

    fn send_message(&mut self, message: &Outgoing<'_>) -> io::Result<()> {
        match &mut self.role {
            Role::Client(begun) => {
                begun.begin(&self.connection, message, message.xid(), message.until())
            }
            Role::Server { asked } => match asked.take() {
                Some(call) => call.answer_message(message).map_err(io_error),
                None => Err(nobody()),
            },
        }
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

    fn cancel(&mut self, xid: u32) -> bool {
        match &mut self.role {
            Role::Client(begun) => begun.cancel(&self.connection, xid),
            Role::Server { .. } => false,
        }
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        let max = match self.role {
            Role::Client(_) => self.connection.call_len_max(),
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
