//! Listeners and sockets for datagrams, recorded in a file beside the outboard's socket, so that the next outboard can make them
//! anew for the processes that have their placeholders. The file survives the outboard however it ends, and means nothing after
//! the host has restarted.
//!
//! ```text
//!    0   64 the format, and the kernel's boot ID
//!   64      records of 1,024 bytes, of zeros where there is none
//!           0  4 "SOCK"         4  4 family and kind       8 4 user       12 4 user who pays
//!          16  4 backlog of a listener, 0 of datagrams    20 4 restarts since it was a socket
//!          24 32 cookies of its placeholders: the last, those at outboards before
//!          56 24 own address   80 24 peer's
//!         104  4 options       108 each: level 4, name 4, length 4, value
//! ```
//! A process proves that a record is its own by its placeholder, whose `SO_COOKIE` no other socket of this host has. The file must
//! belong to the outboard's user, and is readable for no other.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::protocol::{ADDRESS_LEN, OptionName, SocketType, emit_address, parse_address};

const HEAD_LEN: usize = 64;
const FORMAT: &[u8; 12] = b"fusewire-ob1";
const RECORD_LEN: usize = 1024;
const MAGIC: [u8; 4] = *b"SOCK";
const OPTIONS_AT: usize = 108;
/// Cookies of a record.
const COOKIES: usize = 4;
/// Records at most, the longest value of an option in one, and options of one.
const RECORDS_MAX: usize = 1 << 16;
const VALUE_MAX: usize = 64;
const OPTIONS_MAX: usize = 32;
/// Restarts after which a record is dropped that no process has asked for.
const RESTARTS_MAX: u32 = 8;

/// Socket as the next outboard makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub of: SocketType,
    /// User whose socket it is, and user whose budget pays for it.
    pub uid: u32,
    pub payer: u32,
    /// Connections that may wait at a listener; 0 for datagrams.
    pub backlog: u32,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    restarts: u32,
    cookies: [u64; COOKIES],
    pub options: Vec<(OptionName, Vec<u8>)>,
}

impl Record {
    /// Describes a socket with no option yet, whose placeholder has this cookie.
    pub fn new(of: SocketType, (uid, payer): (u32, u32), cookie: u64) -> Record {
        let (local, peer, options) = (None, None, Vec::new());
        let cookies = [cookie, 0, 0, 0];
        Record { of, uid, payer, backlog: 0, local, peer, restarts: 0, cookies, options }
    }

