//! Several messages in one ADU: what many small files cost is messages, and most of what a message costs is the ADU.
//!
//! ```text
//! | 0 | kind 48 | length | 0 | message … | length | 0 | message … |
//! ```
//! Each word has four bytes; a message is as long as its length says, as it would be alone, and none is a bundle. A
//! bundle of one is sent as the message that it is. Who is asked answers in bundles only after one has come.
//!
//! Machines know nothing of this: they are given a channel that bundles. What waits in a bundle waits until the end of a
//! turn, no longer. So a bundle is marshalled before it is sealed, and opened before its messages are unmarshalled: two
//! passes each way, over bytes that stay in the cache.

use crate::channel::{Channel, ChannelError, Received, Sent};
use crate::message::Prefix;
use crate::{Element, Scratch};
use fusewire_codec::pipeline::{Marshal, Opening, Unmarshal, marshal, unmarshal};

/// The kind of a bundle.
pub(crate) const BUNDLE: u32 = 48;
/// The two words that a bundle begins with, and that each message in it does.
const WORDS_LEN: usize = 8;
/// The longest bundle, in bytes: enough for a hundred requests. A connection holds no more than one each way.
const LEN_MAX: usize = 32 << 10;

/// The bundles of one connection, both ways.
#[derive(Debug, Default)]
pub(crate) struct Bundler {
    element: Element,
    /// The peer is known to take bundles.
    speaks: bool,
    /// A bundle that is being put together; empty if none is.
    out: Vec<u8>,
    /// Messages in it.
    count: usize,
    /// A bundle that came, and where in it the next message begins; empty if none did.
    came: Vec<u8>,
    at: usize,
}

impl Bundler {
    /// For contents marshalled as `element`. `speaks`: the peer takes bundles.
    pub(crate) fn new(element: Element, speaks: bool) -> Self {
        Bundler { element, speaks, ..Bundler::default() }
    }

    /// Nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Turns a machine over the channel; buffers stay in `scratch`.
    pub(crate) fn turn<T>(
        &mut self,
        channel: &mut dyn Channel,
        scratch: &mut Scratch,
        turn: impl FnOnce(&mut Bundled<'_>, &mut Scratch) -> T,
    ) -> T {
        let mut bundled = self.over(channel, std::mem::take(&mut scratch.spare));
        let turned = turn(&mut bundled, scratch);
        scratch.spare = bundled.spare;
        turned
    }

    /// The channel, for a turn. `spare` are buffers that may be used, and get more.
    fn over<'a>(&'a mut self, channel: &'a mut dyn Channel, spare: Vec<Vec<u8>>) -> Bundled<'a> {
        Bundled { bundler: self, channel, spare }
    }

    /// Whether the message may share an ADU of `max_adu` bytes with others.
    fn takes(&self, len: usize, max_adu: usize) -> bool {
        // Longer ones fill an ADU by themselves.
        self.speaks && len <= max_adu / 2 && len.is_multiple_of(self.element.unit())
    }

    fn add(&mut self, message: &dyn Marshal) {
        if self.count == 0 {
            self.words(0, BUNDLE);
        }
        let len = message.marshalled_len();
        self.words(len as u32, 0);
        let start = self.out.len();
        self.out.resize(start + len, 0);
        let whole = marshal(message, &mut self.out[start..]);
        debug_assert!(whole, "a message is as long as it says");
        self.count += 1;
    }

    fn words(&mut self, first: u32, second: u32) {
        let mut words = [0; WORDS_LEN];
        words[..4].copy_from_slice(&first.to_be_bytes());
        words[4..].copy_from_slice(&second.to_be_bytes());
        self.element.swap(&mut words);
        self.out.extend_from_slice(&words);
    }
}

/// The two words at the front of `bytes`.
fn words(bytes: &[u8], element: Element) -> Option<(u32, u32)> {
    let Prefix { xid, kind } = Prefix::of(*bytes.first_chunk()?, element);
    Some((xid, kind))
}

/// The length of the message in `bundle` that begins at `at`, behind its words; nothing where there is none.
fn message_len(bundle: &[u8], at: usize, element: Element) -> Option<usize> {
    let (len, zero) = words(bundle.get(at..)?, element)?;
    let len = usize::try_from(len).ok()?;
    let fits = len <= bundle.len() - at - WORDS_LEN;
    // Each begins with a number and a kind, so it has eight bytes at least.
    (zero == 0 && fits && len >= WORDS_LEN && len.is_multiple_of(element.unit())).then_some(len)
}

/// Whether `adu` is a bundle, all of it.
fn is_bundle(adu: &[u8], element: Element) -> bool {
    if words(adu, element) != Some((0, BUNDLE)) {
        return false;
    }
    let mut at = WORDS_LEN;
    while at < adu.len() {
        match message_len(adu, at, element) {
            Some(len) => at += WORDS_LEN + len,
            None => return false,
        }
    }
    at > WORDS_LEN
}

/// A channel that bundles, for the length of a turn. Call [`Bundled::flush`] before its end.
pub(crate) struct Bundled<'a> {
    bundler: &'a mut Bundler,
    channel: &'a mut dyn Channel,
    spare: Vec<Vec<u8>>,
}

