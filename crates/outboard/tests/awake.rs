//! What an application asks of the kernel for messages by rings while its outboard is awake: nothing, as long as it finds something
//! to read and room to write. A process does it that the kernel kills at the first call which sends, receives, waits or wakes.

mod memory;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_outboard::client::{self, Client, Rings, Way};
use fusewire_outboard::protocol::{Family, HEADING_LEN, Handle, Kind, SocketType};
use fusewire_outboard::record::Head;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

use memory::{Outboard, link};

const ROLE: &str = "FUSEWIRE_AWAKE_ROLE";
const MESSAGES: u32 = 1000;
const PORT: u16 = 7000;
/// So short that all of them have room at once.
const LEN: usize = 20;
/// What data calls would ask the kernel for.
const CALLS: [i64; 21] = [
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_futex,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_mmap,
];

/// Older forms of some of those, which newer processors do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: [i64; 3] = [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [i64; 0] = [];

fn at(host: u8) -> SocketAddr {
    ([10, 0, 0, host], PORT).into()
}

struct Socket<'a> {
    client: &'a Client,
    rings: &'a Rings,
    p: OwnedFd,
    handle: Handle,
    way: Way,
}

impl<'a> Socket<'a> {
    fn leased((client, rings): (&'a Client, &'a Rings), (p, handle): (OwnedFd, Handle)) -> Self {
        let way = Way::default();
        rings.lease(client, p.as_fd(), handle, &way).unwrap();
        Socket { client, rings, p, handle, way }
    }

    fn with(&self) -> (BorrowedFd<'_>, Handle, &Way) {
        (self.p.as_fd(), self.handle, &self.way)
    }

    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<usize, Errno> {
        let pieces = [IoSlice::new(bytes)];
        self.rings.send_to(self.client, self.with(), &pieces, (Some(to), true), SendFlags::NOSIGNAL)
    }

    fn recv_from(&self, bytes: &mut [u8]) -> usize {
        let mut heading = [0; HEADING_LEN];
        let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(bytes)];
        let flags = RecvFlags::empty();
        let came = self.rings.recv_from(self.client, self.with(), &mut pieces, flags);
        came.unwrap().expect("a datagram").len
    }

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let pieces = [IoSlice::new(bytes)];
        self.rings.send(self.client, self.with(), &pieces, SendFlags::NOSIGNAL)
    }

    fn recv(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let mut pieces = [IoSliceMut::new(bytes)];
        self.rings.recv(self.client, self.with(), &mut pieces, RecvFlags::empty())
    }
}

fn until(mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
}

/// Not a test: the process of the one below.
#[test]
#[ignore = "the test below starts it as a process of its own"]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // They look as long as this goes on.
    let spin = Duration::from_secs(600);
    let (near, far) = link();
    let awake = |host, interface| {
        Outboard::start(host, interface, |settings| fusewire_outboard::server::Settings {
            spin,
            ..settings
        })
    };
    let outboards = [awake(1, near), awake(2, far)];
    let clients = outboards.each_ref().map(Outboard::client);
    let rings = [(); 2].map(|()| Rings::new().unwrap());
    let [near, far] = [0, 1].map(|which: usize| (&clients[which], &rings[which]));
    let made = |of: &Client, kind| of.socket(SocketType { family: Family::V4, kind }).unwrap();

    let bound = |client: &Client, host| {
        let (p, handle) = made(client, Kind::Datagram);
        client.bind(handle, at(host)).unwrap();
        (p, handle)
    };
    let datagrams = Socket::leased(near, bound(near.0, 1));
    let echo = Socket::leased(far, bound(far.0, 2));

    let (listener, handle) = made(near.0, Kind::Stream);
    near.0.bind(handle, at(1)).unwrap();
    near.0.listen(handle, 1).unwrap();
    let (p, calling) = made(far.0, Kind::Stream);
    far.0.connect(p.as_fd(), calling, Some(at(1))).unwrap();
    far.0.connected(p.as_fd(), calling).unwrap();
    let accepted = client::accept(listener.as_fd(), true).unwrap();
    let stream = Socket::leased(near, (accepted.p, accepted.handle));
    let other = Socket::leased(far, (p, calling));

    // All of it is in the rings before it is read: who finds nothing asks for a bell, and the bell is the kernel's to ring.
    for _ in 0..MESSAGES {
        other.send(&[7; LEN]).unwrap();
        assert_eq!(echo.send_to(&[7; LEN], at(1)), Ok(LEN));
    }
    let unread = |socket: &Socket<'_>| near.1.unread(socket.p.as_fd(), &socket.way).unwrap();
    let record = Head { len: LEN, heading: Some(at(2)).into() }.len_in_ring() as usize;
    until(|| unread(&stream) == LEN * MESSAGES as usize);
    until(|| unread(&datagrams) == record * MESSAGES as usize);
    println!("so far");

    let rules = CALLS.into_iter().chain(OLDER).map(|call| (call, Vec::new())).collect();
    let (allow, kill) = (SeccompAction::Allow, SeccompAction::KillProcess);
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, allow, kill, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    // The last of them takes the bell out.
    for _ in 1..MESSAGES {
        let mut bytes = [0; LEN];
        assert_eq!((datagrams.recv_from(&mut bytes), bytes), (LEN, [7; LEN]));
        assert_eq!((stream.recv(&mut bytes), bytes), (Ok(LEN), [7; LEN]));
        assert_eq!(stream.send(&bytes), Ok(LEN));
        assert_eq!(datagrams.send_to(&bytes, at(2)), Ok(LEN));
    }
    // To come back from here takes calls that are not allowed any more.
    // SAFETY: it ends the process, and takes a number.
    unsafe { libc::syscall(libc::SYS_exit_group, 42) };
}

#[test]
fn messages_take_no_system_call_while_the_outboard_is_awake() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, "")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].map(|out| String::from_utf8_lossy(&out).into_owned());
    assert!(said[0].contains("so far"), "{said:?}");
    let ended = (child.status.code(), child.status.signal());
    assert_eq!(ended, (Some(42), None), "SIGSYS is {}: {said:?}", libc::SIGSYS);
}
