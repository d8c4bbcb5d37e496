//! What a share serves: a folder, or several things by their names, as if they lay in a folder.

use crate::Error;
use crate::client::put::Source;
use crate::message::{Code, Kind, Meta};
use crate::name::RemotePath;
use cap_std::fs::Dir;
use std::borrow::Cow;
use std::collections::HashSet;

/// What is served.
#[derive(Debug)]
pub(super) enum Roots {
    /// A folder.
    Folder(Dir),
    /// Each by its name; nothing beside them can be reached.
    Named(Vec<(RemotePath, Source)>),
}

impl Roots {
    /// Things by their names, of which no two may have the same.
    pub(super) fn named(things: Vec<(Vec<u8>, Source)>) -> Result<Roots, Error> {
        let (mut named, mut names) = (Vec::with_capacity(things.len()), HashSet::new());
        for (name, source) in things {
            let name = RemotePath::default().join(&name).map_err(|e| Error::path(&name, e))?;
            if !names.insert(name.clone()) {
                return Err(Error::local(Code::Exists, name.as_bytes()));
            }
            named.push((name, source));
        }
        Ok(Roots::Named(named))
    }

    /// The names, where it is not one folder.
    pub(super) fn names(&self) -> Option<Vec<RemotePath>> {
        match self {
            Roots::Folder(_) => None,
            Roots::Named(named) => Some(named.iter().map(|(name, _)| name.clone()).collect()),
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
        let found = named.iter().find(|(name, _)| path.below(name).is_some());
        let (name, source) = found.ok_or_else(not_found)?;
        let rest = path.below(name).unwrap_or_default();
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
        let metadata = dir.metadata(inside.as_path());
        metadata.map(|found| Meta::of(&found)).map_err(|e| Error::os("look at", path.as_bytes(), e))
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
