//! A message on its way in.

use super::swapped::Unswapping;
use super::{Body, Data, Last, Message, Prefix, read};
use crate::Element;
use crate::blocks::BlockHash;
use fusewire_codec::pipeline::{Opening, Unmarshal, unmarshal};
use fusewire_codec::{Error, Problem};

/// Contents that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The request that they belong to.
    pub xid: u32,
    /// Which copy, from 0.
    pub copy: u32,
    /// Where in the file the first of them belongs.
    pub position: u64,
    /// Bytes of contents.
    pub len: usize,
}

/// What a message was.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// Contents, which lie at the front of the memory for them, and the hash of the block that they end, if they do.
    Contents(Run, Option<BlockHash>),
    /// Any other, and its kind.
    Message(Prefix, Box<Message<'static>>),
}

/// What of a message is known before it is known to be genuine; the rest of it lies in memory that is lent.
#[derive(Clone, Copy, Debug)]
enum Opened {
    /// Contents, at the front of the memory.
    Contents(Run, Option<BlockHash>),
    /// All of another message, as it came through the pipeline, and how long it is.
    Message(Prefix, usize),
}

/// Memory for the next message. Contents are decoded while they pass the loop: numbers to where it is known what they say,
/// contents straight to the front of that memory. Another message has fields of no fixed length, such as a path: it passes
/// the loop to that memory as it is, and is decoded when it is known to be genuine ([`Arriving::finish`]). Until then nobody
/// sees anything of a message, nothing of it lies anywhere else, and if it is not genuine all of it is wiped.
#[derive(Debug)]
pub struct Arriving<'m> {
    element: Element,
    room: &'m mut [u8],
    /// Bytes of it that were written.
    written: usize,
    opened: Option<Result<Opened, Error>>,
}

impl<'m> Arriving<'m> {
    /// Into the front of `room`, which is as long as a message can be; what lies behind contents may be overwritten.
    pub fn new(room: &'m mut [u8], element: Element) -> Arriving<'m> {
        Arriving { element, room, written: 0, opened: None }
    }

    /// What the message was, which is genuine.
    ///
    /// # Errors
    /// Malformed, or a piece of a file that ends behind all files; or none came. The memory holds nothing of it.
    pub fn finish(mut self) -> Result<Came, Error> {
        let opened = self.opened.take().unwrap_or_else(|| Err(Problem::Missing.at(0)));
        let came = opened.and_then(|opened| match opened {
            Opened::Contents(run, hash) => Ok(Came::Contents(run, hash)),
            Opened::Message(prefix, len) => {
                let mut decoding = Decoding { element: self.element, message: None };
                unmarshal(&self.room[..len], &mut decoding);
                let message = decoding.message.unwrap_or_else(|| Err(Problem::Missing.at(0)))?;
                Ok(Came::Message(prefix, Box::new(message)))
            }
        });
        if came.is_err() {
            self.wipe();
        }
        came
    }

    fn read(&mut self, from: &mut Opening<'_>) -> Result<Opened, Error> {
        let (element, len) = (self.element, from.left());
        let left = len % element.unit();
        if left != 0 {
            return Err(Problem::Truncated { needed: element.unit(), left }.at(0));
        }
        let Some(first) = from.peek() else {
            return Err(Problem::Truncated { needed: 8, left: len }.at(0));
        };
        let prefix = Prefix::of(first, element);
        if !prefix.is_data() {
            let bound = self.room.len() as u64;
            let Some(room) = self.room.get_mut(..len) else {
                return Err(Problem::TooLong { found: len as u64, bound }.at(0));
            };
            from.take(room);
            return Ok(Opened::Message(prefix, len));
        }
        let message = read(Unswapping::new(from, Some(self.room), element), element)?;
        let Some((data, hash)) = message.body.contents() else {
            return Err(Problem::Missing.at(0));
        };
        let Data { copy, position, ref contents } = *data;
        let run = Run { xid: message.xid, copy, position, len: contents.len() };
        Ok(Opened::Contents(run, hash))
    }
}

impl Unmarshal for Arriving<'_> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let opened = self.read(from);
        self.written = from.given().min(self.room.len());
        self.opened = Some(opened);
    }

    fn wipe(&mut self) {
        self.room[..self.written].fill(0);
        (self.written, self.opened) = (0, None);
    }
}

/// A message that is genuine, decoded to memory of its own.
struct Decoding {
    element: Element,
    message: Option<Result<Message<'static>, Error>>,
}

impl Unmarshal for Decoding {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        self.message = Some(read(Unswapping::new(from, None, self.element), self.element));
    }

    fn wipe(&mut self) {
        self.message = None;
    }
}

/// Reads a message that came through the pipeline before.
///
/// # Errors
/// As [`Arriving::finish`].
pub fn open(message: &mut [u8], element: Element) -> Result<Message<'static>, Error> {
    let mut contents = vec![0; message.len()];
    let mut arriving = Arriving::new(&mut contents, element);
    unmarshal(message, &mut arriving);
    let (Run { xid, copy, position, len }, hash) = match arriving.finish()? {
        Came::Contents(run, hash) => (run, hash),
        Came::Message(_, message) => return Ok(*message),
    };
    contents.truncate(len);
    let data = Data { copy, position, contents: contents.into() };
    let body = match hash {
        Some(hash) => Body::Last(Last { data, hash: hash.to_vec().into() }),
        None => Body::Data(data),
    };
    Ok(Message { xid, body })
}
