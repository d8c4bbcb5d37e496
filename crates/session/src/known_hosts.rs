//! Which key belongs to which server: a text file, one line a host.
//!
//! ```text
//! # comment
//! example.org:7777 fw1:… comment
//! [2001:db8::1]:7777 fw1:…
//! ```

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::state_file;
use std::path::{Path, PathBuf};

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// This very key.
    Yes,
    /// Nothing: ask the user, or refuse.
    No,
}

#[derive(Clone, Debug)]
struct Line {
    text: String,
    entry: Option<(String, Fingerprint)>,
}

/// The pinned servers of one file. Comments and the order of lines survive every change.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    path: PathBuf,
    lines: Vec<Line>,
}

impl KnownHosts {
    /// Reads the file at `path`; a missing one is empty.
    ///
    /// # Errors
    /// [`Error::Text`] for a line that is neither comment nor pin, with its number: a pin that a typing
    /// error hides must not count as "never seen". [`Error::Owner`], [`Error::Os`].
    pub fn load(path: &Path) -> Result<KnownHosts, Error> {
        KnownHosts::parse(&state_file::read_text(path)?, path)
    }

    /// Reads `text`, which stands in the file at `path`.
    ///
    /// # Errors
    /// [`Error::Text`], as [`load`](Self::load).
    pub fn parse(text: &str, path: &Path) -> Result<KnownHosts, Error> {
        let lines = text.lines().enumerate().map(|(i, line)| parse_line(line, i + 1, path));
        Ok(KnownHosts { path: path.to_path_buf(), lines: lines.collect::<Result<_, _>>()? })
    }

    /// Judges the key that `host` (`name:port`) showed.
    ///
    /// # Errors
    /// [`Error::KeyChanged`], which says what to run.
    pub fn check(&self, host: &str, found: Fingerprint) -> Result<Known, Error> {
        let host = normal(host);
        match self.fingerprint(&host) {
            None => Ok(Known::No),
            Some(known) if known == found => Ok(Known::Yes),
            Some(known) => Err(Error::KeyChanged { host, known, found, path: self.path.clone() }),
        }
    }

    /// The key pinned for `host` (`name:port`).
    pub fn fingerprint(&self, host: &str) -> Option<Fingerprint> {
        let host = normal(host);
        self.entries().find(|(h, _)| *h == host).map(|(_, print)| print)
    }

    /// All pins, in the file's order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Fingerprint)> {
        self.lines
            .iter()
            .filter_map(|l| l.entry.as_ref())
            .map(|(host, print)| (host.as_str(), *print))
    }

    /// Pins `print` for `host` (`name:port`) in the file at `path`, under a lock.
    ///
    /// # Errors
    /// [`Error::KeyChanged`] if another key is pinned, [`Error::Text`] for a host with spaces, and those
    /// of [`load`](Self::load).
    pub fn add(path: &Path, host: &str, print: Fingerprint) -> Result<(), Error> {
        let host = normal(host);
        let bad = host.is_empty()
            || host.starts_with('#')
            || host.contains(|c: char| c.is_whitespace() || c.is_control());
        if bad {
            let found = state_file::shown(&host);
            return Err(Error::Text { what: "host".into(), expected: "name:port", found });
        }
        state_file::locked(path, || {
            let mut hosts = KnownHosts::load(path)?;
            if hosts.check(&host, print)? == Known::No {
                hosts
                    .lines
                    .push(Line { text: format!("{host} {print}"), entry: Some((host, print)) });
                hosts.save()?;
            }
            Ok(())
        })
    }

    /// Removes `host` (`name:port`) from the file at `path`, under a lock. Says whether it was there.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn forget(path: &Path, host: &str) -> Result<bool, Error> {
        let host = normal(host);
        state_file::locked(path, || {
            let mut hosts = KnownHosts::load(path)?;
            let before = hosts.lines.len();
            hosts.lines.retain(|l| l.entry.as_ref().is_none_or(|(h, _)| *h != host));
            let found = hosts.lines.len() < before;
            if found {
                hosts.save()?;
            }
            Ok(found)
        })
    }

    fn save(&self) -> Result<(), Error> {
        let text: String = self.lines.iter().flat_map(|l| [l.text.as_str(), "\n"]).collect();
        state_file::replace(&self.path, text.as_bytes())
    }
}

/// Lowercases the name or address, but not the zone of an address: names of network interfaces depend on case.
fn normal(host: &str) -> String {
    let zone = host.find('%').unwrap_or(host.len());
    host[..zone].to_ascii_lowercase() + &host[zone..]
}

fn parse_line(text: &str, number: usize, path: &Path) -> Result<Line, Error> {
    let content = text.trim();
    let mut words = content.split_whitespace();
    let entry = match words.next() {
        None => None,
        Some(word) if word.starts_with('#') => None,
        Some(host) => match words.next().map(str::parse) {
            Some(Ok(print)) => Some((normal(host), print)),
            _ => {
                return Err(Error::Text {
                    what: format!("{}, line {number}", path.display()),
                    expected: "`host:port fw1:…`, or a comment after #",
                    found: state_file::shown(content),
                });
            }
        },
    };
    Ok(Line { text: text.to_string(), entry })
}
