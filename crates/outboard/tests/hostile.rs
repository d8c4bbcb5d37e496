//! An application that means harm, at an outboard over an interface in memory: it breaks itself alone.

mod memory;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fusewire_device::interface::memory::Memory;
use fusewire_outboard::client;
use fusewire_outboard::protocol::{Family, Handle, Kind, OptionName, Request, SocketType};
use fusewire_outboard::server::{Budget, Settings};
use fusewire_testkit::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType as Unix, connect,
    recv, send, socket_with,
};

use memory::{Outboard, link};

const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };

/// An outboard whose peer says nothing, which is the second.
fn alone(budget: Budget) -> (Outboard, Memory) {
    let (ours, theirs) = link();
    (Outboard::start(1, ours, |settings| Settings { budget, ..settings }), theirs)
}

fn control(path: &Path) -> OwnedFd {
    let (unix, kind) = (AddressFamily::UNIX, Unix::SEQPACKET);
    let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn ends(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

#[test]
fn what_is_no_request_ends_its_connection_and_nobody_elses() {
    let (outboard, _far) = alone(Budget::default());
    let (client, mut random) = (outboard.client(), Random::new(26));
    let (p, handle) = client.socket(STREAM).unwrap();
    for _ in 0..300 {
        let len = random.below(600) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        // Often one whose beginning is right.
        if random.below(2) == 0 && len >= 8 {
            bytes[..4].copy_from_slice(&[random.below(12) as u8, 0, 0, 0]);
        }
        let socket = control(&outboard.path);
        if send(&socket, &bytes, SendFlags::NOSIGNAL).is_err() {
            continue;
        }
        let answered = recv(&socket, &mut [0; 512], RecvFlags::empty());
        assert!(answered.is_ok() || answered == Err(Errno::CONNRESET), "{answered:?}");
    }
    let socket = control(&outboard.path);
    send(&socket, &[0xff; 64], SendFlags::NOSIGNAL).unwrap();
    assert!(ends(&socket));
    assert_eq!(client.attach(p.as_fd()), Ok((handle, STREAM)));
}

#[test]
fn who_hears_no_answers_is_asked_no_more() {
    let (outboard, _far) = alone(Budget::default());
    let socket = control(&outboard.path);
    let hello = Request::Hello { version: 1 }.emit();
    let mut sent = 0;
    // Until it is cut off: not for ever.
    while send(&socket, &hello, SendFlags::NOSIGNAL).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "answers of any number wait for him");
    }
    assert!(outboard.client().welcome().is_ok());
}

#[test]
fn a_user_has_so_many_sockets_and_gets_them_back() {
    let budget = Budget { sockets: 8, connections: 4, ..Budget::default() };
    let (outboard, _far) = alone(budget);
    let client = outboard.client();
    let mut all: Vec<_> = (0..8).map(|_| client.socket(STREAM).unwrap()).collect();
    assert_eq!(client.socket(STREAM).err(), Some(Errno::MFILE));
    all.pop();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while client.socket(STREAM).is_err() {
        assert!(std::time::Instant::now() < end, "the last close was not noticed");
    }
    let others: Vec<_> = (0..8).map(|_| control(&outboard.path)).collect();
    assert!(others.last().is_some_and(ends), "more connections than a user may have");
}

#[test]
fn sockets_are_commanded_by_their_tokens_and_placeholders_alone() {
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (p, handle) = client.socket(STREAM).unwrap();
    let local = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 8080).into();
    for bit in 0..8 * 16 {
        let mut token = handle.token;
        token[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(client.bind(Handle { token, ..handle }, local), Err(Errno::BADF), "bit {bit}");
    }
    client.bind(handle, local).unwrap();
    // A connect is shown the placeholder of its own socket.
    let (other, _) = client.socket(STREAM).unwrap();
    let to = Some((IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 80).into());
    assert_eq!(client.connect(other.as_fd(), handle, to), Err(Errno::INVAL));
    // A name is taken by anybody, and shows nothing.
    let (mine, fake) = std::os::unix::net::UnixStream::pair().unwrap();
    let instance = client.welcome().unwrap().instance;
    let name = fusewire_outboard::protocol::name(instance ^ 1, handle.socket);
    rustix::net::bind(&fake, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    assert!(fusewire_outboard::placeholder::identity(mine.as_fd()).is_some());
    assert_eq!(client.attach(mine.as_fd()), Err(Errno::NOTSOCK));
    drop(p);
}

#[test]
fn a_listener_that_talks_nonsense_is_ended_alone() {
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (p, handle) = client.socket(STREAM).unwrap();
    client.listen(handle, 8).unwrap();
    let (other, of_other) = client.socket(STREAM).unwrap();
    client.listen(of_other, 8).unwrap();
    // In pieces of odd lengths, as a stream may come.
    for _ in 0..10 {
        let _ = send(&p, &[1; 7], SendFlags::NOSIGNAL);
    }
    assert!(ends(&p));
    assert_eq!(client.error(handle), Ok(Some(Errno::PROTO)));
    let accepting = OptionName { level: libc::SOL_SOCKET, name: libc::SO_ACCEPTCONN };
    let mut value = [0; 4];
    client.option(of_other, accepting, &mut value).unwrap();
    assert_eq!(i32::from_ne_bytes(value), 1);
    rustix::io::ioctl_fionbio(&other, true).unwrap();
    assert_eq!(client::accept(other.as_fd(), true).err(), Some(Errno::AGAIN));
}
