//! A server's sessions and a client's workers, joined in memory and turned until they are finished.
#![allow(dead_code)]

pub mod raw;

use fusewire_base::Instant;
use fusewire_files::client::{Event, get, list, put};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::server::{self, Session, Share};
use fusewire_files::{Element, Error, Machine, RemotePath, Scratch, Work};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What most tests marshal contents as.
pub const OCTETS: Element = Element::Octets;

/// What came of a transfer.
#[derive(Debug, Default, Clone)]
pub struct Log {
    pub done: Vec<(String, u64, Option<[u8; 32]>)>,
    pub failed: Vec<(String, String)>,
    pub skipped: Vec<(String, String)>,
    pub resumed: u64,
    pub resumes: Vec<u64>,
}

pub fn observer(log: &Arc<Mutex<Log>>) -> Box<dyn fusewire_files::client::Observer> {
    let log = Arc::clone(log);
    Box::new(move |event: Event<'_>| {
        let mut log = log.lock().unwrap();
        match event {
            Event::Done { path, size, hash } => log.done.push((path.to_string(), size, hash)),
            Event::Failed { path, error } => log.failed.push((path.to_string(), error.to_string())),
            Event::Skipped { path, why } => log.skipped.push((path.to_string(), why.to_string())),
            Event::Resumed { bytes, .. } => {
                log.resumed += bytes;
                log.resumes.push(bytes);
            }
            _ => {}
        }
    })
}

/// Connections, each with a session on one end and a machine of the client's on the other.
pub struct Run<M> {
    pub ends: Vec<(Session, MemoryChannel, M, MemoryChannel)>,
    pub scratch: Scratch,
    pub now: Instant,
    pub turns: u64,
}

impl<W: Work> Run<Machine<W>> {
    pub fn new(
        share: &Arc<Share>,
        n: usize,
        settings: Settings,
        element: Element,
        mut worker: impl FnMut() -> Machine<W>,
    ) -> Self {
        let ends = (0..n)
            .map(|i| {
                let settings =
                    Settings { seed: settings.seed.wrapping_mul(31) + i as u64, ..settings };
                let (a, b) = memory::pair(settings);
                (share.session(element), a, worker(), b)
            })
            .collect();
        Run { ends, scratch: Scratch::new(), now: Instant::from_ms(1), turns: 0 }
    }

    /// Turns everything once; true when all workers are finished.
    pub fn step(&mut self) -> Result<bool, Error> {
        let (mut finished, mut worked, mut wait) = (true, false, None);
        for (session, server, worker, client) in &mut self.ends {
            let a = worker.turn(client, &mut self.scratch, self.now)?;
            let b = session.turn(server, &mut self.scratch, self.now)?;
            finished &= a.finished && b.finished;
            worked |= a.worked || b.worked;
            for at in [a.wait_until, b.wait_until].into_iter().flatten() {
                wait = Some(wait.map_or(at, |w: Instant| w.min(at)));
            }
        }
        self.turns += 1;
        if !worked {
            match wait {
                Some(at) => self.now = at,
                None => self.now += Duration::from_micros(10),
            }
        }
        Ok(finished)
    }

    /// Turns everything so often; true if all workers are finished by then.
    pub fn steps(&mut self, turns: u64) -> bool {
        (0..turns).any(|_| self.step().unwrap())
    }

    pub fn finish(&mut self) -> Result<(), Error> {
        let mut idle = 0;
        loop {
            let (now, turns) = (self.now, self.turns);
            if self.step()? {
                return Ok(());
            }
            idle = if self.now == now { 0 } else { idle + 1 };
            assert!(idle < 10_000 || turns > 100_000_000, "stalled after {turns} turns");
        }
    }
}

pub fn share(dir: &Path, writable: bool) -> Arc<Share> {
    Share::open(dir, server::Settings { writable, ..server::Settings::default() }).unwrap()
}

pub fn remote(path: &str) -> RemotePath {
    RemotePath::from_user(path.as_bytes()).unwrap()
}

pub fn get_plan(path: &str, to: &Path, options: get::Options) -> (Arc<get::Plan>, Arc<Mutex<Log>>) {
    let log = Arc::default();
    let remote = remote(path);
    let destination = get::Destination::from_path(to, &remote).unwrap();
    (get::Plan::new(remote, destination, options, observer(&log)), log)
}

pub fn get_with(
    from: &Path,
    path: &str,
    to: &Path,
    options: get::Options,
    settings: Settings,
    element: Element,
) -> Result<Log, Error> {
    let n = options.connections as usize;
    let (plan, log) = get_plan(path, to, options);
    let mut run = Run::new(&share(from, false), n, settings, element, || plan.worker(element));
    run.finish()?;
    assert!(plan.is_finished());
    let log = log.lock().unwrap().clone();
    let totals = plan.totals();
    if log.failed.is_empty() {
        assert_eq!(totals.bytes_done, totals.bytes, "{totals:?}");
        assert_eq!(totals.files_done, totals.files);
        assert!(totals.all_found);
    }
    Ok(log)
}

