//! What a share serves: a folder, or several things by their names, as if they lay in a folder.

use crate::Error;
use crate::client::put::Source;
use crate::folder::Last;
use crate::message::{Code, Kind, Meta};
use crate::name::RemotePath;
use cap_std::fs::Dir;
use std::borrow::Cow;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

/// What is served.
#[derive(Debug)]
pub(super) enum Roots {
    /// A folder.
    Folder(Dir),
    /// Each by its name; nothing beside them can be reached.
    Named(Named),
}

/// Things that have a name each, and nothing in common.
#[derive(Debug)]
pub(super) struct Named {
    /// As they were named.
    things: Vec<(RemotePath, Source)>,
    /// Where each is. A name has no slash in it.
    at: HashMap<Vec<u8>, usize>,
}

impl Roots {
    /// Things by their names, of which no two may have the same.
    pub(super) fn named(things: Vec<(Vec<u8>, Source)>) -> Result<Roots, Error> {
        let mut named = Named { things: Vec::with_capacity(things.len()), at: HashMap::new() };
        for (name, source) in things {
            let path = RemotePath::default().join(&name).map_err(|e| Error::path(&name, e))?;
            if named.at.insert(name, named.things.len()).is_some() {
                return Err(Error::local(Code::Exists, path.as_bytes()));
            }
            named.things.push((path, source));
        }
        Ok(Roots::Named(named))
    }

    /// The names, where it is not one folder.
    pub(super) fn names(&self) -> Option<Vec<RemotePath>> {
        match self {
            Roots::Folder(_) => None,
            Roots::Named(named) => {
                Some(named.things.iter().map(|(name, _)| name.clone()).collect())
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
    ) -> Result<(&Dir, Cow<'p, RemotePath>), Error> {
        let named = match self {
            Roots::Folder(dir) => return Ok((dir, Cow::Borrowed(path))),
            Roots::Named(named) => named,
        };
        let not_found = || Error::local(Code::NotFound, path.as_bytes());
        let name = path.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
        let (name, source) = &named.things[*named.at.get(name).ok_or_else(not_found)?];
        let rest = path.below(name).ok_or_else(not_found)?;
        let inside = match (source.name.as_bytes(), rest) {
            (b"", rest) => RemotePath::checked(rest)?,
            (_, b"") => source.name.clone(),
            // A file has nothing in it.
            _ => return Err(not_found()),
        };
        Ok((&source.dir, Cow::Owned(inside)))
    }

    /// What is known of what lies at `path`.
    pub(super) fn look(&self, path: &RemotePath) -> Result<Meta, Error> {
        if let (Roots::Named(_), b"") = (self, path.as_bytes()) {
            return Ok(Meta { kind: Kind::Folder, mode: 0o755, ..Meta::default() });
        }
        let (dir, inside) = self.find(path)?;
        let os = |e| Error::os("look at", path.as_bytes(), e);
        let meta = Meta::of(&dir.metadata(inside.as_path()).map_err(os)?);
        // No name of this path is a link.
        let real = dir.canonicalize(inside.as_path()).map_err(os)?;
        let real = RemotePath::from_user(real.as_os_str().as_bytes());
        Ok(real.map_or(meta, |real| meta.with_attributes(dir, &real, &mut Last::default())))
    }

    /// The folder, where it is one.
    ///
    /// # Errors
    /// [`Code::ReadOnly`]: nothing is made beside named things.
    pub(super) fn folder(&self) -> Result<&Dir, Error> {
        match self {
            Roots::Folder(dir) => Ok(dir),
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
