//! s2n-quic: rustls, large windows, fixed datagram size, large socket buffers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use s2n_quic::provider::{io, limits::Limits, tls::rustls as tls};
use s2n_quic::{Client, Server, client::Connect};

use crate::{Error, Sink, Source, WINDOW, cpu_seconds, listening, report};

/// IPv4 and UDP headers, which s2n-quic counts into its MTU.
const HEADERS: u16 = 28;

fn io(datagram: u16) -> Result<io::Default, Error> {
    let mtu = datagram.saturating_add(HEADERS);
    Ok(io::Default::builder()
        .with_receive_address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .with_max_mtu(mtu)?
        .with_initial_mtu(mtu)?
        .with_base_mtu(mtu)?
        .with_send_buffer_size(WINDOW as usize)?
        .with_recv_buffer_size(WINDOW as usize)?
        .build()?)
}

fn limits() -> Result<Limits, Error> {
    Ok(Limits::default()
        .with_data_window(u64::from(WINDOW))?
        .with_bidirectional_local_data_window(u64::from(WINDOW))?
        .with_bidirectional_remote_data_window(u64::from(WINDOW))?
        .with_max_send_buffer_size(WINDOW)?)
}

pub async fn send(
    made: rcgen::CertifiedKey,
    datagram: u16,
    mut source: Source,
) -> Result<(), Error> {
    let tls = tls::Server::builder()
        .with_certificate(made.cert.pem().as_str(), made.key_pair.serialize_pem().as_str())?
        .build()?;
    let mut server =
        Server::builder().with_tls(tls)?.with_io(io(datagram)?)?.with_limits(limits()?)?.start()?;
    listening(server.local_addr()?);
    let mut connection = server.accept().await.ok_or("closed")?;
    let stream = connection.accept_bidirectional_stream().await?.ok_or("no stream")?;
    let (mut request, mut out) = stream.split();
    while request.receive().await?.is_some() {}
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut bytes = 0;
    while let Some(chunk) = source.next()? {
        bytes += chunk.len() as u64;
        out.send(chunk).await?;
    }
    // The receiver closes the connection as soon as it has everything.
    let _ = out.close().await;
    report("send", bytes, start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    Ok(())
}

pub async fn receive(
    addr: SocketAddr,
    pem: &str,
    datagram: u16,
    sink: &mut Sink,
) -> Result<(), Error> {
    let tls = tls::Client::builder().with_certificate(pem)?.build()?;
    let mut client =
        Client::builder().with_tls(tls)?.with_io(io(datagram)?)?.with_limits(limits()?)?.start()?;
    let mut connection = client.connect(Connect::new(addr).with_server_name("localhost")).await?;
    sink.start();
    let (mut input, mut request) = connection.open_bidirectional_stream().await?.split();
    request.send("go".into()).await?;
    request.close().await?;
    while let Some(chunk) = input.receive().await? {
        sink.take(&chunk)?;
    }
    connection.close(0u32.into());
    let _ = tokio::time::timeout(Duration::from_secs(1), client.wait_idle()).await;
    Ok(())
}
