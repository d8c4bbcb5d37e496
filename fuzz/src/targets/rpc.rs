//! ONC RPC: records of a hostile stream into messages, messages into a server, replies into a client; and what
//! the compiler wrote for every kind of type.

use std::io::{self, Read, Write};
use std::time::Duration;

use fusewire_codec::xdr;
use fusewire_rpc::{
    Arrival, Call, Config, Fault, Patient, RecordConfig, Records, Server, Services, Transport, Turn,
};

use crate::Choices;

#[allow(dead_code, missing_docs, reason = "the compiler's output")]
mod kinds {
    include!("../../../crates/xdr/tests/expect/kinds.rs");
    include!("../../../crates/xdr/tests/expect/kinds.programs.rs");
}
use kinds::kinds_prog::{PROGRAM, kinds_first, kinds_second};
use kinds::{Blob, Entries, Everything, Name, Pair};

/// A stream that gives its bytes in pieces.
struct Pieces<'a> {
    bytes: Choices<'a>,
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.bytes(out.len().min(self.piece));
        out[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len().min(self.piece))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Kinds;

impl kinds_first::Server for Kinds {
    fn kinds_sum(&self, _: &Call<'_>, of: Pair) -> Result<i32, Fault> {
        Ok(of.a.wrapping_add(of.b))
    }
}

impl kinds_second::Server for Kinds {
    fn kinds_echo(&self, _: &Call<'_>, what: Everything) -> Result<Everything, Fault> {
        let bytes = xdr::to_vec(&what).expect("what was read can be written");
        let again: Everything = xdr::from_bytes(&bytes).expect("what was written can be read");
        assert_eq!(bytes, xdr::to_vec(&again).expect("as before"));
        Ok(what)
    }
    fn kinds_large(&self, _: &Call<'_>, len: u32) -> Result<Blob, Fault> {
        Ok(vec![0; len.min(5000) as usize])
    }
    fn kinds_count(&self, call: &Call<'_>) -> Result<u32, Fault> {
        Ok(call.xid)
    }
    fn kinds_reverse(&self, _: &Call<'_>, list: Entries) -> Result<Entries, Fault> {
        Ok(list)
    }
    fn kinds_greet(&self, _: &Call<'_>, who: Name) -> Result<Name, Fault> {
        // One letter more may be one too many.
        Ok([who, b"!".to_vec()].concat())
    }
    fn kinds_take(&self, _: &Call<'_>, _: Blob) -> Result<(), Fault> {
        Ok(())
    }
    fn kinds_fail(&self, _: &Call<'_>) -> Result<i32, Fault> {
        Err(Fault::System)
    }
}

fn services() -> Services {
    Services::new().with(kinds_first::Service(Kinds)).with(kinds_second::Service(Kinds))
}

/// Answers calls with what the input says.
struct Replies<'a> {
    bytes: Choices<'a>,
    xids: Vec<[u8; 4]>,
}

impl Transport for Replies<'_> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.xids.push(*message.first_chunk().expect("a call begins with its transaction"));
        Ok(())
    }

    fn receive(&mut self, message: &mut Vec<u8>, _: Option<Duration>) -> io::Result<Arrival> {
        if self.bytes.is_empty() {
            return Ok(Arrival::End);
        }
        message.clear();
        // One of the transactions, or any.
        let which = self.bytes.u8() as usize;
        let len = self.bytes.u16() as usize;
        message.extend_from_slice(self.xids.get(which).unwrap_or(&[1, 2, 3, 4]));
        message.extend_from_slice(self.bytes.bytes(len));
        Ok(Arrival::Message)
    }

    fn is_reliable(&self) -> bool {
        self.xids.len().is_multiple_of(2)
    }

    fn message_len_max(&self) -> usize {
        1 << 20
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let kind = choices.u8();
    match kind % 4 {
        0 => records(&mut choices),
        1 => {
            let mut reply = Vec::new();
            let message = choices.rest();
            if services().handle(message, None, &mut reply).is_ok() {
                assert_eq!(reply[..4], message[..4], "another transaction");
                assert!(reply.len() >= 20 && reply.len() % 4 == 0, "no reply");
            }
        }
        2 => client(&mut choices),
        _ => {
            if let Ok(value) = xdr::from_bytes::<Everything>(choices.rest()) {
                let bytes = xdr::to_vec(&value).expect("what was read can be written");
                assert_eq!(bytes, data[1..], "other bytes than were read");
            }
        }
    }
}

fn records(choices: &mut Choices<'_>) {
    let piece = 1 + choices.u8() as usize;
    let config = RecordConfig {
        message_len_max: 4000,
        fragments_max: 1 + u32::from(choices.u8()),
        fragment_len: 1 + u32::from(choices.u8()),
        ..RecordConfig::default()
    };
    let stream = || Patient(Pieces { bytes: Choices(choices.0), piece });
    let mut records = Records::with(stream(), config);
    let mut message = Vec::new();
    while let Ok(Arrival::Message) = records.receive(&mut message, None) {
        assert!(message.len() <= config.message_len_max);
    }
    let services = services();
    let mut server = Server::new(Records::with(stream(), config));
    while let Ok(Turn::Served) = server.turn(&services, None) {}
}

fn client(choices: &mut Choices<'_>) {
    let replies = Replies { bytes: Choices(choices.rest()), xids: Vec::new() };
    let config = Config { timeout: Duration::from_secs(2), ..Config::default() };
    let mut client = kinds_second::Client::with(replies, config);
    // A closure is what makes the function pointer general in its lifetime.
    #[allow(clippy::redundant_closure)]
    let echo = client.0.begin(1, |_| Ok(()), |from| <Everything as xdr::Decode>::decode(from));
    let Ok(echo) = echo else { return };
    let Ok(count) = client.begin_kinds_count() else { return };
    let Ok(greet) = client.begin_kinds_greet(b"you") else { return };
    let _ = client.wait(greet);
    let _ = client.wait(echo);
    let _ = client.wait(count);
    assert!(client.0.in_flight() <= 3);
}

/// Honest calls and replies.
pub fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let sum = words(&[7, 0, 2, PROGRAM, 1, 1, 0, 0, 0, 0, 40, 2]);
    let sys = words(&[9, 0, 2, PROGRAM, 3, 3, 1, 24, 1, 0, 5, 6, 1, 7, 0, 0]);
    let list = words(&[8, 0, 2, PROGRAM, 3, 4, 0, 0, 0, 0, 1, 5, 0, 1, 6, 0, 0]);
    let with = |kind: u8, parts: &[&[u8]]| [&[kind][..], &parts.concat()].concat();
    let first = words(&[16]);
    let second = words(&[1 << 31 | (sum.len() as u32 - 16)]);
    let reply = words(&[1, 0, 0, 0, 0, 77]);
    let denied = words(&[1, 1, 1, 5]);
    vec![
        with(0, &[&[30, 9, 99], &first, &sum[..16], &second, &sum[16..]]),
        with(0, &[&[0, 2, 0], &[0; 12], &words(&[1 << 31])]),
        with(0, &[&[255, 2, 0], &words(&[u32::MAX]), &[1; 40]]),
        with(1, &[&sum]),
        with(1, &[&sys]),
        with(1, &[&list]),
        with(1, &[&words(&[1, 0, 3])]),
        with(1, &[&words(&[1, 0, 2, PROGRAM, 9, 0, 0, 0, 0, 0])]),
        with(2, &[&[1, 0, 24], &reply, &[9, 0, 24], &reply, &[2, 0, 16], &denied]),
        with(3, &[&[0; 300]]),
    ]
}
