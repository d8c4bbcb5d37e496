//! Where an opened record goes: into memory of the application's, or here, where verified ADUs wait for it.

use std::collections::VecDeque;
use std::convert::Infallible;

use fusewire_session::{RecordHeader, RecordType, unmarshal};

use crate::ConnectionId;
use crate::application::{Adu, Application, Destination};

/// What is known of one ADU, by index.
#[derive(Debug)]
enum Slot {
    /// It has not come.
    Missing,
    /// The application has it already.
    Taken,
    /// It waits here.
    Waiting(Vec<u8>),
}

/// What a record was that has been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// An ADU that the application has.
    Delivered,
    /// An ADU that waits here.
    Waits,
    /// The peer's last, in order.
    End,
    /// The peer's last, with the code that its application gives the connection up with.
    Close(u64),
    /// Nothing for anybody.
    Padding,
}

/// ADUs by index, from the first that the application has not had.
///
/// Bounded by the receive window: each ADU in it occupies stream bytes that were not given back.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Index of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    waiting: usize,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// Their memory, in bytes.
    spare_bytes: usize,
}

/// Buffers kept for reuse.
const SPARE: usize = 64;
/// Bytes kept for reuse: most connections of a server wait.
const SPARE_BYTES: usize = 512 << 10;

impl Inbox {
    /// Opens a record by `pass`, which is given memory for as many bytes as the record's body has, or what unmarshals
    /// them: an ADU to where `app` places it, anything else into a buffer of ours. Nothing is shown to anybody unless `pass` is content
    /// (Law 3); what it writes otherwise, it has to wipe.
    ///
    /// # Errors
    /// Those of `pass`.
    pub fn open<E>(
        &mut self,
        id: ConnectionId,
        header: &RecordHeader,
        app: &mut (impl Application + ?Sized),
        pass: impl FnOnce(Destination<'_>) -> Result<(), E>,
    ) -> Result<Opened, E> {
        let (index, len) = (header.index, header.body_len as usize);
        let adu = Adu { index, len, is_next: index == self.base };
        let is_adu = header.kind == RecordType::Adu;
        let passed = if !is_adu {
            Err(pass)
        } else if let Some(into) = app.place_message(id, adu) {
            Ok(pass(Destination::Message(into)))
        } else if let Some(memory) = app.place(id, adu).and_then(|m| m.get_mut(..len)) {
            Ok(pass(Destination::Bytes(memory)))
        } else {
            Err(pass)
        };
        let pass = match passed {
            Ok(Ok(())) => {
                self.skip(index);
                app.delivered(id, adu);
                return Ok(Opened::Delivered);
            }
            Ok(Err(error)) => {
                app.dropped(id, adu);
                return Err(error);
            }
            Err(pass) => pass,
        };
        let mut buffer = self.buffer(len);
        if let Err(error) = pass(Destination::Bytes(&mut buffer)) {
            self.recycle(buffer);
            return Err(error);
        }
        let opened = match header.kind {
            RecordType::Adu => {
                self.put(index, buffer);
                return Ok(Opened::Waits);
            }
            RecordType::EndOfStream => Opened::End,
            RecordType::Close => {
                Opened::Close(buffer.first_chunk().map_or(0, |code| u64::from_be_bytes(*code)))
            }
            RecordType::Padding => Opened::Padding,
        };
        self.recycle(buffer);
        self.skip(index);
        Ok(opened)
    }

    /// Takes an ADU that lies open in `body`, as [`Inbox::open`] does.
    pub fn take(
        &mut self,
        id: ConnectionId,
        index: u64,
        body: &[u8],
        app: &mut (impl Application + ?Sized),
    ) -> Opened {
        let header = RecordHeader { kind: RecordType::Adu, body_len: body.len() as u32, index };
        let Ok(opened) = self.open::<Infallible>(id, &header, app, |to| {
            match to {
                Destination::Bytes(dst) => dst.copy_from_slice(body),
                Destination::Message(into) => unmarshal(body, into),
            }
            Ok(())
        });
        opened
    }

    /// A buffer of `len` bytes to open an ADU into.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer.resize(len, 0);
        buffer
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        let bytes = self.spare_bytes + buffer.capacity();
        if self.spare.len() < SPARE && bytes <= SPARE_BYTES {
            self.spare_bytes = bytes;
            self.spare.push(buffer);
        }
    }

