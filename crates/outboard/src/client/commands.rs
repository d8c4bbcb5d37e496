//! Requests by slots of memory that the process shares with the outboard ([`crate::commands`]), in place of messages on control
//! connections: none of the system calls that these take, while both are awake.
//!
//! All state lies in words that a forked child finds zero, and the mappings are not inherited: a child makes its own. Who finds no
//! slot, who asks before there is a table, and whoever cannot tell that the outboard is there, goes by messages. What a handler
//! interrupted keeps its slot, and the handler has another; between `vfork` and `exec` the slots are the parent's, who waits.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fusewire_device::{Shared, Unforked, known};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::sockopt::socket_cookie;

use super::leased::{SPIN_MAX, look};
use super::{Answer, Client, Result, exchange};
use crate::commands::{self, SLOTS, TABLE_LEN, Table};
use crate::news;
use crate::protocol::{MESSAGE_MAX, Reply, Request};
use crate::region::shares_processor;

/// Tables of a process at most: each outboard that is gone leaves one.
const TABLES: usize = 8;
/// Requests before a table is asked for: it has to pay.
const REQUESTS: u64 = 16;
/// How often it was refused until it is asked for no less often.
const REFUSED_MAX: u64 = 10;
/// How long somebody sleeps before he looks whether the outboard is there: at first, and then.
const NAP: Duration = Duration::from_millis(10);
const NAP_LONG: Duration = Duration::from_millis(50);
/// Naps of somebody who cannot look.
const PATIENCE: usize = 100;
/// How often in a row a table's connection is missed, by whomever, until the table is of no use.
const MISSED_MAX: u64 = 4;

/// The least part of the most that a caller looks; how often in vain before he looks for the most once more.
const LEAST: u64 = 32;
const PROBE: u64 = 32;

/// Words beside the tables: in which process they are, who asks for a table, how many there were, requests until there is one, how
/// often it was refused, how long a caller looks before he sleeps, how often that was in vain.
const PROCESS: usize = 0;
const ASKING: usize = 1;
const COUNT: usize = 2;
const REQUESTED: usize = 3;
const REFUSED: usize = 4;
const SPIN: usize = 5;
const VAIN: usize = 6;
const HEAD_WORDS: usize = 8;
/// Words of a table: its connection and the cookie of that, whether it is dead, how often in a row that was missed.
const TABLE_WORDS: usize = 4;

/// The tables of a process. Every thread may use them, signal handlers too.
#[derive(Debug)]
pub(super) struct Commands {
    all: Unforked,
}

/// A slot that is the caller's.
struct Slot<'a> {
    table: Table<'a>,
    /// Which of the process's tables.
    of: usize,
    index: usize,
    number: commands::Number,
}

/// What is to be known of the outboard at a table's connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Yes,
    No,
    /// Somebody has closed the connection behind our back.
    Unknown,
}

fn process() -> u64 {
    rustix::process::getpid().as_raw_nonzero().get() as u64
}

