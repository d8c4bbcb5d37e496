//! An application that means harm, at an outboard over an interface in memory: it breaks itself alone.

mod memory;

use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::interface::memory::Memory;
use fusewire_outboard::client;
use fusewire_outboard::protocol::{
    Family, Handle, Kind, OptionName, Request, SocketType, VERDICT_LEN, VERSION, Verdict,
};
use fusewire_outboard::server::{Budget, Settings};
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType as Unix, connect, recv, send, sendmsg, socket_with,
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
            bytes[..4].copy_from_slice(&[random.below(14) as u8, 0, 0, 0]);
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
    let end = Instant::now() + Duration::from_secs(10);
    while client.socket(STREAM).is_err() {
        assert!(Instant::now() < end, "the last close was not noticed");
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
    let name = fusewire_outboard::protocol::name(instance, handle.socket);
    rustix::net::bind(&fake, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    assert!(fusewire_outboard::placeholder::identity(mine.as_fd()).is_some());
    assert_eq!(client.attach(mine.as_fd()), Err(Errno::NOTSOCK));
    drop(p);
}

#[test]
fn names_that_a_stranger_has_taken_keep_no_placeholder_from_saying_what_it_is() {
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (instance, (_p, handle)) =
        (client.welcome().unwrap().instance, client.socket(STREAM).unwrap());
    // Names of numbers that come next.
    let taken: Vec<_> = (0..8)
        .map(|n| {
            let name = fusewire_outboard::protocol::name(instance, handle.socket + n);
            let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
            let (mine, _) = std::os::unix::net::UnixStream::pair().unwrap();
            let _ = rustix::net::bind(&mine, &name);
            mine
        })
        .collect();
    for _ in &taken {
        let (p, _) = client.socket(STREAM).unwrap();
        let said = fusewire_outboard::placeholder::identity(p.as_fd());
        assert_eq!(said.map(|(of, _)| of), Some(instance));
        std::mem::forget(p);
    }
}

/// Runs threads that do something for ever, until `f` is through.
fn meanwhile<const N: usize>(harm: [&(dyn Fn() + Sync); N], f: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        for harm in harm {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    harm();
                }
            });
        }
        f();
        drop(over);
    });
}

/// Somebody else is answered, for a while.
fn others_are_served(outboard: &Outboard) {
    let (say, says) = std::sync::mpsc::channel();
    let client = outboard.client();
    std::thread::spawn(move || {
        for _ in 0..100 {
            let _ = say.send(client.socket(STREAM).map(|_| ()));
        }
    });
    for n in 0..100 {
        let said = says.recv_timeout(Duration::from_secs(10));
        assert_eq!(said, Ok(Ok(())), "after {n} answers");
    }
}

fn never_waits(p: &OwnedFd) {
    rustix::io::ioctl_fionbio(p, true).unwrap();
}

/// A connection of the kernel's whose last close takes until its peer, the other one, is gone.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Little of the kernel's memory.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (deaf, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&slow, 4096).unwrap();
    rustix::net::sockopt::set_socket_linger(&slow, Some(Duration::from_secs(3600))).unwrap();
    rustix::io::ioctl_fionbio(&slow, true).unwrap();
    while send(&slow, &[0; 1 << 16], SendFlags::NOSIGNAL).is_ok() {}
    (slow, deaf)
}

