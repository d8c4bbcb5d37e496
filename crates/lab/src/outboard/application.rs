//! What applications do: the same over whatever sockets.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;

use super::task::Task;
use crate::inca::task::{MARK, Meter, NAP, Report, Vain, ask, look, stream_byte};
use crate::{Error, Result};

/// Longest datagram, or what the kernel merges of them.
const DATAGRAMS_BYTES: usize = 1 << 16;
/// Values of a byte of a stream, before it begins again.
const PERIOD: usize = 251;

/// A stream of bytes. Calls wait, or fail with `WouldBlock` where the task says that it spins.
pub trait Stream {
    /// Sends without waiting for more to send.
    fn set_nodelay(&mut self) -> Result<()>;
    /// Some of the pieces' bytes, as a write of many pieces takes them.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Bytes into the pieces; 0 is the end.
    fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
}

/// A socket for datagrams. Calls fail with `WouldBlock` where there is nothing, or no room.
pub trait Datagrams {
    /// Sends the messages of `size` bytes that lie in `bytes`, by one call where there is one for many; how many it took.
    fn send(&mut self, bytes: &[u8], size: usize, to: SocketAddr) -> io::Result<usize>;
    /// Receives: a message, or several of one length, one behind the other.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;
}

/// Does a call until it does not fail for now; `None` when it has been in vain for long.
fn patient<T>(naps: bool, mut call: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
    let mut vain = Vain::default();
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if vain.is_over(false) {
                    return Ok(None);
                }
                if naps {
                    // So many of these are an eternity.
                    std::thread::sleep(NAP);
                }
            }
            done => return done.map(Some),
        }
    }
}

fn nobody(doing: &str) -> Error {
    Error::Unsupported(format!("nobody is there any more: {doing}"))
}

fn meter(task: &Task) -> Meter {
    Meter::lasting(task.seconds).beside(task.board.as_ref().map(|board| board.pid))
}

/// Pieces of so many bytes each.
fn pieces(bytes: &[u8], size: usize) -> impl Iterator<Item = IoSlice<'_>> {
    bytes.chunks(size).map(IoSlice::new)
}

pub fn send_datagrams(task: &Task, socket: &mut impl Datagrams) -> Result<Report> {
    let bytes = vec![MARK; task.messages() * task.size];
    task.wait();
    let mut meter = meter(task);
    loop {
        let send = || socket.send(&bytes, task.size, task.peer);
        let sent = match patient(false, send) {
            // The reader's port is closed, or a queue is full: it was sent, and lost.
            Err(e) if is_lost(&e) => continue,
            sent => sent.map_err(Error::os("sending datagrams"))?,
        };
        let sent = sent.ok_or_else(|| nobody("sending datagrams"))?;
        let goes_on = match sent {
            1 => meter.count_one_sent(),
            sent => meter.count_sent(sent as u64),
        };
        if !goes_on {
            return meter.report();
        }
    }
}