impl Bundled<'_> {
    /// Sends what waits.
    pub(crate) fn flush(&mut self) -> Result<Sent, ChannelError> {
        let bundler = &mut *self.bundler;
        let whole = match bundler.count {
            0 => return Ok(Sent::Taken),
            1 => &bundler.out[2 * WORDS_LEN..],
            _ => &bundler.out[..],
        };
        let sent = self.channel.send(&whole)?;
        if sent == Sent::Taken {
            bundler.count = 0;
            let out = std::mem::take(&mut bundler.out);
            self.put_by(out);
        }
        Ok(sent)
    }

    fn put_by(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < 2 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The next message of the bundle that came.
    fn next(&mut self, into: &mut dyn Unmarshal) -> Option<Received> {
        let Bundler { element, came, at, .. } = &mut *self.bundler;
        // All of it was looked at when it came.
        let len = message_len(came, *at, *element)?;
        let start = *at + WORDS_LEN;
        unmarshal(&came[start..start + len], into);
        *at = start + len;
        if *at == came.len() {
            let came = std::mem::take(came);
            self.put_by(came);
        }
        Some(Received::Adu { len })
    }
}

impl Channel for Bundled<'_> {
    fn max_adu(&self) -> usize {
        self.channel.max_adu()
    }

    fn room(&mut self) -> usize {
        self.channel.room()
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        let max_adu = self.channel.max_adu().min(LEN_MAX);
        let len = message.marshalled_len();
        let is_taken = self.bundler.takes(len, max_adu);
        let len = self.bundler.out.len() + WORDS_LEN + len;
        if (!is_taken || len > max_adu) && self.flush()? == Sent::Full {
            return Ok(Sent::Full);
        }
        if !is_taken {
            return self.channel.send(message);
        }
        if self.bundler.count == 0 {
            self.bundler.out = self.spare.pop().unwrap_or_default();
        }
        self.bundler.add(message);
        Ok(Sent::Taken)
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        if let Some(message) = self.next(into) {
            return Ok(message);
        }
        let (element, came) = (self.bundler.element, self.spare.pop().unwrap_or_default());
        let mut one = OneOrMany { into, came, element };
        let received = self.channel.recv(&mut one)?;
        let OneOrMany { into, came, .. } = one;
        if is_bundle(&came, element) {
            (self.bundler.came, self.bundler.at) = (came, WORDS_LEN);
            self.bundler.speaks = true;
            return Ok(self.next(into).unwrap_or(Received::Nothing));
        }
        if !came.is_empty() {
            // What is not quite one goes to who receives, who takes no such message.
            unmarshal(&came, into);
        }
        self.put_by(came);
        Ok(received)
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.channel.finish()
    }
}

/// What an ADU is unmarshalled into: a message as who receives has it, a bundle as it is, to memory of its own.
struct OneOrMany<'a> {
    into: &'a mut dyn Unmarshal,
    /// The bundle; empty if it was none.
    came: Vec<u8>,
    element: Element,
}