    fn emit(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        let numbers = [self.of.code(), self.uid, self.payer, self.backlog, self.restarts];
        for (place, number) in bytes[4..].chunks_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        for (place, cookie) in bytes[24..56].chunks_mut(8).zip(self.cookies) {
            place.copy_from_slice(&cookie.to_le_bytes());
        }
        bytes[56..80].copy_from_slice(&emit_address(self.local));
        bytes[80..104].copy_from_slice(&emit_address(self.peer));
        let (mut at, mut count) = (OPTIONS_AT, 0u32);
        for (name, value) in &self.options {
            let Some(place) = bytes.get_mut(at..at + 12 + value.len()) else { break };
            place[..4].copy_from_slice(&name.level.to_le_bytes());
            place[4..8].copy_from_slice(&name.name.to_le_bytes());
            place[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
            place[12..].copy_from_slice(value);
            (at, count) = (at + 12 + value.len(), count + 1);
        }
        bytes[104..108].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Record> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let address = |at: usize| {
            let bytes: &[u8; ADDRESS_LEN] = bytes.get(at..)?.first_chunk()?;
            parse_address(bytes).ok()
        };
        if bytes.first_chunk() != Some(&MAGIC) {
            return None;
        }
        let mut cookies = [0; COOKIES];
        for (n, cookie) in cookies.iter_mut().enumerate() {
            *cookie = u64::from_le_bytes(*bytes.get(24 + 8 * n..)?.first_chunk()?);
        }
        let (mut options, mut at) = (Vec::new(), OPTIONS_AT);
        for _ in 0..word(104)?.min(OPTIONS_MAX as u32) {
            let name = OptionName { level: word(at)? as i32, name: word(at + 4)? as i32 };
            let len = word(at + 8)? as usize;
            options.push((name, bytes.get(at + 12..at + 12 + len.min(VALUE_MAX))?.to_vec()));
            at += 12 + len;
        }
        Some(Record {
            of: SocketType::of(word(4)?).ok()?,
            uid: word(8)?,
            payer: word(12)?,
            backlog: word(16)?,
            restarts: word(20)?,
            local: address(56)?,
            peer: address(80)?,
            cookies,
            options,
        })
    }
}

/// Record that has a place in the file.
struct Entry {
    place: usize,
    record: Record,
}

/// The file and what is recorded there. Without a file nothing is.
#[derive(Default)]
pub struct Journal {
    file: Option<(File, PathBuf)>,
    /// Options of sockets at present that are not recorded yet, by the places of the sockets.
    options: HashMap<u32, Vec<(OptionName, Vec<u8>)>>,
    /// Records of sockets at present.
    live: HashMap<u32, Entry>,
    /// Records of sockets of outboards before.
    left: Vec<Entry>,
    free: Vec<usize>,
    places: usize,
}

/// Where the file of an outboard lies whose socket is at `path`.
pub fn path_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

impl Journal {
    /// Opens the file of an outboard, and reads what those before have left there.
    ///
    /// # Errors
    /// The file cannot be made; it is another user's.
    pub fn open(path: PathBuf) -> io::Result<Journal> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"));
        }
        let mut head = [0; HEAD_LEN];
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id")?;
        let boot = &boot[..boot.len().min(36)];
        head[..FORMAT.len()].copy_from_slice(FORMAT);
        head[FORMAT.len()..FORMAT.len() + boot.len()].copy_from_slice(boot);
        let most = HEAD_LEN + RECORDS_MAX * RECORD_LEN;
        let mut all = vec![0; (about.len() as usize).min(most)];
        file.read_exact_at(&mut all, 0)?;
        let mut journal = Journal { file: Some((file, path)), ..Journal::default() };
        if all.get(..HEAD_LEN) != Some(&head[..]) {
            let (file, _) = journal.file.as_ref().expect("just opened");
            file.set_len(0)?;
            file.write_all_at(&head, 0)?;
            return Ok(journal);
        }
        for bytes in all[HEAD_LEN..].chunks(RECORD_LEN) {
            let place = journal.places;
            journal.places += 1;
            let record = Record::parse(bytes)
                .map(|record| Record { restarts: record.restarts + 1, ..record });
            match record.filter(|record| record.restarts <= RESTARTS_MAX) {
                Some(record) => {
                    journal.store(place, &record);
                    journal.left.push(Entry { place, record });
                }
                None => journal.erase(place),
            }
        }
        Ok(journal)
    }

    fn store(&self, place: usize, record: &Record) {
        self.write(place, &record.emit());
    }

    fn erase(&mut self, place: usize) {
        self.write(place, &[0; RECORD_LEN]);
        self.free.push(place);
    }

    fn write(&self, place: usize, bytes: &[u8]) {
        let Some((file, path)) = &self.file else { return };
        if let Err(error) = file.write_all_at(bytes, (HEAD_LEN + place * RECORD_LEN) as u64) {
            tracing::warn!(%error, path = %path.display(), "a socket is not recorded");
        }
    }

    /// Notes that an option was set of the socket at `index`.
    pub fn note_option(&mut self, index: u32, name: OptionName, value: &[u8]) {
        if self.file.is_none() || value.len() > VALUE_MAX {
            return;
        }
        let all = match self.live.get_mut(&index) {
            Some(entry) => &mut entry.record.options,
            None => self.options.entry(index).or_default(),
        };
        let is_membership = fusewire_stack::ip::posix::is_membership(name.level, name.name);
        all.retain(|(known, _)| is_membership || *known != name);
        if all.len() < OPTIONS_MAX {
            all.push((name, value.to_vec()));
        }
    }

    /// Records the socket at `index` as `record` says, with the options that were noted and the placeholders that it had.
    pub fn note(&mut self, index: u32, mut record: Record) {
        if self.file.is_none() {
            return;
        }
        if let Some(entry) = self.live.get_mut(&index) {
            record.cookies = entry.record.cookies;
            record.options = std::mem::take(&mut entry.record.options);
            entry.record = record;
            let entry = &self.live[&index];
            return self.store(entry.place, &entry.record);
        }
        record.options = self.options.remove(&index).unwrap_or_default();
        let Some(place) = self.free.pop().or_else(|| {
            let place = self.places;
            self.places += usize::from(place < RECORDS_MAX);
            (place < RECORDS_MAX).then_some(place)
        }) else {
            return;
        };
        self.store(place, &record);
        self.live.insert(index, Entry { place, record });
    }

    /// Forgets the socket at `index`.
    pub fn forget(&mut self, index: u32) {
        self.options.remove(&index);
        if let Some(entry) = self.live.remove(&index) {
            self.erase(entry.place);
        }
    }

    /// Returns `true` if a record belongs to the placeholder with this cookie.
    pub fn knows(&self, cookie: u64) -> bool {
        let mut all = self.left.iter().chain(self.live.values());
        all.any(|entry| entry.record.cookies.contains(&cookie))
    }

    /// Returns the socket of today that was made for the placeholder with this cookie.
    pub fn restored(&self, cookie: u64) -> Option<u32> {
        let has = |entry: &Entry| entry.record.cookies.contains(&cookie);
        self.live.iter().find(|(_, entry)| has(entry)).map(|(index, _)| *index)
    }

    /// Returns what an outboard before has recorded of the placeholder with this cookie.
    pub fn left(&self, cookie: u64) -> Option<Record> {
        let has = |entry: &&Entry| entry.record.cookies.contains(&cookie);
        self.left.iter().find(has).map(|entry| entry.record.clone())
    }

    /// The socket at `index`, whose placeholder has the cookie `new`, is what was recorded for the cookie `old`.
    pub fn revive(&mut self, old: u64, index: u32, new: u64) {
        let has = |entry: &Entry| entry.record.cookies.contains(&old);
        let Some(at) = self.left.iter().position(has) else { return };
        let mut entry = self.left.swap_remove(at);
        self.forget(index);
        entry.record.cookies.rotate_right(1);
        entry.record.cookies[0] = new;
        entry.record.restarts = 0;
        self.store(entry.place, &entry.record);
        self.live.insert(index, entry);
    }

    /// Records nothing more: the outboard ends, and the next one finds what is recorded now. Without a record the file goes.
    pub fn close(&mut self) {
        if let Some((_, path)) = self.file.take()
            && self.live.is_empty()
            && self.left.is_empty()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use fusewire_testkit::scratch::Scratch;

    use super::*;
    use crate::protocol::{Family, Kind};

    const TTL: OptionName = OptionName { level: libc::IPPROTO_IP, name: libc::IP_TTL };

    fn record(cookie: u64) -> Record {
        let of = SocketType { family: Family::V6, kind: Kind::Datagram };
        let at = |text: &str| Some(text.parse().unwrap());
        let new = Record::new(of, (33, 0), cookie);
        Record { local: at("[fd00::1]:53"), peer: at("10.0.0.1:7"), ..new }
    }

    #[test]
    fn a_record_is_parsed_as_it_was_emitted_and_at_no_other_length() {
        let mut all = record(9);
        all.options = vec![(TTL, vec![4, 0, 0, 0]), (OptionName { level: 41, ..TTL }, vec![7; 64])];
        let bytes = all.emit();
        assert_eq!(Record::parse(&bytes).as_ref(), Some(&all));
        (0..196).for_each(|len| assert_eq!(Record::parse(&bytes[..len]), None, "{len}"));
        all.options = vec![(TTL, vec![0; 64]); 32];
        let kept = Record::parse(&all.emit()).unwrap().options.len();
        assert_eq!(kept, 12, "as many as there is room for");
    }

    #[test]
    fn the_next_outboard_finds_what_was_recorded_and_no_more() {
        let folder = Scratch::new();
        let path = folder.path().join("state");
        let mut first = Journal::open(path.clone()).unwrap();
        first.note_option(3, TTL, &[1, 0, 0, 0]);
        first.note_option(3, TTL, &[2, 0, 0, 0]);
        first.note(3, record(30));
        first.note(4, record(40));
        first.forget(4);
        drop(first);

        let mut second = Journal::open(path.clone()).unwrap();
        assert!(second.knows(30) && !second.knows(40) && !second.knows(0x30));
        assert_eq!(second.left(30).unwrap().options, [(TTL, vec![2, 0, 0, 0])]);
        second.revive(30, 8, 80);
        assert_eq!((second.restored(30), second.restored(80)), (Some(8), Some(8)));
        second.note(8, Record { backlog: 5, ..record(80) });
        drop(second);

        // Processes that have either of its placeholders.
        let mut third = Journal::open(path.clone()).unwrap();
        for cookie in [30, 80] {
            assert_eq!(third.left(cookie).unwrap().backlog, 5, "{cookie}");
        }
        third.revive(30, 1, 90);
        third.forget(1);
        third.close();
        assert!(!path.exists(), "nothing is left to be taken over");
    }

    #[test]
    fn records_that_no_process_asks_for_go_after_some_restarts() {
        let folder = Scratch::new();
        let path = folder.path().join("state");
        Journal::open(path.clone()).unwrap().note(3, record(30));
        for _ in 0..RESTARTS_MAX {
            assert!(Journal::open(path.clone()).unwrap().knows(30));
        }
        assert!(!Journal::open(path.clone()).unwrap().knows(30));
    }

    #[test]
    fn a_file_of_another_boot_or_a_link_is_not_read() {
        let folder = Scratch::new();
        let path = folder.path().join("state");
        Journal::open(path.clone()).unwrap().note(3, record(30));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[FORMAT.len()] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(!Journal::open(path.clone()).unwrap().knows(30));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Journal::open(link).is_err());
    }
}
