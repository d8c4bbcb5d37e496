//! A stack that can be asked what it does, while it does it.

use std::io;
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_device::capture::feed::{Blocks, Options};
use fusewire_device::capture::packets;
use fusewire_transport::machine::Protocol as _;
use fusewire_view::{Counts, Observed, Page, Segment, Socket, Source, Stack as StackView};

use super::config::SocketId;
use super::host::Inner;
use super::snapshot::{Snapshot, SocketKind, SocketView};
use super::stack::Stack;
use crate::driver::Shared;
use crate::drops::Cause;
use crate::observe::{count, nonzero, segment, transport};

/// What runs a question on a stack, whoever drives it. False: the stack is gone.
type Ask = dyn Fn(&mut dyn FnMut(&mut Stack, Instant)) -> bool + Send + Sync;

/// What a socket is named by to whoever has the stack.
type Name = dyn Fn(SocketId) -> Vec<(&'static str, String)> + Send + Sync;

/// Makes a stack visible to `fusewire ss`, `fusewire top` and `fusewire capture` as long as what is returned lives.
/// `ask` runs a question on it, which is short: the stack waits for nothing else meanwhile; false when it is gone.
/// [`Host::observe`](super::Host::observe) does it for a host.
///
/// # Errors
/// The socket cannot be made.
pub fn observe(
    ask: impl Fn(&mut dyn FnMut(&mut Stack, Instant)) -> bool + Send + Sync + 'static,
) -> io::Result<Observed> {
    observe_with(ask, Vec::new, |_| Vec::new())
}

/// As [`observe`], and what whoever has the stack counts besides, and by what it names a socket.
///
/// # Errors
/// As [`observe`].
pub fn observe_with(
    ask: impl Fn(&mut dyn FnMut(&mut Stack, Instant)) -> bool + Send + Sync + 'static,
    count: impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + 'static,
    name: impl Fn(SocketId) -> Vec<(&'static str, String)> + Send + Sync + 'static,
) -> io::Result<Observed> {
    let (ask, count, name) = (Box::new(ask), Box::new(count), Box::new(name));
    fusewire_view::observe(Arc::new(Seen { ask, count, name }))
}

/// Makes a host visible.
pub(super) fn observe_host(shared: &Arc<Shared<Inner>>) -> io::Result<Observed> {
    let shared = Arc::downgrade(shared);
    observe(move |question| {
        let Some(shared) = shared.upgrade() else { return false };
        shared.call(|inner| {
            let now = inner.now();
            question(&mut inner.stack, now);
        });
        true
    })
}

struct Seen {
    ask: Box<Ask>,
    /// What is counted around the stack.
    count: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
    /// What a socket is named by besides.
    name: Box<Name>,
}

impl Seen {
    /// Runs `f` on the stack.
    fn with<T>(&self, f: impl FnOnce(&mut Stack, Instant) -> T) -> io::Result<T> {
        let (mut f, mut answer) = (Some(f), None);
        (self.ask)(&mut |stack, now| answer = f.take().map(|f| f(stack, now)));
        answer.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the stack is gone"))
    }
}

impl Source for Seen {
    fn page(&self, from: usize, most: usize) -> io::Result<Page> {
        // Numbers under the lock, words without it.
        let (snapshot, next, head) = self.with(|stack, _| {
            let (views, next) = stack.socket_views(from, most);
            let head = (from == 0).then(|| head(stack));
            (stack.snapshot_with(views), next, head)
        })?;
        let mut view = head.unwrap_or_default();
        if from == 0 {
            counted(&mut view, &snapshot);
            (self.count)().into_iter().for_each(|(name, n)| view.count(name, n));
        }
        for seen in &snapshot.sockets {
            if let SocketKind::Stream { info, .. } = &seen.kind {
                count(&mut view, "tcp", &info.counters);
            }
            let names = (self.name)(seen.id).into_iter();
            let mut socket = socket(seen);
            socket.names.extend(names.map(|(what, name)| (what.into(), name)));
            view.sockets.push(socket);
        }
        Ok(Page { stack: view, next })
    }

    fn trace(&self, name: &str) -> io::Result<Vec<Segment>> {
        let id = name.parse().map_err(io::Error::from)?;
        let (entries, letters, now) =
            self.with(|stack, now| (stack.tcp_trace(id), stack.config().tcp.letters(), now))?;
        Ok(entries?.iter().map(|entry| segment(letters, entry, now)).collect())
    }

    fn capture(&self, options: Options) -> io::Result<Blocks> {
        let busy = || io::Error::new(io::ErrorKind::ResourceBusy, "a capture is under way");
        self.with(|stack, now| stack.capture(now, options))?.ok_or_else(busy)
    }
}

impl Stack {
    /// Begins a capture of everything that comes and leaves, each packet with a comment where there is
    /// something to say: why it was dropped, why it was sent again. It ends when its blocks are dropped.
    /// `None`: one is under way.
    pub fn capture(&mut self, now: Instant, options: Options) -> Option<Blocks> {
        let caps = self.interface.capabilities();
        let begin = || packets::of_interface(caps.name, caps.link, options, now);
        self.core.watch.begin(begin)
    }
}

/// What is known of a stack besides its counters and sockets.
fn head(stack: &Stack) -> StackView {
    let caps = stack.capabilities();
    StackView {
        kind: "ip".into(),
        device: caps.name.into(),
        addresses: stack.layer().addresses().map(|entry| entry.cidr.to_string()).collect(),
        mtu: caps.mtu as u64,
        ..StackView::default()
    }
}

fn counted(view: &mut StackView, snapshot: &Snapshot) {
    let (c, layer) = (&snapshot.counters, &snapshot.layer);
    for (name, n) in [
        ("packets_received", c.received),
        ("packets_sent", c.sent),
        ("ip_delivered", layer.delivered),
        ("ip_reassembled", layer.reassembled),
        ("ip_control_packets_sent", layer.transmitted),
        ("udp_messages_received", c.udp_messages_received),
        ("udp_messages_sent", c.udp_messages_sent),
        ("udp_messages_returned", c.udp_messages_returned),
        ("udp_messages_unresolved", c.udp_messages_unresolved),
        ("xtp_packets_received", c.xtp_packets_received),
        ("xtp_packets_sent", c.xtp_packets_sent),
        ("tcp_syn_cookies", c.cookies),
    ] {
        view.count(name, n);
    }
    view.dropped(snapshot.dropped());
    count(view, "tcp", &snapshot.past);
}

/// Something that was dropped for one cause, if it was.
fn one(cause: Cause, n: u64) -> Counts {
    (n > 0).then(|| (cause.name().into(), n)).into_iter().collect()
}

fn socket(view: &SocketView) -> Socket {
    let mut socket = Socket {
        id: view.id.to_string(),
        protocol: "tcp".into(),
        state: String::new(),
        recv_queue: 0,
        send_queue: 0,
        local: view.local,
        remote: view.remote,
        drops: Default::default(),
        names: Default::default(),
        transport: None,
    };
    match &view.kind {
        SocketKind::Udp { protocol, waiting, overflow } => {
            socket.drops = one(Cause::UdpOverflow, *overflow);
            socket.protocol = protocol.name().into();
            socket.state = if view.remote.is_some() { "ESTAB" } else { "UNCONN" }.into();
            socket.recv_queue = *waiting as u64;
        }
        SocketKind::Listener { waiting, half_open, drops } => {
            socket.drops = one(Cause::Listener, *drops);
            socket.state = "LISTEN".into();
            (socket.recv_queue, socket.send_queue) = (*waiting as u64, *half_open as u64);
        }
        SocketKind::Stream { state: of, unread, closed: _, info } => {
            socket.drops = nonzero("tcp", &info.counters.drops);
            socket.state = of.name().into();
            (socket.recv_queue, socket.send_queue) = (*unread as u64, info.unacked);
            socket.transport = Some(Box::new(transport(info)));
        }
    }
    socket
}
