//! What opens a stream of the group's: in order, by keys that come by another way. It has no device and no session.

use std::time::{Duration, Instant};

use fusewire_session::group::{GroupKey, GroupOpened, GroupReceiver};
use fusewire_session::{DataPass, Error as SessionError};
use fusewire_stack as stack;

use super::wait::STREAMS;
use super::{Counters, ONCE, RESENT, body_len_max};
use crate::{Error, Result};

/// How long what has come waits for its keys: of what is sent again, and of what is not. Behind it the others wait, as far as
/// there is memory.
pub(super) const HOLDING: [Duration; STREAMS] =
    [Duration::from_secs(10), Duration::from_millis(500)];

/// A message of an epoch whose keys have not come yet.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// The stream's offset where it begins, if there is one.
    at: Option<u64>,
}

impl Held {
    fn new(len_max: usize) -> Held {
        Held { bytes: Vec::with_capacity(len_max), at: None }
    }

    fn keep(&mut self, message: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(message);
    }
}

/// A stream's keys, and what waits for them.
pub(super) struct Opener {
    opens: GroupReceiver,
    /// How records are opened.
    pass: DataPass,
    body_max: usize,
    /// Which of the two.
    stream: usize,
    held: Held,
    /// Of what is sent once also the next such one, which has come behind it.
    behind: Held,
    /// Since when something has waited for its keys and nothing was genuine.
    waits: Option<Instant>,
    /// The stream's offset where the first epoch began that it was told of: what lies before that is for others.
    begins: u64,
    /// Something was not genuine, in the place of what was.
    pub is_spoiled: bool,
    /// All epochs have been told.
    pub has_all_keys: bool,
}

impl Opener {
    /// Of bodies up to so long, opened so.
    pub fn new(stream: usize, body_max: usize, pass: DataPass) -> Opener {
        let len_max = body_max + 256;
        let behind = if stream == ONCE { Held::new(len_max) } else { Held::default() };
        Opener {
            opens: GroupReceiver::new(body_len_max(body_max), pass),
            pass,
            body_max,
            stream,
            held: Held::new(len_max),
            behind,
            waits: None,
            begins: 0,
            is_spoiled: false,
            has_all_keys: false,
        }
    }

    /// Something has come and waits for its keys.
    pub fn is_waiting(&self) -> bool {
        self.held.at.is_some()
    }

    /// As many epochs of what must arrive are told as can be kept: nothing more is to be learnt before more is opened.
    pub fn is_full(&self) -> bool {
        self.stream == RESENT && self.opens.is_full()
    }

    /// The sender tells of an epoch, which began at this offset; or of the last once more.
    ///
    /// # Errors
    /// [`Error::Group`], where it is no later one.
    pub fn learn(&mut self, key: &GroupKey, begins: u64) -> Result<()> {
        if self.opens.epoch().is_none() {
            self.begins = begins;
        }
        // The other stream's epoch is the one that began, or none has.
        if self.opens.epoch() == Some(key.epoch) || self.opens.learn(key.clone()).is_ok() {
            return Ok(());
        }
        if self.stream == RESENT {
            return Err(Error::Group("tells of an epoch that is no later one"));
        }
        // What is sent once, and was said in so many epochs while nothing was taken, is gone for good.
        self.opens = GroupReceiver::new(body_len_max(self.body_max), self.pass);
        self.begins = begins;
        let _ = self.opens.learn(key.clone());
        Ok(())
    }

    /// Opens the next message into `body`; false: there is none that can be. `next` tells what it is given what comes next of the
    /// stream, and its offset there; or nothing, where nothing has come.
    ///
    /// # Errors
    /// [`Error::Stack`]: too much was not genuine.
    pub fn open_next(
        &mut self,
        body: &mut Vec<u8>,
        counters: &mut Counters,
        mut next: impl FnMut(&mut dyn FnMut(u64, &[u8])),
    ) -> Result<bool> {
        loop {
            let mut is_behind = false;
            let held = self.held.at.map(|at| (at, self.opens.open(&self.held.bytes, body)));
            let found = match held {
                Some((_, Ok(GroupOpened::Later))) if self.may_wait() => {
                    if self.stream == RESENT {
                        return Ok(false);
                    }
                    is_behind = true;
                    match self.behind.at.take() {
                        Some(at) => Some((at, self.opens.open(&self.behind.bytes, body))),
                        None => opened_of(&mut self.opens, &mut self.behind, body, &mut next),
                    }
                }
                Some(found) => {
                    std::mem::swap(&mut self.held, &mut self.behind);
                    self.behind.at = None;
                    Some(found)
                }
                None => opened_of(&mut self.opens, &mut self.held, body, &mut next),
            };
            let Some((at, opened)) = found else { return Ok(false) };
            match opened {
                Ok(GroupOpened::Genuine) => {
                    // No epoch begins before one that is over: what says so was damaged on its way.
                    if is_behind {
                        self.held.at = None;
                        self.refuse(counters);
                    }
                    self.waits = None;
                    return Ok(true);
                }
                // Sealed before this end came, and sent behind it.
                _ if at < self.begins => {}
                Ok(GroupOpened::Later) if self.may_wait() => {
                    if is_behind {
                        self.behind.at = Some(at);
                        return Ok(false);
                    }
                    self.held.at = Some(at);
                }
                Err(error @ SessionError::IntegrityLimit { .. }) => {
                    return Err(stack::Error::from(error).into());
                }
                // Its keys have not come, or it is not what the sender sealed: that does not come any more.
                Ok(GroupOpened::Later) | Err(_) => self.refuse(counters),
            }
        }
    }

