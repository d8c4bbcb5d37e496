//! Shared memory in a worker.

use std::net::SocketAddr;

use fusewire_stack::shm;

use super::fusewire::{client_config, endpoint, server_config};
use super::worker::{Content, Drain, Report, Role, Stopwatch, Task, Writer, announce};
use super::{Sink, Source};
use crate::Result;

/// Runs one side.
pub fn work(task: &Task) -> Result<Report> {
    match &task.role {
        Role::Send(source) => send(task, source),
        Role::Receive { connect, sink } => receive(task, *connect, sink),
    }
}

fn send(task: &Task, source: &Source) -> Result<Report> {
    let mut shared = shm::Listener::bind()?;
    let mut config = server_config(task)?;
    config.shared_memory = Some(shared.name().to_vec());
    let endpoint = endpoint(task)?;
    let listener = endpoint.listen(config)?;
    announce(endpoint.local_addr())?;
    let mut connection = shared.go_on(listener.accept()?)?;
    let mut content = Content::open(task, source)?;
    let watch = Stopwatch::start();
    content.send(|adu| Ok(connection.send(adu)?))?;
    connection.finish()?;
    Ok(content.report(&watch))
}

fn receive(task: &Task, connect: SocketAddr, sink: &Sink) -> Result<Report> {
    let mut config = client_config(task)?;
    config.shared_memory = true;
    let mut connection = shm::go_on(endpoint(task)?.connect(connect, &config)?)?;
    let mut drain = Drain(Writer::create(sink, task.adu_bytes)?);
    let watch = Stopwatch::start();
    // Until the sender's authenticated end.
    while connection.recv_with(&mut drain)? {}
    drain.0.flush()?;
    let report = watch.report("receive", drain.0.bytes, drain.0.hash());
    connection.finish()?;
    Ok(report)
}
