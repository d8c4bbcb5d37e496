//! Which programs a preloaded library reaches: those that glibc's dynamic linker starts, and that do not get more rights than
//! the process that starts them.
//!
//! Nothing here allocates or calls libc for I/O, because a child between `vfork` and `exec` asks too.

use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, open, statat};
use rustix::io::pread;

/// Bytes of the longest path, with the zero byte behind it.
const PATH_MAX: usize = 4096;
/// Scripts whose interpreters are scripts: as deep as Linux goes.
const DEPTH_MAX: usize = 5;
/// Bytes of a script's first line that Linux reads.
const LINE_MAX: usize = 256;
/// Bytes of an ELF header of 64 bits, and of a program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// `PT_INTERP`
const INTERPRETER: u32 = 3;
/// `ET_DYN`
const SHARED: usize = 3;
/// Bytes of the names of sections that are looked at.
const NAMES_MAX: u64 = 1 << 16;
/// Folders that are searched if the environment names none.
pub const FOLDERS: &[u8] = b"/usr/bin:/bin";

/// The reason why the library is not loaded into a program, or is loaded in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// It has no dynamic linker.
    Static,
    /// It is written in Go.
    Go,
    /// Its dynamic linker is that of another C library, and would end it for want of glibc.
    OtherLibc,
    /// It is for another class or byte order.
    OtherProcessor,
    /// It has the rights of its owner or group.
    SetId,
    /// It has rights by its file.
    Capabilities,
}

impl Unreached {
    /// The reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Unreached::Static => "it is statically linked",
            Unreached::Go => "it is written in Go, and makes system calls by itself",
            Unreached::OtherLibc => "it uses another C library than glibc (musl, for example)",
            Unreached::OtherProcessor => "it is for another kind of processor than the library",
            Unreached::SetId => "it is set-user-ID or set-group-ID",
            Unreached::Capabilities => "it has file capabilities",
        }
    }
}

/// The path of a program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Zeros behind `len` bytes, of which none is zero.
    path: [u8; PATH_MAX],
    len: usize,
}

impl Program {
    /// The program at a path; `None`: the path is too long.
    pub fn new(path: &[u8]) -> Option<Program> {
        Program { path: [0; PATH_MAX], len: 0 }.with(path)
    }

    fn with(mut self, more: &[u8]) -> Option<Program> {
        // The last byte stays zero.
        let room = self.path[..PATH_MAX - 1].get_mut(self.len..self.len + more.len())?;
        room.copy_from_slice(more);
        self.len += more.len();
        (!more.contains(&0)).then_some(self)
    }

    /// The program that a name means: a path if it has a slash, and otherwise what the first of these folders has, which
    /// colons separate.
    pub fn find(name: &[u8], folders: &[u8]) -> Option<Program> {
        if name.contains(&b'/') {
            return Program::new(name).filter(|program| program.about().is_some());
        }
        let in_folder = |folder: &[u8]| {
            let folder = if folder.is_empty() { b"." } else { folder };
            let program = Program::new(folder)?.with(b"/")?.with(name)?;
            let about = program.about()?;
            let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
            (is_file && about.st_mode & 0o111 != 0).then_some(program)
        };
        folders.split(|byte| *byte == b':').find_map(in_folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path[..self.len]))
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or_default()
    }

    fn about(&self) -> Option<Stat> {
        statat(CWD, self.name(), rustix::fs::AtFlags::empty()).ok()
    }

    /// A number that tells its file from others.
    pub fn file(&self) -> Option<u64> {
        self.about().map(|about| about.st_ino ^ about.st_dev.rotate_left(32))
    }

    /// The reason why the library does not reach it, or the interpreter that runs it, which is looked for in these folders. Files
    /// that cannot be read are the kernel's to judge.
    pub fn out_of_reach(&self, folders: &[u8]) -> Option<Unreached> {
        let mut program = *self;
        for _ in 0..DEPTH_MAX {
            // A pipe of this name is not waited for.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = open(program.name(), flags, Mode::empty()).ok()?;
            if let Some(why) = program.has_rights() {
                return Some(why);
            }
            match interpreter(&file, folders) {
                Some(next) => program = next,
                None => return unlinked(&file),
            }
        }
        None
    }

    /// A program that is started with other rights: the dynamic linker ignores the environment then.
    fn has_rights(&self) -> Option<Unreached> {
        let about = self.about()?;
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let mode = about.st_mode;
        let is_setuid = mode & 0o4000 != 0 && about.st_uid != uid;
        if is_setuid || mode & 0o2010 == 0o2010 && about.st_gid != gid {
            return Some(Unreached::SetId);
        }
        let mut none: [u8; 0] = [];
        let found = rustix::fs::getxattr(self.name(), c"security.capability", &mut none[..]);
        (uid != 0 && found.is_ok_and(|len| len > 0)).then_some(Unreached::Capabilities)
    }
}

