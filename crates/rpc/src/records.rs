//! Record marking (RFC 5531, section 11): messages over a byte stream.
//!
//! ```text
//! record:   fragment* last-fragment         one message
//! fragment: last(1 bit) length(31 bits)     then so many bytes
//! ```
//! A record is put together as its bytes come; what a fragment's header promises is not believed: memory
//! grows with what is there, a record has a longest length and a most fragments, empty ones among them.

use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::transport::{Arrival, Stream, Transport, is_timeout};

/// The bit of a header that says that no fragment follows in this record.
const LAST: u32 = 1 << 31;

/// What a message grows by before its bytes are there.
const STEP: usize = 64 << 10;

/// Bounds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// Bytes of the longest message, sent or received.
    pub message_len_max: usize,
    /// Fragments that one record may come in.
    pub fragments_max: u32,
    /// Bytes of the fragments that are sent.
    pub fragment_len: u32,
    /// How long a message may take to be taken.
    pub write_timeout: Option<Duration>,
}

impl Default for RecordConfig {
    /// Messages of 4 MiB, received in up to 4,096 fragments, sent in fragments of 1 MiB within a minute.
    fn default() -> Self {
        RecordConfig {
            message_len_max: 4 << 20,
            fragments_max: 4096,
            fragment_len: 1 << 20,
            write_timeout: Some(Duration::from_secs(60)),
        }
    }
}

/// Messages over a byte stream.
#[derive(Debug)]
pub struct Records<S> {
    stream: BufReader<S>,
    config: RecordConfig,
    /// The record that is being received.
    partial: Partial,
    /// A message was sent in part: nothing can follow it.
    is_broken: bool,
}

/// How far a record has come.
#[derive(Debug, Default)]
struct Partial {
    header: [u8; 4],
    header_len: usize,
    /// Bytes of this fragment that are still to come.
    left: usize,
    fragments: u32,
    is_last: bool,
    message: Vec<u8>,
}

impl<S: Stream> Records<S> {
    /// Over `stream`, with the default bounds.
    pub fn new(stream: S) -> Self {
        Records::with(stream, RecordConfig::default())
    }

    /// Over `stream`.
    pub fn with(mut stream: S, config: RecordConfig) -> Self {
        stream.set_immediate();
        let stream = BufReader::with_capacity(STEP, stream);
        Records { stream, config, partial: Partial::default(), is_broken: false }
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        self.stream.get_ref()
    }

    /// Reads on until a record is whole (`true`) or the stream ends before one begins (`false`).
    fn read(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            let partial = &mut self.partial;
            if partial.header_len < 4 {
                let at = partial.header_len;
                let len =
                    read_some(&mut self.stream, &mut partial.header[at..], deadline, &self.config)?;
                if len == 0 {
                    if at == 0 && partial.fragments == 0 {
                        return Ok(false);
                    }
                    return Err(ended());
                }
                partial.header_len += len;
                if partial.header_len == 4 {
                    partial.begin_fragment(&self.config)?;
                }
                continue;
            }
            if partial.left == 0 {
                partial.header_len = 0;
                if partial.is_last {
                    return Ok(true);
                }
                continue;
            }
            let at = partial.message.len();
            partial.message.resize(at + partial.left.min(STEP), 0);
            let read =
                read_some(&mut self.stream, &mut partial.message[at..], deadline, &self.config);
            let len = *read.as_ref().unwrap_or(&0);
            partial.message.truncate(at + len);
            partial.left -= len;
            if read? == 0 {
                return Err(ended());
            }
        }
    }

    fn write(&mut self, message: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        let len = self.config.fragment_len.clamp(1, LAST - 1) as usize;
        let mut at = 0;
        loop {
            let fragment = &message[at..message.len().min(at + len)];
            at += fragment.len();
            let last = if at == message.len() { LAST } else { 0 };
            let header = (fragment.len() as u32 | last).to_be_bytes();
            write_both(stream, &header, fragment)?;
            if last != 0 {
                return stream.flush();
            }
        }
    }
}

impl Partial {
    fn begin_fragment(&mut self, config: &RecordConfig) -> io::Result<()> {
        let header = u32::from_be_bytes(self.header);
        self.is_last = header & LAST != 0;
        self.left = (header & !LAST) as usize;
        self.fragments += 1;
        let len = self.message.len() + self.left;
        if len > config.message_len_max {
            return Err(refused(format!(
                "a record of {len} bytes or more, at most {} are taken",
                config.message_len_max
            )));
        }
        if self.fragments > config.fragments_max {
            return Err(refused(format!(
                "a record of more than {} fragments",
                config.fragments_max
            )));
        }
        Ok(())
    }
}

/// Reads what is there, and waits for it up to the deadline.
fn read_some<S: Stream>(
    stream: &mut BufReader<S>,
    into: &mut [u8],
    deadline: Option<Instant>,
    config: &RecordConfig,
) -> io::Result<usize> {
    loop {
        if stream.buffer().is_empty() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            // No time at all is not a time that sockets know.
            let left = left.map(|left| left.max(Duration::from_millis(1)));
            stream.get_mut().set_timeouts(left, config.write_timeout)?;
        }
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn write_both(stream: &mut impl Write, header: &[u8; 4], fragment: &[u8]) -> io::Result<()> {
    let mut done = 0;
    let len = header.len() + fragment.len();
    while done < len {
        let parts = [
            IoSlice::new(header.get(done..).unwrap_or(&[])),
            IoSlice::new(&fragment[done.saturating_sub(header.len())..]),
        ];
        match stream.write_vectored(&parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended within a record")
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<S: Stream> Transport for Records<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "an earlier message was sent only in part",
            ));
        }
        let result = self.write(message);
        self.is_broken = result.is_err();
        result
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        // A patience beyond what a clock can say is none at all.
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        match self.read(deadline) {
            Ok(true) => {
                message.clear();
                std::mem::swap(message, &mut self.partial.message);
                self.partial = Partial {
                    message: std::mem::take(&mut self.partial.message),
                    ..Partial::default()
                };
                Ok(Arrival::Message)
            }
            Ok(false) => Ok(Arrival::End),
            Err(error) if is_timeout(&error) => Ok(Arrival::Nothing),
            Err(error) => Err(error),
        }
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        self.config.message_len_max
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.stream.get_ref().peer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Patient;

    struct Promise(&'static [u8]);

    impl Read for Promise {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.read(out)
        }
    }

    impl Write for Promise {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_promise_of_bytes_takes_no_memory() {
        // 3 MiB are promised, two bytes come.
        let mut records = Records::new(Patient(Promise(&[0x80, 0x30, 0, 0, 1, 2])));
        assert!(records.receive(&mut Vec::new(), None).is_err());
        assert_eq!(records.partial.message, [1, 2]);
        assert!(records.partial.message.capacity() <= 2 * STEP);
    }
}
