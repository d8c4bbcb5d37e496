//! Which files of a folder are transferred.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(#[from] globset::Error);

/// Patterns of what to take and what to leave out.
///
/// A pattern with a slash is matched against the whole path below the folder that is transferred, one without
/// against the last name. `*` and `?` do not match slashes, `**` does. A file is taken if it matches a
/// pattern to include, or there is none, and no pattern to exclude. A folder that matches a pattern to
/// exclude is left out with everything in it.
#[derive(Clone, Debug)]
pub struct Filter {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Default for Filter {
    /// Takes everything.
    fn default() -> Self {
        Filter { include: None, exclude: GlobSet::empty() }
    }
}

impl Filter {
    /// From patterns.
    ///
    /// # Errors
    /// One of them is none.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Filter, FilterError> {
        let include = if include.is_empty() { None } else { Some(set(include)?) };
        Ok(Filter { include, exclude: set(exclude)? })
    }

    /// The folder at `path` below the root may hold something to take.
    pub fn takes_folder(&self, path: &[u8]) -> bool {
        !self.exclude.is_match(OsStr::from_bytes(path))
    }

    /// The file or link at `path` below the root is taken, if its folders are.
    pub fn takes_file(&self, path: &[u8]) -> bool {
        let path = OsStr::from_bytes(path);
        self.include.as_ref().is_none_or(|include| include.is_match(path))
            && !self.exclude.is_match(path)
    }
}

fn set(patterns: &[String]) -> Result<GlobSet, FilterError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.trim_end_matches('/');
        let whole = match pattern.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if pattern.contains('/') => pattern.to_owned(),
            None => format!("**/{pattern}"),
        };
        set.add(GlobBuilder::new(&whole).literal_separator(true).backslash_escape(true).build()?);
    }
    Ok(set.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn patterns_match_names_or_paths() {
        let f = filter(&["*.rs", "docs/*.md"], &["target/", "/top.rs"]);
        assert!(f.takes_file(b"a/b/c.rs") && f.takes_file(b"c.rs") && f.takes_file(b"docs/x.md"));
        assert!(
            !f.takes_file(b"docs/deep/x.md") && !f.takes_file(b"x.md") && !f.takes_file(b"top.rs")
        );
        assert!(f.takes_file(b"a/top.rs"));
        assert!(!f.takes_folder(b"target") && !f.takes_folder(b"a/target") && f.takes_folder(b"a"));
        assert!(Filter::default().takes_file(b"\xff") && Filter::default().takes_folder(b"x"));
        assert!(Filter::new(&["[".to_owned()], &[]).is_err());
    }
}