/// Fills all of a buffer from a file.
fn read_exact(file: &OwnedFd, bytes: &mut [u8], mut at: u64) -> Option<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let len = pread(file, &mut bytes[filled..], at).ok().filter(|len| *len > 0)?;
        filled += len;
        at += len as u64;
    }
    Some(())
}

/// The program that runs a script.
fn interpreter(file: &OwnedFd, folders: &[u8]) -> Option<Program> {
    let mut bytes = [0; LINE_MAX];
    let len = pread(file, &mut bytes[..], 0).ok()?;
    let line = bytes[..len].split(|byte| *byte == b'\n').next()?;
    let rest = line.strip_prefix(b"#!")?;
    let mut words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    if base(first) != b"env" {
        return Program::new(first);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    Program::find(name, folders)
}

/// The last part of a path.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Returns `true` if a dynamic linker of this kind loads the file into programs.
pub fn is_library(path: &Path) -> bool {
    let program = Program::new(path.as_os_str().as_bytes());
    let file = program.and_then(|program| {
        open(program.name(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    });
    let header = file.and_then(|file| header(&file));
    header.is_some_and(|header| is_alike(&header) && half(&header, 16) == SHARED)
}

/// The header of an ELF file.
fn header(file: &OwnedFd) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    read_exact(file, &mut header, 0)?;
    header.starts_with(b"\x7fELF").then_some(header)
}

/// Returns `true` if the file has this program's class and byte order.
fn is_alike(header: &[u8; HEADER]) -> bool {
    header[4] == 2 && header[5] == if cfg!(target_endian = "little") { 1 } else { 2 }
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A program that was written in Go, which a section's name says.
fn is_of_go(file: &OwnedFd, header: &[u8; HEADER]) -> Option<bool> {
    const OF_GO: [&[u8]; 2] = [b".note.go.buildid", b".go.buildinfo"];
    let (size, names) = (half(header, 58), half(header, 62));
    // Offset and length of the section that has the names.
    let at = double(header, 40)?.checked_add((names * size) as u64)?.checked_add(24)?;
    let mut place = [0; 16];
    read_exact(file, &mut place, at)?;
    let (mut at, mut left) = (double(&place, 0)?, double(&place, 8)?.min(NAMES_MAX));
    // The name that is read, with one byte more than the longest of these.
    let (mut name, mut len) = ([0; 17], 0);
    let mut part = [0; 512];
    while left > 0 {
        let part = &mut part[..(left as usize).min(512)];
        read_exact(file, part, at)?;
        for byte in part.iter() {
            if *byte != 0 {
                if let Some(place) = name.get_mut(len) {
                    *place = *byte;
                    len += 1;
                }
                continue;
            }
            if OF_GO.contains(&&name[..len]) {
                return Some(true);
            }
            len = 0;
        }
        (at, left) = (at.checked_add(part.len() as u64)?, left - part.len() as u64);
    }
    Some(OF_GO.contains(&&name[..len]))
}

/// Why a dynamic linker does not load ours into an ELF file, or in vain.
fn unlinked(file: &OwnedFd) -> Option<Unreached> {
    let header = header(file)?;
    if !is_alike(&header) {
        return Some(Unreached::OtherProcessor);
    }
    if is_of_go(file, &header) == Some(true) {
        return Some(Unreached::Go);
    }
    let offset = double(&header, 32)?;
    let (size, count) = (half(&header, 54), half(&header, 56));
    if size < PROGRAM_HEADER {
        return None;
    }
    for index in 0..count {
        let mut entry = [0; PROGRAM_HEADER];
        let at = offset.checked_add((index * size) as u64)?;
        read_exact(file, &mut entry, at)?;
        let [a, b, c, d, ..] = entry;
        if u32::from_ne_bytes([a, b, c, d]) == INTERPRETER {
            return is_of_other_libc(file, &entry)?.then_some(Unreached::OtherLibc);
        }
    }
    Some(Unreached::Static)
}

/// Returns `true` if the dynamic linker that a program header names is not glibc's (`ld-linux-…`, `ld-….so`).
fn is_of_other_libc(file: &OwnedFd, entry: &[u8; PROGRAM_HEADER]) -> Option<bool> {
    let (at, len) = (double(entry, 8)?, double(entry, 32)?);
    let mut bytes = [0; LINE_MAX];
    let path = bytes.get_mut(..usize::try_from(len).ok()?)?;
    read_exact(file, path, at)?;
    let name = base(path.split(|byte| *byte == 0).next()?);
    Some(!name.is_empty() && (!name.starts_with(b"ld-") || name.starts_with(b"ld-musl")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of so many program headers of these kinds, whose dynamic linker is at a path.
    fn elf(kinds: &[u32], linker: &str) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(HEADER, 0);
        bytes[32..40].copy_from_slice(&(HEADER as u64).to_ne_bytes());
        bytes[54..56].copy_from_slice(&(PROGRAM_HEADER as u16).to_ne_bytes());
        bytes[56..58].copy_from_slice(&(kinds.len() as u16).to_ne_bytes());
        let end = HEADER + kinds.len() * PROGRAM_HEADER;
        for kind in kinds {
            let begin = bytes.len();
            bytes.resize(begin + PROGRAM_HEADER, 0);
            bytes[begin..begin + 4].copy_from_slice(&kind.to_ne_bytes());
            bytes[begin + 8..begin + 16].copy_from_slice(&(end as u64).to_ne_bytes());
            let len = linker.len() as u64 + 1;
            bytes[begin + 32..begin + 40].copy_from_slice(&len.to_ne_bytes());
        }
        bytes.extend_from_slice(linker.as_bytes());
        bytes.push(0);
        bytes
    }

    /// The same with sections of these names.
    fn of_go(mut bytes: Vec<u8>, names: &[u8]) -> Vec<u8> {
        let begin = bytes.len() as u64;
        bytes.extend_from_slice(names);
        let sections = bytes.len() as u64;
        bytes[40..48].copy_from_slice(&sections.to_ne_bytes());
        (bytes[58], bytes[60]) = (64, 1);
        let mut section = [0; 64];
        section[24..32].copy_from_slice(&begin.to_ne_bytes());
        section[32..40].copy_from_slice(&(names.len() as u64).to_ne_bytes());
        bytes.extend_from_slice(&section);
        bytes
    }

    const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";

    #[test]
    fn programs_that_cannot_be_preloaded_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let why = |name: &str, bytes: &[u8]| {
            std::fs::write(path(name), bytes).unwrap();
            Program::new(path(name).as_os_str().as_bytes()).unwrap().out_of_reach(FOLDERS)
        };
        assert_eq!(why("dynamic", &elf(&[1, 6, 3], GLIBC)), None);
        assert_eq!(why("static", &elf(&[1, 6], GLIBC)), Some(Unreached::Static));
        let musl = elf(&[1, 3], "/lib/ld-musl-x86_64.so.1");
        assert_eq!(why("musl", &musl), Some(Unreached::OtherLibc));
        let bionic = elf(&[1, 3], "/system/bin/linker64");
        assert_eq!(why("bionic", &bionic), Some(Unreached::OtherLibc));
        let go = of_go(elf(&[1, 6, 3], GLIBC), b"\0.text\0.go.buildinfo\0");
        assert_eq!(why("go", &go), Some(Unreached::Go));
        let far = [&[b'a'; 700][..], b"\0.note.go.buildid\0"].concat();
        assert_eq!(why("far", &of_go(elf(&[1], GLIBC), &far)), Some(Unreached::Go));
        let not_go = b"\0.text\0.no.go.buildinfo\0.go.buildinfo.but.not\0";
        assert_eq!(why("not go", &of_go(elf(&[1, 6, 3], GLIBC), not_go)), None);
        for len in HEADER..go.len() {
            why("cut", &go[..len]);
        }
        let mut library = elf(&[1, 2], GLIBC);
        library[16] = SHARED as u8;
        for (bytes, is_it) in [(&library[..], true), (&elf(&[1], GLIBC), false), (b"text", false)] {
            std::fs::write(path("library"), bytes).unwrap();
            assert_eq!(is_library(&path("library")), is_it);
        }
        let mut other = elf(&[1], GLIBC);
        other[4] = 1;
        assert_eq!(why("other", &other), Some(Unreached::OtherProcessor));
        let script = format!("#! {}/static -x\nexit", folder.path().display());
        assert_eq!(why("script", script.as_bytes()), Some(Unreached::Static));
        assert_eq!(why("shell", b"#!/usr/bin/env sh\n"), None);
        assert_eq!(why("loop", format!("#!{}/loop", folder.path().display()).as_bytes()), None);
        for len in 0..HEADER + PROGRAM_HEADER {
            why("cut", &elf(&[1], GLIBC)[..len]);
        }
        assert_eq!(why("text", b"no program"), None);
        assert!(Program::find(b"sh", FOLDERS).is_some());
        assert!(Program::find(b"no-such-program", FOLDERS).is_none());
        assert!(Program::find(b"/no/such/program", FOLDERS).is_none());
        assert!(Program::new(&[b'a'; PATH_MAX]).is_none() && Program::new(b"a\0b").is_none());
    }
}
