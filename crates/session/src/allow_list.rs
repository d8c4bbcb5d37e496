//! The clients that a server serves: a text file, one fingerprint a line, the rest of the line a comment.

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::state_file;
use std::collections::HashMap;
use std::path::Path;

/// Fingerprints with their comments.
#[derive(Clone, Debug, Default)]
pub struct AllowList(HashMap<Fingerprint, String>);

impl AllowList {
    /// Reads the file at `path`. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`Error::Os`], also for a missing file: who names one means it. [`Error::Owner`] for a file that belongs
    /// to somebody else but root. [`Error::Text`] for a line without fingerprint, with its number.
    pub fn load(path: &Path) -> Result<AllowList, Error> {
        AllowList::parse(&state_file::read_text_there(path)?, &path.display().to_string())
    }

    /// Reads `text`; `name` goes into errors.
    ///
    /// # Errors
    /// [`Error::Text`], as [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<AllowList, Error> {
        let mut list = HashMap::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, comment) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let print = word.parse().map_err(|_| Error::Text {
                what: format!("{name}, line {}", i + 1),
                expected: "`fw1:… comment`, or a comment after #",
                found: state_file::shown(line),
            })?;
            list.insert(print, comment.trim().trim_start_matches('#').trim_start().to_string());
        }
        Ok(AllowList(list))
    }

    /// Adds `print` with a comment.
    pub fn insert(&mut self, print: Fingerprint, comment: &str) {
        self.0.insert(print, comment.to_string());
    }

    /// Whether `print` is on the list.
    pub fn contains(&self, print: Fingerprint) -> bool {
        self.0.contains_key(&print)
    }

    /// The comment beside `print`.
    pub fn comment(&self, print: Fingerprint) -> Option<&str> {
        self.0.get(&print).map(String::as_str)
    }

    /// How many keys are on the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a list without keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Fingerprint> for AllowList {
    fn from_iter<T: IntoIterator<Item = Fingerprint>>(prints: T) -> AllowList {
        AllowList(prints.into_iter().map(|p| (p, String::new())).collect())
    }
}
