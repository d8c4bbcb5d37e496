//! Serves a ledger at an address, over TCP and UDP.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use fusewire_rpc::{Datagrams, ListenConfig, Server, Services, serve_streams};
use fusewire_rpc_example::{Ledger, ledger_prog::ledger_vers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or("127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(addr.parse::<SocketAddr>()?)?;
    let addr = listener.local_addr()?;
    let socket = UdpSocket::bind(addr)?;
    println!("{addr}");
    let services = Arc::new(Services::new().with(ledger_vers::Service(Ledger::default())));
    let shared = services.clone();
    std::thread::spawn(move || Server::new(Datagrams::server(socket)).run(&shared));
    let accept = || listener.accept().map(|(stream, _)| stream);
    serve_streams(accept, &services, &ListenConfig::default())?;
    Ok(())
}
