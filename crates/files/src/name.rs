//! Names and paths: bytes, checked before they are used and escaped before they are shown.

use crate::Error;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest name of one file, in bytes.
pub const MAX_NAME_LEN: usize = 255;
/// The longest path below the served folder, in bytes.
pub const MAX_PATH_LEN: usize = 4095;
/// The longest path in folders.
pub const MAX_DEPTH: usize = 128;

const RESERVED_PREFIX: &[u8] = b".fusewire-";
pub(crate) const PART_SUFFIX: &[u8] = b".part";
pub(crate) const STATE_SUFFIX: &[u8] = b".state";

/// Why bytes are no path below the served folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It begins with a slash.
    #[error("path is absolute")]
    Absolute,
    /// It has a component `..` or `.`, or an empty one.
    #[error("path has a component {0:?}, which is not allowed")]
    Component(&'static str),
    /// It has a zero byte.
    #[error("path has a zero byte")]
    Zero,
    /// It has a slash where a single name was expected.
    #[error("name has a slash")]
    Slash,
    /// One name is too long.
    #[error("name of {0} bytes, more than {MAX_NAME_LEN}")]
    NameTooLong(usize),
    /// It is too long.
    #[error("path of {0} bytes, more than {MAX_PATH_LEN}")]
    PathTooLong(usize),
    /// It has too many components.
    #[error("path is deeper than {MAX_DEPTH} folders")]
    TooDeep,
    /// The name is one that the transfer uses for unfinished files.
    #[error("name is reserved for unfinished transfers")]
    Reserved,
}

/// Checks one name of a file or folder.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &[u8]) -> Result<(), PathError> {
    match name {
        b"" => return Err(PathError::Component("")),
        b"." => return Err(PathError::Component(".")),
        b".." => return Err(PathError::Component("..")),
        _ => {}
    }
    if name.len() > MAX_NAME_LEN {
        return Err(PathError::NameTooLong(name.len()));
    }
    if name.contains(&0) {
        return Err(PathError::Zero);
    }
    if name.contains(&b'/') {
        return Err(PathError::Slash);
    }
    if is_reserved(name) { Err(PathError::Reserved) } else { Ok(()) }
}

/// True for the names of unfinished files and their state.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(RESERVED_PREFIX)
        && (name.ends_with(PART_SUFFIX) || name.ends_with(STATE_SUFFIX))
}

/// The name under which the unfinished file `name` is kept, ending in `suffix`.
pub(crate) fn unfinished(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    let hash = blake3::hash(name).to_hex();
    [RESERVED_PREFIX, &hash.as_bytes()[..16], suffix].concat()
}

/// A name for something that takes the place of `name` at once; another each time.
pub(crate) fn spare(name: &[u8]) -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let suffix = format!("-{}-{count}.part", std::process::id());
    unfinished(name, suffix.as_bytes())
}

/// Returns the process that gave something the name `name` for a moment ([`spare`]), if it is such a name.
pub(crate) fn spare_of(name: &[u8]) -> Option<u32> {
    let rest = name.strip_prefix(RESERVED_PREFIX)?.strip_suffix(PART_SUFFIX)?;
    let mut parts = std::str::from_utf8(rest).ok()?.split('-');
    let (_hash, process, _count) = (parts.next()?, parts.next()?, parts.next()?);
    process.parse().ok()
}

/// A path below the served folder: names divided by single slashes, none of them `..`; empty for the folder itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemotePath(Vec<u8>);

impl RemotePath {
    /// Checks `bytes` as they came from the peer.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(bytes: Vec<u8>) -> Result<Self, PathError> {
        if bytes.len() > MAX_PATH_LEN {
            return Err(PathError::PathTooLong(bytes.len()));
        }
        if bytes.first() == Some(&b'/') {
            return Err(PathError::Absolute);
        }
        if !bytes.is_empty() {
            let mut depth = 0;
            for name in bytes.split(|&byte| byte == b'/') {
                check_name(name)?;
                depth += 1;
            }
            if depth > MAX_DEPTH {
                return Err(PathError::TooDeep);
            }
        }
        Ok(RemotePath(bytes))
    }

    /// The same, for an error that names them.
    pub(crate) fn checked(bytes: &[u8]) -> Result<Self, Error> {
        RemotePath::new(bytes.to_vec()).map_err(|problem| Error::path(bytes, problem))
    }

    /// Checks what a user wrote: slashes at the ends, doubled slashes and `.` are dropped first.
    ///
    /// # Errors
    /// What is wrong with the rest.
    pub fn from_user(bytes: &[u8]) -> Result<Self, PathError> {
        let names: Vec<&[u8]> =
            bytes.split(|&b| b == b'/').filter(|n| !n.is_empty() && *n != b".").collect();
        RemotePath::new(names.join(&b'/'))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For the file system; `.` for the folder itself.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(if self.0.is_empty() { b"." } else { &self.0 }))
    }

    /// Its last name, or nothing for the folder itself.
    pub fn name(&self) -> Option<&[u8]> {
        self.0.rsplit(|&byte| byte == b'/').next().filter(|name| !name.is_empty())
    }

    /// The folder that holds it.
    pub fn parent(&self) -> RemotePath {
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        RemotePath(self.0[..end].to_vec())
    }

    /// This is the folder that holds `path`.
    pub(crate) fn is_parent_of(&self, path: &RemotePath) -> bool {
        let end = path.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        path.0[..end] == self.0
    }

    /// How many names it has.
    pub fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { 1 + self.0.iter().filter(|&&byte| byte == b'/').count() }
    }

    /// `name` in this folder.
    ///
    /// # Errors
    /// `name` is no name, or the path becomes too long.
    pub fn join(&self, name: &[u8]) -> Result<RemotePath, PathError> {
        check_name(name)?;
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        if bytes.len() > MAX_PATH_LEN {
            return Err(PathError::PathTooLong(bytes.len()));
        }
        let path = RemotePath(bytes);
        if path.depth() > MAX_DEPTH { Err(PathError::TooDeep) } else { Ok(path) }
    }

    /// This path below `root`, if it is one.
    pub fn below(&self, root: &RemotePath) -> Option<&[u8]> {
        if root.0.is_empty() {
            return Some(&self.0);
        }
        let rest = self.0.strip_prefix(root.0.as_slice())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

/// A link's target is kept only if it is relative and stays inside the folder that is transferred.
///
/// The rule is one of spelling, so that both sides can apply it: `..` only at the front, and no more of them
/// than `depth`, the number of folders between the link and the root of the transfer; folders themselves, not
/// links to folders, as [`crate::folder`] sees to. Names after the leading `..` can only lead down, through
/// real folders or through links that keep to the same rule; none is that of an unfinished file.
pub(crate) fn link_stays_inside(target: &[u8], depth: usize) -> bool {
    if target.is_empty() || target.len() > MAX_PATH_LEN || target[0] == b'/' || target.contains(&0)
    {
        return false;
    }
    let (mut ups, mut named) = (0, false);
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if named => return false,
            b".." => ups += 1,
            // An unfinished file is nobody's to read.
            _ if name.len() > MAX_NAME_LEN || is_reserved(name) => return false,
            _ => named = true,
        }
    }
    ups <= depth
}

