//! `fusewire put`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use data_encoding::HEXLOWER;
use fusewire_base::Lines;
use fusewire_files::client::Journal;
use fusewire_files::client::put::{Options, Plan, Source, Upload};
use fusewire_files::{Error, RemotePath};
use rustix::event::{PollFd, PollFlags};

use crate::output::{Code, EXIT_CODES, Failure, Result};
use crate::report::Reporter;
use crate::transfer::{self, Moving};
use crate::url::Url;

/// How often a wait for standard input looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What to put, and where to.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Put {
    /// Files and folders; - is standard input, alone, with a name in the URL.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// fusewire://host[:port]/path: a name for what is put, or a folder if it ends in a slash or several
    /// things are put.
    url: Url,
    /// Never replace a file.
    #[arg(long)]
    no_clobber: bool,
    /// Leave files alone that have the same size and time there, or are newer.
    #[arg(long, conflicts_with = "no_clobber")]
    update: bool,
    /// Begin anew instead of going on where an earlier transfer was broken off.
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    pub moving: Moving,
}

/// Puts one thing after the other, over one connection.
pub fn run(put: &Put) -> Result {
    let stop = transfer::stop_flag()?;
    let moving = &put.moving;
    let options = Options {
        filter: moving.filter()?,
        replace: !put.no_clobber,
        keep_same: put.update,
        anew: put.no_resume,
        journal: put.journal(),
        reply_bytes: moving.reply_bytes,
        bytes_per_s: moving.rate.unwrap_or(0),
        connections: moving.jobs,
        hashing: moving.hash,
    };
    // Kept until the end: what was read from standard input.
    let mut spool = None;
    let uploads = match put.paths.as_slice() {
        [path] if path.as_os_str() == "-" => {
            let name = put.url.path.name().filter(|_| !put.url.is_folder).ok_or_else(|| {
                let text = "standard input has no name: the URL has to end in one";
                Failure::new(Code::Usage, text)
            })?;
            let spooled = spool.insert(Spool::read(name, &stop)?);
            vec![Ok(whole(Source::from_path(&spooled.file())?, put.url.path.clone()))]
        }
        paths if paths.iter().any(|path| path.as_os_str() == "-") => {
            let text = "- is standard input, which is put alone; ./- is a file of that name";
            return Err(Failure::new(Code::Usage, text).into());
        }
        // What is wrong with the only one needs no connection.
        [path] if !put.url.is_folder => {
            vec![Ok(whole(Source::from_path(path)?, put.url.path.clone()))]
        }
        [path] => {
            let upload = below(&put.url.path, path)?;
            vec![Ok(Upload { label: RemotePath::default(), ..upload })]
        }
        _ => Vec::new(),
    };
    let (mut connector, link) = transfer::connect(moving, &put.url)?;
    let subject = match put.paths.as_slice() {
        [path] => path.display().to_string(),
        _ => put.url.to_string(),
    };
    let reporter = Reporter::new(moving.voice(), subject).for_put();
    let observer = Box::new(reporter.clone());
    let plan = match uploads.is_empty() {
        false => Plan::of(uploads.into_iter(), options, observer),
        true => Plan::of(several(put), options, observer),
    };
    transfer::run(&plan, (link, None), &mut connector, moving, &reporter, "put", &stop)
}

impl Put {
    /// The journal of complete files, where there may be several.
    fn journal(&self) -> Option<Arc<Journal>> {
        let is_one = matches!(self.paths.as_slice(), [path] if !path.is_dir());
        (!is_one)
            .then(|| transfer::journal("put", &self.url, &self.paths, self.no_resume))
            .flatten()
    }
}

/// Each of the paths under its own name in the folder, opened when its turn comes.
fn several(put: &Put) -> impl Iterator<Item = std::result::Result<Upload, Error>> + use<> {
    let (folder, mut names) = (put.url.path.clone(), HashSet::new());
    put.paths.clone().into_iter().map(move |path| {
        let upload = below(&folder, &path)?;
        if !upload.after_all && !names.insert(upload.remote.clone()) {
            let other = io::Error::other("another one has the same name");
            let shown = path.as_os_str().as_bytes().to_vec();
            return Err(Error::Os { action: "put", path: shown, source: other });
        }
        Ok(upload)
    })
}

fn whole(source: Source, remote: RemotePath) -> Upload {
    Upload { source, remote, label: RemotePath::default(), after_all: false }
}

/// `path` under its own name in the folder. A folder named with a slash at its end, or as `.`, is its contents.
fn below(folder: &RemotePath, path: &Path) -> std::result::Result<Upload, Error> {
    let source = Source::from_path(path)?;
    let is_contents = path.as_os_str().as_bytes().ends_with(b"/") || path.ends_with(".");
    match path.file_name() {
        Some(name) if !is_contents => {
            let name = name.as_bytes();
            let wrong = |problem| Error::Path { path: name.to_vec(), problem };
            let remote = folder.join(name).map_err(wrong)?;
            // A file tells its name itself.
            let label = if path.is_dir() { name } else { b"" };
            let label = RemotePath::new(label.to_vec()).map_err(wrong)?;
            Ok(Upload { source, remote, label, after_all: false })
        }
        _ => Ok(Upload { after_all: true, ..whole(source, folder.clone()) }),
    }
}

/// Standard input in a file of its own, whose length must be known before it is sent; removed at the end.
struct Spool {
    dir: PathBuf,
    name: OsString,
}

impl Spool {
    fn read(name: &[u8], stop: &AtomicBool) -> Result<Spool> {
        let random = HEXLOWER.encode(&fusewire_device::random::<8>()?);
        let dir = std::env::temp_dir().join(format!("fusewire-put-{random}"));
        let wrong = |path: &Path, error| {
            Failure::new(Code::Failed, format!("cannot write {}: {error}", path.display()))
        };
        // Nobody else may put anything in its place.
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|e| wrong(&dir, e))?;
        let spool = Spool { dir, name: OsStr::from_bytes(name).to_owned() };
        let path = spool.file();
        let mut file = fs::File::create_new(&path).map_err(|e| wrong(&path, e))?;
        let mut buffer = Lines::new(1 << 20);
        loop {
            match read_some(&mut buffer, stop) {
                Ok(0) => return Ok(spool),
                Ok(len) => file.write_all(&buffer[..len]).map_err(|e| wrong(&path, e))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(Failure::new(Code::Interrupted, "interrupted").into());
                }
                Err(error) => {
                    let text = format!("cannot read standard input: {error}");
                    return Err(Failure::new(Code::Failed, text).into());
                }
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

/// What standard input has, when it has something; interrupted when `stop` becomes true.
fn read_some(into: &mut [u8], stop: &AtomicBool) -> io::Result<usize> {
    let mut stdin = io::stdin().lock();
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        if fusewire_device::sleep(&mut fds, Some(LOOK))? > 0 {
            return stdin.read(into);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
