//! quinn in `fusewire bench latency`: messages of 64 bytes there and back, one bidirectional stream a connection, idle
//! connections each with its task in `read` at both ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::quinn_peer::{endpoint, transport};
use crate::{Error, listening};

/// Bytes of a message.
const BYTES: usize = 64;
/// Round trips before any counts.
const WARM: usize = 200;
/// Round trips that count, at least.
const ENOUGH: usize = 200;
/// UDP payload of a full datagram, in bytes.
const DATAGRAM: u16 = 1452;

/// Who waits beside the connection that asks.
#[derive(clap::Args)]
pub struct Load {
    /// Idle connections.
    #[arg(long)]
    idle: usize,
    /// A task in `accept`.
    #[arg(long)]
    accepting: bool,
}

/// No connection ends for its silence.
fn config() -> Arc<quinn::TransportConfig> {
    let mut config = transport(DATAGRAM);
    config.max_idle_timeout(None);
    Arc::new(config)
}

async fn echo(connection: Connection) -> Result<(), Error> {
    let (mut out, mut input) = connection.accept_bi().await?;
    let mut message = [0; BYTES];
    loop {
        input.read_exact(&mut message).await?;
        out.write_all(&message).await?;
    }
}

/// Answers until it is killed.
pub async fn serve(made: rcgen::CertifiedKey, load: Load) -> Result<(), Error> {
    let key = PrivateKeyDer::try_from(made.key_pair.serialize_der())?;
    let mut server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)?;
    server.transport_config(config());
    let endpoint = endpoint(Some(server), DATAGRAM)?;
    listening(endpoint.local_addr()?);
    for _ in 0..=load.idle {
        let connection = endpoint.accept().await.ok_or("closed")?.await?;
        tokio::spawn(echo(connection));
    }
    if load.accepting {
        endpoint.accept().await;
    }
    std::future::pending().await
}

async fn open(endpoint: &Endpoint, to: SocketAddr) -> Result<(SendStream, RecvStream), Error> {
    let mut stream = endpoint.connect(to, "localhost")?.await?.open_bi().await?;
    // The other end hears of a stream by its first bytes.
    trip(&mut stream, &[0; BYTES]).await?;
    Ok(stream)
}

async fn trip(
    (out, input): &mut (SendStream, RecvStream),
    message: &[u8; BYTES],
) -> Result<(), Error> {
    out.write_all(message).await?;
    let mut answer = [0; BYTES];
    input.read_exact(&mut answer).await?;
    if answer == *message { Ok(()) } else { Err("an answer is not what was asked".into()) }
}

/// Asks, and prints how long answers took.
pub async fn ask(
    to: SocketAddr,
    pem: &str,
    load: Load,
    seconds: f64,
) -> Result<(), Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(config());
    let mut endpoint = endpoint(None, DATAGRAM)?;
    endpoint.set_default_client_config(client);
    for _ in 0..load.idle {
        let (out, mut input) = open(&endpoint, to).await?;
        tokio::spawn(async move {
            let _ = input.read_exact(&mut [0; BYTES]).await;
            drop(out);
        });
    }
    let mut stream = open(&endpoint, to).await?;
    let mut us = Vec::with_capacity(1 << 16);
    let mut message = [0x5a; BYTES];
    let mut end = Instant::now();
    for asked in 0u64.. {
        if asked == WARM as u64 {
            us.clear();
            end = Instant::now() + Duration::from_secs_f64(seconds);
        }
        if asked >= WARM as u64 && us.len() >= ENOUGH && Instant::now() >= end {
            break;
        }
        message[..8].copy_from_slice(&asked.to_be_bytes());
        let began = Instant::now();
        trip(&mut stream, &message).await?;
        us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    us.sort_by(f64::total_cmp);
    let at = |part: f64| us[((us.len() as f64 * part) as usize).min(us.len() - 1)];
    println!("{}", serde_json::json!({ "p50_us": at(0.5), "p99_us": at(0.99) }));
    Ok(())
}
