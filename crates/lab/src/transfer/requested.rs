//! Braun and Diot's application: a client asks for a file, the server sends it in replies, as often as was asked for.
//!
//! Requests and replies are XDR behind a header like RPC's, marshalled in the pass that seals them and unmarshalled in the
//! pass that opens them; with a pass for each stage, each in a pass of its own.

use std::path::PathBuf;
use std::process::Command;

use fusewire_codec::pipeline::{Message, Placed};
use fusewire_codec::{Error as Malformed, Sink, Source, xdr};
use fusewire_session::Cipher;
use fusewire_stack::{Congestion, Link};
use serde::{Deserialize, Serialize};

use super::fusewire::{client_config, endpoint, profiled, server_config};
use super::worker::{Report, Role, Stopwatch, Task as Transfer};
use super::{Carrier, Impairment, Manipulation, Method, Sink as Into, Transport};
use crate::process::{self, Process, listens};
use crate::scratch::Scratch;
use crate::worker;
use crate::{Error, Result};

/// The paper's file: 15 kbyte, as words.
const FILE_WORDS: usize = 15_000 / 4;
/// Bytes of a reply before its words: the header, and the count.
const HEADER: usize = 5 * 4;
/// The most that a reply carries, in bytes.
const REPLY_MAX: u32 = 1 << 16;

/// How the file is asked for, and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asking {
    /// One request for all copies, each reply by itself, in a packet of its own.
    Once,
    /// One request for all copies; the replies of a copy leave together.
    Together,
    /// A request for each copy.
    Each,
}

/// One side of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    transfer: Transfer,
    /// Times that the file is wanted.
    copies: u32,
    asking: Asking,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In one loop, or in passes.
    pub method: Method,
    /// The cipher.
    pub cipher: Cipher,
    /// Bytes of a reply, at most.
    pub reply_bytes: usize,
    /// Times that the file is wanted.
    pub copies: u32,
    /// How they are asked for, and sent.
    pub asking: Asking,
    /// This program, which runs both sides.
    pub program: PathBuf,
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Bytes of the file that came, a second.
    pub bytes_per_s: f64,
    /// Sending a packet of the server's, without system calls.
    pub send_ns: Option<f64>,
    /// Receiving one, at the client.
    pub receive_ns: Option<f64>,
}

/// Asks for the file, and compares all that comes with it.
///
/// # Errors
/// A side failed, or something else came.
pub fn run(plan: &Plan) -> Result<Found> {
    let scratch = Scratch::new()?;
    let start = |role: Role| {
        let mut command = Command::new(&plan.program);
        let name = role.name();
        let transfer = plan.transfer(&scratch, role);
        let task = Task { transfer, copies: plan.copies, asking: plan.asking };
        worker::Task::Requested(Box::new(task)).pass_to(&mut command)?;
        Process::spawn(plan.method.name(), name, command)
    };
    let mut server = start(Role::Send(super::Source::Memory))?;
    let connect = server.address()?;
    let mut client = start(Role::Receive { connect, sink: Into::Null })?;
    let received: Report = client.last_report()?;
    let sent: Report = server.last_report()?;
    Ok(Found {
        bytes_per_s: received.bytes as f64 / received.seconds,
        send_ns: sent.ns_per_packet,
        receive_ns: received.ns_per_packet,
    })
}

impl Plan {
    fn transfer(&self, scratch: &Scratch, role: Role) -> Transfer {
        Transfer {
            method: self.method,
            carrier: Carrier::UDP,
            interface: None,
            bind: None,
            manipulation: Manipulation::default(),
            transport: Transport::default(),
            path: Impairment::default(),
            congestion: Congestion::default(),
            role,
            bytes: 0,
            adu_bytes: self.reply_bytes,
            datagram_bytes: match self.asking {
                Asking::Together => super::run::DATAGRAM_MAX,
                // TCP's header and the record's, and room for the handshake.
                Asking::Once | Asking::Each => (self.reply_bytes + 64).max(1200),
            },
            cipher: self.cipher,
            identity: scratch.path().join("key"),
            measure: true,
            hash: false,
        }
    }
}

/// RPC's header, as far as it is used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Of the transaction.
    xid: u32,
    /// 0: a request; 1: a reply.
    kind: u32,
    /// Of a request, times that the file is wanted; of a reply, its first word in the file.
    first: u32,
    /// Of a request, bytes of a reply at most; of a reply, words of the file.
    second: u32,
}

impl xdr::Encode for Header {
    fn encode<S: Sink>(&self, to: &mut xdr::Encoder<S>) -> std::result::Result<(), Malformed> {
        to.array_fixed(&[self.xid, self.kind, self.first, self.second])
    }
}

impl<'a> xdr::Decode<'a> for Header {
    fn decode<S: Source<'a>>(from: &mut xdr::Decoder<S>) -> std::result::Result<Self, Malformed> {
        let [xid, kind, first, second] = from.array_fixed()?;
        Ok(Header { xid, kind, first, second })
    }
}

