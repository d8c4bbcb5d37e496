//! A stack with one connection and nothing else to do, driven by who calls: a [`Link`] without threads and locks.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use fusewire_device::Waker;
use fusewire_session::{ClientConfig, Marshal, Unmarshal};

use crate::application::{Application, Keep, Noting};
use crate::connection::Event;
use crate::endpoint::PORT;
use crate::link::{Link, Session};
use crate::stack::Stack;
use crate::{ConnectionId, Error, Fingerprint, Result};

/// The one connection of a stack. Dropped before our side has ended ([`Link::try_finish`], [`Link::close`]) it is reset.
pub struct Single {
    pub(crate) stack: Stack,
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    has_ended: bool,
    peer_has_ended: bool,
    /// The connection is over: why, if not in order.
    over: Option<Option<Error>>,
}

/// A [`Single`] whose handshake is under way.
pub struct Opening {
    stack: Stack,
    id: ConnectionId,
    remote: SocketAddr,
    /// And whether the configuration has judged the peer's key.
    session: Option<(Session, bool)>,
}

impl Opening {
    /// Begins to connect to a server of ours over a stack that has nothing else to do.
    ///
    /// # Errors
    /// As [`Stack::connect`].
    pub fn new(mut stack: Stack, remote: SocketAddr, config: &ClientConfig) -> Result<Opening> {
        let id = stack.connect(remote, PORT, config)?;
        Ok(Opening { stack, id, remote, session: None })
    }

    /// Has an ADU go with the handshake, and so be there a round trip sooner. False, and it is not sent: the configuration
    /// pins no key, or there is no room left ([`EARLY_LEN_MAX`](fusewire_session::EARLY_LEN_MAX)).
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn send(&mut self, adu: &[u8]) -> Result<bool> {
        self.stack.send(self.id, adu)
    }

    /// Goes on, and sleeps for `timeout` at most; true when the handshake is through.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`], [`Error::Session`], …
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let worked = self.stack.poll(&mut Keep)?;
        match self.stack.poll_event() {
            Some((_, Event::Connected { peer, trusted, options })) => {
                let session = Session { peer, options, remote: Some(self.remote) };
                self.session = Some((session, trusted));
            }
            Some((_, Event::Closed(error))) => return Err(error.unwrap_or(Error::Closed)),
            Some(_) => {}
            None if worked || self.session.is_some() => {}
            None => self.stack.wait(timeout)?,
        }
        Ok(self.session.is_some())
    }

    /// Ends the sleep of [`Opening::poll`].
    pub fn waker(&self) -> Waker {
        self.stack.waker()
    }

    /// Gives it up.
    pub fn abort(mut self) {
        self.stack.abort(self.id);
    }

    /// The connection, as soon as the handshake is through and its peer judged: by `judge`, where the configuration
    /// has not.
    ///
    /// # Errors
    /// As [`Opening::poll`], and what `judge` returns.
    pub fn connect(mut self, judge: impl FnOnce(Fingerprint) -> Result<()>) -> Result<Single> {
        let (session, trusted) = loop {
            if let Some(session) = self.session {
                break session;
            }
            self.poll(None)?;
        };
        if !trusted {
            judge(session.peer).inspect_err(|_| self.stack.abort(self.id))?;
            self.stack.trust(self.id);
        }
        let Opening { stack, id, .. } = self;
        Ok(Single { stack, id, session, has_ended: false, peer_has_ended: false, over: None })
    }
}

impl Single {
    /// The stack, for its device and figures.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    fn take_events(&mut self) {
        while let Some((_, event)) = self.stack.poll_event() {
            match event {
                Event::Finished => self.peer_has_ended = true,
                Event::Closed(error) => self.over = Some(error),
                _ => {}
            }
        }
    }

    /// `None` where there is nothing now.
    fn end<T>(&self) -> Poll<Result<Option<T>>> {
        if self.peer_has_ended { Poll::Ready(Ok(None)) } else { Poll::Pending }
    }
}

