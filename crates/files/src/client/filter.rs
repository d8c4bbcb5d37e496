//! Which files of a folder are transferred.

use fast_glob::glob_match;

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("the pattern {pattern:?} {why}")]
pub struct FilterError {
    pattern: String,
    why: &'static str,
}

/// Patterns of what to take and what to leave out.
///
/// A pattern with a slash is matched against the whole path below the folder that is transferred, one without
/// against the last name. `*` and `?` do not match slashes, `**` does. A file is taken if it matches a
/// pattern to include, or there is none, and no pattern to exclude. A folder that matches a pattern to
/// exclude is left out with everything in it.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Filter {
    /// From patterns.
    ///
    /// # Errors
    /// One of them is none.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Filter, FilterError> {
        let set = |patterns: &[String]| -> Result<Vec<String>, FilterError> {
            patterns.iter().map(|pattern| whole(pattern)).collect()
        };
        Ok(Filter { include: set(include)?, exclude: set(exclude)? })
    }

    /// Returns `true` if only what matches a pattern is taken.
    pub(crate) fn has_include(&self) -> bool {
        !self.include.is_empty()
    }

    /// The folder at `path` below the root may hold something to take.
    pub fn takes_folder(&self, path: &[u8]) -> bool {
        !matches_any(&self.exclude, path)
    }

    /// The file or link at `path` below the root is taken, if its folders are.
    pub fn takes_file(&self, path: &[u8]) -> bool {
        (self.include.is_empty() || matches_any(&self.include, path))
            && !matches_any(&self.exclude, path)
    }
}

fn matches_any(patterns: &[String], path: &[u8]) -> bool {
    patterns.iter().any(|pattern| glob_match(pattern, path))
}

/// The pattern for whole paths.
fn whole(pattern: &str) -> Result<String, FilterError> {
    check(pattern).map_err(|why| FilterError { pattern: pattern.into(), why })?;
    let pattern = pattern.trim_end_matches('/');
    Ok(match pattern.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    })
}

/// Groups end, and nothing is escaped by nothing: what does not hold to that would match nothing and say nothing.
fn check(pattern: &str) -> Result<(), &'static str> {
    let (mut chars, mut braces) = (pattern.chars(), 0);
    while let Some(char) = chars.next() {
        match char {
            '\\' => drop(chars.next().ok_or("ends with a backslash")?),
            '{' => braces += 1,
            '}' if braces == 0 => return Err("has a } without its {"),
            '}' => braces -= 1,
            '[' => {
                // The first may be any, also the bracket that ends it.
                let first = chars.next().filter(|c| !matches!(c, '!' | '^'));
                let first = first.or_else(|| chars.next()).ok_or("has a [ without its ]")?;
                if first == '\\' {
                    chars.next();
                }
                loop {
                    match chars.next().ok_or("has a [ without its ]")? {
                        ']' => break,
                        '\\' => drop(chars.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if braces > 0 { Err("has a { without its }") } else { Ok(()) }
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
    }

    #[test]
    fn patterns_have_classes_alternatives_and_escapes() {
        let f = filter(&["[a-c]?.{rs,toml}", "**/deep/**", "*\\[1\\]"], &["[!x]0"]);
        let taken = ["b1.rs", "x/c2.toml", "a/deep/b/c", "deep/b", "x[1]", "z/[1]"];
        let left = ["d1.rs", "b12.rs", "b1.md", "undeep/b", "x1", "deep/y0", "b/.rs"];
        for name in taken {
            assert!(f.takes_file(name.as_bytes()), "{name}");
        }
        for name in left {
            assert!(!f.takes_file(name.as_bytes()), "{name}");
        }
        assert!(f.takes_file(b"deep/x0") && f.takes_file(b"\xff\xfe/deep/\xff"));
        for wrong in ["[", "[]", "[!]", "a[b", "{a", "a}", "{a,{b}", "a\\", "[\\]"] {
            let error = Filter::new(&[], &[wrong.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
        assert!(Filter::new(&["[]]".to_owned(), "{a,{b,c}}".to_owned()], &[]).is_ok());
    }
}