impl Commands {
    /// Without a table.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new() -> std::io::Result<Commands> {
        let all = Unforked::new(TABLES, HEAD_WORDS + TABLES * TABLE_WORDS)?;
        all.words()[PROCESS].store(process(), Ordering::Relaxed);
        Ok(Commands { all })
    }

    fn head(&self, word: usize) -> &AtomicU64 {
        &self.all.words()[word]
    }

    fn table_words(&self, table: usize) -> &[AtomicU64] {
        &self.all.words()[HEAD_WORDS + table * TABLE_WORDS..][..TABLE_WORDS]
    }

    /// Asks by a slot. `None`: it was not asked, and is to go as a message.
    pub fn call(&self, client: &Client, request: &Request<'_>) -> Option<Result<Answer>> {
        if !request.is_plain() {
            return None;
        }
        let Some(newest) = (self.head(COUNT).load(Ordering::Acquire) as usize).checked_sub(1)
        else {
            self.count(client);
            return None;
        };
        if self.table_words(newest)[2].load(Ordering::Relaxed) != 0 {
            self.count(client);
            return None;
        }
        let [commands, answers] = &self.all.get(newest)?;
        let table = Table { commands, answers };
        let claimed = |index| commands::claim(&table, index).map(|number| (index, number));
        let (index, number) = (0..SLOTS).find_map(claimed)?;
        let message = request.emit();
        commands.write(Table::bytes_at(index), &message);
        commands::ask(&table, index, number, message.len());
        let slot = Slot { table, of: newest, index, number };
        let is_to_ring = news::tell(&table.news(), 1 << index);
        if is_to_ring && !self.ring(newest) && commands::withdraw(&table, index, number) {
            self.bury(newest, There::Unknown);
            return None;
        }
        self.wait(&slot, is_to_ring)
    }

    /// Waits for the answer; `has_rung`: the outboard was woken where it slept.
    fn wait(&self, slot: &Slot<'_>, has_rung: bool) -> Option<Result<Answer>> {
        let Slot { table, of, index, number } = *slot;
        if let Some(len) = self.spin(slot) {
            return Some(Ok(slot.taken(len)));
        }
        // Who told first is to wake it, and may be what this handler has interrupted.
        if !has_rung && news::is_asleep(&table.news()) {
            self.ring(of);
        }
        let (mut limit, mut unknown) = (NAP, 0);
        let is_gone = loop {
            match commands::sleeps(&table, index, number) {
                Ok(len) => return Some(Ok(slot.taken(len))),
                Err(seen) => table.answers.sleep(Table::word_at(index), (seen >> 32) as u32, limit),
            }
            if let Ok(len) = commands::answer(&table, index, number) {
                return Some(Ok(slot.taken(len)));
            }
            let is_there = self.there(of);
            match is_there {
                // It is told once more, in case it sleeps and did not say so.
                There::Yes => drop(self.ring(of)),
                _ if commands::withdraw(&table, index, number) => {
                    self.bury(of, is_there);
                    return None;
                }
                // It has the request, and answers at once, if it lives.
                There::Unknown if unknown < PATIENCE => unknown += 1,
                _ => break is_there,
            }
            limit = NAP_LONG;
        };
        // What it has answered before it went is true; otherwise nobody knows whether it was done.
        self.bury(of, is_gone);
        let answered = commands::answer(&table, index, number);
        Some(answered.map(|len| slot.taken(len)).map_err(|_| Errno::NETDOWN))
    }

    /// A table is of no use any more.
    fn bury(&self, table: usize, is_there: There) {
        let [_, _, dead, missed] = self.table_words(table) else { return };
        // A child between `vfork` and `exec` may have closed a number of its own.
        if is_there == There::No
            || self.head(PROCESS).load(Ordering::Relaxed) == process()
            || missed.fetch_add(1, Ordering::Relaxed) + 1 >= MISSED_MAX
        {
            dead.store(1, Ordering::Relaxed);
        }
    }

    /// Looks for the answer for as long as that has paid lately.
    fn spin(&self, slot: &Slot<'_>) -> Option<usize> {
        let is_there = || commands::answer(&slot.table, slot.index, slot.number).ok();
        if shares_processor(slot.table.answers) {
            // Who sleeps there is put before the outboard when that has answered; who yields is not.
            return is_there();
        }
        let known = self.head(SPIN).load(Ordering::Relaxed);
        let limit = if known == 0 { SPIN_MAX } else { known };
        let next = match look(limit, || is_there().is_some()) {
            true => (limit * 2).min(SPIN_MAX),
            false => {
                // Where others want all processors, who looks keeps the outboard from its work.
                let vain = self.head(VAIN).fetch_add(1, Ordering::Relaxed) + 1;
                let probes = vain.is_multiple_of(PROBE);
                if probes { SPIN_MAX } else { (limit / 2).max(SPIN_MAX / LEAST) }
            }
        };
        self.head(SPIN).store(next, Ordering::Relaxed);
        is_there()
    }

    fn connection(&self, table: usize) -> Option<ManuallyDrop<OwnedFd>> {
        let words = self.table_words(table);
        let number = words[0].load(Ordering::Acquire) as i32 - 1;
        let found = known(number, words[1].load(Ordering::Relaxed))?;
        words[3].store(0, Ordering::Relaxed);
        Some(found)
    }

    /// Wakes the outboard; false when nobody can be told.
    fn ring(&self, table: usize) -> bool {
        let Some(connection) = self.connection(table) else { return false };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::send(&*connection, &Request::Wake.emit(), flags);
        // A full queue will wake it as well.
        matches!(sent, Ok(_) | Err(Errno::AGAIN | Errno::INTR))
    }

    fn there(&self, table: usize) -> There {
        let Some(connection) = self.connection(table) else { return There::Unknown };
        let mut fds = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::empty())];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        match fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            true => There::No,
            false => There::Yes,
        }
    }

    /// A request goes as a message; when there were many, the next will not.
    fn count(&self, client: &Client) {
        let (own, relaxed) = (process(), Ordering::Relaxed);
        let whose = self.head(PROCESS).compare_exchange(0, own, relaxed, relaxed);
        // Of a child between `vfork` and `exec` the connection would be, of its parent the words.
        if whose.is_err_and(|other| other != own) {
            return;
        }
        let refused = self.head(REFUSED).load(Ordering::Relaxed).min(REFUSED_MAX);
        if self.head(REQUESTED).fetch_add(1, Ordering::Relaxed) < REQUESTS << refused {
            return;
        }
        let asking = self.head(ASKING);
        if asking.compare_exchange(0, 1, Ordering::Acquire, relaxed).is_err() {
            return;
        }
        if self.make(client).is_err() {
            self.head(REFUSED).fetch_add(1, Ordering::Relaxed);
        }
        self.head(REQUESTED).store(0, Ordering::Relaxed);
        asking.store(0, Ordering::Release);
    }

    /// Asks for a table.
    fn make(&self, client: &Client) -> Result<()> {
        let next = self.head(COUNT).load(Ordering::Acquire) as usize;
        if next == TABLES {
            return Err(Errno::NOBUFS);
        }
        let connection = client.connection()?;
        let mut answer = exchange(connection.as_fd(), &Request::Commands, None)?;
        let Reply::Commands = answer.reply()? else { return Err(Errno::PROTO) };
        let [Some(commands), Some(answers)] = std::mem::take(&mut answer.files) else {
            return Err(Errno::MFILE);
        };
        let no_memory = |_| Errno::NOMEM;
        let pair = [
            Shared::adopt(commands.as_fd(), TABLE_LEN, true).map_err(no_memory)?,
            Shared::adopt(answers.as_fd(), TABLE_LEN, false).map_err(no_memory)?,
        ];
        let cookie = socket_cookie(&connection)?;
        if !self.all.put(next, pair) {
            return Err(Errno::AGAIN);
        }
        let words = self.table_words(next);
        words[1].store(cookie, Ordering::Relaxed);
        words[0].store(connection.as_raw_fd() as u64 + 1, Ordering::Release);
        // It stays open as long as the process lives, and is not its child's.
        let _ = connection.into_raw_fd();
        self.head(COUNT).store(next as u64 + 1, Ordering::Release);
        Ok(())
    }
}

impl Slot<'_> {
    /// Takes the answer out, of so many bytes.
    fn taken(&self, len: usize) -> Answer {
        let mut answer = Answer { bytes: [0; MESSAGE_MAX], len, files: [None, None] };
        self.table.answers.read(Table::bytes_at(self.index), &mut answer.bytes[..len]);
        commands::free(&self.table, self.index, self.number);
        answer
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        for table in 0..TABLES {
            drop(self.connection(table).map(ManuallyDrop::into_inner));
        }
    }
}
