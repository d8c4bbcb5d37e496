//! A server of streams: a thread for each connection, so many at most.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::records::{RecordConfig, Records};
use crate::server::{Server, Services, Turn};
use crate::transport::Stream;

/// Bounds on the connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenConfig {
    /// Connections at once; more are closed as they come.
    pub connections_max: usize,
    /// How long a connection may take for its next call, from the first byte of its silence to the call's
    /// last.
    pub idle: Duration,
    /// Bounds on messages.
    pub records: RecordConfig,
}

impl Default for ListenConfig {
    /// 1,024 connections, six minutes.
    fn default() -> Self {
        ListenConfig {
            connections_max: 1024,
            idle: Duration::from_secs(360),
            records: RecordConfig::default(),
        }
    }
}

/// Serves every connection that `accept` gives, until it gives an error.
///
/// ```no_run
/// # use std::sync::Arc;
/// # fn main() -> std::io::Result<()> {
/// # let services = Arc::new(fusewire_rpc::Services::new());
/// let listener = std::net::TcpListener::bind("127.0.0.1:2049")?;
/// let accept = || listener.accept().map(|(stream, _)| stream);
/// fusewire_rpc::serve_streams(accept, &services, &Default::default())
/// # }
/// ```
///
/// # Errors
/// That of `accept`, or of starting a thread. A connection's own failures end it alone.
pub fn serve_streams<S: Stream + Send + 'static>(
    mut accept: impl FnMut() -> io::Result<S>,
    services: &Arc<Services>,
    config: &ListenConfig,
) -> io::Result<()> {
    let count = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match accept() {
            Ok(stream) => stream,
            // One that was gone before it was taken is no reason to leave the others.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        if count.load(Ordering::Relaxed) >= config.connections_max {
            tracing::warn!(max = config.connections_max, "a connection too many is closed");
            continue;
        }
        count.fetch_add(1, Ordering::Relaxed);
        let guard = Guard(count.clone());
        let (services, config) = (services.clone(), *config);
        std::thread::Builder::new().name("rpc".to_owned()).spawn(move || {
            let _guard = guard;
            let mut server = Server::new(Records::with(stream, config.records));
            loop {
                match server.turn(&services, Some(config.idle)) {
                    Ok(Turn::Served) => {}
                    Ok(Turn::Nothing | Turn::End) => return,
                    Err(error) => {
                        tracing::debug!(%error, "a connection ends");
                        return;
                    }
                }
            }
        })?;
    }
}

/// Counts a connection down when it ends, however it does.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
