//! The calls of an endpoint and its connections for tasks. Each registers its task with what it waits for, once
//! however often it is polled, and takes it out again when it is dropped.

use std::future::Future;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use fusewire_session::{ClientConfig, Fingerprint, Marshal, Unmarshal};

use super::connection::{
    Batch, finish, recv_adu, recv_any, recv_into, recv_message, recv_with, send, send_message,
};
use super::state::Interest;
use super::{Connection, Endpoint, is_idle};
use crate::application::Application;
use crate::driver::SHARED_KEY;
use crate::{Error, Result};

/// For tasks. All futures are `Send`; what is said of cancelling holds for dropping them and for `select!`.
impl Endpoint {
    /// [`Endpoint::connect`] for tasks. Cancelled, the connection is reset.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect`].
    pub async fn connect_async(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
    ) -> Result<Connection> {
        self.connect_with_async(remote, client, async |peer| Err(Error::Untrusted(peer))).await
    }

    /// [`Endpoint::connect_with`] for tasks. Cancelled, the connection is reset.
    ///
    /// # Errors
    /// The errors of [`Endpoint::connect_with`].
    pub async fn connect_with_async<F: Future<Output = Result<()>>>(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        judge: impl FnOnce(Fingerprint) -> F,
    ) -> Result<Connection> {
        let held = self.begin(remote, client)?;
        let id = held.id;
        let session = self.handle.wait(Interest::Over(id), |state| state.connected(id)).await?;
        if !session.trusted {
            judge(session.peer).await?;
            self.handle.shared.call(|state| state.stack.trust(id));
        }
        Ok(Connection::new(held, session))
    }

    /// [`Endpoint::wait_idle`] for tasks. Cancelled, nothing has changed.
    ///
    /// # Errors
    /// The errors of [`Endpoint::wait_idle`].
    pub async fn wait_idle_async(&self) -> Result<()> {
        self.handle.wait(Interest::Idle, is_idle).await
    }
}

/// For tasks. All futures are `Send`; what is said of cancelling holds for dropping them and for `select!`.
impl Connection {
    /// [`Connection::send`] for tasks. Cancelled, the ADU is not sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub async fn send_async(&self, adu: &[u8]) -> Result<()> {
        let id = self.id;
        self.handle.wait(Interest::Write(id), |state| send(state, id, adu)).await
    }

    /// [`Connection::send`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    pub fn poll_send(&self, cx: &mut Context<'_>, adu: &[u8]) -> Poll<Result<()>> {
        let (interest, key) = (Interest::Write(self.id), Some(SHARED_KEY));
        let attempt = |state: &mut _| send(state, self.id, adu);
        self.handle.shared.poll(interest, key, cx.waker(), attempt).0.map(|sent| sent?)
    }

    /// [`Connection::send_batch`] for tasks. Cancelled, some of the first are sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send_batch`].
    pub async fn send_batch_async<'a>(
        &self,
        adus: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<()> {
        let id = self.id;
        let mut batch = Batch::new(adus.into_iter());
        self.handle.wait(Interest::Write(id), |state| batch.send(state, id)).await
    }

    /// [`Connection::send_message`] for tasks. Cancelled, the ADU is not sent.
    ///
    /// # Errors
    /// The errors of [`Connection::send_message`].
    pub async fn send_message_async<M: Marshal + ?Sized>(&self, adu: &M) -> Result<()> {
        let id = self.id;
        self.handle.wait(Interest::Write(id), |state| send_message(state, id, adu)).await
    }

    /// [`Connection::recv_adu`] for tasks. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_adu`].
    pub async fn recv_async(&self) -> Result<Option<Vec<u8>>> {
        self.handle.wait(Interest::Read(self.id), |state| recv_adu(state, self.id)).await
    }

    /// [`Connection::recv`] for tasks. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub async fn recv_into_async(&self, adu: &mut [u8]) -> Result<Option<usize>> {
        self.handle.wait(Interest::Read(self.id), |state| recv_into(state, self.id, adu)).await
    }

    /// [`Connection::recv_message`] for tasks: what the driver has received is opened, and unmarshalled here. Cancelled,
    /// no ADU is lost.
    ///
    /// # Errors
    /// Why the connection is over.
    pub async fn recv_message_async(
        &self,
        into: &mut (dyn Unmarshal + Send),
    ) -> Result<Option<usize>> {
        let attempt = |state: &mut _| recv_message(state, self.id, into);
        self.handle.wait(Interest::Read(self.id), attempt).await
    }

    /// [`Connection::recv`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Connection::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>, adu: &mut [u8]) -> Poll<Result<Option<usize>>> {
        let (interest, key) = (Interest::Read(self.id), Some(SHARED_KEY));
        let attempt = |state: &mut _| recv_into(state, self.id, adu);
        self.handle.shared.poll(interest, key, cx.waker(), attempt).0.map(|received| received?)
    }

    /// [`Connection::recv_any`] for tasks. Cancelled, no ADU is lost.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_any`].
    pub async fn recv_any_async(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.handle.wait(Interest::Read(self.id), |state| recv_any(state, self.id)).await
    }

    /// [`Connection::recv_with`] for tasks: what the driver has received is copied. Cancelled, what was delivered to
    /// `app` stays delivered.
    ///
    /// # Errors
    /// The errors of [`Connection::recv_with`].
    pub async fn recv_with_async<A: Application>(
        &self,
        app: &mut A,
        mut done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool> {
        let id = self.id;
        let attempt = |state: &mut _| recv_with(state, id, app, &mut done);
        self.handle.wait(Interest::Read(id), attempt).await
    }

    /// [`Connection::finish`] for tasks. Cancelled, our side has ended, and it may be called again.
    ///
    /// # Errors
    /// The errors of [`Connection::finish`].
    pub async fn finish_async(&self) -> Result<()> {
        let id = self.id;
        self.finish_sending();
        self.handle.wait(Interest::Finish(id), |state| finish(state, id)).await
    }

    /// [`Connection::closed`] for tasks. Cancelled, nothing has changed.
    ///
    /// # Errors
    /// The errors of [`Connection::closed`].
    pub async fn closed_async(&self) -> Result<()> {
        self.handle.wait(Interest::Over(self.id), |state| state.closed(self.id)).await
    }
}