fn ready(sent: Result<bool>) -> Poll<Result<()>> {
    if sent? { Poll::Ready(Ok(())) } else { Poll::Pending }
}

impl Link for Single {
    fn carrier(&self) -> &'static str {
        self.stack.device().caps().name
    }

    fn notes(&self) -> Vec<String> {
        self.stack.device().caps().notes.clone()
    }

    fn session(&self) -> Session {
        let remote = self.stack.remote_addr(self.id).or(self.session.remote);
        Session { remote, ..self.session }
    }

    fn adu_len(&self) -> usize {
        self.stack.adu_len(self.id).map_or(0, |(fitting, _)| fitting)
    }

    fn adu_len_max(&self) -> usize {
        self.stack.adu_len(self.id).map_or(0, |(_, longest)| longest)
    }

    fn room_for(&mut self, len: usize) -> usize {
        self.stack.room_for(self.id, len)
    }

    fn try_send(&mut self, adu: &[u8]) -> Poll<Result<()>> {
        ready(self.stack.send(self.id, adu))
    }

    fn try_send_message(&mut self, adu: &dyn Marshal) -> Poll<Result<()>> {
        ready(self.stack.send_message(self.id, adu))
    }

    /// What does not leave now leaves within [`Link::wait`].
    fn try_flush(&mut self) -> Poll<Result<()>> {
        self.stack.flush();
        self.take_events();
        Poll::Ready(Ok(()))
    }

    fn try_recv_with(&mut self, app: &mut dyn Application) -> Poll<Result<bool>> {
        let mut noting = Noting { id: self.id, app, any: false };
        while noting.app.wants_more()
            && let Some((index, mut buffer)) = self.stack.recv(self.id)
        {
            noting.hand_over(index, &mut buffer);
            self.stack.recycle(self.id, buffer);
        }
        if !noting.any {
            self.stack.poll(&mut noting)?;
        }
        if noting.any { Poll::Ready(Ok(true)) } else { self.end::<()>().map_ok(|_| false) }
    }

    /// In any order; no further frame is looked at.
    fn try_recv(&mut self, memory: &mut [u8]) -> Poll<Result<Option<usize>>> {
        match self.stack.recv_into(self.id, memory)? {
            Some(len) => Poll::Ready(Ok(Some(len))),
            None => self.end(),
        }
    }

    /// No further frame is looked at.
    fn try_recv_any_message(&mut self, into: &mut dyn Unmarshal) -> Poll<Result<Option<usize>>> {
        match self.stack.recv_any_message(self.id, into)? {
            Some(len) => Poll::Ready(Ok(Some(len))),
            None => self.end(),
        }
    }

    fn try_recv_adu(&mut self) -> Poll<Result<Option<Vec<u8>>>> {
        let mut next = self.stack.recv(self.id);
        if next.is_none() && self.stack.poll(&mut Keep)? {
            next = self.stack.recv(self.id);
        }
        next.map_or_else(|| self.end(), |(_, adu)| Poll::Ready(Ok(Some(adu))))
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.stack.recycle(self.id, buffer);
    }

    fn try_finish(&mut self) -> Poll<Result<()>> {
        self.has_ended = true;
        self.stack.finish(self.id);
        self.try_flush()
    }

    fn close(&mut self, code: u64) {
        self.has_ended = true;
        self.stack.close(self.id, code);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let was_over = self.over.is_some();
        let worked = self.stack.poll(&mut Keep)?;
        self.take_events();
        match &mut self.over {
            // What had come before is gone with it.
            Some(why @ Some(_)) => Err(why.take().unwrap_or(Error::Closed)),
            Some(None) if was_over && !worked => Err(Error::Closed),
            None if !worked => self.stack.wait(timeout),
            _ => Ok(()),
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stack.abort(self.id);
        }
    }
}
