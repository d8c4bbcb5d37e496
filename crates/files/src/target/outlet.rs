//! What takes a file's bytes in their order and keeps no file: standard output, a pipe, a device.
//!
//! Blocks that hold are handed to a thread, which waits for whoever reads as long as that takes; the
//! connection is driven meanwhile. What was written cannot be taken back, so nothing is before it is verified,
//! and nothing is taken up again later.

use crate::Error;
use crate::error::Violation;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes that wait for a slow reader before no more are received.
const QUEUED_BYTES_MAX: u64 = 16 << 20;
/// Blocks that may have come before one that stands in front of them: more than any receive window holds.
const AHEAD_MAX: usize = 64;

type Open = Box<dyn FnOnce() -> io::Result<Box<dyn Write>> + Send>;

/// Takes a file's bytes in their order.
pub struct Outlet {
    /// For messages.
    shown: Vec<u8>,
    shared: Arc<Shared>,
    order: Mutex<Order>,
}

/// What the thread that writes tells.
#[derive(Default)]
struct Shared {
    queued: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

struct Order {
    /// Before the first block.
    open: Option<Open>,
    /// To the thread, as long as there may be more.
    pieces: Option<Sender<Piece>>,
    thread: Option<JoinHandle<()>>,
    /// The block that is due.
    next: u64,
    /// Those after it, by the number of their first, and the number of the one after them.
    ahead: BTreeMap<u64, (u64, Piece)>,
}

enum Piece {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Outlet {
    /// What `open` opens, when the first byte is there; `shown` is its name in messages. Opening and writing
    /// may block: they have a thread of their own.
    pub fn new(
        shown: &str,
        open: impl FnOnce() -> io::Result<Box<dyn Write>> + Send + 'static,
    ) -> Outlet {
        let order = Order {
            open: Some(Box::new(open)),
            pieces: None,
            thread: None,
            next: 0,
            ahead: BTreeMap::new(),
        };
        let shown = shown.as_bytes().to_vec();
        Outlet { shown, shared: Arc::default(), order: Mutex::new(order) }
    }

    /// What is at `path`, and is no regular file.
    pub(crate) fn to_path(path: &Path) -> Outlet {
        let (owned, shown) = (path.to_path_buf(), path.as_os_str().as_bytes().to_vec());
        let open = move || -> io::Result<Box<dyn Write>> {
            Ok(Box::new(std::fs::OpenOptions::new().write(true).open(&owned)?))
        };
        Outlet { shown, ..Outlet::new("", open) }
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More may be received.
    pub(crate) fn has_room(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
            || self.shared.queued.load(Ordering::Acquire) < QUEUED_BYTES_MAX
    }

    /// The block `index`, verified.
    pub(crate) fn block(&self, index: u64, bytes: Vec<u8>) -> Result<(), Error> {
        self.put(index..index + 1, Piece::Bytes(bytes))
    }

    /// Blocks that are `len` zeros.
    pub(crate) fn zeros(&self, blocks: Range<u64>, len: u64) -> Result<(), Error> {
        self.put(blocks, Piece::Zeros(len))
    }

    fn put(&self, blocks: Range<u64>, piece: Piece) -> Result<(), Error> {
        let mut order = self.order();
        if self.shared.failed.load(Ordering::Acquire) {
            return Err(self.error());
        }
        if order.ahead.len() >= AHEAD_MAX {
            return Err(Violation::DataScattered.into());
        }
        order.ahead.insert(blocks.start, (blocks.end, piece));
        order.start(&self.shared);
        loop {
            let due = order.next;
            let Some((next, piece)) = order.ahead.remove(&due) else { return Ok(()) };
            order.next = next;
            if let Piece::Bytes(bytes) = &piece {
                self.shared.queued.fetch_add(bytes.len() as u64, Ordering::AcqRel);
            }
            // A thread that has ended has said why.
            if let Some(pieces) = &order.pieces {
                let _ = pieces.send(piece);
            }
        }
    }

    /// All blocks were put: true when all of them are written.
    pub(crate) fn finish(&self) -> Result<bool, Error> {
        let mut order = self.order();
        order.start(&self.shared);
        order.pieces = None;
        if order.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(false);
        }
        if self.shared.failed.load(Ordering::Acquire) { Err(self.error()) } else { Ok(true) }
    }

    fn error(&self) -> Error {
        let error = self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        let source = error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        Error::os("write to", &self.shown, source)
    }
}

impl Order {
    fn start(&mut self, shared: &Arc<Shared>) {
        let Some(open) = self.open.take() else { return };
        let (sender, pieces) = channel();
        let own = Arc::clone(shared);
        let run = move || own.keep(write(open, &pieces, &own.queued));
        match std::thread::Builder::new().name("outlet".into()).spawn(run) {
            Ok(thread) => (self.thread, self.pieces) = (Some(thread), Some(sender)),
            Err(error) => shared.keep(Err(error)),
        }
    }
}

impl Shared {
    fn keep(&self, result: io::Result<()>) {
        if let Err(error) = result {
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            self.failed.store(true, Ordering::Release);
        }
    }
}

/// The thread.
fn write(open: Open, pieces: &Receiver<Piece>, queued: &AtomicU64) -> io::Result<()> {
    let mut out = open()?;
    let zeros = vec![0; 64 << 10];
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => {
                out.write_all(&bytes)?;
                queued.fetch_sub(bytes.len() as u64, Ordering::AcqRel);
            }
            Piece::Zeros(len) => {
                let mut left = len;
                while left > 0 {
                    let n = left.min(zeros.len() as u64);
                    out.write_all(&zeros[..n as usize])?;
                    left -= n;
                }
            }
        }
    }
    out.flush()
}
