//! Our own transport in a worker.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fusewire_device::sockets::{self, Entry};
use fusewire_device::{Device, udp};
use fusewire_kernels::{Execution, Level};
use fusewire_session::{ClientConfig, Identity, Kernel, ServerConfig, Trust};
use fusewire_stack::on_interface::{self, Kind, Name, OnInterface, Settings};
use fusewire_stack::{Adu, Application, Config, Connection, ConnectionId, Endpoint, Profile};

use super::worker::{Reader, Report, Role, Stopwatch, Task, Writer, announce};
use super::{Carrier, Method, Sink, Source};
use crate::{Error, Result};

/// Runs one side.
pub fn work(task: &Task) -> Result<Report> {
    match &task.role {
        Role::Send(source) => send(task, source),
        Role::Receive { connect, sink } => receive(task, *connect, sink),
    }
}

/// Over UDP, the kernel's or our own on an interface.
pub fn endpoint(task: &Task) -> Result<Endpoint> {
    let device: Box<dyn Device> = match task.carrier {
        Carrier::Interface(kind) => Box::new(on_interface(task, kind)?),
        Carrier::Socket(socket) => bind(task, socket)?,
        Carrier::Shm => bind(task, &sockets::ALL[0])?,
    };
    let mut config = Config { datagram_bytes: Some(task.datagram_bytes), ..Config::default() };
    config.tcp.reserve_within_window = !task.manipulation.ahead;
    Ok(Endpoint::new(device, config)?)
}

fn bind(task: &Task, socket: &Entry) -> Result<Box<dyn Device>> {
    let addr = (task.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0).into();
    socket.bind(addr, &udp::Config::default()).map_err(Error::os("binding the UDP socket"))
}

fn on_interface(task: &Task, kind: Kind) -> Result<OnInterface> {
    let interface = task.interface.clone().unwrap_or_default();
    let settings = Settings { name: Name { kind, interface, queue: None }, own: Vec::new() };
    let device = match &task.role {
        Role::Send(_) => on_interface::listen(&settings, None, 0),
        Role::Receive { connect, .. } => on_interface::connect(&settings, *connect),
    };
    device.map_err(Error::os("opening the interface"))
}

/// The code of the data pass.
pub fn kernel(method: Method) -> Kernel {
    let execution = match method {
        Method::Blocked => Execution::Blocked,
        Method::Sequential | Method::KernelTcpPasses => Execution::Sequential,
        _ => Execution::Integrated,
    };
    Kernel { level: Level::detect(), execution }
}

/// The server's side of the session: our own key only.
pub fn server_config(task: &Task) -> Result<ServerConfig> {
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    let mut config = ServerConfig::new(identity);
    config.ciphers = vec![task.cipher];
    config.allow_insecure = task.cipher.is_insecure();
    config.kernel = kernel(task.method);
    Ok(config)
}

/// The client's side: the same key.
pub fn client_config(task: &Task) -> Result<ClientConfig> {
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    let trust = Trust::Pinned(identity.fingerprint());
    let mut config = ClientConfig::new(identity, trust);
    config.ciphers = vec![task.cipher];
    config.allow_insecure = task.cipher.is_insecure();
    config.kernel = kernel(task.method);
    Ok(config)
}

fn send(task: &Task, source: &Source) -> Result<Report> {
    let endpoint = endpoint(task)?;
    let listener = endpoint.listen(server_config(task)?)?;
    announce(endpoint.local_addr())?;
    let connection = listener.accept()?;
    if task.measure {
        endpoint.with_stack(|s| s.measure());
    }
    let mut reader = Reader::open(task, source, task.chunk())?;
    let watch = Stopwatch::start();
    let mut bytes = 0;
    loop {
        let chunk = reader.next()?;
        if chunk.is_empty() {
            break;
        }
        bytes += chunk.len() as u64;
        connection.send_batch(chunk.chunks(task.adu_bytes))?;
    }
    let profile = endpoint.with_stack(|s| s.profile());
    connection.finish()?;
    let mut report = watch.report("send", bytes, reader.hash());
    report.ns_per_packet = profile.map(|p| per_packet(p.send_s, p.segments_sent));
    Ok(report)
}

fn per_packet(seconds: f64, packets: u64) -> f64 {
    seconds * 1e9 / packets.max(1) as f64
}

/// Puts each ADU behind the one before; they come in order here, as nothing is lost on loopback. One
/// that does not is kept by the stack until its turn.
struct Drain {
    writer: Writer,
    next: u64,
}

impl Application for Drain {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        if adu.index == self.next { self.writer.place(adu.len) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.writer.placed(adu.len);
        self.next += 1;
    }
}

/// The stack opens ADUs into memory of its own as their frames come; they are copied when asked for.
fn receive_early(connection: &Connection, writer: &mut Writer) -> Result<()> {
    while let Some(adu) = connection.recv_adu()? {
        if let Some(memory) = writer.place(adu.len()) {
            memory.copy_from_slice(&adu);
            writer.placed(adu.len());
        }
        connection.recycle(adu);
    }
    Ok(())
}

fn receive(task: &Task, connect: SocketAddr, sink: &Sink) -> Result<Report> {
    let endpoint = endpoint(task)?;
    let connection = endpoint.connect(connect, &client_config(task)?)?;
    if task.measure {
        endpoint.with_stack(|s| s.measure());
    }
    let mut drain = Drain { writer: Writer::create(sink, task.adu_bytes)?, next: 0 };
    let watch = Stopwatch::start();
    // Until the sender's authenticated end.
    if task.manipulation.early {
        receive_early(&connection, &mut drain.writer)?;
    } else {
        connection.recv_with(&mut drain, |_| false)?;
    }
    drain.writer.flush()?;
    let mut report = watch.report("receive", drain.writer.bytes, drain.writer.hash());
    let profile: Option<Profile> = endpoint.with_stack(|s| s.profile());
    report.ns_per_packet = profile.map(|p| per_packet(p.receive_s, p.segments_received));
    connection.finish()?;
    Ok(report)
}
