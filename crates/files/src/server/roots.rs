//! What a share serves: a folder, or several things by their names, as if they lay in a folder.

use crate::Error;
use crate::client::put::Source;
use crate::folder::Last;
use crate::message::{Code, Kind, Meta};
use crate::name::RemotePath;
use cap_std::fs::{Dir, MetadataExt as _};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// What is served.
#[derive(Debug)]
pub(super) enum Roots {
    /// A folder.
    Folder(Served),
    /// Each by its name; nothing beside them can be reached.
    Named(Named),
}

/// A folder that is served under its path.
#[derive(Debug)]
pub(super) struct Served {
    /// Absolute; `None` for a folder that was opened by someone else.
    path: Option<PathBuf>,
    /// The folder that was found there last.
    dir: RwLock<Arc<Dir>>,
}

impl Served {
    /// Returns the folder that was found there last.
    fn dir(&self) -> Arc<Dir> {
        Arc::clone(&self.dir.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the folder again, if another one lies there now: it was made anew, or something was mounted over it.
    fn refresh(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let os = |e: io::Error| Error::os("look at", path.as_os_str().as_bytes(), e);
        let there = std::fs::metadata(path).map_err(os)?;
        let served = self.dir().dir_metadata().map_err(os)?;
        if (there.dev(), there.ino()) != (served.dev(), served.ino()) {
            let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority()).map_err(os)?;
            *self.dir.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(dir);
            tracing::info!(path = %path.display(), "another folder is served from now on");
        }
        Ok(())
    }
}

/// Things that have a name each, and nothing in common.
#[derive(Debug)]
pub(super) struct Named {
    /// As they were named: the name, and where the thing is.
    things: Vec<(RemotePath, Arc<Dir>, RemotePath)>,
    /// Where each is. A name has no slash in it.
    at: HashMap<Vec<u8>, usize>,
}

impl Roots {
    /// An open folder, and the path that it is found under again.
    pub(super) fn served(dir: Dir, path: Option<PathBuf>) -> Roots {
        Roots::Folder(Served { path, dir: RwLock::new(Arc::new(dir)) })
    }

    /// Looks again what is served.
    ///
    /// # Errors
    /// There is nothing at its path any more.
    pub(super) fn refresh(&self) -> Result<(), Error> {
        match self {
            Roots::Folder(served) => served.refresh(),
            Roots::Named(_) => Ok(()),
        }
    }

    /// Things by their names, of which no two may have the same.
    pub(super) fn named(things: Vec<(Vec<u8>, Source)>) -> Result<Roots, Error> {
        let mut named = Named { things: Vec::with_capacity(things.len()), at: HashMap::new() };
        for (name, source) in things {
            let path = RemotePath::default().join(&name).map_err(|e| Error::path(&name, e))?;
            if named.at.insert(name, named.things.len()).is_some() {
                return Err(Error::local(Code::Exists, path.as_bytes()));
            }
            named.things.push((path, Arc::new(source.dir), source.name));
        }
        Ok(Roots::Named(named))
    }

    /// The names, where it is not one folder.
    pub(super) fn names(&self) -> Option<Vec<RemotePath>> {
        match self {
            Roots::Folder(_) => None,
            Roots::Named(named) => {
                Some(named.things.iter().map(|(name, ..)| name.clone()).collect())
            }
        }
    }

    /// It is not one folder.
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Roots::Named(_))
    }

    /// The open folder that `path` lies in, and where.
    pub(super) fn find<'p>(
        &self,
        path: &'p RemotePath,
    ) -> Result<(Arc<Dir>, Cow<'p, RemotePath>), Error> {
        let named = match self {
            Roots::Folder(served) => return Ok((served.dir(), Cow::Borrowed(path))),
            Roots::Named(named) => named,
        };
        let not_found = || Error::local(Code::NotFound, path.as_bytes());
        let name = path.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
        let (name, dir, inside) = &named.things[*named.at.get(name).ok_or_else(not_found)?];
        let rest = path.below(name).ok_or_else(not_found)?;
        let inside = match (inside.as_bytes(), rest) {
            (b"", rest) => RemotePath::checked(rest)?,
            (_, b"") => inside.clone(),
            // A file has nothing in it.
            _ => return Err(not_found()),
        };
        Ok((Arc::clone(dir), Cow::Owned(inside)))
    }

    /// What is known of what lies at `path`.
    pub(super) fn look(&self, path: &RemotePath) -> Result<Meta, Error> {
        if let (Roots::Named(_), b"") = (self, path.as_bytes()) {
            return Ok(Meta { kind: Kind::Folder, mode: 0o755, ..Meta::default() });
        }
        self.refresh()?;
        let (dir, inside) = self.find(path)?;
        let os = |e| Error::os("look at", path.as_bytes(), e);
        let meta = Meta::of(&dir.metadata(inside.as_path()).map_err(os)?);
        // No name of this path is a link.
        let real = dir.canonicalize(inside.as_path()).map_err(os)?;
        let real = RemotePath::from_user(real.as_os_str().as_bytes());
        Ok(real.map_or(meta, |real| meta.with_attributes(&dir, &real, &mut Last::default())))
    }

    /// The folder, where it is one.
    ///
    /// # Errors
    /// [`Code::ReadOnly`]: nothing is made beside named things.
    pub(super) fn folder(&self) -> Result<Arc<Dir>, Error> {
        match self {
            Roots::Folder(served) => Ok(served.dir()),
            Roots::Named(_) => Err(Error::local(Code::ReadOnly, b"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_found_by_the_whole_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "ab"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("b"), "").unwrap();
        let thing = |name: &str| {
            (name.as_bytes().to_vec(), Source::from_path(&dir.path().join(name)).unwrap())
        };
        let roots = Roots::named(["ab", "a", "b"].map(thing).into()).unwrap();
        let find = |path: &str| {
            let path = RemotePath::from_user(path.as_bytes()).unwrap();
            roots.find(&path).map(|(_, inside)| inside.into_owned().to_string()).ok()
        };
        assert_eq!(find("ab/c").as_deref(), Some("c"));
        assert_eq!(find("a/c/d").as_deref(), Some("c/d"));
        assert_eq!(find("b").as_deref(), Some("b"));
        for nothing in ["", "abc", "c", "b/c", "a b"] {
            assert_eq!(find(nothing), None, "{nothing:?}");
        }
        assert!(roots.look(&RemotePath::default()).is_ok());
        assert_eq!(roots.names().unwrap().len(), 3);
        let twice = Roots::named(["a", "b", "a"].map(thing).into()).unwrap_err();
        assert_eq!(twice.code(), Code::Exists);
    }
}
