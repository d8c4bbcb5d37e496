//! A web server of axum, unchanged, whose TCP is Fusewire's: `http tap0 10.0.0.2/24 80` opens or makes the TAP
//! interface, takes the address and answers on the port. Needs the rights that TAP needs.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use axum::serve::Listener;
use fusewire_device::interface::Interface;
use fusewire_device::interface::tap::{Config, Tap};
use fusewire_stack::ip::net::Cidr;
use fusewire_stack::ip::{AsyncTcpStream, Host, HostConfig, Stack, TcpListener};

/// What axum wants of a listener.
struct Port(TcpListener);

impl Listener for Port {
    type Io = AsyncTcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AsyncTcpStream, SocketAddr) {
        loop {
            match self.0.accept_async().await {
                Ok(accepted) => return accepted,
                Err(error) => eprintln!("cannot accept: {error}"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn usage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "usage: http INTERFACE ADDRESS/PREFIX PORT")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (name, address, port) = match (words.next(), words.next(), words.next()) {
        (Some(name), Some(address), Some(port)) => (name, address, port),
        _ => return Err(usage()),
    };
    let address: Cidr = address.parse().map_err(|_| usage())?;
    let port: u16 = port.parse().map_err(|_| usage())?;

    let tap = Tap::open(&Config { name, ..Config::default() })?;
    let mut net = Stack::net_config(&tap as &dyn Interface);
    net.addresses.push(address);
    let host = Host::new(Box::new(tap), net, HostConfig::default())?;
    let listener = host.tcp_listen(SocketAddr::new(address.address(), port), 128)?;
    println!("http://{}/", listener.local_addr()?);

    let app = Router::new()
        .route("/", get(|| async { "Fusewire carried this.\n" }))
        .route("/bytes/{len}", get(bytes))
        .route("/echo", axum::routing::post(|body: axum::body::Bytes| async { body }));
    axum::serve(Port(listener), app).await
}

/// As many bytes as asked for, a hundred million at most.
async fn bytes(Path(len): Path<usize>) -> Vec<u8> {
    (0..len.min(100_000_000)).map(|i| (i ^ (i >> 8)) as u8).collect()
}