    fn refuse(&mut self, counters: &mut Counters) {
        self.is_spoiled = true;
        counters.refused += 1;
    }

    /// Whether what is of an epoch that was not told may wait. There is one wait until something is genuine, however much
    /// comes that nobody can open; and none where as many epochs were told as can be kept, as all of theirs comes before, or all
    /// that there are.
    fn may_wait(&mut self) -> bool {
        let since = *self.waits.get_or_insert_with(Instant::now);
        let is_told = self.has_all_keys && self.stream == ONCE;
        !self.is_full() && !is_told && since.elapsed() < HOLDING[self.stream]
    }
}

/// What becomes of the next message; what waits for its keys is then in the slot.
fn opened_of(
    opens: &mut GroupReceiver,
    slot: &mut Held,
    body: &mut Vec<u8>,
    next: &mut impl FnMut(&mut dyn FnMut(u64, &[u8])),
) -> Option<(u64, std::result::Result<GroupOpened, SessionError>)> {
    let mut found = None;
    next(&mut |at, message| {
        let opened = opens.open(message, body);
        if matches!(opened, Ok(GroupOpened::Later)) {
            slot.keep(message);
        }
        found = Some((at, opened));
    });
    found
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fusewire_session::Cipher;
    use fusewire_session::group::GroupSender;

    use super::*;

    /// Bodies' bytes.
    const LEN: usize = 20;

    fn key(epoch: u32) -> GroupKey {
        GroupKey::new(epoch, Cipher::AES_128_GCM, [epoch as u8; 32])
    }

    /// A stream of two epochs, of four messages each whose bytes are their numbers; and an end that knows the first.
    struct World {
        stream: VecDeque<Vec<u8>>,
        offset: u64,
        opener: Opener,
        counters: Counters,
    }

    impl World {
        fn new(stream: usize) -> World {
            let mut opener = Opener::new(stream, LEN, DataPass::detect());
            opener.learn(&key(1), 0).unwrap();
            let mut all = VecDeque::new();
            for epoch in [1, 2] {
                let pass = DataPass::detect();
                let mut sender = GroupSender::new(&key(epoch), body_len_max(LEN), pass).unwrap();
                for _ in 0..4 {
                    let mut message = vec![0; sender.message_len(LEN)];
                    sender.seal(&[all.len() as u8; LEN][..], &mut message).unwrap();
                    all.push_back(message);
                }
            }
            World { stream: all, offset: 0, opener, counters: Counters::default() }
        }

        /// This message says, damaged, that it is of a later epoch.
        fn damage(&mut self, at: usize) {
            self.stream[at][2] ^= 1;
        }

        /// The numbers of all that can be opened now.
        fn open(&mut self) -> Vec<u8> {
            let (mut all, mut body) = (Vec::new(), Vec::new());
            let World { stream, offset, opener, counters } = self;
            let mut next = |tell: &mut dyn FnMut(u64, &[u8])| {
                let Some(message) = stream.pop_front() else { return };
                tell(*offset, &message);
                *offset += message.len() as u64;
            };
            while opener.open_next(&mut body, counters, &mut next).unwrap() {
                all.push(body[0]);
            }
            all
        }
    }

    /// What is sent once goes on behind what was damaged so that it seems to be of keys that nobody has told.
    #[test]
    fn what_was_damaged_holds_nothing_up() {
        for damaged in [vec![0], vec![1, 3], vec![0, 2], vec![3]] {
            let mut world = World::new(ONCE);
            damaged.iter().for_each(|at| world.damage(*at));
            let whole = |range: std::ops::Range<u8>| -> Vec<u8> {
                range.filter(|n| !damaged.contains(&usize::from(*n))).collect()
            };
            assert_eq!(world.open(), whole(0..4));
            // What waits now is the first of the next epoch, or the last, which was damaged.
            assert!(world.opener.is_waiting());
            world.opener.learn(&key(2), 0).unwrap();
            assert_eq!(world.open(), [4, 5, 6, 7]);
            assert_eq!(world.counters.refused, damaged.len() as u64);
        }
    }

    /// Once all keys are told, nothing waits for others: what is behind is not lost with it.
    #[test]
    fn at_the_end_nothing_waits_for_keys() {
        let mut world = World::new(ONCE);
        world.opener.learn(&key(2), 0).unwrap();
        (5..7).for_each(|at| world.damage(at));
        assert_eq!(world.open(), [0, 1, 2, 3, 4]);
        assert!(world.opener.is_waiting());
        world.opener.has_all_keys = true;
        assert_eq!(world.open(), [7]);
        assert_eq!(world.counters.refused, 2);
    }

    /// What must arrive is in order: it waits.
    #[test]
    fn what_must_arrive_waits_for_its_keys() {
        let mut world = World::new(RESENT);
        assert_eq!(world.open(), [0, 1, 2, 3]);
        assert_eq!((world.stream.len(), world.counters.refused), (3, 0));
        world.opener.learn(&key(2), 0).unwrap();
        assert_eq!(world.open(), [4, 5, 6, 7]);
    }
}