impl Unmarshal for OneOrMany<'_> {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        let first = from.peek().map(|first| Prefix::of(first, self.element));
        match first {
            Some(Prefix { xid: 0, kind: BUNDLE }) => self.came.unmarshal(from),
            _ => self.into.unmarshal(from),
        }
    }

    fn wipe(&mut self) {
        self.came.wipe();
        self.into.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, MemoryChannel, Settings};
    use crate::message::{self, Body, Look, Message};

    const ELEMENTS: [Element; 4] =
        [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

    fn pair(capacity: usize) -> (MemoryChannel, MemoryChannel) {
        memory::pair(Settings { max_adu: 1000, capacity, ..Settings::default() })
    }

    fn messages(element: Element) -> Vec<Vec<u8>> {
        let message = |n: u32| {
            let path = vec![b'x'; (n as usize * 37) % 700].into();
            message::emit(&Message { xid: n, body: Body::Look(Look { path }) }, element).unwrap()
        };
        (1..60).map(message).collect()
    }

    /// Everything that is there.
    fn received(bundler: &mut Bundler, channel: &mut MemoryChannel) -> Vec<Vec<u8>> {
        let (mut all, mut into) = (Vec::new(), Vec::new());
        let mut channel = bundler.over(channel, Vec::new());
        while let Received::Adu { len } = channel.recv(&mut into).unwrap() {
            assert_eq!(into.len(), len);
            all.push(into.clone());
        }
        all
    }

    #[test]
    fn messages_come_as_they_were_sent_in_fewer_adus() {
        for element in ELEMENTS {
            let ((mut a, mut b), messages) = (pair(1000), messages(element));
            let mut bundler = Bundler::new(element, true);
            let mut channel = bundler.over(&mut a, Vec::new());
            for message in &messages {
                assert_eq!(channel.send(message).unwrap(), Sent::Taken);
            }
            assert_eq!(channel.flush().unwrap(), Sent::Taken);
            assert!(bundler.is_empty());
            let adus = 1000 - a.room();
            assert!(adus < messages.len() * 3 / 4, "{adus} ADUs");
            assert_eq!(received(&mut Bundler::new(element, false), &mut b), messages);
        }
    }

    #[test]
    fn who_was_sent_no_bundle_sends_none() {
        let (mut a, mut b) = pair(1000);
        let (mut ours, mut theirs) =
            (Bundler::new(Element::Octets, true), Bundler::new(Element::Octets, false));
        let messages = messages(Element::Octets);
        let send = |bundler: &mut Bundler, channel: &mut MemoryChannel| {
            let room = channel.room();
            let mut bundled = bundler.over(channel, Vec::new());
            for message in &messages {
                assert_eq!(bundled.send(message).unwrap(), Sent::Taken);
            }
            bundled.flush().unwrap();
            room - channel.room()
        };
        assert_eq!(send(&mut theirs, &mut b), messages.len());
        assert!(send(&mut ours, &mut a) < messages.len());
        assert_eq!(received(&mut theirs, &mut b).len(), messages.len());
        assert!(send(&mut theirs, &mut b) < messages.len());
    }

    #[test]
    fn a_full_channel_takes_the_rest_later_and_loses_nothing() {
        let ((mut a, mut b), messages) = (pair(2), messages(Element::Octets));
        let (mut ours, mut theirs) =
            (Bundler::new(Element::Octets, true), Bundler::new(Element::Octets, false));
        let (mut next, mut all) = (0, Vec::new());
        while all.len() < messages.len() {
            let mut channel = ours.over(&mut a, Vec::new());
            while next < messages.len() && channel.send(&messages[next]).unwrap() == Sent::Taken {
                next += 1;
            }
            let _ = channel.flush().unwrap();
            all.extend(received(&mut theirs, &mut b));
        }
        assert_eq!(all, messages);
    }

    #[test]
    fn what_is_not_quite_a_bundle_is_none() {
        for element in ELEMENTS {
            let mut bundler = Bundler::new(element, true);
            messages(element).iter().take(4).for_each(|message| bundler.add(message));
            let bundle = bundler.out;
            assert!(is_bundle(&bundle, element));
            for len in 0..bundle.len() {
                // It may end behind each message, but for the words at its front.
                let mut ends = vec![WORDS_LEN];
                while let Some(len) = message_len(&bundle, ends[ends.len() - 1], element) {
                    ends.push(ends[ends.len() - 1] + WORDS_LEN + len);
                }
                let ends = &ends[1..];
                assert_eq!(is_bundle(&bundle[..len], element), ends.contains(&len), "{len}");
            }
            for (at, _) in (0..WORDS_LEN).zip(&bundle) {
                let mut other = bundle.clone();
                other[at] ^= 1;
                assert!(!is_bundle(&other, element));
            }
            let mut long = bundle.clone();
            long[WORDS_LEN..2 * WORDS_LEN].fill(0xff);
            assert!(!is_bundle(&long, element));
        }
    }
}
