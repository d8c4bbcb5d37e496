//! Answers for the stacks of this process, in a thread of its own.
//!
//! One socket for the process, as long as there is a stack to be asked. A client sends one request and gets
//! one answer; each has a thread as long as it is there, and there are few of them at a time.

use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fusewire_device::Waker;
use fusewire_device::capture::feed::{Blocks, Next, Options};
use rustix::event::{PollFd, PollFlags};
use rustix::net::SendFlags;

use crate::report::{Counts, Report, Segment, Stack};
use crate::request::{self, Request};
use crate::{http, place, prometheus};

/// Clients at once; what is more is told so.
const CLIENTS_MAX: usize = 8;
/// How long a client may take to ask, or to take the next piece of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sockets that a stack is asked for at a time.
const PAGE: usize = 64;
/// Sockets of a stack in one report.
const SOCKETS_MAX: usize = 1 << 16;
/// How often a capture looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Some of a stack's sockets, and the rest of the stack with the first of them.
#[derive(Debug, Default)]
pub struct Page {
    /// Only the first page says what the stack is; counters of all pages are added up.
    pub stack: Stack,
    /// Where the next page begins, if there is more.
    pub next: Option<usize>,
}

/// A stack that can be asked. Every call comes from a thread of the view's and may wait a moment for the
/// stack; the stack waits for none of them.
pub trait Source: Send + Sync {
    /// The stack with at most `most` of its sockets, from place `from` on.
    ///
    /// # Errors
    /// It does not answer in time, or is gone.
    fn page(&self, from: usize, most: usize) -> io::Result<Page>;

    /// What a connection did last, oldest first.
    ///
    /// # Errors
    /// There is no such connection; as [`Source::page`].
    fn trace(&self, socket: &str) -> io::Result<Vec<Segment>>;

    /// Begins a capture; it ends when its [`Blocks`] are dropped.
    ///
    /// # Errors
    /// One is under way; as [`Source::page`].
    fn capture(&self, options: Options) -> io::Result<Blocks>;
}

/// A stack that is visible.
struct Entry {
    id: u32,
    source: Arc<dyn Source>,
    /// What was last told. A socket that went away between two pages is in neither; no counter goes down for it.
    reported: Mutex<Reported>,
}

#[derive(Default)]
struct Reported {
    counters: Counts,
    drops: Counts,
}

type Sources = Arc<Mutex<Vec<Arc<Entry>>>>;

/// The process's server.
struct Server {
    sources: Sources,
    next: u32,
    path: PathBuf,
    waker: Waker,
    thread: JoinHandle<()>,
}

static SERVER: Mutex<Option<Server>> = Mutex::new(None);

fn server() -> MutexGuard<'static, Option<Server>> {
    lock(&SERVER)
}

/// A stack is visible as long as this lives.
#[derive(Debug)]
pub struct Observed {
    id: u32,
}

/// Makes a stack visible to who may open the process's socket: its user, and root.
///
/// # Errors
/// The socket cannot be made ([`place`] says where it lies and why).
pub fn observe(source: Arc<dyn Source>) -> io::Result<Observed> {
    let mut server = server();
    let running = match &mut *server {
        Some(running) => running,
        none => none.insert(Server::start(&place::folder()?)?),
    };
    let id = running.next;
    running.next += 1;
    lock(&running.sources).push(Arc::new(Entry { id, source, reported: Mutex::default() }));
    Ok(Observed { id })
}

impl Drop for Observed {
    fn drop(&mut self) {
        let mut server = server();
        let Some(running) = &mut *server else { return };
        let is_last = {
            let mut sources = lock(&running.sources);
            sources.retain(|entry| entry.id != self.id);
            sources.is_empty()
        };
        if is_last && let Some(last) = server.take() {
            last.stop();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn start(folder: &Path) -> io::Result<Server> {
        let (listener, path) = place::bind(folder)?;
        listener.set_nonblocking(true)?;
        let (sources, waker) = (Sources::default(), Waker::new()?);
        let (shared, wake) = (sources.clone(), waker.clone());
        let run = move || accept(&listener, &shared, &wake);
        let thread = fusewire_device::thread::spawn("fusewire-view", run)?;
        Ok(Server { sources, next: 0, path, waker, thread })
    }

    fn stop(self) {
        // A child that was forked has a copy of this, and the socket is not its own.
        let own = place::pid(self.path.file_name().unwrap_or_default());
        if own == Some(std::process::id()) {
            let _ = std::fs::remove_file(&self.path);
            self.waker.wake();
            let _ = self.thread.join();
        }
    }
}

/// The thread: takes clients until it is woken.
fn accept(listener: &UnixListener, sources: &Sources, waker: &Waker) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        ];
        let ready = fusewire_device::sleep(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return;
        }
        if ready.is_err() {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => begin(stream, sources, &clients),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptors for now: whoever asks can wait.
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Counts a client until it is gone.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn begin(stream: UnixStream, sources: &Sources, clients: &Arc<AtomicUsize>) {
    let timeouts = stream.set_nonblocking(false).and_then(|()| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))
    });
    if timeouts.is_err() {
        return;
    }
    let more = |n| (n < CLIENTS_MAX).then_some(n + 1);
    if clients.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
        let _ = Out(&stream).write_all(error("too many clients at once").as_bytes());
        return;
    }
    let (place, sources) = (Place(clients.clone()), sources.clone());
    let serve = move || {
        let _place = place;
        if let Err(error) = serve(&stream, &sources) {
            tracing::debug!(%error, "a client of the live view");
        }
    };
    // Without a thread the client sees the end of the connection.
    let _ = fusewire_device::thread::spawn("fusewire-view", serve);
}