pub fn get(from: &Path, path: &str, to: &Path) -> Result<Log, Error> {
    get_with(from, path, to, get::Options::default(), Settings::default(), Element::Octets)
}

pub fn put_with(
    from: &Path,
    path: &str,
    to: &Path,
    options: put::Options,
    settings: Settings,
) -> Result<Log, Error> {
    let n = options.connections as usize;
    let log = Arc::default();
    let plan = put::Plan::new(
        put::Source::from_path(from).unwrap(),
        remote(path),
        options,
        observer(&log),
    );
    let mut run =
        Run::new(&share(to, true), n, settings, Element::Octets, || plan.worker(Element::Octets));
    run.finish()?;
    assert!(plan.is_finished());
    let log = log.lock().unwrap().clone();
    let totals = plan.totals();
    if log.failed.is_empty() {
        assert_eq!(totals.bytes_done, totals.bytes, "{totals:?}");
        assert_eq!(totals.files_done, totals.files);
        assert!(totals.all_found);
    }
    Ok(log)
}

pub fn ls(
    from: &Path,
    path: &str,
    recursive: bool,
    settings: Settings,
) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    {
        let show = |path: &RemotePath, _: &fusewire_files::Entry| seen.push(path.to_string());
        let mut listing = Some(list::List::new(remote(path), recursive, OCTETS, show)?);
        let listing = || listing.take().unwrap();
        Run::new(&share(from, false), 1, settings, OCTETS, listing).finish()?;
    }
    Ok(seen)
}

/// Everything about a tree that a transfer keeps.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(dir: &Path, base: &Path, out: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(base).unwrap().to_owned();
            let mode = meta.permissions().mode() & 0o777;
            let mtime = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
            if meta.is_symlink() {
                out.insert(name, format!("link {}", fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                out.insert(name, format!("folder {mode:o} {mtime}"));
                walk(&path, base, out);
            } else if !meta.is_file() {
                out.insert(name, "other".to_owned());
            } else {
                let hash = blake3::hash(&fs::read(&path).unwrap());
                out.insert(name, format!("file {mode:o} {mtime} {} {hash}", meta.len()));
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(dir, dir, &mut out);
    out
}

/// Bytes that repeat nowhere soon.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A tree with files of awkward sizes, folders in folders, links, and odd names.
pub fn make_tree(dir: &Path) {
    const BLOCK: usize = 1 << 20;
    let sizes = [
        0,
        1,
        2,
        15,
        16,
        17,
        1375,
        1376,
        1377,
        65_535,
        65_536,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * BLOCK + 77,
    ];
    fs::create_dir_all(dir.join("sub/deeper/deepest")).unwrap();
    fs::create_dir_all(dir.join("empty")).unwrap();
    for (i, size) in sizes.into_iter().enumerate() {
        let path = dir.join(if i % 3 == 0 { format!("sub/f{size}") } else { format!("f{size}") });
        fs::write(&path, bytes(size, size as u64 + 1)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + (i as u32 % 8))).unwrap();
        let time =
            std::time::UNIX_EPOCH + Duration::new(1_000_000_000 + i as u64, 123_456_000 + i as u32);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    fs::write(dir.join("sub/deeper/deepest/new\nline \x1b[31m"), b"odd name").unwrap();
    use std::os::unix::ffi::OsStrExt as _;
    fs::write(dir.join(std::ffi::OsStr::from_bytes(b"sub/not utf8 \xff")), b"x").unwrap();
    std::os::unix::fs::symlink("../f1", dir.join("sub/link")).unwrap();
    std::os::unix::fs::symlink("deeper/deepest", dir.join("sub/dirlink")).unwrap();
    fs::set_permissions(dir.join("sub/deeper"), fs::Permissions::from_mode(0o750)).unwrap();
    for (i, folder) in ["sub/deeper/deepest", "sub/deeper", "sub", "empty"].iter().enumerate() {
        let time = std::time::UNIX_EPOCH + Duration::new(900_000_000 + i as u64, 5_000);
        fs::File::open(dir.join(folder)).unwrap().set_modified(time).unwrap();
    }
}

/// Nothing of unfinished files is left.
pub fn assert_no_leftovers(dir: &Path) {
    for path in tree(dir).keys() {
        assert!(!path.to_string_lossy().contains(".fusewire-"), "left over: {}", path.display());
    }
}

/// Every link below `folder` is broken or leads to something below it.
pub fn assert_no_link_leads_out(folder: &Path) {
    let root = folder.canonicalize().unwrap();
    for path in tree(folder).into_keys() {
        let path = folder.join(path);
        if let (true, Ok(to)) = (path.is_symlink(), path.canonicalize()) {
            assert!(to.starts_with(&root), "{} leads to {}", path.display(), to.display());
        }
    }
}
