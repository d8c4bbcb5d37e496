//! A server's connections that are not over its stack, for who looks on.

use super::server::{Control, Other};
use fusewire_view::{Observed, Page, Segment, Socket, Source, Stack};
use std::io;
use std::sync::Arc;

/// Makes the connections over kernel TCP and shared memory visible, as long as the answer lives.
///
/// # Errors
/// The Unix socket cannot be made.
pub fn observe(control: &Arc<Control>) -> io::Result<Observed> {
    fusewire_view::observe(Arc::new(Seen(Arc::clone(control))))
}

struct Seen(Arc<Control>);

fn none(what: &str) -> io::Error {
    let what = format!("{what}: over kernel TCP and shared memory there are no segments of ours");
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl Source for Seen {
    fn page(&self, _from: usize, _most: usize) -> io::Result<Page> {
        let stack = Stack { kind: "lines".into(), device: "other".into(), ..Stack::default() };
        let others = self.0.list();
        let sockets = others.iter().enumerate().map(|(at, other)| {
            let Other { protocol, local, peer } = *other;
            Socket {
                id: at.to_string(),
                protocol: protocol.into(),
                state: "ESTAB".into(),
                recv_queue: 0,
                send_queue: 0,
                local,
                remote: Some(peer),
                drops: Default::default(),
                names: Default::default(),
                transport: None,
            }
        });
        Ok(Page { stack: Stack { sockets: sockets.collect(), ..stack }, next: None })
    }

    fn trace(&self, _socket: &str) -> io::Result<Vec<Segment>> {
        Err(none("no trace"))
    }

    fn capture(&self, _: fusewire_view::CaptureOptions) -> io::Result<fusewire_view::Blocks> {
        Err(none("no capture"))
    }
}
