//! Who may come in, and what he may bind to: users are threads with another number, over an interface in memory.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_device::interface::{Link, memory};
use fusewire_outboard::client::{self, Client};
use fusewire_outboard::protocol::{
    Ancillary, Family, Handle, Heading, Kind, OptionName, Reply, Request, SocketType, VERSION,
};
use fusewire_outboard::server::{Budget, Server, Settings, Stop};
use fusewire_stack::Clock;
use fusewire_stack::ip::{Config, Stack};
use fusewire_testkit::namespace::is_root;
use fusewire_testkit::scratch::Scratch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType as Unix, connect, recv, sendmsg, socket_with,
};

/// `SO_ERROR`
const ERROR: OptionName = OptionName { level: libc::SOL_SOCKET, name: libc::SO_ERROR };
/// Users that no system has.
const USER: u32 = 424_242;
const OTHER: u32 = 424_243;
const STRANGER: u32 = 424_244;
const OTHER_STRANGER: u32 = 424_245;
/// Who has other ports at each address.
const DIVIDED: u32 = 424_246;
/// Sockets that a user may have.
const SOCKETS: usize = 200;

fn outboard(path: &Path, allow: &[String]) -> (Stop, JoinHandle<()>) {
    let config = memory::Config { link: Link::Ip, ..memory::Config::default() };
    let (ours, theirs) = memory::pair(config).unwrap();
    let mut net = Stack::net_config(&ours);
    net.addresses = ["10.0.0.1/24", "10.0.1.1/24", "fd00::1/64"].map(|a| a.parse().unwrap()).into();
    let clock = Clock::new();
    let stack = Stack::new(Box::new(ours), net, Config::default(), [7; 32], clock.now());
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    let budget = Budget { sockets: SOCKETS, ..Budget::default() };
    let settings = Settings { allow, budget, ..Settings::at(path) };
    let mut server = Server::new(stack, clock, settings).unwrap();
    let stop = server.stop();
    let thread = std::thread::spawn(move || {
        let _other_end = theirs;
        server.run().unwrap();
    });
    (stop, thread)
}