/// Writes without raising SIGPIPE, which a C program may not expect.
struct Out<'a>(&'a UnixStream);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn error(what: &str) -> String {
    format!("{}\n", serde_json::json!({ "error": what }))
}

fn json(value: io::Result<impl serde::Serialize>) -> Vec<u8> {
    let line = value.and_then(|value| Ok(serde_json::to_string(&value)?));
    line.map_or_else(|why| error(&why.to_string()), |line| line + "\n").into_bytes()
}

/// One client from its request to the end of its answer.
fn serve(stream: &UnixStream, sources: &Sources) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let line = request::read(&mut reader)?;
    let mut out = Out(stream);
    let request = match Request::parse(&line) {
        Ok(request) => request,
        Err(expected) => return out.write_all(error(expected).as_bytes()),
    };
    match request {
        Request::Snapshot => out.write_all(&json(Ok(report(sources)))),
        Request::Metrics => out.write_all(metrics(sources).as_bytes()),
        Request::Trace { stack, socket } => {
            let trace = find(sources, stack).and_then(|source| source.trace(socket));
            out.write_all(&json(trace))
        }
        Request::Capture { stack, snap_len } => {
            let options = snap_len.map_or_else(Options::default, |snap_len| Options { snap_len });
            match find(sources, stack).and_then(|source| source.capture(options)) {
                Ok(blocks) => stream_blocks(stream, &mut out, blocks),
                Err(why) => out.write_all(error(&why.to_string()).as_bytes()),
            }
        }
        Request::Http => http::answer(&line, &mut reader, &mut out, |path| page(sources, path)),
    }
}

fn find(sources: &Sources, id: u32) -> io::Result<Arc<dyn Source>> {
    let found = lock(sources).iter().find(|entry| entry.id == id).map(|e| e.source.clone());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no stack {id} here")))
}

fn page(sources: &Sources, path: &str) -> http::Answer {
    match path {
        "/metrics" => http::Answer {
            status: "200 OK",
            media: prometheus::MEDIA,
            body: metrics(sources).into_bytes(),
        },
        "/snapshot" => http::Answer {
            status: "200 OK",
            media: "application/json",
            body: json(Ok(report(sources))),
        },
        _ => http::Answer::text("404 Not Found", "there are /metrics and /snapshot\n"),
    }
}

fn metrics(sources: &Sources) -> String {
    prometheus::text(&[report(sources)])
}

/// Everything that this process has to tell.
fn report(sources: &Sources) -> Report {
    let stacks: Vec<_> = lock(sources).clone();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Report {
        pid: std::process::id(),
        program: comm.trim_end().to_string(),
        time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        stacks: stacks.iter().map(|entry| whole(entry)).collect(),
    }
}

/// A stack, page by page.
fn whole(entry: &Entry) -> Stack {
    let Entry { id, source, reported } = entry;
    let id = *id;
    let mut stack = Stack { id, ..Stack::default() };
    let mut from = 0;
    loop {
        let page = match source.page(from, PAGE) {
            Ok(page) => page,
            Err(error) => {
                tracing::debug!(%error, id, "a stack does not answer");
                stack.answered = false;
                return stack;
            }
        };
        if from == 0 {
            stack = Stack { id, answered: true, ..page.stack };
        } else {
            let Stack { sockets, counters, drops, .. } = page.stack;
            stack.sockets.extend(sockets);
            counters.iter().for_each(|(name, n)| stack.count(name, *n));
            stack.dropped(drops.iter().map(|(cause, n)| (&**cause, *n)));
        }
        if stack.sockets.len() > SOCKETS_MAX {
            stack.sockets_more += (stack.sockets.len() - SOCKETS_MAX) as u64;
            stack.sockets.truncate(SOCKETS_MAX);
        }
        match page.next {
            // A source that does not advance is asked no more.
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    let mut reported = lock(reported);
    never_down(&mut stack.counters, &mut reported.counters);
    never_down(&mut stack.drops, &mut reported.drops);
    stack
}

fn never_down(now: &mut Counts, reported: &mut Counts) {
    for (name, before) in reported.iter() {
        let n = now.entry(name.clone()).or_default();
        *n = (*n).max(*before);
    }
    reported.clone_from(now);
}

/// Passes a capture on until the client says that it is enough: anything that it sends, or the end of its
/// side.
fn stream_blocks(stream: &UnixStream, out: &mut Out<'_>, mut blocks: Blocks) -> io::Result<()> {
    loop {
        match blocks.next(LOOK) {
            Next::Blocks(chunk) => {
                out.write_all(&chunk)?;
                blocks.recycle(chunk);
            }
            Next::Nothing => {}
            Next::Ended => break,
        }
        let mut client = [PollFd::new(stream, PollFlags::IN)];
        if fusewire_device::sleep(&mut client, Some(Duration::ZERO))? > 0 {
            break;
        }
    }
    while let Some(chunk) = blocks.try_next() {
        out.write_all(&chunk)?;
    }
    out.write_all(&blocks.statistics())
}
