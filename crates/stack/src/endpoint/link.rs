//! A connection as a [`Link`]: its own methods, of which it has more.

use std::task::Poll;
use std::time::Duration;

use fusewire_session::{Marshal, Unmarshal};

use super::connection::{Connection, or_elapsed};
use super::state::{Interest, State};
use crate::Result;
use crate::application::{Application, Keep, Noting};
use crate::driver::after;
use crate::link::{Link, Session};

impl Link for Connection {
    fn carrier(&self) -> &'static str {
        self.look(|stack, _| stack.device().caps().name)
    }

    fn notes(&self) -> Vec<String> {
        self.look(|stack, _| stack.device().caps().notes.clone())
    }

    fn session(&self) -> Session {
        Session { peer: self.peer(), options: self.options(), remote: self.remote_addr() }
    }

    fn adu_len(&self) -> usize {
        self.adu_len()
    }

    fn adu_len_max(&self) -> usize {
        self.adu_len_max()
    }

    fn room_for(&mut self, len: usize) -> usize {
        self.call(|stack, id| stack.room_for(id, len))
    }

    fn try_send(&mut self, adu: &[u8]) -> Poll<Result<()>> {
        Connection::try_send(self, adu)
    }

    fn try_send_message(&mut self, adu: &dyn Marshal) -> Poll<Result<()>> {
        Connection::try_send_message(self, adu)
    }

    /// Nothing stays here.
    fn try_flush(&mut self) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_recv_with(&mut self, app: &mut dyn Application) -> Poll<Result<bool>> {
        let mut noting = Noting { id: self.id(), app, any: false };
        let turn = |state: &mut State, noting: &mut Noting<'_>| state.stack.poll(noting);
        self.held.handle.attempt(&mut noting, turn, next)?
    }

    fn try_recv_adu(&mut self) -> Poll<Result<Option<Vec<u8>>>> {
        let mut adu = self.receiving_adu().attempt;
        let turn = |state: &mut State, _: &mut ()| state.stack.poll(&mut Keep);
        self.held.handle.attempt(&mut (), turn, |state, _| adu(state))?
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        Connection::recycle(self, buffer);
    }

    fn try_finish(&mut self) -> Poll<Result<()>> {
        self.finish_sending();
        Poll::Ready(Ok(()))
    }

    fn close(&mut self, code: u64) {
        Connection::close(self, code);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let news = self.ask(Interest::Any, |state, id| state.news(id));
        or_elapsed(news.block_until(timeout.and_then(after)))
    }

    fn send(&mut self, adu: &[u8]) -> Result<()> {
        Connection::send(self, adu)
    }

    fn send_batch<'a>(&mut self, adus: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        Connection::send_batch(self, adus)
    }

    fn send_message(&mut self, adu: &dyn Marshal) -> Result<()> {
        Connection::send_message(self, adu)
    }

    fn send_messages<M: Marshal>(&mut self, adus: impl IntoIterator<Item = M>) -> Result<()> {
        Connection::send_messages(self, adus)
    }

    fn recv(&mut self, memory: &mut [u8]) -> Result<Option<usize>> {
        Connection::recv(self, memory)
    }

    fn recv_timeout(&mut self, memory: &mut [u8], timeout: Duration) -> Result<Option<usize>> {
        Connection::recv_timeout(self, memory, timeout)
    }

    fn recv_message(&mut self, into: &mut dyn Unmarshal) -> Result<Option<usize>> {
        Connection::recv_message(self, into)
    }

    fn recv_message_timeout(
        &mut self,
        into: &mut dyn Unmarshal,
        timeout: Duration,
    ) -> Result<Option<usize>> {
        Connection::recv_message_timeout(self, into, timeout)
    }

    fn recv_adu(&mut self) -> Result<Option<Vec<u8>>> {
        Connection::recv_adu(self)
    }

    fn recv_adu_timeout(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        Connection::recv_adu_timeout(self, timeout)
    }

    fn recv_with<A: Application>(
        &mut self,
        app: &mut A,
        done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool> {
        Connection::recv_with(self, app, done)
    }

    fn finish(&mut self) -> Result<()> {
        Connection::finish(self)
    }
}

/// What waits, as far as the application wants it.
fn next(state: &mut State, noting: &mut Noting<'_>) -> Poll<Result<bool>> {
    while noting.app.wants_more()
        && let Some((index, mut buffer)) = state.next(noting.id)
    {
        noting.hand_over(index, &mut buffer);
        state.stack.recycle(noting.id, buffer);
    }
    if noting.any {
        return Poll::Ready(Ok(true));
    }
    state.end_or_pending::<()>(noting.id).map_ok(|_| false)
}
