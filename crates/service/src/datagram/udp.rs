//! An [`End`] on a socket of the kernel's.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::udp::is_remark;
use fusewire_device::{Waker, sleep};
use fusewire_session::Datagrams;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;

use super::End;
use crate::profile::Profile;

/// The least that is waited for: what a timer of the kernel's can do, and no busy loop.
const LEAST: Duration = Duration::from_micros(500);
/// Datagrams that are taken before anything is sent.
const BATCH: usize = 64;

/// An end, its socket, and its clock. A socket of the standard library says nothing of ECN: marks are not seen.
#[derive(Debug)]
pub struct Udp<P: Profile> {
    end: End<P>,
    socket: UdpSocket,
    begun: std::time::Instant,
    memory: Box<[u8]>,
}

impl<P: Profile> Udp<P> {
    /// An end of the session that these are of, whose peer has its socket at `peer`.
    ///
    /// # Errors
    /// What the operating system says; as [`ErrorKind::InvalidInput`] those of [`End::new`].
    pub fn new(socket: UdpSocket, peer: SocketAddr, datagrams: Datagrams) -> io::Result<Udp<P>> {
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        if P::DSCP != 0 {
            mark(&socket, peer, P::DSCP)?;
        }
        let mut end = End::new(Instant::ZERO, datagrams)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        if peer.is_ipv6() {
            end.set_ipv6();
        }
        Ok(Udp { end, socket, begun: std::time::Instant::now(), memory: vec![0; P::MTU].into() })
    }

    /// Where its socket is.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// From now on datagrams go to this address, and come from there: of a relay between the two.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn go_by(&self, relay: SocketAddr) -> io::Result<()> {
        self.socket.connect(relay)
    }

    /// The end itself.
    pub fn end(&mut self) -> &mut End<P> {
        &mut self.end
    }

    /// What its clock says, which began with it.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.begun.elapsed()
    }

    /// Sends what may leave, and waits until something comes or is due, or until then at most. Events are to be asked for behind
    /// it.
    ///
    /// # Errors
    /// What the operating system says of the socket; that the session is at its end, as [`ErrorKind::Other`].
    pub fn drive(&mut self, until: Instant) -> io::Result<()> {
        self.drive_waking(until, None)
    }

    /// [`Udp::drive`], which this ends as well, now or when it wakes.
    pub(super) fn drive_waking(&mut self, until: Instant, waker: Option<&Waker>) -> io::Result<()> {
        let now = self.now();
        self.end.handle_timeout(now);
        self.send()?;
        let due = self.end.poll_timeout().map_or(until, |due| due.min(until));
        self.sleep(due.saturating_since(now).max(LEAST), waker)?;
        self.turn().map(drop)
    }

    /// Takes what is there, and sends what may leave, without waiting for anything; how many datagrams were taken, and whether more
    /// may be there.
    pub(super) fn turn(&mut self) -> io::Result<(usize, bool)> {
        let (mut taken, mut is_left) = (0, true);
        while taken < BATCH {
            match self.socket.recv(&mut self.memory) {
                Ok(len) => {
                    taken += 1;
                    let now = self.now();
                    self.end.handle_datagram(now, &self.memory[..len], 0);
                    if self.end.is_crowded() {
                        break;
                    }
                }
                Err(error) if is_nothing(&error) => {
                    is_left = false;
                    break;
                }
                Err(error) if says_nothing_of_the_socket(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let now = self.now();
        self.end.handle_timeout(now);
        self.send()?;
        Ok((taken, is_left))
    }

    fn sleep(&self, timeout: Duration, waker: Option<&Waker>) -> io::Result<()> {
        let socket = PollFd::new(&self.socket, PollFlags::IN);
        let Some(waker) = waker else { return sleep(&mut [socket], Some(timeout)).map(drop) };
        let mut all = [socket, PollFd::new(waker, PollFlags::IN)];
        sleep(&mut all, Some(timeout))?;
        if !all[1].revents().is_empty() {
            waker.drain();
        }
        Ok(())
    }

    /// Sends what may leave now.
    ///
    /// # Errors
    /// As [`Udp::drive`].
    pub fn send(&mut self) -> io::Result<()> {
        let now = self.now();
        while let Some(len) =
            self.end.poll_transmit(now, &mut self.memory).map_err(io::Error::other)?
        {
            let mut sent = self.socket.send(&self.memory[..len]);
            if sent.as_ref().is_err_and(says_nothing_of_the_socket) {
                // It was of an earlier one, in all likelihood, and this one was not tried.
                sent = self.socket.send(&self.memory[..len]);
            }
            match sent {
                // What has no room, or nobody to go to, is lost, as on any path.
                Err(error) if !is_nothing(&error) && !says_nothing_of_the_socket(&error) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Datagrams go with this code point (RFC 2474): the upper six bits of the byte that ECN has the others of.
fn mark(socket: &UdpSocket, peer: SocketAddr, dscp: u8) -> io::Result<()> {
    match peer {
        SocketAddr::V4(_) => sockopt::set_ip_tos(socket, dscp << 2)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_tclass(socket, u32::from(dscp) << 2)?,
    }
    Ok(())
}

/// Nothing is there, or no room.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// An earlier datagram's error that ICMP brought, which anybody can forge who knows the two addresses; or one that a datagram has
/// by itself, as where it is too long for the path or a filter does not let it out.
fn says_nothing_of_the_socket(error: &io::Error) -> bool {
    let is_path = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NetworkDown);
    is_path || error.raw_os_error().is_some_and(is_remark)
}
