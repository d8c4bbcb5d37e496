//! A stack that can be asked what it does. It belongs to whoever drives it: questions wait in a queue, and it
//! answers one of them each time that it is driven.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fusewire_device::capture::feed::{Blocks, Options};
use fusewire_view::{Observed, Page, Segment, Socket, Source, Stack as StackView};

use super::*;
use crate::generations;
use crate::observe::{count, nonzero, segment, transport};

/// How long whoever asks waits for the stack to be driven.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions that wait.
const QUESTIONS: usize = 8;

type Question = Box<dyn FnOnce(&mut Stack) + Send>;

/// The stack's end of it.
pub(super) struct Asked {
    questions: Receiver<Question>,
    _observed: Observed,
}

/// The end of those who ask.
struct Seen {
    questions: SyncSender<Question>,
    waker: Waker,
}

/// A connection in numbers; the words are made where nobody waits.
struct Numbers {
    protocol: &'static str,
    id: ConnectionId,
    ends: Ends,
    state: &'static str,
    names: Vec<(&'static str, String)>,
    info: Info,
}

/// The stack in numbers.
struct Head {
    protocol: &'static str,
    device: &'static str,
    address: SocketAddr,
    mtu: usize,
    dropped: Vec<(&'static str, u64)>,
    cookies: u64,
    past: Counters,
    listener: Option<(u16, usize)>,
}

impl Stack {
    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire capture`.
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn observe(&mut self) -> io::Result<()> {
        if self.asked.is_none() {
            let (sender, questions) = sync_channel(QUESTIONS);
            let seen = Seen { questions: sender, waker: self.device.waker() };
            let _observed = fusewire_view::observe(Arc::new(seen))?;
            self.asked = Some(Asked { questions, _observed });
        }
        Ok(())
    }

    /// Answers a question, if there is one.
    #[inline]
    pub(super) fn answer(&mut self) {
        if let Some(asked) = &self.asked
            && let Ok(question) = asked.questions.try_recv()
        {
            question(self);
        }
    }

    /// Some connections from a place on, and where the next begin.
    fn numbers(&self, from: usize, most: usize) -> (Vec<Numbers>, Option<usize>) {
        let mut numbers = Vec::with_capacity(most);
        for (index, connection) in self.connections.iter().enumerate().skip(from) {
            let Some(connection) = connection else { continue };
            if numbers.len() == most {
                return (numbers, Some(index));
            }
            let (machine, ends) = (&connection.machine, connection.ends);
            let id = self.id(index as u32);
            let protocol = settings(&self.config).name();
            let (state, names, info) = (machine.state_name(), machine.names(), machine.info());
            numbers.push(Numbers { protocol, id, ends, state, names, info });
        }
        (numbers, None)
    }

    fn head(&self) -> Head {
        let caps = self.device.caps();
        Head {
            protocol: settings(&self.config).name(),
            device: caps.name,
            address: self.device.local_addr(),
            mtu: caps.max_datagram,
            dropped: self.dropped(),
            cookies: self.cookies(),
            past: self.past,
            listener: self.listening.as_ref().map(|l| (l.port, l.listener.half_open())),
        }
    }
}

impl Seen {
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Stack) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (sender, answer) = sync_channel(1);
        let question = move |stack: &mut Stack| {
            // Whoever asked may have lost patience.
            let _ = sender.try_send(question(stack));
        };
        let busy = |_| io::Error::new(io::ErrorKind::TimedOut, "the stack does not answer");
        self.questions.try_send(Box::new(question)).map_err(|_| busy(()))?;
        self.waker.wake();
        answer.recv_timeout(PATIENCE).map_err(|_| busy(()))
    }
}

impl Source for Seen {
    fn page(&self, from: usize, most: usize) -> io::Result<Page> {
        let (head, (numbers, next)) = self.ask(move |stack| {
            let head = (from == 0).then(|| stack.head());
            (head, stack.numbers(from, most))
        })?;
        let mut view = head.map_or_else(StackView::default, |head| words(&head));
        for numbers in &numbers {
            count(&mut view, numbers.protocol, &numbers.info.counters);
            view.sockets.push(socket(numbers));
        }
        Ok(Page { stack: view, next })
    }

    fn trace(&self, name: &str) -> io::Result<Vec<Segment>> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such connection");
        let (index, generation) = generations::parse(name).ok_or_else(unknown)?;
        let id = ConnectionId { index, generation };
        let (entries, letters, now) = self.ask(move |stack| {
            (stack.trace(id), settings(&stack.config).letters(), stack.clock.now())
        })?;
        Ok(entries.ok_or_else(unknown)?.iter().map(|entry| segment(letters, entry, now)).collect())
    }

    fn capture(&self, options: Options) -> io::Result<Blocks> {
        let busy = || io::Error::new(io::ErrorKind::ResourceBusy, "a capture is under way");
        self.ask(move |stack| stack.capture(options))?.ok_or_else(busy)
    }
}

fn words(head: &Head) -> StackView {
    let mut view = StackView {
        kind: "udp".into(),
        device: head.device.into(),
        addresses: vec![head.address.to_string()],
        mtu: head.mtu as u64,
        ..StackView::default()
    };
    let cookies = if head.protocol == "tcp" { "tcp_syn_cookies" } else { "cookies_given" };
    view.count(cookies, head.cookies);
    for (name, n) in nonzero(head.protocol, head.dropped.iter().copied()) {
        view.dropped([(&*name, n)]);
    }
    count(&mut view, head.protocol, &head.past);
    if let Some((port, half_open)) = head.listener {
        view.sockets.push(Socket {
            id: "listener".into(),
            protocol: head.protocol.into(),
            state: "LISTEN".into(),
            recv_queue: 0,
            send_queue: half_open as u64,
            local: SocketAddr::new(head.address.ip(), port),
            remote: None,
            drops: Default::default(),
            names: Default::default(),
            transport: None,
        });
    }
    view
}

/// A connection; its addresses are those of the datagrams that carry it.
fn socket(numbers: &Numbers) -> Socket {
    let Numbers { protocol, id, ends, state, names, info } = numbers;
    Socket {
        id: format!("{}.{}", id.index, id.generation),
        protocol: (*protocol).into(),
        state: (*state).into(),
        recv_queue: 0,
        send_queue: info.unacked,
        local: ends.local,
        remote: Some(ends.remote),
        drops: nonzero(protocol, info.counters.drops.named()),
        names: names.iter().map(|(what, name)| ((*what).into(), name.clone())).collect(),
        transport: Some(Box::new(transport(info))),
    }
}
