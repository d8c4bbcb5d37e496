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

/// Memory for the contents of the next message, which is decoded while it passes the loop: numbers to where it is known
/// what they say, contents straight to that memory. Nobody sees either before the message is known to be genuine
/// ([`Arriving::finish`]); if it is not, both are wiped. What else has no fixed length, such as a path, gets memory of its
/// own, no more than the message is long.
#[derive(Debug)]
pub struct Arriving<'m> {
    element: Element,
    room: &'m mut [u8],
    /// Bytes of it that were written.
    written: usize,
    came: Option<Result<Came, Error>>,
}

impl<'m> Arriving<'m> {
    /// Contents go to the front of `room`, which is as long as a message can be; what lies behind them may be
    /// overwritten.
    pub fn new(room: &'m mut [u8], element: Element) -> Arriving<'m> {
        Arriving { element, room, written: 0, came: None }
    }

    /// What the message was, which is genuine.
    ///
    /// # Errors
    /// Malformed, or a piece of a file that ends behind all files; or none came. The memory holds nothing of it.
    pub fn finish(mut self) -> Result<Came, Error> {
        let came = self.came.take().unwrap_or_else(|| Err(Problem::Missing.at(0)));
        if came.is_err() {
            self.wipe();
        }
        came
    }

    fn read(&mut self, from: &mut Opening<'_>) -> Result<Came, Error> {
        let element = self.element;
        let left = from.left() % element.unit();
        if left != 0 {
            return Err(Problem::Truncated { needed: element.unit(), left }.at(0));
        }
        let Some(first) = from.peek() else {
            return Err(Problem::Truncated { needed: 8, left: from.left() }.at(0));
        };
        let prefix = Prefix::of(first, element);
        if !prefix.is_data() {
            let message = read(Unswapping::new(from, None, element), element)?;
            return Ok(Came::Message(prefix, Box::new(message)));
        }
        let message = read(Unswapping::new(from, Some(self.room), element), element)?;
        let Some((data, hash)) = message.body.contents() else {
            return Err(Problem::Missing.at(0));
        };
        let Data { copy, position, ref contents } = *data;
        let run = Run { xid: message.xid, copy, position, len: contents.len() };
        Ok(Came::Contents(run, hash))
    }
}

impl Unmarshal for Arriving<'_> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let came = self.read(from);
        self.written = from.given().min(self.room.len());
        self.came = Some(came);
    }

    fn wipe(&mut self) {
        self.room[..self.written].fill(0);
        (self.written, self.came) = (0, None);
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
