//! The transfer over streams of bytes that somebody else's protocol carries, a thread a connection: kernel TCP, for where UDP is
//! blocked, and an outboard's.

use super::line::{self, IDLE_MIN, LOOK_EVERY};
use super::refusals::Refusals;
use super::server::{Bounds, Control, DRAIN_LOOK, Other};
use crate::server::Share;
use fusewire_session::ServerConfig;
use fusewire_stack::Link;
use fusewire_stack::byte_stream::{ByteListener, ByteStream, Connection};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What may be used at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections whose peers are known, each with a thread; for one more, the one that was idle longest has to go.
    pub connections_max: usize,
    /// How long it must have been idle, with nothing asked for.
    pub idle_min: Duration,
    /// Handshakes, each with a thread; for one more, the oldest has to go.
    pub handshakes_max: usize,
    /// Handshakes of one source, which is an IPv4 address or a network of 64 bits (RFC 4291 section 2.5.4); for
    /// one more, the oldest of that source has to go.
    pub handshakes_per_source_max: usize,
    /// How long a handshake may take, from the first byte to the last.
    pub handshake_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 256,
            idle_min: IDLE_MIN,
            handshakes_max: 192,
            // As many as one client makes at once.
            handshakes_per_source_max: 64,
            handshake_time: Duration::from_secs(10),
        }
    }
}

/// Takes connections until the server drains.
///
/// # Errors
/// The listener is broken.
pub fn serve(
    listener: &impl ByteListener,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Arc<Control>,
) -> std::io::Result<()> {
    serve_within(listener, config, share, control, &Limits::default())
}

/// As [`serve`], within other limits.
///
/// # Errors
/// The errors of [`serve`].
pub fn serve_within<L: ByteListener>(
    listener: &L,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Arc<Control>,
    limits: &Limits,
) -> std::io::Result<()> {
    let handshakes = Arc::new(Handshakes::new());
    let refusals = Arc::new(Refusals::default());
    while !control.is_draining() {
        let Some((stream, peer)) = listener.accept_within(LOOK_EVERY)? else { continue };
        let begun = handshakes.begin(&stream, peer.ip(), limits);
        match begun.and_then(|begun| Ok((begun, stream.local_addr()?))) {
            Ok((begun, local)) => {
                let other = Other { protocol: L::Stream::NAME, local, peer };
                let (config, limits) = (config.clone(), *limits);
                let (share, control) = (Arc::clone(share), Arc::clone(control));
                let refusals = Arc::clone(&refusals);
                line::spawn(other.protocol, move || {
                    match shake_hands(stream, peer, &config, begun, &limits) {
                        Ok(connection) => {
                            let Limits { connections_max: max, idle_min, .. } = limits;
                            let bounds = Bounds { max, idle_min };
                            line::serve(
                                bounds,
                                other,
                                &share,
                                &control,
                                connection,
                                Connection::abort,
                            );
                        }
                        Err(error) => refusals.log(Some(peer), &error),
                    }
                });
            }
            // It is gone already, or there are no descriptors for now.
            Err(error) => tracing::debug!(%peer, %error, "cannot accept"),
        }
    }
    Ok(())
}

/// Serves streams alone, without a stack beside them, until `control` says to drain and all transfers have ended, or for `grace`
/// after that. Returns how many connections were broken off.
///
/// # Errors
/// The errors of [`serve`].
pub fn serve_to_the_end(
    listener: &impl ByteListener,
    config: &ServerConfig,
    share: &Arc<Share>,
    control: &Arc<Control>,
    grace: Duration,
) -> std::io::Result<usize> {
    serve(listener, config, share, control)?;
    let deadline = Instant::now() + grace;
    while control.others() > 0 && Instant::now() < deadline && !control.is_given_up() {
        std::thread::sleep(DRAIN_LOOK);
    }
    let broken = control.others();
    control.end();
    Ok(broken)
}

fn shake_hands<S: ByteStream>(
    stream: S,
    peer: SocketAddr,
    config: &ServerConfig,
    _begun: Begun<S>,
    limits: &Limits,
) -> fusewire_stack::Result<Connection<S>> {
    let connection = Connection::accept_within(stream, config, limits.handshake_time)?;
    connection.give_up_silent()?;
    tracing::info!(%peer, key = %connection.session().peer, "connected over {}", S::NAME);
    Ok(connection)
}

/// Handshakes under way, oldest first.
struct Handshakes<S> {
    list: Mutex<(u64, Vec<Handshake<S>>)>,
}

struct Handshake<S> {
    number: u64,
    source: u128,
    /// To end it from outside.
    stream: S,
}

/// One of them, until it is dropped.
struct Begun<S: ByteStream> {
    handshakes: Arc<Handshakes<S>>,
    number: u64,
}

impl<S: ByteStream> Handshakes<S> {
    fn new() -> Handshakes<S> {
        Handshakes { list: Mutex::new((0, Vec::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Handshake<S>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, for which others may have to go: who is quick is not among them.
    fn begin(
        self: &Arc<Self>,
        stream: &S,
        address: IpAddr,
        limits: &Limits,
    ) -> std::io::Result<Begun<S>> {
        let (stream, source) = (stream.try_clone()?, source(address));
        let mut guard = self.lock();
        let (count, list) = &mut *guard;
        let of_source = list.iter().filter(|handshake| handshake.source == source).count();
        let goes = if of_source >= limits.handshakes_per_source_max {
            list.iter().position(|handshake| handshake.source == source)
        } else {
            (list.len() >= limits.handshakes_max).then_some(0)
        };
        if let Some(at) = goes.filter(|at| *at < list.len()) {
            let oldest = list.remove(at);
            tracing::debug!("too many handshakes: the oldest has to go");
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
        let number = *count;
        *count += 1;
        list.push(Handshake { number, source, stream });
        Ok(Begun { handshakes: Arc::clone(self), number })
    }
}

impl<S: ByteStream> Drop for Begun<S> {
    fn drop(&mut self) {
        self.handshakes.lock().1.retain(|handshake| handshake.number != self.number);
    }
}

/// Who shares a bound: one address, or the network that one host has all of.
fn source(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}