fn is_lost(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

pub fn receive_datagrams(task: &Task, socket: &mut impl Datagrams) -> Result<Report> {
    let mut meter = meter(task);
    let mut bytes = vec![0; DATAGRAMS_BYTES];
    loop {
        let len = patient(!task.spins, || socket.receive(&mut bytes));
        let Some(len) = len.map_err(Error::os("receiving datagrams"))? else {
            return meter.report();
        };
        let (messages, wrong) = look(&bytes[..len], task.size);
        meter.wrong += wrong;
        let goes_on = match messages {
            1 => meter.count_one(),
            messages => meter.count(messages),
        };
        if !goes_on {
            return meter.report();
        }
    }
}

pub fn ask_datagrams(task: &Task, socket: &mut impl Datagrams) -> Result<Report> {
    let (question, mut answer) = (vec![MARK; task.size], vec![0; DATAGRAMS_BYTES]);
    ask(task.seconds, || {
        let sent = patient(false, || socket.send(&question, task.size, task.peer));
        sent.map_err(Error::os("asking"))?.ok_or_else(|| nobody("asking"))?;
        let len = patient(false, || socket.receive(&mut answer));
        let len = len.map_err(Error::os("waiting for an answer"))?;
        is_answer(len.is_some_and(|len| answer[..len] == question[..]))
    })
}

fn is_answer(right: bool) -> Result<()> {
    match right {
        true => Ok(()),
        false => Err(Error::Unsupported("no answer, or a wrong one".into())),
    }
}

/// Writes all of `bytes` in pieces of `size`; false when nobody takes them.
fn write_all(stream: &mut impl Stream, bytes: &[u8], size: usize) -> io::Result<bool> {
    let mut written = 0;
    while written < bytes.len() {
        let left = &bytes[written..];
        // What a call left of a piece goes first.
        let (first, rest) = left.split_at((size - written % size).min(left.len()));
        let mut all = Vec::new();
        let call = || match rest.is_empty() {
            true => stream.write(&[IoSlice::new(first)]),
            false => {
                all.clear();
                all.extend(std::iter::once(IoSlice::new(first)).chain(pieces(rest, size)));
                stream.write(&all)
            }
        };
        match patient(false, call)? {
            Some(len) if len > 0 => written += len,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Fills pieces of `size` from the stream, as far as one call does, or where it is not `any`, all of them; how many bytes.
fn read(stream: &mut impl Stream, into: &mut [u8], size: usize, any: bool) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        let left = &mut into[filled..];
        let call = || {
            if left.len() <= size {
                return stream.read(&mut [IoSliceMut::new(left)]);
            }
            let at = (size - filled % size).min(left.len());
            let (first, rest) = left.split_at_mut(at);
            let first = std::iter::once(IoSliceMut::new(first));
            let mut all: Vec<_> = first.chain(rest.chunks_mut(size).map(IoSliceMut::new)).collect();
            stream.read(&mut all)
        };
        match patient(false, call)? {
            Some(len) if len > 0 => filled += len,
            _ => return Ok(filled),
        }
        if any {
            break;
        }
    }
    Ok(filled)
}

pub fn send_stream(task: &Task, stream: &mut impl Stream) -> Result<Report> {
    let (stride, piece) = (task.stride(), if task.bulk { task.stride() } else { task.size });
    // From any place of the period, as many bytes as one write takes.
    let bytes: Vec<u8> = (0..(stride + PERIOD) as u64).map(stream_byte).collect();
    task.wait();
    let (mut meter, mut at) = (meter(task), 0);
    let messages = if task.bulk { stride } else { task.messages() } as u64;
    loop {
        let start = at % PERIOD;
        let written = write_all(stream, &bytes[start..start + stride], piece);
        match written {
            Ok(false) | Err(_) if meter.is_done() => return meter.report(),
            Ok(false) => return Err(nobody("writing")),
            Ok(true) => at += stride,
            Err(error) => return Err(Error::os("writing")(error)),
        }
        let goes_on = match messages {
            1 => meter.count_one_sent(),
            messages => meter.count_sent(messages),
        };
        if !goes_on {
            return meter.report();
        }
    }
}

pub fn receive_stream(task: &Task, stream: &mut impl Stream) -> Result<Report> {
    let (stride, piece) = (task.stride(), if task.bulk { task.stride() } else { task.size });
    let (mut meter, mut bytes, mut at) = (meter(task), vec![0; stride], 0);
    let mut is_over = false;
    loop {
        // A batch is what one call brings, in whole messages.
        let mut len = match read(stream, &mut bytes, piece, task.bulk || task.batch) {
            Ok(len) if len > 0 => len,
            Err(error) if !is_over => return Err(Error::os("reading")(error)),
            _ => return meter.report(),
        };
        let rest = len % piece;
        if !task.bulk && rest > 0 {
            let more = read(stream, &mut bytes[len..len + piece - rest], piece, false);
            len += more.map_err(Error::os("reading"))?;
        }
        meter.wrong += u64::from(bytes[0] != stream_byte(at));
        at += len as u64;
        // Who writes goes on for a while, and is not to be reset.
        is_over = is_over
            || !match if task.bulk { len } else { len / task.size } {
                1 => meter.count_one(),
                messages => meter.count(messages as u64),
            };
    }
}

pub fn ask_stream(task: &Task, stream: &mut impl Stream) -> Result<Report> {
    let (question, mut answer) = (vec![MARK; task.size], vec![0; task.size]);
    ask(task.seconds, || {
        let asked = write_all(stream, &question, task.size).map_err(Error::os("asking"))?;
        let len = read(stream, &mut answer, task.size, false);
        let len = len.map_err(Error::os("waiting for an answer"))?;
        is_answer(asked && answer[..len] == question[..])
    })
}

/// Until it is killed, or nobody asks any more.
pub fn answer_stream(task: &Task, stream: &mut impl Stream) -> Result<Report> {
    let mut message = vec![0; task.size];
    while let Ok(len) = read(stream, &mut message, task.size, false)
        && len == task.size
        && write_all(stream, &message, task.size).map_err(Error::os("answering"))?
    {}
    Ok(Report::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes and gives a few bytes at a time, and now and then nothing.
    #[derive(Default)]
    struct Short {
        bytes: Vec<u8>,
        calls: usize,
    }

    impl Short {
        fn some(&mut self) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                Err(ErrorKind::WouldBlock.into())
            } else {
                Ok(self.calls % 7 + 1)
            }
        }
    }

    impl Stream for Short {
        fn set_nodelay(&mut self) -> Result<()> {
            Ok(())
        }
        fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let (most, before) = (self.some()?, self.bytes.len());
            let all = pieces.iter().flat_map(|piece| piece.iter().copied());
            self.bytes.extend(all.take(most));
            Ok(self.bytes.len() - before)
        }
        fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let most = self.some()?.min(self.bytes.len());
            let places = pieces.iter_mut().flat_map(|piece| piece.iter_mut());
            Ok(places.zip(self.bytes.drain(..most)).map(|(place, byte)| *place = byte).count())
        }
    }

    #[test]
    fn calls_that_do_little_lose_nothing() {
        let bytes: Vec<u8> = (0..1000).map(stream_byte).collect();
        for size in [1, 10, 64, 333, 1000] {
            let mut stream = Short::default();
            assert!(write_all(&mut stream, &bytes, size).unwrap());
            assert_eq!(stream.bytes, bytes);
            let mut back = vec![0; 1000];
            assert_eq!(read(&mut stream, &mut back, size, false).unwrap(), 1000);
            assert_eq!(back, bytes);
            assert_eq!(read(&mut stream, &mut back, size, false).unwrap(), 0);
        }
    }
}
