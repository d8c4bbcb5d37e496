//! Where messages are written to and read from: memory, or the one pass that seals or opens them.

use std::time::Instant;

use fusewire_codec::pipeline::{Marshal, Opening, Sealing, Unmarshal};
use fusewire_codec::xdr::{Decoder, Encoder};
use fusewire_codec::{Error, Length, Limits, Sink, SliceSource, Source};

use crate::message::{MessageDecoder, MessageEncoder};

/// What a message is written to.
pub enum Output<'a> {
    /// Memory.
    Bytes(Vec<u8>),
    /// Nothing: it is counted.
    Counted(Length),
    /// The pass that seals it.
    Pass(&'a mut dyn Sink),
}

/// `$do` with what it is.
macro_rules! each {
    ($self:ident, $to:ident => $do:expr) => {
        match $self {
            Output::Bytes($to) => $do,
            Output::Counted($to) => $do,
            Output::Pass($to) => $do,
        }
    };
}

impl Sink for Output<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        each!(self, to => to.put(bytes))
    }

    fn position(&self) -> usize {
        each!(self, to => to.position())
    }

    fn put_elements(&mut self, elements: &[u8], width: usize) -> Result<(), Error> {
        each!(self, to => to.put_elements(elements, width))
    }

    fn pass_over(&mut self, len: usize) -> bool {
        each!(self, to => to.pass_over(len))
    }

    fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        each!(self, to => to.lend(len))
    }

    fn take_back(&mut self, len: usize) {
        each!(self, to => to.take_back(len));
    }
}

/// What a message is read from.
pub enum Input<'a> {
    /// Memory.
    Bytes(SliceSource<'a>),
    /// The pass that opens it.
    Pass(&'a mut dyn Source<'a>),
}

impl<'a> Source<'a> for Input<'a> {
    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        match self {
            Input::Bytes(from) => from.take(into),
            Input::Pass(from) => from.take(into),
        }
    }

    fn position(&self) -> usize {
        match self {
            Input::Bytes(from) => from.position(),
            Input::Pass(from) => from.position(),
        }
    }

    fn remaining(&self) -> usize {
        match self {
            Input::Bytes(from) => from.remaining(),
            Input::Pass(from) => from.remaining(),
        }
    }

    fn take_elements(&mut self, into: &mut [u8], width: usize) -> Result<(), Error> {
        match self {
            Input::Bytes(from) => from.take_elements(into, width),
            Input::Pass(from) => from.take_elements(into, width),
        }
    }

    fn lend(&mut self, len: usize) -> Option<&'a [u8]> {
        match self {
            Input::Bytes(from) => from.lend(len),
            Input::Pass(from) => from.lend(len),
        }
    }

    fn ahead(&self) -> &'a [u8] {
        match self {
            Input::Bytes(from) => from.ahead(),
            Input::Pass(from) => from.ahead(),
        }
    }
}

/// Reads a message that lies in memory.
pub(crate) fn decoder(bytes: &[u8], limits: Limits) -> MessageDecoder<'_> {
    Decoder::new(Input::Bytes(SliceSource::new(bytes)), limits)
}

/// Writes a message into memory, in place of what is there.
pub(crate) fn write(
    to: &mut Vec<u8>,
    message: impl FnOnce(&mut MessageEncoder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut memory = std::mem::take(to);
    memory.clear();
    let mut encoder = Encoder::new(Output::Bytes(memory));
    let written = message(&mut encoder);
    if let Output::Bytes(memory) = encoder.into_inner() {
        *to = memory;
    }
    written
}

/// A message that can be written more than once, and so into the pass that seals it.
pub struct Outgoing<'a> {
    write: &'a dyn Fn(&mut MessageEncoder<'_>) -> Result<(), Error>,
    len: usize,
    xid: u32,
    until: Option<Instant>,
}

impl<'a> Outgoing<'a> {
    /// That which `write` writes, of this transaction; it is counted here.
    ///
    /// # Errors
    /// Those of `write`: it has no XDR form.
    pub(crate) fn new(
        xid: u32,
        write: &'a dyn Fn(&mut MessageEncoder<'_>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut encoder = Encoder::new(Output::Counted(Length::default()));
        write(&mut encoder)?;
        Ok(Outgoing { write, len: encoder.position(), xid, until: None })
    }

    /// The same, to be sent by then.
    pub(crate) fn by(self, until: Instant) -> Self {
        Outgoing { until: Some(until), ..self }
    }

    /// Its transaction.
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// Until when it may wait for room; `None`: for as long as it takes.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

impl Marshal for Outgoing<'_> {
    fn marshalled_len(&self) -> usize {
        self.len
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        // It was counted, so it fits.
        let _ = (self.write)(&mut Encoder::new(Output::Pass(to)));
    }
}

/// A message that is read in the pass that opens it. What `read` makes of it may be looked at when that has found it
/// genuine, and is dropped otherwise.
pub(crate) struct Incoming<T, F> {
    read: F,
    limits: Limits,
    pub found: Option<Result<T, Error>>,
}

impl<T, F: FnMut(&mut MessageDecoder<'_>) -> Result<T, Error>> Incoming<T, F> {
    pub fn new(limits: Limits, read: F) -> Self {
        Incoming { read, limits, found: None }
    }
}

impl<T, F: FnMut(&mut MessageDecoder<'_>) -> Result<T, Error>> Unmarshal for Incoming<T, F> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let mut decoder = Decoder::new(Input::Pass(from), self.limits);
        self.found = Some((self.read)(&mut decoder));
    }

    fn wipe(&mut self) {
        self.found = None;
    }
}
