//! quinn: current-thread runtime, large windows, fixed datagram size, large socket buffers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn::{
    ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    VarInt,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{CHUNK, Error, Sink, Source, WINDOW, cpu_seconds, listening, report};

pub fn transport(datagram: u16) -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram);
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .mtu_discovery_config(Some(discovery))
        .enable_segmentation_offload(true);
    config
}

pub fn endpoint(server: Option<ServerConfig>, datagram: u16) -> Result<Endpoint, Error> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    socket.set_recv_buffer_size(WINDOW as usize)?;
    socket.set_send_buffer_size(WINDOW as usize)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(datagram.max(1200))?;
    Ok(Endpoint::new(config, server, socket.into(), Arc::new(quinn::TokioRuntime))?)
}

pub async fn send(
    made: rcgen::CertifiedKey,
    datagram: u16,
    mut source: Source,
) -> Result<(), Error> {
    let key = PrivateKeyDer::try_from(made.key_pair.serialize_der())?;
    let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)?;
    config.transport_config(Arc::new(transport(datagram)));
    let endpoint = endpoint(Some(config), datagram)?;
    listening(endpoint.local_addr()?);
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let (mut out, mut request) = connection.accept_bi().await?;
    request.read_to_end(16).await?;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut bytes = 0;
    while let Some(chunk) = source.next()? {
        bytes += chunk.len() as u64;
        out.write_chunk(chunk).await?;
    }
    out.finish()?;
    connection.closed().await;
    report("send", bytes, start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    Ok(())
}

pub async fn receive(
    addr: SocketAddr,
    pem: &str,
    datagram: u16,
    sink: &mut Sink,
) -> Result<(), Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport(datagram)));
    let mut endpoint = endpoint(None, datagram)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(addr, "localhost")?.await?;
    sink.start();
    let (mut request, mut input) = connection.open_bi().await?;
    request.write_all(b"go").await?;
    request.finish()?;
    while let Some(chunk) = input.read_chunk(CHUNK, true).await? {
        sink.take(&chunk.bytes)?;
    }
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}
