//! Our own transport in a worker.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fusewire_device::sockets::{self, Entry};
use fusewire_device::{Device, udp};
use fusewire_kernels::{Execution, Level, Swap};
use fusewire_session::{ClientConfig, DataPass, HeaderProtection, Identity, ServerConfig, Trust};
use fusewire_stack::on_interface::{self, Kind, Name, OnInterface, Settings};
use fusewire_stack::transport::Config as Transport;
use fusewire_stack::{Config, Endpoint};

use super::worker::{Report, Role, Task, receive, send};
use super::{Carrier, Method};
use crate::process::listens;
use crate::{Error, Result};

/// How long a sender answers for what is over, where its last word may be lost.
const LINGER: Duration = Duration::from_secs(1);

/// Runs one side.
pub fn work(task: &Task) -> Result<Report> {
    let endpoint = endpoint(task)?;
    let measure = || {
        if task.measure {
            endpoint.with_stack(|s| s.measure());
        }
    };
    let report = match &task.role {
        Role::Send(source) => {
            let listener = endpoint.listen(server_config(task)?)?;
            listens(endpoint.local_addr())?;
            let mut connection = listener.accept()?;
            measure();
            let report = send(&mut connection, task, source)?;
            if !task.path.is_clear() {
                // Its last word may be lost, and is said again only as long as somebody is here.
                std::thread::sleep(LINGER);
            }
            report
        }
        Role::Receive { connect, sink } => {
            let mut connection = endpoint.connect(*connect, &client_config(task)?)?;
            measure();
            receive(&mut connection, task, sink)?
        }
    };
    Ok(profiled(&endpoint, task, report))
}

/// With its packets, all that went until its end, and the time of one, where it was measured.
pub fn profiled(endpoint: &Endpoint, task: &Task, report: Report) -> Report {
    let (profile, counters) = endpoint.with_stack(|s| (s.profile(), s.counters()));
    let packets = Some([counters.segments_sent, counters.retransmissions]);
    let ns_per_packet = profile.map(|p| match task.role {
        Role::Send(_) => per_packet(p.send_s, p.segments_sent),
        Role::Receive { .. } => per_packet(p.receive_s, p.segments_received),
    });
    Report { ns_per_packet, packets, ..report }
}

/// Over UDP, the kernel's or our own on an interface.
pub fn endpoint(task: &Task) -> Result<Endpoint> {
    let device: Box<dyn Device> = match task.carrier {
        Carrier::Interface(kind) => Box::new(on_interface(task, kind)?),
        Carrier::Socket(socket) => bind(task, socket)?,
        Carrier::Shm | Carrier::Veth => bind(task, &sockets::ALL[0])?,
    };
    let seed = u64::from(matches!(task.role, Role::Send(_)));
    let device = task.path.before(device, seed);
    let mut config = Config { datagram_bytes: Some(task.datagram_bytes), ..Config::default() };
    // What is measured is a packet, and the papers' carries one ADU.
    config.packs = !task.measure;
    config.check = task.transport.check;
    config.transport = Transport::of_records(task.transport.protocol);
    config.transport.set_retransmission(task.transport.retransmission);
    config.transport.set_congestion(task.congestion);
    config.transport.set_reserve_within_window(!task.manipulation.ahead);
    Ok(Endpoint::new(device, config)?)
}

fn bind(task: &Task, socket: &Entry) -> Result<Box<dyn Device>> {
    let addr = (task.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0).into();
    socket.bind(addr, &udp::Config::default()).map_err(Error::os("binding the UDP socket"))
}

fn on_interface(task: &Task, kind: Kind) -> Result<OnInterface> {
    let interface = task.interface.clone().unwrap_or_default();
    let settings = Settings {
        name: Name { kind, interface, queue: None },
        own: Vec::new(),
        carrier: on_interface::Carrier::Udp,
    };
    let device = match &task.role {
        Role::Send(_) => on_interface::listen(&settings, None, 0),
        Role::Receive { connect, .. } => on_interface::connect(&settings, *connect),
    };
    device.map_err(Error::os("opening the interface"))
}

/// The code of the data pass.
pub fn data_pass(method: Method) -> DataPass {
    let execution = match method {
        Method::Blocked => Execution::Blocked,
        Method::Sequential | Method::KernelTcpPasses => Execution::Sequential,
        _ => Execution::Integrated,
    };
    DataPass { level: Level::detect(), execution }
}

fn protection(task: &Task) -> Option<HeaderProtection> {
    task.manipulation.record_padding.and_then(HeaderProtection::with_padding)
}

/// The server's side of the session: our own key only.
pub fn server_config(task: &Task) -> Result<ServerConfig> {
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    let mut config = ServerConfig::new(identity);
    config.settings.ciphers = vec![task.cipher];
    config.settings.allow_insecure = task.cipher.is_insecure();
    config.settings.data_pass = data_pass(task.method);
    config.settings.protection = protection(task);
    Ok(config)
}

/// The client's side: the same key, and the element that both agree on.
pub fn client_config(task: &Task) -> Result<ClientConfig> {
    let identity = Arc::new(Identity::load_or_create(&task.identity)?);
    let trust = Trust::Pinned(identity.fingerprint());
    let mut config = ClientConfig::new(identity, trust);
    config.element = if task.manipulation.swap { Swap::Bytes32 } else { Swap::None };
    config.settings.ciphers = vec![task.cipher];
    config.settings.allow_insecure = task.cipher.is_insecure();
    config.settings.data_pass = data_pass(task.method);
    config.settings.protection = protection(task);
    Ok(config)
}

fn per_packet(seconds: f64, packets: u64) -> f64 {
    seconds * 1e9 / packets.max(1) as f64
}
