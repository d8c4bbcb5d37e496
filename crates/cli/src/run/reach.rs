//! Which programs a preloaded library reaches: those that a dynamic linker of this kind starts, and which do not get more
//! rights than who starts them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Scripts whose interpreters are scripts: as deep as Linux goes.
const DEPTH_MAX: usize = 5;
/// Bytes of a script's first line that Linux reads.
const LINE_MAX: u64 = 256;
/// Bytes of an ELF header of 64 bits, and of a program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// `PT_INTERP`
const INTERPRETER: u32 = 3;
/// `ET_DYN`
const SHARED: usize = 3;
/// Bytes of the names of sections that are looked at.
const NAMES_MAX: u64 = 1 << 16;

/// The file that a name means, by PATH.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Path::new(name).exists().then(|| name.into());
    }
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(is_program)
}

/// Why the library is not loaded into a program, if it is not. What cannot be read is for the kernel to judge.
pub fn out_of_reach(path: &Path) -> Option<&'static str> {
    let mut path = path.to_path_buf();
    for _ in 0..DEPTH_MAX {
        let file = File::open(&path).ok()?;
        if let Some(why) = has_rights(&file.metadata().ok()?, &path) {
            return Some(why);
        }
        match interpreter(&file) {
            Some(next) => path = next,
            None => return unlinked(&file),
        }
    }
    None
}

/// What a script is run by.
fn interpreter(file: &File) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(file.take(LINE_MAX)).read_until(b'\n', &mut line).ok()?;
    let rest = line.strip_prefix(b"#!")?;
    let mut words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    match first.file_name() {
        Some(name) if name == "env" => {
            let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
            name.and_then(|name| find(OsStr::from_bytes(name)))
        }
        _ => Some(first),
    }
}

/// A program that is started with other rights: the dynamic linker obeys nobody then.
fn has_rights(about: &Metadata, path: &Path) -> Option<&'static str> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mode = about.permissions().mode();
    let is_setuid = mode & 0o4000 != 0 && about.uid() != uid;
    if is_setuid || mode & 0o2010 == 0o2010 && about.gid() != gid {
        return Some("it is set-user-ID or set-group-ID");
    }
    let mut none: [u8; 0] = [];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut none[..]);
    (uid != 0 && has_capabilities.is_ok_and(|len| len > 0)).then_some("it has file capabilities")
}

/// A file that a dynamic linker of this kind loads into programs.
pub fn is_library(path: &Path) -> bool {
    let header = File::open(path).ok().and_then(|file| header(&file));
    header.is_some_and(|header| is_alike(&header) && half(&header, 16) == SHARED)
}

/// The header of an ELF file.
fn header(file: &File) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    header.starts_with(b"\x7fELF").then_some(header)
}

/// Of this class and byte order, as this program is.
fn is_alike(header: &[u8; HEADER]) -> bool {
    header[4] == 2 && header[5] == if cfg!(target_endian = "little") { 1 } else { 2 }
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
}

/// A program that was written in Go, which a section's name says.
fn is_of_go(file: &File, header: &[u8; HEADER]) -> Option<bool> {
    let (size, names) = (half(header, 58), half(header, 62));
    let sections = u64::from_ne_bytes(*header[40..].first_chunk()?);
    // Of the section that has the names: where it lies, and how long it is.
    let at = sections.checked_add((names * size) as u64)?.checked_add(24)?;
    let mut place = [0; 16];
    file.read_exact_at(&mut place, at).ok()?;
    let offset = u64::from_ne_bytes(*place.first_chunk()?);
    let len = u64::from_ne_bytes(*place[8..].first_chunk()?).min(NAMES_MAX);
    let mut names = vec![0; len as usize];
    file.read_exact_at(&mut names, offset).ok()?;
    let of_go: [&[u8]; 2] = [b".note.go.buildid", b".go.buildinfo"];
    Some(names.split(|byte| *byte == 0).any(|name| of_go.contains(&name)))
}

/// Why a dynamic linker does not load ours into an ELF file, or in vain.
fn unlinked(file: &File) -> Option<&'static str> {
    let header = header(file)?;
    if !is_alike(&header) {
        return Some("it is for another kind of processor than the library");
    }
    if is_of_go(file, &header) == Some(true) {
        return Some("it is written in Go, and makes system calls by itself");
    }
    let offset = u64::from_ne_bytes(*header[32..].first_chunk()?);
    let (size, count) = (half(&header, 54), half(&header, 56));
    if size < PROGRAM_HEADER {
        return None;
    }
    for index in 0..count {
        let mut kind = [0; 4];
        let at = offset.checked_add((index * size) as u64)?;
        file.read_exact_at(&mut kind, at).ok()?;
        if u32::from_ne_bytes(kind) == INTERPRETER {
            return None;
        }
    }
    Some("it is statically linked")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of so many program headers of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(HEADER, 0);
        bytes[32..40].copy_from_slice(&(HEADER as u64).to_ne_bytes());
        bytes[54..56].copy_from_slice(&(PROGRAM_HEADER as u16).to_ne_bytes());
        bytes[56..58].copy_from_slice(&(kinds.len() as u16).to_ne_bytes());
        for kind in kinds {
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.resize(bytes.len() + PROGRAM_HEADER - 4, 0);
        }
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

    #[test]
    fn programs_without_a_dynamic_linker_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let why = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            out_of_reach(&path)
        };
        assert_eq!(why("dynamic", &elf(&[1, 6, 3])), None);
        assert_eq!(why("static", &elf(&[1, 6])), Some("it is statically linked"));
        let go = of_go(elf(&[1, 6, 3]), b"\0.text\0.go.buildinfo\0");
        assert!(why("go", &go).unwrap().contains("written in Go"));
        assert_eq!(why("not go", &of_go(elf(&[1, 6, 3]), b"\0.text\0.no.go.buildinfo\0")), None);
        for len in HEADER..go.len() {
            why("cut", &go[..len]);
        }
        let mut library = elf(&[1, 2]);
        library[16] = SHARED as u8;
        for (bytes, is_it) in [(&library[..], true), (&elf(&[1]), false), (b"text", false)] {
            std::fs::write(folder.path().join("library"), bytes).unwrap();
            assert_eq!(is_library(&folder.path().join("library")), is_it);
        }
        let mut other = elf(&[1]);
        other[4] = 1;
        assert!(why("other", &other).unwrap().contains("another kind of processor"));
        let script = format!("#! {}/static -x\nexit", folder.path().display());
        assert_eq!(why("script", script.as_bytes()), Some("it is statically linked"));
        assert_eq!(why("shell", b"#!/usr/bin/env sh\n"), None);
        assert_eq!(why("loop", format!("#!{}/loop", folder.path().display()).as_bytes()), None);
        for len in 0..HEADER + PROGRAM_HEADER {
            why("cut", &elf(&[1])[..len]);
        }
        assert_eq!(why("text", b"no program"), None);
        assert!(find(OsStr::new("sh")).is_some() && find(OsStr::new("no-such-program")).is_none());
    }
}
