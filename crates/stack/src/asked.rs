//! What belongs to whoever drives it can be asked what it does: questions wait in a queue, and each time that it is driven
//! it answers one of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker;
use fusewire_device::capture::feed::{Blocks, Options};
use fusewire_view::{Observed, Page, Segment, Source};

use crate::observe::{Head, Numbers, page, segment};
use crate::trace::Entry;

/// How long whoever asks waits for it to be driven.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions that wait.
const QUESTIONS: usize = 8;

/// What it did last, with the letters of its protocol's flags, and the time now.
pub(crate) struct Last {
    pub entries: Vec<Entry>,
    pub letters: &'static str,
    pub now: Instant,
}

/// Who can be asked.
pub(crate) trait Visible: Sized + 'static {
    /// All but its sockets.
    fn head(&self) -> Head;

    /// At most `most` of its sockets from a place on, and where the next begin.
    fn sockets(&self, from: usize, most: usize) -> (Vec<Numbers>, Option<usize>);

    /// What a socket of this name did last; `None` if there is none, or nothing is kept.
    fn last(&self, name: &str) -> Option<Last>;

    /// Begins a capture; `None` when one is under way.
    fn begin_capture(&mut self, options: Options) -> Option<Blocks>;
}

type Question<S> = Box<dyn FnOnce(&mut S) + Send>;

/// The end of who is asked.
pub(crate) struct Asked<S> {
    questions: Receiver<Question<S>>,
    _observed: Observed,
}

impl<S: Visible> Asked<S> {
    /// From now on other processes of this user may look.
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn new(waker: Waker) -> io::Result<Asked<S>> {
        let (sender, questions) = sync_channel(QUESTIONS);
        let seen = Seen { questions: sender, waker };
        let _observed = fusewire_view::observe(Arc::new(seen))?;
        Ok(Asked { questions, _observed })
    }
}

impl<S> Asked<S> {
    /// The next question.
    #[inline]
    pub fn next(&self) -> Option<Question<S>> {
        self.questions.try_recv().ok()
    }
}

/// The end of those who ask.
struct Seen<S> {
    questions: SyncSender<Question<S>>,
    waker: Waker,
}

impl<S: Visible> Seen<S> {
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (sender, answer) = sync_channel(1);
        let question = move |asked: &mut S| {
            // Whoever asked may have lost patience.
            let _ = sender.try_send(question(asked));
        };
        let busy = |_| io::Error::new(io::ErrorKind::TimedOut, "the stack does not answer");
        self.questions.try_send(Box::new(question)).map_err(|_| busy(()))?;
        self.waker.wake();
        answer.recv_timeout(PATIENCE).map_err(|_| busy(()))
    }
}

impl<S: Visible> Source for Seen<S> {
    fn page(&self, from: usize, most: usize) -> io::Result<Page> {
        let (head, (sockets, next)) =
            self.ask(move |asked| ((from == 0).then(|| asked.head()), asked.sockets(from, most)))?;
        Ok(page(head.as_ref(), &sockets, next))
    }

    fn trace(&self, name: &str) -> io::Result<Vec<Segment>> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such connection");
        let name = name.to_string();
        let last = self.ask(move |asked| asked.last(&name))?.ok_or_else(unknown)?;
        Ok(last.entries.iter().map(|entry| segment(last.letters, entry, last.now)).collect())
    }

    fn capture(&self, options: Options) -> io::Result<Blocks> {
        let busy = || io::Error::new(io::ErrorKind::ResourceBusy, "a capture is under way");
        self.ask(move |asked| asked.begin_capture(options))?.ok_or_else(busy)
    }
}
