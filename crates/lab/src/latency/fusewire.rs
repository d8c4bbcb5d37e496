//! Endpoints of ours.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Connection, Endpoint};

use super::kernel::park;
use super::talk::{
    Message, Talk, TalkAsync, ask, ask_async, echo, echo_async, thread, wait, wait_async,
};
use super::{Api, BYTES, Side, Task, tasks};
use crate::Result;
use crate::process::listens;

impl Talk for Connection {
    fn send(&mut self, message: &Message) -> Result<()> {
        Ok(Connection::send(self, message)?)
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        Ok(Connection::recv(self, message)? == Some(BYTES))
    }
}

impl TalkAsync for Connection {
    async fn send(&mut self, message: &Message) -> Result<()> {
        Ok(self.send_async(message).await?)
    }

    async fn recv(&mut self, message: &mut Message) -> Result<bool> {
        let Some(adu) = self.recv_async().await? else { return Ok(false) };
        let is_message = adu.len() == BYTES;
        if is_message {
            message.copy_from_slice(&adu);
        }
        self.recycle(adu);
        Ok(is_message)
    }
}

/// One side.
pub fn work(task: &Task) -> Result<()> {
    let endpoint = Endpoint::udp((Ipv4Addr::LOCALHOST, 0).into())?;
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    match (task.side, task.api) {
        (Side::Serve, Api::Blocking) => serve(task, &endpoint, identity, |connection| connection),
        (Side::Serve, Api::Async) => one(serve_async(task.clone(), endpoint, identity)),
        (Side::Ask(to), api) => {
            let client = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
            match api {
                Api::Blocking => {
                    ask_blocking(task, &endpoint, to, &client, |connection| connection)
                }
                Api::Async => one(ask_in_tasks(task.clone(), endpoint, to, client)),
            }
        }
    }
}

fn one(task: impl Future<Output = Result<Vec<tasks::Task>>> + 'static) -> Result<()> {
    let (tell, told) = std::sync::mpsc::channel();
    tasks::run(vec![Box::pin(async move {
        let all = task.await?;
        // Nobody else has the other end.
        let _ = tell.send(all);
        Ok(())
    })])?;
    told.recv().map_or(Ok(()), tasks::run)
}

/// Answers on connections, as what `talk` makes of them, each in its thread.
pub(super) fn serve<T: Talk>(
    task: &Task,
    endpoint: &Endpoint,
    identity: Arc<Identity>,
    talk: impl Fn(Connection) -> T,
) -> Result<()> {
    let listener = endpoint.listen(ServerConfig::new(identity))?;
    listens(endpoint.local_addr())?;
    for _ in 0..=task.idle {
        let talk = talk(listener.accept()?);
        thread(move || echo(talk))?;
    }
    if task.accepting {
        thread(move || Ok(listener.accept().map(drop)?))?;
    }
    park()
}

/// What there is to do, once all are connected.
async fn serve_async(
    task: Task,
    endpoint: Endpoint,
    identity: Arc<Identity>,
) -> Result<Vec<tasks::Task>> {
    let listener = endpoint.listen(ServerConfig::new(identity))?;
    listens(endpoint.local_addr())?;
    let mut all: Vec<tasks::Task> = vec![Box::pin(std::future::pending())];
    for _ in 0..=task.idle {
        all.push(Box::pin(echo_async(listener.accept_async().await?)));
    }
    if task.accepting {
        all.push(Box::pin(async move { Ok(listener.accept_async().await.map(drop)?) }));
    }
    Ok(all)
}

/// Asks on one connection, beside idle ones.
pub(super) fn ask_blocking<T: Talk>(
    task: &Task,
    endpoint: &Endpoint,
    to: SocketAddr,
    client: &ClientConfig,
    talk: impl Fn(Connection) -> T,
) -> Result<()> {
    for _ in 0..task.idle {
        wait(talk(endpoint.connect(to, client)?))?;
    }
    ask(talk(endpoint.connect(to, client)?), task.seconds)
}

async fn ask_in_tasks(
    task: Task,
    endpoint: Endpoint,
    to: SocketAddr,
    client: ClientConfig,
) -> Result<Vec<tasks::Task>> {
    let mut idle: Vec<tasks::Task> = Vec::new();
    for _ in 0..task.idle {
        idle.push(Box::pin(wait_async(endpoint.connect_async(to, &client).await?)));
    }
    let connection = endpoint.connect_async(to, &client).await?;
    let mut all: Vec<tasks::Task> = vec![Box::pin(ask_async(connection, task.seconds))];
    all.append(&mut idle);
    Ok(all)
}
