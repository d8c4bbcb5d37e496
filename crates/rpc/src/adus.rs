//! Messages over Fusewire's own transport, encrypted: one ADU carries one message, so no record marking
//! stands around it. Both sides must do so; a peer of another make speaks TCP or UDP.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use fusewire_stack::{Connection, Error, kernel_tcp};

use crate::transport::{Arrival, Transport, is_timeout};

/// Messages as ADUs of a connection: [`Connection`] or [`kernel_tcp::Connection`].
pub struct Adus<C>(pub C);

impl Transport for Adus<Connection> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(message).map_err(io_error)
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let received = match patience.and_then(|patience| Instant::now().checked_add(patience)) {
            None => self.0.recv_adu(),
            // What is given up here is still there for the next call: the connection keeps it.
            Some(deadline) => match wait(self.0.recv_async(), deadline) {
                Some(received) => received,
                None => return Ok(Arrival::Nothing),
            },
        };
        let Some(adu) = received.map_err(io_error)? else { return Ok(Arrival::End) };
        self.0.recycle(std::mem::replace(message, adu));
        Ok(Arrival::Message)
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        self.0.adu_len_max()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.0.remote_addr()
    }
}

impl Transport for Adus<kernel_tcp::Connection> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(message).and_then(|()| self.0.flush()).map_err(io_error)
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        self.0.stream().set_read_timeout(patience.map(|p| p.max(Duration::from_millis(1))))?;
        match self.0.recv_adu().map_err(io_error) {
            Ok(Some(adu)) => {
                *message = adu;
                Ok(Arrival::Message)
            }
            Ok(None) => Ok(Arrival::End),
            Err(error) if is_timeout(&error) => Ok(Arrival::Nothing),
            Err(error) => Err(error),
        }
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        self.0.adu_len()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.0.stream().peer_addr().ok()
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Os { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a future gives before the deadline.
fn wait<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}