/// Sends something, with a descriptor that nobody has besides soon.
fn hand_over(to: &OwnedFd, bytes: &[u8], file: TcpStream) -> Result<usize, Errno> {
    let (to, bytes) = (to.try_clone().unwrap(), bytes.to_vec());
    let (say, says) = std::sync::mpsc::channel();
    // Whoever closes it last waits: where that is not the outboard, a thread that nobody waits for.
    std::thread::spawn(move || {
        let files = [file.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(&to, &[IoSlice::new(&bytes)], &mut control, flags);
        drop(to);
        let _ = say.send(sent);
        drop(file);
    });
    says.recv().unwrap()
}

#[test]
fn descriptors_whose_close_takes_long_stop_nobody() {
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (p, _) = client.socket(STREAM).unwrap();
    let has_rule = fusewire_device::pass_rights(p.as_fd(), true).is_ok();
    let (mut all, hello) = (Vec::new(), Request::Hello { version: VERSION }.emit());
    let mut slow = || {
        let (slow, deaf) = lingering();
        all.push(deaf);
        slow
    };
    // Before he was let in.
    let early = control(&outboard.path);
    let handed = hand_over(&early, &hello, slow());
    assert!(handed.is_ok() || handed == Err(Errno::PERM), "{handed:?}");
    drop(early);
    others_are_served(&outboard);
    // With a request, and in one that nobody reads any more.
    let socket = control(&outboard.path);
    send(&socket, &hello, SendFlags::NOSIGNAL).unwrap();
    recv(&socket, &mut [0; 512], RecvFlags::empty()).unwrap();
    for _ in 0..4 {
        for _ in 0..50 {
            send(&socket, &hello, SendFlags::NOSIGNAL).unwrap();
        }
        hand_over(&socket, &hello, slow()).unwrap();
        for _ in 0..51 {
            recv(&socket, &mut [0; 512], RecvFlags::empty()).unwrap();
        }
    }
    others_are_served(&outboard);
    send(&socket, &[0xff; 64], SendFlags::NOSIGNAL).unwrap();
    let _ = hand_over(&socket, &hello, slow());
    others_are_served(&outboard);
    // By a placeholder; an older kernel than Linux 6.16 takes them.
    if has_rule {
        assert_eq!(hand_over(&p, &[7], slow()), Err(Errno::PERM));
    }
    drop(p);
    others_are_served(&outboard);
    // Many: he is not heard any more. What lies before it gives us the time not to be the last who has it.
    let socket = control(&outboard.path);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        for _ in 0..50 {
            let _ = send(&socket, &hello, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        match hand_over(&socket, &hello, slow()) {
            Ok(_) | Err(Errno::PERM | Errno::AGAIN) => {}
            Err(_) => break,
        }
        while recv(&socket, &mut [0; 512], RecvFlags::DONTWAIT).is_ok_and(|(_, len)| len > 0) {}
        assert!(Instant::now() < end, "descriptors of any number wait");
    }
}

/// In the environment of a process that hands over descriptors: to whom.
const HANDS_OVER_TO: &str = "FUSEWIRE_HOSTILE_TO";
/// A user that no system has.
const NOBODY: u32 = 424_242;

/// Sends something, with as many copies of a descriptor as a message can have.
fn hand_over_many(to: &OwnedFd, bytes: &[u8], file: &impl AsFd) -> Result<usize, Errno> {
    let files = [file.as_fd(); 253];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// As another user hands over all that is taken, the first of it of a kind whose close takes for ever.
fn hand_over_all(path: &Path) -> ! {
    rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
    let hello = Request::Hello { version: VERSION }.emit();
    let connected = || {
        let socket = control(path);
        send(&socket, &hello, SendFlags::NOSIGNAL).unwrap();
        recv(&socket, &mut [0; 512], RecvFlags::empty()).unwrap();
        socket
    };
    let slow: Vec<_> = (0..8).map(|_| (connected(), lingering())).collect();
    let others: Vec<_> = (0..40).map(|_| connected()).collect();
    let mut deaf = Vec::new();
    for (socket, (slow, far)) in slow {
        let _ = hand_over(&socket, &Request::Attach.emit(), slow);
        deaf.push((socket, far));
    }
    // By then the outboard has each of those alone.
    std::thread::sleep(Duration::from_millis(300));
    let file = std::fs::File::open("/dev/null").unwrap();
    for _ in 0..4 {
        for socket in &others {
            let _ = hand_over_many(socket, &Request::Attach.emit(), &file);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("handed over");
    std::thread::sleep(Duration::from_secs(60));
    drop(deaf);
    std::process::exit(0);
}

#[test]
fn descriptors_that_wait_to_be_closed_are_no_more_than_a_few_messages_of_them() {
    let name = "descriptors_that_wait_to_be_closed_are_no_more_than_a_few_messages_of_them";
    in_namespace(name, Need::Root, "", || {
        if let Some(path) = std::env::var_os(HANDS_OVER_TO) {
            hand_over_all(Path::new(&path));
        }
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        // Who is let in, and who may show a placeholder and nothing else.
        for allow in [vec![NOBODY.to_string().parse().unwrap()], Vec::new()] {
            let before = descriptors();
            let ((ours, _far), is_named) = (link(), !allow.is_empty());
            let outboard = Outboard::start(1, ours, |settings| Settings { allow, ..settings });
            let mut attack = std::process::Command::new(std::env::current_exe().unwrap());
            attack.args(["--exact", name, "--nocapture"]).env(HANDS_OVER_TO, &outboard.path);
            let mut attack = attack.stdout(std::process::Stdio::piped()).spawn().unwrap();
            let out = std::io::BufReader::new(attack.stdout.take().unwrap());
            let mut lines = std::io::BufRead::lines(out);
            assert!(lines.any(|line| line.unwrap().contains("handed over")));
            others_are_served(&outboard);
            let more = descriptors() - before;
            attack.kill().unwrap();
            attack.wait().unwrap();
            drop(lines);
            // 256 and one message beyond, and connections.
            assert!((253..256 + 253 + 200).contains(&more), "{more}, is named: {is_named}");
            drop((outboard, _far));
            let end = Instant::now() + Duration::from_secs(10);
            while descriptors() > before {
                assert!(Instant::now() < end, "{} stay open", descriptors() - before);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

#[test]
fn a_listen_that_fails_gives_back_a_backlog_once() {
    let (outboard, _far) = alone(Budget { sockets: 64, ..Budget::default() });
    let client = outboard.client();
    let [first, second, last] = [STREAM; 3].map(|of| client.socket(of).unwrap());
    let of = SocketType { family: Family::V6, kind: Kind::Messages };
    let fails = client.socket(of).unwrap();
    // Of 128 that may wait, each but for one.
    client.listen(first.1, 64).unwrap();
    client.listen(second.1, 63).unwrap();
    assert_eq!(client.listen(fails.1, 1), Err(Errno::ADDRNOTAVAIL), "an outboard of IPv4");
    for _ in 0..64 {
        assert_eq!(client.listen(fails.1, 64), Err(Errno::NOBUFS));
    }
    assert_eq!(client.listen(last.1, 64), Err(Errno::NOBUFS), "127 may wait already");
    client.listen(last.1, 1).unwrap();
}

#[test]
fn connections_that_the_kernel_has_no_room_to_hand_over_are_handed_over_later() {
    let name = "connections_that_the_kernel_has_no_room_to_hand_over_are_handed_over_later";
    in_namespace(name, Need::Root, "", || {
        const DESCRIPTORS: u64 = 200;
        let limit =
            rustix::process::Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(std::env::temp_dir(), all).unwrap();
        let (ours, theirs) = link();
        // An outboard of a user without rights: so many descriptors of his may be on their way.
        let user = || rustix::process::Uid::from_raw(NOBODY);
        let outboard = std::thread::spawn(move || {
            rustix::thread::set_thread_uid(user()).unwrap();
            Outboard::start(1, ours, |settings| settings)
        });
        let outboard = outboard.join().unwrap();
        let far = Outboard::start(2, theirs, |settings| settings);
        let (client, asks) = (outboard.client(), far.client());
        let (p, handle) = client.socket(STREAM).unwrap();
        let at = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 80).into();
        client.bind(handle, at).unwrap();
        client.listen(handle, 8).unwrap();
        let on_their_way = std::thread::spawn(move || {
            rustix::thread::set_thread_uid(user()).unwrap();
            let flags = SocketFlags::CLOEXEC;
            let (a, b) =
                rustix::net::socketpair(AddressFamily::UNIX, Unix::SEQPACKET, flags, None).unwrap();
            hand_over_many(&a, &[7], &std::fs::File::open("/dev/null").unwrap()).unwrap();
            (a, b)
        });
        let on_their_way = on_their_way.join().unwrap();
        let asked: Vec<_> = (0..2)
            .map(|_| {
                let (p, handle) = asks.socket(STREAM).unwrap();
                asks.connect(p.as_fd(), handle, Some(at)).unwrap();
                asks.connected(p.as_fd(), handle).unwrap();
                p
            })
            .collect();
        let shown = |p: &OwnedFd, milliseconds: i64| {
            let mut fds = [PollFd::new(p, PollFlags::IN)];
            let limit = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
            poll(&mut fds, Some(&limit)).unwrap() > 0
        };
        assert!(!shown(&p, 200), "a descriptor more was on its way than may be");
        drop(on_their_way);
        for (n, asked) in asked.iter().enumerate() {
            assert!(shown(&p, 900), "connection {n} waits");
            let accepted = client::accept(p.as_fd(), true).unwrap();
            send(&accepted.p, b"late", SendFlags::NOSIGNAL).unwrap();
            assert_eq!(recv(asked, &mut [0; 8], RecvFlags::empty()).unwrap().1, 4);
        }
    });
}

#[test]
fn verdicts_without_end_hold_up_nobody() {
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (p, handle) = client.socket(STREAM).unwrap();
    client.listen(handle, 8).unwrap();
    never_waits(&p);
    // Of nobody: each is read, and means nothing.
    let verdict = Verdict::Taken(Handle { socket: 77, token: [7; 16] }).emit();
    let many: Vec<u8> = std::iter::repeat_n(verdict, 6000).flatten().collect();
    let sent = AtomicU64::new(0);
    let write = || {
        // Whole ones, or what it has no room for comes the next time.
        let at = sent.load(Ordering::Relaxed) as usize % VERDICT_LEN;
        match send(&p, &many[at..], SendFlags::NOSIGNAL) {
            Ok(len) => drop(sent.fetch_add(len as u64, Ordering::Relaxed)),
            Err(error) => assert_eq!(error, Errno::AGAIN),
        }
    };
    meanwhile([&write], || {
        others_are_served(&outboard);
        let before = sent.load(Ordering::Relaxed);
        let end = Instant::now() + Duration::from_secs(10);
        while sent.load(Ordering::Relaxed) < before + (1 << 20) {
            assert!(Instant::now() < end, "verdicts are not read any more");
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_is_sent_before_a_connection_without_end_holds_up_nobody() {
    const MESSAGES: SocketType = SocketType { family: Family::V4, kind: Kind::Messages };
    let (outboard, _far) = alone(Budget::default());
    let client = outboard.client();
    let (p, handle) = client.socket(MESSAGES).unwrap();
    never_waits(&p);
    let write = || {
        let _ = send(&p, &[7], SendFlags::NOSIGNAL);
    };
    let to = Some((IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 80).into());
    let call = || {
        let _ = client.connect(p.as_fd(), handle, to);
    };
    meanwhile([&write, &write, &write, &call], || others_are_served(&outboard));
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