    /// Gives buffers back to the system.
    pub fn rest(&mut self) {
        self.spare = Vec::new();
        self.spare_bytes = 0;
    }

    /// The ADU `index` waits in `buffer`.
    fn put(&mut self, index: u64, buffer: Vec<u8>) {
        self.set(index, Slot::Waiting(buffer));
        self.waiting += 1;
    }

    /// The application has the ADU `index`.
    fn skip(&mut self, index: u64) {
        if self.slots.is_empty() && index == self.base {
            self.base += 1;
        } else {
            self.set(index, Slot::Taken);
            self.trim();
        }
    }

    fn set(&mut self, index: u64, slot: Slot) {
        let Some(at) = index.checked_sub(self.base) else { return };
        let at = at as usize;
        while self.slots.len() <= at {
            self.slots.push_back(Slot::Missing);
        }
        self.slots[at] = slot;
    }

    /// The next ADU in order, if it is there.
    pub fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        if !self.has_next() {
            return None;
        }
        let Some(Slot::Waiting(buffer)) = self.slots.pop_front() else { return None };
        self.waiting -= 1;
        self.base += 1;
        Some((self.base - 1, buffer))
    }

    /// Any ADU that is there, the earliest first.
    pub fn any(&mut self) -> Option<(u64, Vec<u8>)> {
        if self.waiting == 0 {
            return None;
        }
        let at = self.slots.iter().position(|s| matches!(s, Slot::Waiting(_)))?;
        let Slot::Waiting(buffer) = std::mem::replace(&mut self.slots[at], Slot::Taken) else {
            return None;
        };
        self.waiting -= 1;
        let index = self.base + at as u64;
        self.trim();
        Some((index, buffer))
    }

    /// True if the next ADU in order is there.
    pub fn has_next(&mut self) -> bool {
        self.trim();
        matches!(self.slots.front(), Some(Slot::Waiting(_)))
    }

    /// True if an ADU waits.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// How far `index` lies beyond the first ADU that the application has not had.
    pub fn distance(&self, index: u64) -> u64 {
        index.saturating_sub(self.base)
    }

    fn trim(&mut self) {
        while let Some(Slot::Taken) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_completion() {
        let mut inbox = Inbox::default();
        inbox.put(2, vec![2]);
        inbox.put(1, vec![1]);
        assert_eq!(inbox.next(), None);
        assert_eq!(inbox.any(), Some((1, vec![1])));
        inbox.put(0, vec![0]);
        assert_eq!(inbox.next(), Some((0, vec![0])));
        assert_eq!(inbox.next(), Some((2, vec![2])));
        assert_eq!((inbox.next(), inbox.any(), inbox.waiting), (None, None, 0));
    }

    #[test]
    fn what_the_application_took_is_skipped() {
        let mut inbox = Inbox::default();
        inbox.skip(0);
        inbox.skip(2);
        inbox.put(3, vec![3]);
        assert_eq!(inbox.next(), None);
        inbox.skip(1);
        assert_eq!(inbox.next(), Some((3, vec![3])));
        inbox.skip(4);
        assert!(inbox.slots.is_empty());
        assert_eq!(inbox.distance(9), 4);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut inbox = Inbox::default();
        let buffer = inbox.buffer(1000);
        inbox.recycle(buffer);
        assert!(inbox.buffer(500).capacity() >= 1000);
        for _ in 0..100 {
            inbox.recycle(vec![0; 60_000]);
        }
        assert!(inbox.spare_bytes <= SPARE_BYTES && inbox.spare.len() >= 8);
        inbox.rest();
        assert_eq!(inbox.spare_bytes, 0);
    }
}