struct Reply<'f> {
    header: Header,
    words: &'f [u32],
}

impl xdr::Encode for Reply<'_> {
    fn encode<S: Sink>(&self, to: &mut xdr::Encoder<S>) -> std::result::Result<(), Malformed> {
        self.header.encode(to)?;
        to.array(self.words, REPLY_MAX)
    }
}

fn file() -> Vec<u32> {
    (0..FILE_WORDS as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect()
}

/// Words of a reply.
fn words(reply_bytes: usize) -> usize {
    (reply_bytes.saturating_sub(HEADER) / 4).max(1)
}

fn wrong(what: impl ToString) -> Error {
    Error::Wrong { method: "a file by requests".to_owned(), what: what.to_string() }
}

/// Does one side and prints the report.
///
/// # Errors
/// Whatever went wrong, of any kind.
pub(crate) fn work(task: &Task) -> Result<()> {
    let report = match task.transfer.role {
        Role::Send(_) => serve(task)?,
        Role::Receive { connect, .. } => ask(task, connect)?,
    };
    process::report(&report)
}

fn serve(task: &Task) -> Result<Report> {
    let endpoint = endpoint(&task.transfer)?;
    let listener = endpoint.listen(server_config(&task.transfer)?)?;
    listens(endpoint.local_addr())?;
    let mut connection = listener.accept()?;
    endpoint.with_stack(|stack| stack.measure());
    let (file, watch, mut bytes) = (file(), Stopwatch::start(), 0);
    loop {
        let mut request: Option<Header> = None;
        let mut placed = Placed::xdr(&mut request);
        if connection.recv_message(&mut placed)?.is_none() {
            break;
        }
        placed.finish().map_err(wrong)?;
        let Some(Header { xid, kind: 0, first: copies, second: most }) = request else {
            return Err(wrong("what was asked is no request"));
        };
        let each = words(most as usize);
        for _ in 0..copies {
            let replies: Vec<_> = file
                .chunks(each)
                .enumerate()
                .map(|(i, words)| {
                    let (first, second) = ((i * each) as u32, FILE_WORDS as u32);
                    Reply { header: Header { xid, kind: 1, first, second }, words }
                })
                .collect();
            let messages: std::result::Result<Vec<_>, _> =
                replies.iter().map(Message::xdr).collect();
            let messages = messages.map_err(wrong)?;
            if task.asking == Asking::Together {
                connection.send_messages(messages)?;
            } else {
                messages.iter().try_for_each(|message| connection.send_message(message))?;
            }
            bytes += size_of_val(&file[..]) as u64;
        }
        connection.flush()?;
    }
    let report = watch.report(bytes, None);
    connection.finish()?;
    Ok(profiled(&endpoint, &task.transfer, report))
}

fn ask(task: &Task, server: std::net::SocketAddr) -> Result<Report> {
    let endpoint = endpoint(&task.transfer)?;
    let mut connection = endpoint.connect(server, &client_config(&task.transfer)?)?;
    endpoint.with_stack(|stack| stack.measure());
    let (expected, mut found) = (file(), vec![0; FILE_WORDS]);
    let most = task.transfer.adu_bytes;
    let requests = if task.asking == Asking::Each { task.copies } else { 1 };
    let watch = Stopwatch::start();
    for xid in 0..requests {
        let (first, second) = (task.copies / requests, most as u32);
        let request = Header { xid, kind: 0, first, second };
        connection.send_message(&Message::xdr(&request).map_err(wrong)?)?;
        connection.flush()?;
        for _ in 0..first {
            for (i, part) in found.chunks_mut(words(most)).enumerate() {
                let mut reply = (None, part);
                let mut placed = Placed::xdr(&mut reply);
                if connection.recv_message(&mut placed)?.is_none() {
                    return Err(wrong("the file ended early"));
                }
                placed.finish().map_err(wrong)?;
                let at = (i * words(most)) as u32;
                let header = Header { xid, kind: 1, first: at, second: FILE_WORDS as u32 };
                if reply.0 != Some(header) {
                    return Err(wrong(format!("{:?} in place of {header:?}", reply.0)));
                }
            }
        }
    }
    let bytes = u64::from(task.copies) * 4 * FILE_WORDS as u64;
    let report = watch.report(bytes, None);
    if found != expected {
        return Err(wrong("another file"));
    }
    connection.finish()?;
    Ok(profiled(&endpoint, &task.transfer, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_as_long_as_it_may_be() {
        let file = file();
        for reply_bytes in [256, 1024, 1280] {
            let words = &file[..words(reply_bytes)];
            let header = Header { xid: 1, kind: 1, first: 0, second: FILE_WORDS as u32 };
            let bytes = xdr::to_vec(&Reply { header, words }).unwrap();
            assert_eq!(bytes.len(), reply_bytes);
        }
    }
}
