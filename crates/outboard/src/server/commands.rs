//! The memory in which a guest's requests lie that carry no descriptor, and what became of them.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_device::{Shared, Writers};
use rustix::io::Errno;

use crate::commands::{self, Asked, SLOTS, TABLE_LEN, TooLong};
use crate::news;
use crate::protocol::MESSAGE_MAX;
use crate::region::is_on;

/// Requests of all time.
#[derive(Debug, Default)]
pub struct Commands {
    by_slots: AtomicU64,
    by_messages: AtomicU64,
}

impl Commands {
    /// As views name them.
    pub fn named(&self) -> [(&'static str, u64); 2] {
        [
            ("outboard_commands_by_slots", &self.by_slots),
            ("outboard_commands_by_messages", &self.by_messages),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    /// One came by a slot.
    pub fn came_by_slot(&self) {
        self.by_slots.fetch_add(1, Ordering::Relaxed);
    }

    /// One came as a message.
    pub fn came_by_message(&self) {
        self.by_messages.fetch_add(1, Ordering::Relaxed);
    }
}

/// A guest's slots.
pub struct Table {
    commands: Shared,
    answers: Shared,
    /// Slots that may have a request, a bit each.
    told: u64,
    /// The slot that is looked at next, so that none waits for others.
    next: u32,
}

impl Table {
    /// Makes them: the table, and the files that the guest gets.
    ///
    /// # Errors
    /// No memory or descriptor is left.
    pub fn new(processor: u64) -> Result<(Table, [OwnedFd; 2]), Errno> {
        let no_memory = |_| Errno::NOMEM;
        let (written, commands) = Shared::create(TABLE_LEN, Writers::All).map_err(no_memory)?;
        let (read, answers) = Shared::create(TABLE_LEN, Writers::Maker).map_err(no_memory)?;
        is_on(&answers, processor);
        Ok((Table { commands, answers, told: 0, next: 0 }, [written, read]))
    }

    fn words(&self) -> commands::Table<'_> {
        commands::Table { commands: &self.commands, answers: &self.answers }
    }

    /// Looks for news; true when there may be a request.
    pub fn hear(&mut self) -> bool {
        self.told |= news::hear(&self.words().news());
        self.told != 0
    }

    /// Says whether the outboard is about to sleep; false when it had better not.
    pub fn sleep(&self, is_asleep: bool) -> bool {
        news::sleeps(&self.words().news(), is_asleep, !0)
    }

    /// Says which processor the outboard is on.
    pub fn note_processor(&self, processor: u64) {
        is_on(&self.answers, processor);
    }

    /// Takes the next request that was heard of, copied to `bytes`: its slot, and what answers it.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn take(
        &mut self,
        bytes: &mut [u8; MESSAGE_MAX],
    ) -> Result<Option<(usize, Asked)>, TooLong> {
        while self.told != 0 {
            let slot =
                (self.next + self.told.rotate_right(self.next).trailing_zeros()) % SLOTS as u32;
            self.told &= !(1 << slot);
            self.next = (slot + 1) % SLOTS as u32;
            let slot = slot as usize;
            if let Some(asked) = commands::take(&self.words(), slot)? {
                self.commands.read(commands::Table::bytes_at(slot), &mut bytes[..asked.len]);
                return Ok(Some((slot, asked)));
            }
        }
        Ok(None)
    }

    /// Answers it.
    pub fn complete(&self, (slot, asked): (usize, Asked), answer: &[u8]) {
        self.answers.write(commands::Table::bytes_at(slot), answer);
        if commands::complete(&self.words(), slot, asked, answer.len()) {
            self.answers.wake(commands::Table::word_at(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{ask, claim};
    use crate::news::tell;

    #[test]
    fn slots_have_turns_and_what_was_not_asked_is_passed_over() {
        let (mut table, _files) = Table::new(0).unwrap();
        let asks = |table: &Table, slot| {
            let number = claim(&table.words(), slot).unwrap();
            ask(&table.words(), slot, number, 3);
            tell(&table.words().news(), 1 << slot);
        };
        let mut bytes = [0; MESSAGE_MAX];
        let mut next = |table: &mut Table| table.take(&mut bytes).unwrap().map(|(slot, _)| slot);
        [0, 5, 63].into_iter().for_each(|slot| asks(&table, slot));
        tell(&table.words().news(), 1 << 7);
        assert!(table.hear());
        assert_eq!((next(&mut table), next(&mut table)), (Some(0), Some(5)));
        asks(&table, 1);
        assert!(table.hear());
        let rest = [63, 1].map(Some);
        assert_eq!([next(&mut table), next(&mut table)], rest);
        assert_eq!((next(&mut table), table.hear()), (None, false));
    }
}
