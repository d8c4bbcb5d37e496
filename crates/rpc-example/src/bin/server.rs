//! Serves a ledger at an address, over TCP and UDP; with a key file, at an address that it prints, over XTP too.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use fusewire_rpc::{Datagrams, ListenConfig, Server, Services, Transactions, serve_streams};
use fusewire_rpc_example::{Ledger, ledger_prog::ledger_vers, over_xtp};
use fusewire_session::{Identity, ServerConfig};
use fusewire_stack::Listener;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ledger-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or("127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(addr.parse::<SocketAddr>()?)?;
    let addr = listener.local_addr()?;
    let socket = UdpSocket::bind(addr)?;
    println!("{addr}");
    let services = Arc::new(Services::new().with(ledger_vers::Service(Ledger::default())));
    let shared = services.clone();
    std::thread::spawn(move || Server::new(Datagrams::server(socket)).run(&shared));
    if let Some(key) = std::env::args().nth(2) {
        let identity = Arc::new(Identity::load_or_create(Path::new(&key))?);
        let endpoint = over_xtp(SocketAddr::new(addr.ip(), 0))?;
        println!("xtp:{}", endpoint.local_addr());
        let (listener, shared) = (endpoint.listen(ServerConfig::new(identity))?, services.clone());
        std::thread::spawn(move || answer(&listener, &shared));
    }
    let accept = || listener.accept().map(|(stream, _)| stream);
    serve_streams(accept, &services, &ListenConfig::default())?;
    Ok(())
}

/// A thread for each connection, whose calls it answers.
fn answer(listener: &Listener, services: &Arc<Services>) {
    while let Ok(connection) = listener.accept() {
        let Ok(calls) = Transactions::server(connection) else { continue };
        let services = services.clone();
        std::thread::spawn(move || Server::new(calls).run(&services));
    }
}
