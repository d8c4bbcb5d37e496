//! What is said before anything was heard: it goes with the handshake, and is answered a round trip sooner.

use super::client::TurnFn;
use crate::channel::{Channel, ChannelError, Received, Sent};
use crate::{Error, Scratch};
use fusewire_base::Instant;
use fusewire_codec::pipeline::{Marshal, Unmarshal, marshal};
use fusewire_session::{ClientConfig, Trust};
use fusewire_stack::byte_stream::{ByteStream, Connection};
use fusewire_stack::single::Opening;
use fusewire_stack::{Result, Stack};
use std::net::SocketAddr;

/// An ADU that goes first is a request; no other is as short.
const ADU_LEN: usize = 512;

/// Whom to call, and what to tell it first.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Where the server is.
    pub remote: SocketAddr,
    /// Whose key it has, and what is asked for.
    pub config: &'a ClientConfig,
    /// ADUs that the link carries before all others: within the handshake, where the configuration pins the server's key, and
    /// otherwise as soon as that was judged. Of two ways that are tried at once both servers may hear them, so that they
    /// should ask, and change nothing.
    pub first: &'a [Vec<u8>],
}

impl<'a> Call<'a> {
    /// Nothing is told first.
    pub fn new(remote: SocketAddr, config: &'a ClientConfig) -> Call<'a> {
        Call { remote, config, first: &[] }
    }

    /// Begins, and says what is left to be told. What goes on over shared memory has all of it left: a connection that
    /// is forgotten is asked nothing.
    pub(super) fn open(&self, stack: Stack) -> Result<(Opening, &'a [Vec<u8>])> {
        let mut opening = Opening::new(stack, self.remote, self.config)?;
        let mut rest = self.first;
        while !self.config.shared_memory
            && let [adu, others @ ..] = rest
            && opening.send(adu)?
        {
            rest = others;
        }
        Ok((opening, rest))
    }

    /// The handshake over a stream.
    pub(super) fn over<S: ByteStream>(&self, stream: S) -> Result<Connection<S>> {
        let config = ClientConfig { shared_memory: false, ..self.config.clone() };
        if self.is_pinned() {
            let first: Vec<&[u8]> = self.first.iter().map(Vec::as_slice).collect();
            Connection::connect_sending(stream, &config, &first)
        } else {
            Connection::connect(stream, &config)
        }
    }

    /// What is left to be told over that then.
    pub(super) fn rest_over_stream(&self) -> &'a [Vec<u8>] {
        if self.is_pinned() { &[] } else { self.first }
    }

    fn is_pinned(&self) -> bool {
        matches!(self.config.trust, Trust::Pinned(_))
    }
}

/// What a machine says in its first turn, before it has heard anything: for [`Call::first`]. From then on it is to be turned
/// over the link that was told it.
///
/// # Errors
/// The machine's.
pub fn said_first(turn: TurnFn<'_>) -> std::result::Result<Vec<Vec<u8>>, Error> {
    let mut first = First(Vec::new());
    turn(&mut first, &mut Scratch::new(), Instant::ZERO)?;
    Ok(first.0)
}

/// Keeps what is sent.
struct First(Vec<Vec<u8>>);

impl Channel for First {
    fn max_adu(&self) -> usize {
        ADU_LEN
    }

    fn room(&mut self) -> usize {
        0
    }

    fn send(&mut self, message: &dyn Marshal) -> std::result::Result<Sent, ChannelError> {
        let mut adu = vec![0; message.marshalled_len()];
        if !marshal(message, &mut adu) {
            return Ok(Sent::Full);
        }
        self.0.push(adu);
        Ok(Sent::Taken)
    }

    fn recv(&mut self, _: &mut dyn Unmarshal) -> std::result::Result<Received, ChannelError> {
        Ok(Received::Nothing)
    }

    fn finish(&mut self) -> std::result::Result<(), ChannelError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_device::udp::{self, Udp};
    use fusewire_session::Identity;
    use std::sync::Arc;

    fn stack() -> Stack {
        let device = Udp::bind(([127, 0, 0, 1], 0).into(), &udp::Config::default()).unwrap();
        Stack::new(Box::new(device), fusewire_stack::Config::default(), &[1; 32])
    }

    /// Within the handshake goes what fits, to a server that is known, on the connection that is kept.
    #[test]
    fn what_goes_with_the_handshake_is_told_already() {
        let identity = {
            let dir = tempfile::tempdir().unwrap();
            Arc::new(Identity::load_or_create(&dir.path().join("key")).unwrap())
        };
        let pinned = Trust::Pinned(identity.fingerprint());
        let remote = ([127, 0, 0, 1], 9).into();
        let (short, long) = (vec![1; 100], vec![2; fusewire_session::EARLY_LEN_MAX]);
        let first = [short.clone(), long, short];
        let left = |trust: Trust, shared_memory: bool, first: &[Vec<u8>]| {
            let config = ClientConfig::new(identity.clone(), trust);
            let config = ClientConfig { shared_memory, ..config };
            Call { remote, config: &config, first }.open(stack()).unwrap().1.len()
        };
        assert_eq!(left(pinned, false, &first[..1]), 0);
        // In order: behind what does not fit nothing does.
        assert_eq!(left(pinned, false, &first), 2);
        assert_eq!(left(Trust::Ask, false, &first[..1]), 1);
        assert_eq!(left(pinned, true, &first[..1]), 1);
    }
}
