//! A user-level host on a TAP, which answers over TCP.

use fusewire_device::interface::tap::{self, Tap};
use fusewire_stack::ip::net::{self, Cidr};
use fusewire_stack::ip::{AsyncTcpStream, Host, HostConfig, Stack, TcpListener, TcpStream};

use super::kernel::park;
use super::talk::{Message, Talk, TalkAsync, echo, echo_async, thread};
use super::{Api, BYTES, TAP, Task, tasks};
use crate::process::listens;
use crate::{Error, Result};

/// Our address, with the kernel's network.
const OURS: &str = "10.77.8.2/24";
const PORT: u16 = 7;

impl Talk for TcpStream {
    fn send(&mut self, message: &Message) -> Result<()> {
        let mut sent = 0;
        while sent < BYTES {
            sent += TcpStream::send(self, &message[sent..]).map_err(Error::os("sending"))?;
        }
        Ok(())
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        let mut got = 0;
        while got < BYTES {
            match TcpStream::recv(self, &mut message[got..]).map_err(Error::os("receiving"))? {
                0 => return Ok(false),
                n => got += n,
            }
        }
        Ok(true)
    }
}

impl TalkAsync for AsyncTcpStream {
    async fn send(&mut self, message: &Message) -> Result<()> {
        let mut sent = 0;
        while sent < BYTES {
            let send = AsyncTcpStream::send(self, &message[sent..]);
            sent += send.await.map_err(Error::os("sending"))?;
        }
        Ok(())
    }

    async fn recv(&mut self, message: &mut Message) -> Result<bool> {
        let mut got = 0;
        while got < BYTES {
            let recv = AsyncTcpStream::recv(self, &mut message[got..]);
            match recv.await.map_err(Error::os("receiving"))? {
                0 => return Ok(false),
                n => got += n,
            }
        }
        Ok(true)
    }
}

/// Answers until it is killed.
pub fn serve(task: &Task) -> Result<()> {
    let config = tap::Config { name: TAP.into(), ..tap::Config::default() };
    let tap = Tap::open(&config).map_err(Error::os("opening a TAP"))?;
    let cidr: Cidr = OURS.parse().map_err(|_| Error::Unsupported("no address".into()))?;
    let net = net::Config {
        addresses: vec![cidr],
        duplicate_detection: false,
        ..Stack::net_config(&tap)
    };
    let host = Host::new(Box::new(tap), net, HostConfig::default());
    let host = host.map_err(Error::os("making a host"))?;
    let at = (cidr.address(), PORT).into();
    let listener = host.tcp_listen(at, task.idle + 1).map_err(Error::os("listening"))?;
    listens(at)?;
    match task.api {
        Api::Blocking => serve_blocking(task, listener),
        Api::Async => serve_in_tasks(task, listener),
    }
}

fn serve_blocking(task: &Task, listener: TcpListener) -> Result<()> {
    let accept = |listener: &TcpListener| listener.accept().map_err(Error::os("accepting"));
    for _ in 0..=task.idle {
        let (stream, _) = accept(&listener)?;
        stream.set_nodelay(true).map_err(Error::os("asking for no delay"))?;
        thread(move || echo(stream))?;
    }
    if task.accepting {
        thread(move || accept(&listener).map(drop))?;
    }
    park()
}

fn serve_in_tasks(task: &Task, listener: TcpListener) -> Result<()> {
    // All are accepted before any is asked; that needs no task.
    let mut all: Vec<tasks::Task> = vec![Box::pin(std::future::pending())];
    for _ in 0..=task.idle {
        let (stream, _) = listener.accept().map_err(Error::os("accepting"))?;
        stream.set_nodelay(true).map_err(Error::os("asking for no delay"))?;
        all.push(Box::pin(echo_async(stream.into_async())));
    }
    if task.accepting {
        all.push(Box::pin(async move {
            listener.accept_async().await.map(drop).map_err(Error::os("accepting"))
        }));
    }
    tasks::run(all)
}
