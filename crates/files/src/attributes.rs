//! Properties of a file that a transfer does not keep: access control lists, extended attributes, owners, hard links.
//!
//! A file with a POSIX access control list (acl(5)) shows the list's mask in place of its group's permissions. Its
//! permissions without the list must not allow more than the list's entries for the owner, the group and others.

use crate::folder::Last;
use crate::message::{Kind, Meta};
use crate::name::RemotePath;
use cap_std::fs::Dir;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A folder in which only a file's owner removes it; kept.
pub(crate) const STICKY: u32 = 1;
/// An access control list; not kept.
const ACL: u32 = 2;
/// Other extended attributes; not kept.
const ATTRIBUTES: u32 = 4;
/// An owner other than the user who sends it; not kept.
pub(crate) const OWNER: u32 = 8;
/// More than one name; each becomes a file of its own.
pub(crate) const LINKS: u32 = 16;

/// How many files and folders of a transfer had something that was not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Access control lists.
    pub acls: u64,
    /// Files with other extended attributes.
    pub attributes: u64,
    /// Owners other than the user who sent them.
    pub owners: u64,
    /// Files with several names (hard links).
    pub links: u64,
}

impl Lost {
    /// Counts what is lost of a file or folder.
    pub(crate) fn count(&mut self, meta: &Meta) {
        let of = |bit| u64::from(meta.besides.unwrap_or(0) & bit != 0);
        self.acls += of(ACL);
        self.attributes += of(ATTRIBUTES);
        self.owners += of(OWNER);
        self.links += of(LINKS);
    }
}

impl Meta {
    /// Returns the permissions to set, the sticky bit of a folder among them.
    pub(crate) fn permissions(&self) -> u32 {
        let is_sticky = self.kind == Kind::Folder && self.besides.unwrap_or(0) & STICKY != 0;
        u32::from(self.mode & 0o777) | if is_sticky { 0o1000 } else { 0 }
    }

    /// Notes that the file has something besides.
    pub(crate) fn add_besides(&mut self, bits: u32) {
        if bits != 0 {
            self.besides = Some(self.besides.unwrap_or(0) | bits);
        }
    }

    /// Completes what is known of the file or folder at `path` below `root` by its extended attributes. `last` keeps its
    /// folder open for the next one.
    pub(crate) fn with_attributes(
        mut self,
        root: &Dir,
        path: &RemotePath,
        last: &mut Last,
    ) -> Meta {
        let name = OsStr::from_bytes(path.name().unwrap_or(b"."));
        if let Ok(dir) = last.parent_if_there(root, path) {
            self.read_attributes(&*dir, name);
        }
        self
    }

    /// Completes what is known of the file or folder `name` in `dir`.
    pub(crate) fn read_attributes(&mut self, dir: impl AsFd, name: &OsStr) {
        if !matches!(self.kind, Kind::File | Kind::Folder) {
            return;
        }
        // There is no system call for a name in an open folder before Linux 6.13.
        let mut at = Vec::with_capacity(32 + name.len());
        let _ = write!(at, "/proc/self/fd/{}/", dir.as_fd().as_raw_fd());
        at.extend_from_slice(name.as_bytes());
        let at = Path::new(OsStr::from_bytes(&at));
        let mut names = [0; 1024];
        let len = match rustix::fs::llistxattr(at, &mut names[..]) {
            Ok(len) => len,
            Err(Errno::RANGE) => {
                self.add_besides(ATTRIBUTES);
                names[..ACCESS.len()].copy_from_slice(ACCESS);
                ACCESS.len()
            }
            Err(_) => return,
        };
        for name in names[..len].split(|byte| *byte == 0) {
            match name {
                ACCESS => {
                    let mut acl = [0; 4096];
                    if let Ok(len) = rustix::fs::lgetxattr(at, ACCESS, &mut acl[..]) {
                        self.mode &= allowed(&acl[..len]);
                        self.add_besides(ACL);
                    }
                }
                b"system.posix_acl_default" | b"system.nfs4_acl" | b"system.richacl" => {
                    self.add_besides(ACL);
                }
                name if name.starts_with(b"user.")
                    || name.starts_with(b"trusted.")
                    || name == b"security.capability" =>
                {
                    self.add_besides(ATTRIBUTES);
                }
                // Attributes of security modules belong to the machine.
                _ => {}
            }
        }
    }
}

const ACCESS: &[u8] = b"system.posix_acl_access";

/// Returns the permissions that an access control list allows its owner, group and others, in the form that the kernel
/// gives it: a version, then entries of tag (2), permissions (2) and user or group (4), little-endian. One that cannot be
/// read permits nothing to users other than the owner.
fn allowed(acl: &[u8]) -> u16 {
    const USER_OBJ: u16 = 0x01;
    const GROUP_OBJ: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let Some((&[2, 0, 0, 0], entries)) = acl.split_first_chunk() else { return 0o700 };
    let find = |wanted| {
        let mut entries = entries.chunks_exact(8);
        let entry = entries.find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted)?;
        Some(u16::from_le_bytes([entry[2], entry[3]]) & 0o7)
    };
    let (user, other) = (find(USER_OBJ).unwrap_or(0o7), find(OTHER).unwrap_or(0));
    let group = find(GROUP_OBJ).unwrap_or(0) & find(MASK).unwrap_or(0o7);
    user << 6 | group << 3 | other
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list as the kernel gives it.
    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_mask_is_not_the_groups_permission() {
        const NONE: u32 = u32::MAX;
        let list = acl(&[(1, 6, NONE), (2, 7, 1234), (4, 4, NONE), (16, 7, NONE), (32, 0, NONE)]);
        assert_eq!(allowed(&list), 0o640);
        // The mask also takes from the group.
        let list = acl(&[(1, 7, NONE), (4, 7, NONE), (8, 7, 5), (16, 5, NONE), (32, 1, NONE)]);
        assert_eq!(allowed(&list), 0o751);
        assert_eq!(allowed(&acl(&[(1, 7, NONE), (4, 5, NONE), (32, 5, NONE)])), 0o755);
        for odd in [&b""[..], &[3, 0, 0, 0], &[2, 0, 0]] {
            assert_eq!(allowed(odd), 0o700);
        }
    }
}
