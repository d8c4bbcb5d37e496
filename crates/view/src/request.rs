//! What a client of the view's socket asks for: one line of words, or the first line of HTTP.

use std::fmt;
use std::io::{self, BufRead, Read};

use super::http;

/// Longest line that is read.
const REQUEST_MAX: u64 = 1024;

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Everything that the process has to tell, as JSON.
    Snapshot,
    /// The same as Prometheus text.
    Metrics,
    /// What a connection did last.
    Trace {
        /// Its stack's number.
        stack: u32,
        /// Its name there.
        socket: &'a str,
    },
    /// The packets of a stack from now on.
    Capture {
        /// Its number.
        stack: u32,
        /// Bytes that are kept of each, unless it is the usual.
        snap_len: Option<usize>,
    },
    /// The first line of HTTP; the rest follows.
    Http,
}

/// The first line, without its end. What is not UTF-8 in it is replaced.
///
/// # Errors
/// The connection's.
pub fn read(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    Read::take(reader, REQUEST_MAX).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end().to_string())
}

impl<'a> Request<'a> {
    /// What the line asks for.
    ///
    /// # Errors
    /// What was expected, for who asks.
    pub fn parse(line: &'a str) -> Result<Request<'a>, &'static str> {
        let number = |text: &str| text.parse().map_err(|_| "expected the number of a stack");
        let mut words = line.split_ascii_whitespace();
        Ok(match (words.next(), words.next(), words.next(), words.next()) {
            (Some("snapshot"), None, ..) => Request::Snapshot,
            (Some("metrics"), None, ..) => Request::Metrics,
            (Some("trace"), Some(stack), Some(socket), None) => {
                Request::Trace { stack: number(stack)?, socket }
            }
            (Some("capture"), Some(stack), snap_len, None) => {
                let snap_len = snap_len.map(str::parse).transpose();
                let snap_len = snap_len.map_err(|_| "expected a length in bytes")?;
                Request::Capture { stack: number(stack)?, snap_len }
            }
            _ if http::target(line).is_some() => Request::Http,
            _ => {
                return Err("a request is one of: snapshot, metrics, trace STACK SOCKET, \
                            capture STACK [BYTES], or HTTP GET");
            }
        })
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Snapshot => f.write_str("snapshot"),
            Request::Metrics => f.write_str("metrics"),
            Request::Trace { stack, socket } => write!(f, "trace {stack} {socket}"),
            Request::Capture { stack, snap_len: None } => write!(f, "capture {stack}"),
            Request::Capture { stack, snap_len: Some(len) } => write!(f, "capture {stack} {len}"),
            Request::Http => f.write_str("GET /metrics HTTP/1.1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        for request in [
            Request::Snapshot,
            Request::Metrics,
            Request::Trace { stack: 3, socket: "tcp-1" },
            Request::Capture { stack: 0, snap_len: None },
            Request::Capture { stack: 7, snap_len: Some(96) },
            Request::Http,
        ] {
            let line = format!("{request}\r\nmore").into_bytes();
            let read = read(&mut &line[..]).unwrap();
            assert_eq!(Request::parse(&read), Ok(request));
        }
        for wrong in
            ["", "snapshot now", "trace 1", "trace x y", "trace 1 a b", "capture", "capture 1 x"]
        {
            assert!(Request::parse(wrong).is_err(), "{wrong:?}");
        }
        let endless = vec![b'a'; 100_000];
        assert_eq!(read(&mut &endless[..]).unwrap().len(), 1024);
    }
}