/// Does something as another user.
fn as_user<T: Send>(uid: u32, path: &Path, f: impl FnOnce(&Client) -> T + Send) -> T {
    let work = || {
        let user = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_uid(user).unwrap();
        f(&Client::new(path).unwrap())
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn made(client: &Client, family: Family, kind: Kind) -> (OwnedFd, Handle) {
    client.socket(SocketType { family, kind }).unwrap()
}

/// Where a new socket is after this bind.
fn bound(client: &Client, family: Family, local: &str) -> Result<SocketAddr, Errno> {
    let (stream, datagram) =
        (made(client, family, Kind::Stream), made(client, family, Kind::Datagram));
    let found = [stream.1, datagram.1]
        .map(|handle| client.bind(handle, at(local)).and_then(|()| client.local(handle)));
    assert_eq!(found[0].map(|local| local.ip()), found[1].map(|local| local.ip()), "{local}");
    found[0]
}

#[test]
fn users_have_their_ports_and_addresses() {
    if !is_root() {
        return eprintln!("skipped: it takes root to be other users");
    }
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let allow = [
        format!("{USER}:80,2000-65535"),
        format!("{OTHER}@10.0.1.1"),
        format!("{DIVIDED}:80@10.0.0.1"),
        format!("{DIVIDED}:2000-65535@10.0.1.1"),
    ];
    let (stop, thread) = outboard(&path, &allow);

    let of = SocketType { family: Family::V4, kind: Kind::Stream };
    as_user(STRANGER, &path, |client| {
        assert_eq!(client.welcome().err(), Some(Errno::ACCESS));
        assert_eq!(client.socket(of).err(), Some(Errno::ACCESS));
        assert_eq!(client.option(Handle::default(), ERROR, &mut [0; 4]).err(), Some(Errno::BADF));
    });
    handed(&path, of);
    handed_by_one_with_bounds(&path, of);
    strangers_come_and_go(&path);
    as_user(USER, &path, |client| {
        for (local, found) in [
            ("10.0.0.1:80", Ok(at("10.0.0.1:80"))),
            ("0.0.0.0:2000", Ok(at("0.0.0.0:2000"))),
            ("10.0.0.1:81", Err(Errno::ACCESS)),
            ("10.0.0.1:1999", Err(Errno::ACCESS)),
        ] {
            assert_eq!(bound(client, Family::V4, local), found, "{local}");
        }
    });
    as_user(OTHER, &path, |client| {
        for (local, found) in [
            ("10.0.1.1:2001", Ok(at("10.0.1.1:2001"))),
            ("0.0.0.0:2002", Ok(at("10.0.1.1:2002"))),
            ("10.0.0.1:2003", Err(Errno::ACCESS)),
            ("10.0.1.1:80", Err(Errno::ACCESS)),
        ] {
            assert_eq!(bound(client, Family::V4, local), found, "{local}");
        }
        // None of that version is his.
        assert_eq!(bound(client, Family::V6, "[::]:2004"), Err(Errno::ACCESS));
        unbound(client);
    });
    as_user(DIVIDED, &path, sends_from_his_own);
    // Root, whoever else may what.
    let client = Client::new(&path).unwrap();
    assert_eq!(bound(&client, Family::V4, "10.0.0.1:1"), Ok(at("10.0.0.1:1")));
    stop.stop();
    thread.join().unwrap();
}

/// Who is handed a placeholder, as a worker of another user is by `fork`, uses it, and has sockets as everybody has.
fn handed(path: &Path, of: SocketType) {
    let (p, handle) = Client::new(path).unwrap().socket(of).unwrap();
    as_user(STRANGER, path, |client| {
        let no_placeholder = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        assert!(client.attach(no_placeholder.unwrap().0.as_fd()).is_err());
        assert_eq!(client.socket(of).err(), Some(Errno::ACCESS), "anybody has such a pair");
        assert_eq!(client.attach(p.as_fd()), Ok((handle, of)));
        assert_eq!(client.bind(handle, at("10.0.0.1:80")), Err(Errno::ACCESS));
        client.bind(handle, at("10.0.0.1:8000")).unwrap();
        client.listen(handle, 1).unwrap();
        assert_eq!(bound(client, Family::V4, "10.0.0.1:81"), Err(Errno::ACCESS));
        assert_eq!(bound(client, Family::V4, "10.0.0.1:8001"), Ok(at("10.0.0.1:8001")));
    });
}

/// Who is handed one by a user with an address and a budget of his own has no more than that one.
fn handed_by_one_with_bounds(path: &Path, of: SocketType) {
    let (p, _) = as_user(OTHER, path, |client| client.socket(of).unwrap());
    let all = as_user(STRANGER, path, |client| {
        client.attach(p.as_fd()).unwrap();
        assert_eq!(bound(client, Family::V4, "10.0.0.1:8003"), Err(Errno::ACCESS));
        assert_eq!(bound(client, Family::V4, "0.0.0.0:8004"), Ok(at("10.0.1.1:8004")));
        assert_eq!(bound(client, Family::V4, "10.0.1.1:81"), Err(Errno::ACCESS));
        (0..=SOCKETS).map_while(|_| client.socket(of).ok()).collect::<Vec<_>>()
    });
    assert!((1..SOCKETS).contains(&all.len()), "{}", all.len());
    let full = as_user(OTHER, path, |client| client.socket(of).err());
    assert_eq!(full, Some(Errno::MFILE), "what a stranger has is nobody's expense");
    drop(all);
    let end = Instant::now() + Duration::from_secs(10);
    while as_user(OTHER, path, |client| client.socket(of).is_err()) {
        assert!(Instant::now() < end, "the last closes were not noticed");
    }
}

/// Who is not named and shows nothing is there for a while, as long as there are not many.
fn strangers_come_and_go(path: &Path) {
    let connected = || {
        let (unix, kind) = (AddressFamily::UNIX, Unix::SEQPACKET);
        let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        socket
    };
    let is_over = |socket: &OwnedFd, seconds: i64| {
        let mut fds = [PollFd::new(socket, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap();
        fds[0].revents().contains(PollFlags::HUP)
    };
    // One who shows something else than a placeholder is told so, and that was all.
    as_user(STRANGER, path, |_| {
        let (socket, file) = (connected(), std::fs::File::open("/dev/null").unwrap());
        for request in [Request::Hello { version: VERSION }, Request::Attach] {
            let files = [file.as_fd()];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if request == Request::Attach {
                control.push(SendAncillaryMessage::ScmRights(&files));
            }
            let flags = SendFlags::NOSIGNAL;
            sendmsg(&socket, &[IoSlice::new(&request.emit())], &mut control, flags).unwrap();
            assert!(recv(&socket, &mut [0; 512], RecvFlags::empty()).unwrap().1 > 0);
        }
        assert!(is_over(&socket, 2), "he may hand over more");
    });
    let others = as_user(OTHER_STRANGER, path, |_| connected());
    as_user(STRANGER, path, |client| {
        let all: Vec<_> = (0..70).map(|_| connected()).collect();
        assert!(is_over(&all[0], 2), "the first goes when there are many");
        assert!(!is_over(&others, 0), "of another user, who has one");
        assert_eq!(client.welcome().err(), Some(Errno::ACCESS), "the last one is answered");
        assert!(!is_over(&all[69], 0));
        assert!(is_over(&all[69], 20), "nobody waits for ever");
    });
}

/// What binds by itself has an address of his own, too.
fn unbound(client: &Client) {
    let own = Ok(at("10.0.1.1:0").ip());
    let is = |handle| client.local(handle).map(|local| local.ip());
    let (_listener, handle) = made(client, Family::V4, Kind::Stream);
    client.listen(handle, 4).unwrap();
    assert_eq!(is(handle), own);
    let (p, handle) = made(client, Family::V4, Kind::Stream);
    client.connect(p.as_fd(), handle, Some(at("10.0.0.9:7"))).unwrap();
    assert_eq!(is(handle), own);
    let (p, handle) = made(client, Family::V4, Kind::Datagram);
    client.connect(p.as_fd(), handle, Some(at("10.0.0.9:7"))).unwrap();
    assert_eq!(is(handle), own);
    let (p, handle) = made(client, Family::V4, Kind::Datagram);
    let to = Some(at("10.0.0.9:7"));
    client::send_to(&p, &[IoSlice::new(b"out")], to, SendFlags::empty()).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while is(handle) != own {
        assert!(Instant::now() < end, "{:?}", client.local(handle));
    }
}

/// What is said beside a datagram of where it leaves from is asked for with the port that its socket was bound to.
fn sends_from_his_own(client: &Client) {
    let end = Instant::now() + Duration::from_secs(10);
    for (bound, from, error) in [
        ("10.0.0.1:80", "10.0.0.1", None),
        ("10.0.0.1:80", "10.0.1.1", Some(Errno::ACCESS)),
        ("10.0.1.1:2500", "10.0.1.1", None),
        ("10.0.1.1:2500", "10.0.0.1", Some(Errno::ACCESS)),
        // A group's is nobody's.
        ("10.0.1.1:2500", "239.1.1.1", None),
        // Chosen for it.
        ("10.0.1.1:0", "10.0.0.1", None),
    ] {
        let (p, handle) = made(client, Family::V4, Kind::Datagram);
        client.bind(handle, at(bound)).unwrap();
        // Policy is asked first: what it lets go is told of where the stack cannot send it.
        let (interface, told) = error.map_or((99, Errno::NETUNREACH), |error| (0, error));
        let local = Some(from.parse().unwrap());
        let beside = Ancillary { local, interface, ..Ancillary::default() };
        let heading = Heading { address: Some(at("10.0.0.9:7")), beside };
        client::send_to(&p, &[IoSlice::new(b"out")], heading, SendFlags::empty()).unwrap();
        let mut is = None;
        while is.is_none() && Instant::now() < end {
            is = client.error(handle).unwrap();
        }
        assert_eq!(is, Some(told), "{bound} from {from}");
    }
}

/// Runs `f` while the calling thread has another effective user, and can take its own back.
fn as_effective<T>(uid: u32, f: impl FnOnce() -> T) -> T {
    let set = |effective: u32| {
        let user = rustix::process::Uid::from_raw;
        rustix::thread::set_thread_res_uid(user(0), user(effective), user(0)).unwrap();
    };
    set(uid);
    let done = f();
    set(0);
    done
}

#[test]
fn each_request_has_the_rights_of_the_thread_that_sends_it() {
    if !is_root() {
        return eprintln!("skipped: it takes root to be other users");
    }
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let (stop, thread) = outboard(&path, &[format!("{USER}:80,2000-65535")]);
    let client = Client::new(&path).unwrap();
    let of = SocketType { family: Family::V4, kind: Kind::Stream };
    let (_p, privileged) = client.socket(of).unwrap();
    // So many that requests go by slots.
    (0..40).for_each(|_| assert!(client.local(privileged).is_ok()));
    client.bind(privileged, at("10.0.0.1:81")).unwrap();

    let (_p, dropped) = client.socket(of).unwrap();
    let bind = |local: &str| client.bind(dropped, at(local));
    assert_eq!(as_effective(STRANGER, || bind("10.0.0.1:82")), Err(Errno::ACCESS), "effective");
    as_user(STRANGER, &path, |_| {
        assert_eq!(bind("10.0.0.1:82"), Err(Errno::ACCESS));
        // Its process is root's guest: it has sockets as on the kernel.
        assert_eq!(bound(&client, Family::V4, "10.0.0.1:83"), Err(Errno::ACCESS));
        assert_eq!(bound(&client, Family::V4, "10.0.0.1:8083"), Ok(at("10.0.0.1:8083")));
    });
    as_user(USER, &path, |_| {
        assert_eq!(bound(&client, Family::V4, "10.0.0.1:80"), Ok(at("10.0.0.1:80")));
        assert_eq!(bound(&client, Family::V4, "10.0.0.1:84"), Err(Errno::ACCESS));
    });
    assert_eq!(bind("10.0.0.1:82"), Ok(()), "root again");
    stop.stop();
    thread.join().unwrap();
}

#[test]
fn threads_of_a_process_with_a_placeholder_have_sockets_at_the_same_time() {
    if !is_root() {
        return eprintln!("skipped: it takes root to be other users");
    }
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let (stop, thread) = outboard(&path, &[]);
    let of = SocketType { family: Family::V4, kind: Kind::Stream };
    let (p, _) = Client::new(&path).unwrap().socket(of).unwrap();
    as_user(STRANGER, &path, |client| {
        assert_eq!(client.socket(of).err(), Some(Errno::ACCESS), "nothing was shown yet");
        client.attach(p.as_fd()).unwrap();
        let makes = || (0..40).filter(|_| client.socket(of).is_ok()).count();
        let made: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(makes)).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(made, 320);
    });
    stop.stop();
    thread.join().unwrap();
}

/// Sends a request by hand, and returns what it is answered; with credentials that name `uid`, if there is one.
fn by_hand(socket: &OwnedFd, request: &Request<'_>, uid: Option<u32>) -> Result<Errno, Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(uid) = uid {
        control.push(SendAncillaryMessage::ScmCredentials(rustix::net::UCred {
            pid: rustix::process::getpid(),
            uid: rustix::process::Uid::from_raw(uid),
            gid: rustix::process::getgid(),
        }));
    }
    sendmsg(socket, &[IoSlice::new(&request.emit())], &mut control, SendFlags::NOSIGNAL)?;
    let mut answer = [0; 512];
    let (len, _) = recv(socket, &mut answer, RecvFlags::empty())?;
    match Reply::parse(&answer[..len]) {
        Ok(Reply::Failed(errno)) => Ok(Errno::from_raw_os_error(errno as i32)),
        _ => Err(Errno::PROTO),
    }
}

#[test]
fn a_child_gains_no_right_by_a_control_connection_that_it_inherits() {
    if !is_root() {
        return eprintln!("skipped: it takes root to be other users");
    }
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let (stop, thread) = outboard(&path, &[]);
    let (unix, kind) = (AddressFamily::UNIX, Unix::SEQPACKET);
    let inherited = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&inherited, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let of = SocketType { family: Family::V4, kind: Kind::Stream };
    let (_p, handle) = Client::new(&path).unwrap().socket(of).unwrap();
    // SAFETY: the child makes system calls alone, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(STRANGER)).unwrap();
        let bind = Request::Bind(handle, at("10.0.0.1:80"));
        let failed = [
            by_hand(&inherited, &Request::Socket(of), None) != Ok(Errno::ACCESS),
            by_hand(&inherited, &bind, None) != Ok(Errno::ACCESS),
            by_hand(&inherited, &bind, Some(0)) != Err(Errno::PERM),
        ];
        let failed = failed.iter().rev().fold(0, |all, one| all << 1 | i32::from(*one));
        // SAFETY: nothing of the parent's is to be done here.
        unsafe { libc::_exit(failed) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 0, "a bit for each request that was answered otherwise");
    stop.stop();
    thread.join().unwrap();
}