/// Bytes from the network or the file system, for people: control characters, characters that turn the
/// direction of text, and what is not UTF-8 are escaped; so is the backslash, so that nothing is ambiguous.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        const SHOWN_LEN: usize = 4096;
        let cut = self.0.len() > SHOWN_LEN;
        let bytes = if cut { &self.0[..SHOWN_LEN] } else { self.0 };
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    c if c.is_ascii_control() => write!(f, "\\x{:02x}", c as u32)?,
                    c if is_deceptive(c) => write!(f, "\\u{{{:x}}}", c as u32)?,
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        if cut { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

/// Characters that a terminal acts on or that make text look like other text.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_are_paths() {
        for (bytes, error) in [
            (&b"/etc/passwd"[..], PathError::Absolute),
            (b"../x", PathError::Component("..")),
            (b"a/../../x", PathError::Component("..")),
            (b"a/./x", PathError::Component(".")),
            (b"a//x", PathError::Component("")),
            (b"a/", PathError::Component("")),
            (b"a\0b", PathError::Zero),
            (b".fusewire-0011.part", PathError::Reserved),
        ] {
            assert_eq!(RemotePath::new(bytes.to_vec()), Err(error), "{}", Shown(bytes));
        }
        assert_eq!(RemotePath::new(vec![b'x'; 256]), Err(PathError::NameTooLong(256)));
        assert_eq!(RemotePath::new(vec![b'x'; 65536]), Err(PathError::PathTooLong(65536)));
        assert_eq!(RemotePath::new(b"x/".repeat(129)[..257].to_vec()), Err(PathError::TooDeep));
        let path = RemotePath::new(b"a/b/c".to_vec()).unwrap();
        assert_eq!(
            (path.name(), path.parent().as_bytes(), path.depth()),
            (Some(&b"c"[..]), &b"a/b"[..], 3)
        );
        assert_eq!(RemotePath::from_user(b"//a/./b/").unwrap().as_bytes(), b"a/b");
        assert_eq!(RemotePath::from_user(b"/").unwrap().name(), None);
        assert!(RemotePath::from_user(b"/a/../b").is_err());
        assert_eq!(path.below(&RemotePath::new(b"a".to_vec()).unwrap()), Some(&b"b/c"[..]));
        assert_eq!(
            path.below(&RemotePath::new(b"a/".to_vec()).unwrap_or_default()),
            Some(&b"a/b/c"[..])
        );
        assert_eq!(
            RemotePath::new(b"ab".to_vec()).unwrap().below(&RemotePath(b"a".to_vec())),
            None
        );
    }

    #[test]
    fn links_stay_inside() {
        for (target, depth, kept) in [
            (&b"x"[..], 0, true),
            (b"x/y", 0, true),
            (b"../x", 0, false),
            (b"../x", 1, true),
            (b".././../x", 1, false),
            (b"../../x", 2, true),
            (b"a/../b", 5, false),
            (b"/x", 5, false),
            (b"", 5, false),
            (b"a\0", 5, false),
            (b".fusewire-0011.part", 0, false),
            (b"../a/.fusewire-0011.state", 1, false),
        ] {
            assert_eq!(link_stays_inside(target, depth), kept, "{} at {depth}", Shown(target));
        }
    }

    #[test]
    fn nothing_raw_reaches_a_terminal() {
        let shown = Shown(b"a\x1b[31m\n\\\xff\xc2\x9b\xe2\x80\xae \xc3\xa9").to_string();
        assert_eq!(shown, "a\\x1b[31m\\n\\\\\\xff\\u{9b}\\u{202e} é");
        let long = Shown(&[b'x'; 65536]).to_string();
        assert!(long.len() < 4200 && long.ends_with("… (65536 bytes)"));
    }
}
