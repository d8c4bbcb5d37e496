//! How two processes exchange their files: over a Unix socket whose name and tokens were agreed on over
//! the session, so that it is bound to it.
//!
//! The listener's name lies in the abstract namespace, so that it vanishes with its owner, and only
//! processes of the same network namespace see it. The caller sends its hello with its file at once. The
//! listener learns by the token for which session it is and answers with its own hello. Both
//! tokens travel encrypted over the session beforehand: whoever shows one is the session's other end.
//! The socket stays open: it is the doorbell, and its end is the peer's end.
//!
//! A hello is one message of 48 bytes: the magic, the token, the ring's length (little-endian).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, getsockname, listen, recvmsg, sendmsg, socket_with,
};

use super::half::{self, invalid};
use super::{Ends, Shm};
use crate::sys::map::Mapping;

/// A secret that travelled over the session.
pub type Token = [u8; 32];

const MAGIC: [u8; 8] = *b"fwshm\0\0\x01";
const HELLO_LEN: usize = 48;
const BACKLOG: i32 = 64;

/// Waits for callers.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    name: Vec<u8>,
}

/// A process that called, and has shown its token or not yet.
#[derive(Debug)]
pub struct Caller {
    socket: OwnedFd,
    hello: Option<Hello>,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub struct Call {
    socket: OwnedFd,
    own: Mapping,
    expected: Token,
}

#[derive(Debug)]
struct Hello {
    token: Token,
    ring_bytes: usize,
    file: OwnedFd,
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl Listener {
    /// Listens under a name that the kernel chooses.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn bind() -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        listen(&socket, BACKLOG)?;
        let addr = SocketAddrUnix::try_from(getsockname(&socket)?)?;
        let name = addr.abstract_name().ok_or(io::ErrorKind::AddrNotAvailable)?.to_vec();
        Ok(Listener { socket, name })
    }

    /// The name that a caller needs.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The next caller, if any. How many may be silent, and how long, is for the owner to bound.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn accept(&mut self) -> io::Result<Option<Caller>> {
        loop {
            match accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Some(Caller { socket, hello: None })),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Caller {
    /// The caller's token, once it has come; find the session that it belongs to, in constant time
    /// ([`same`]).
    ///
    /// # Errors
    /// What came is no hello; drop the caller.
    pub fn poll(&mut self) -> io::Result<Option<&Token>> {
        if self.hello.is_none() {
            self.hello = receive_hello(&self.socket)?;
        }
        Ok(self.hello.as_ref().map(|hello| &hello.token))
    }

    /// Takes the caller for the other end: checks its file and answers with a file of one's own.
    ///
    /// # Errors
    /// The file is not as it must be, or the caller is gone.
    ///
    /// # Panics
    /// When [`Caller::poll`] has not given a token yet.
    pub fn answer(self, reply: &Token, ring_bytes: usize, ends: Ends) -> io::Result<Shm> {
        let hello = self.hello.expect("the caller has shown its token");
        let peer = half::adopt(&hello.file, hello.ring_bytes)?;
        let (file, own) = half::create(half::check_ring_bytes(ring_bytes as u64)?)?;
        send_hello(&self.socket, reply, ring_bytes, &file)?;
        Shm::new(self.socket, own, peer, ends)
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Call {
    /// Calls a listener: shows `token` and expects the reply `expected`.
    ///
    /// # Errors
    /// Nobody listens under that name (the peer is on another host, or gone), or no memory is left.
    pub fn new(
        name: &[u8],
        token: &Token,
        expected: &Token,
        ring_bytes: usize,
    ) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
        let (file, own) = half::create(half::check_ring_bytes(ring_bytes as u64)?)?;
        send_hello(&socket, token, ring_bytes, &file)?;
        Ok(Call { socket, own, expected: *expected })
    }

    /// Looks for the answer; the call itself when there is none yet.
    ///
    /// # Errors
    /// The answer is none, not the session's, or its file is not as it must be.
    pub fn poll(self, ends: Ends) -> io::Result<Result<Shm, Call>> {
        let Some(hello) = receive_hello(&self.socket)? else { return Ok(Err(self)) };
        if !same(&hello.token, &self.expected) {
            return Err(invalid("an answer that is not the session's".into()));
        }
        let peer = half::adopt(&hello.file, hello.ring_bytes)?;
        Shm::new(self.socket, self.own, peer, ends).map(Ok)
    }
}

impl AsFd for Call {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Compares tokens in a time that does not depend on them.
pub fn same(a: &Token, b: &Token) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y));
    std::hint::black_box(difference) == 0
}

fn send_hello(
    socket: &OwnedFd,
    token: &Token,
    ring_bytes: usize,
    file: &OwnedFd,
) -> io::Result<()> {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..40].copy_from_slice(token);
    bytes[40..].copy_from_slice(&(ring_bytes as u64).to_le_bytes());
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
    Ok(())
}

fn receive_hello(socket: &OwnedFd) -> io::Result<Option<Hello>> {
    let mut bytes = [0; HELLO_LEN + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let len = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(message) => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(Errno::CONNRESET) => 0,
        Err(e) => return Err(e.into()),
    };
    // Descriptors beyond the first do not fit and the kernel closes them; dropping the rest of the
    // iterator closes what did.
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    if len == 0 {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    if len != HELLO_LEN || bytes[..8] != MAGIC {
        return Err(invalid(format!("a message of {len} bytes that is no hello")));
    }
    let file = file.ok_or_else(|| invalid("a hello without a file".into()))?;
    let mut token = [0; 32];
    token.copy_from_slice(&bytes[8..40]);
    let mut ring_bytes = [0; 8];
    ring_bytes.copy_from_slice(&bytes[40..HELLO_LEN]);
    let ring_bytes = half::check_ring_bytes(u64::from_le_bytes(ring_bytes))?;
    Ok(Some(Hello { token, ring_bytes, file }))
}

/// Two ends in one process, for tests.
///
/// # Errors
/// No descriptor or memory is left.
pub fn pair(ring_bytes: usize) -> io::Result<(Shm, Shm)> {
    let (a, b): (SocketAddr, SocketAddr) = (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into());
    let mut listener = Listener::bind()?;
    let call = Call::new(listener.name(), &[1; 32], &[2; 32], ring_bytes)?;
    let mut caller = listener.accept()?.ok_or(io::ErrorKind::WouldBlock)?;
    caller.poll()?.ok_or(io::ErrorKind::WouldBlock)?;
    let answered = caller.answer(&[2; 32], ring_bytes, Ends { local: b, peer: a })?;
    match call.poll(Ends { local: a, peer: b })? {
        Ok(called) => Ok((called, answered)),
        Err(_) => Err(io::ErrorKind::WouldBlock.into()),
    }
}
