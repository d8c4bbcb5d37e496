//! Contexts of XTP over outboards: two outboards, and an outboard with a peer in its own process, over an interface in
//! memory.

mod memory;

use std::io::IoSlice as StdSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use fusewire_device::interface::memory::Memory;
use fusewire_outboard::client::{self, Accepted, Client};
use fusewire_outboard::protocol::{
    ADU_MAX, About, Family, Handle, Kind, OptionName, SOL_XTP, SocketType, XTP_CHECK, XTP_SORT,
    XTP_TAGS,
};
use fusewire_outboard::server::{Budget, Settings};
use fusewire_stack::Clock;
use fusewire_stack::context::{self, Check, Contexts, ControlBlock, Event, Kept, Secrets};
use fusewire_stack::on_interface::OnInterface;
use fusewire_testkit::Random;
use fusewire_testkit::namespace::is_root;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};

use memory::{Outboard, link, stack};

const OF: SocketType = SocketType { family: Family::V4, kind: Kind::Messages };
/// Users that no system has.
const USERS: [u32; 2] = [424_251, 424_252];

fn at(host: u8, service: u16) -> SocketAddr {
    ([10, 0, 0, host], service).into()
}

/// One that those users may use.
fn start(host: u8, interface: Memory, budget: Budget) -> Outboard {
    let allow = USERS.map(Into::into).into();
    Outboard::start(host, interface, |settings| Settings { budget, allow, ..settings })
}

fn two() -> [Outboard; 2] {
    let (a, b) = link();
    [start(1, a, Budget::default()), start(2, b, Budget::default())]
}

/// What never comes is an error, and no wait.
fn patient(p: &OwnedFd) {
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(p, direction, Some(std::time::Duration::from_secs(20))).unwrap();
    }
}

fn option(name: i32) -> OptionName {
    OptionName { level: SOL_XTP, name }
}

fn set(client: &Client, handle: Handle, name: i32, value: i32) {
    client.set_option(handle, option(name), &value.to_ne_bytes()).unwrap();
}

fn value(client: &Client, handle: Handle, name: i32) -> i32 {
    let mut value = [0; 4];
    client.option(handle, option(name), &mut value).unwrap();
    i32::from_ne_bytes(value)
}

/// A socket that offers a service, with these options.
fn listener(client: &Client, service: SocketAddr, options: &[(i32, i32)]) -> (OwnedFd, Handle) {
    let (p, handle) = client.socket(OF).unwrap();
    options.iter().for_each(|(name, value)| set(client, handle, *name, *value));
    client.bind(handle, service).unwrap();
    client.listen(handle, 8).unwrap();
    patient(&p);
    (p, handle)
}

fn calling(client: &Client, service: SocketAddr, options: &[(i32, i32)]) -> (OwnedFd, Handle) {
    let (p, handle) = client.socket(OF).unwrap();
    options.iter().for_each(|(name, value)| set(client, handle, *name, *value));
    client.connect(p.as_fd(), handle, Some(service)).unwrap();
    patient(&p);
    (p, handle)
}

fn accepted(listener: &OwnedFd) -> Accepted {
    let accepted = client::accept(listener.as_fd(), true).unwrap();
    patient(&accepted.p);
    accepted
}

fn send(p: &OwnedFd, adu: &[u8], about: &About) {
    let (front, rest) = adu.split_at(adu.len() / 3);
    let pieces = [IoSlice::new(front), IoSlice::new(rest)];
    assert_eq!(client::send_message(p, &pieces, about, SendFlags::NOSIGNAL), Ok(adu.len()));
}

fn recv(p: &OwnedFd, memory: &mut [u8]) -> Option<(usize, About)> {
    let came = client::recv_message(p, memory, RecvFlags::empty()).unwrap()?;
    assert!(!came.is_cut);
    Some((came.len, came.about))
}

fn adu(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let key = [seed as u8; 32];
    blake3::Hasher::new_keyed(&key).update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// How a socket has ended, once it shows that.
fn why(client: &Client, p: &OwnedFd, handle: Handle) -> Option<Errno> {
    let mut fds = [PollFd::new(p, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
    assert!(fds[0].revents().contains(PollFlags::HUP), "it has not ended");
    client.error(handle).unwrap()
}

#[test]
fn adus_go_between_two_outboards_whole_and_in_order() {
    let [here, there] = two();
    let (near, far) = (here.client(), there.client());
    let tags = [(XTP_TAGS, 1)];
    let (offered, _) = listener(&far, at(2, 4700), &tags);
    let (p, handle) = calling(&near, at(2, 4700), &tags);
    // It has been sent before there is anybody.
    send(&p, b"first", &About { tag: Some(u64::MAX), ..About::default() });
    let other = accepted(&offered);
    assert_eq!((other.local, other.peer.ip()), (at(2, 4700), at(1, 0).ip()));
    assert_eq!(near.local(handle).unwrap().ip(), at(1, 0).ip());
    assert_eq!(near.peer(handle), Ok(at(2, 4700)));
    let mut random = Random::new(36);
    let mut lens: Vec<usize> = (0..200).map(|_| 1 + random.below(9000) as usize).collect();
    lens.extend([1, 2, ADU_MAX, ADU_MAX - 1, 1, ADU_MAX]);
    let wrong = client::send_message(
        &p,
        &[IoSlice::new(&vec![0; ADU_MAX + 1])],
        &About::default(),
        SendFlags::NOSIGNAL,
    );
    assert_eq!(wrong, Err(Errno::MSGSIZE));
    let mut memory = vec![0; ADU_MAX];
    assert_eq!(recv(&other.p, &mut memory).unwrap().1.tag, Some(u64::MAX));
    assert_eq!(&memory[..5], b"first");
    std::thread::scope(|scope| {
        // There it comes back.
        scope.spawn(|| {
            let mut memory = vec![0; ADU_MAX];
            while let Some((len, about)) = recv(&other.p, &mut memory) {
                send(&other.p, &memory[..len], &about);
            }
            shutdown(&other.p, Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            for (at, len) in lens.iter().enumerate() {
                let tag = (at % 2 == 0).then_some(at as u64);
                send(&p, &adu(at as u64, *len), &About { tag, ..About::default() });
            }
            shutdown(&p, Shutdown::Write).unwrap();
        });
        for (at, len) in lens.iter().enumerate() {
            let (came, about) = recv(&p, &mut memory).expect("an ADU");
            assert!(memory[..came] == adu(at as u64, *len), "{at}, of {len} bytes");
            assert_eq!(about.tag.filter(|_| at % 2 == 0), (at % 2 == 0).then_some(at as u64));
        }
        assert_eq!(recv(&p, &mut memory), None);
    });
}

#[test]
fn trailers_are_agreed_on_and_otherwise_it_is_one_sum() {
    let [here, there] = two();
    let (near, far) = (here.client(), there.client());
    for (ours, theirs) in [(1, 1), (1, 0), (0, 1), (0, 0)] {
        let service = 4800 + ours as u16 * 2 + theirs as u16;
        let (offered, _) = listener(&far, at(2, service), &[(XTP_CHECK, theirs)]);
        let (p, handle) = calling(&near, at(2, service), &[(XTP_CHECK, ours)]);
        assert_eq!(near.set_option(handle, option(XTP_CHECK), &[0; 4]), Err(Errno::ISCONN));
        let mut memory = vec![0; ADU_MAX];
        send(&p, b"are you there?", &About::default());
        let other = accepted(&offered);
        recv(&other.p, &mut memory).unwrap();
        send(&other.p, b"yes", &About::default());
        recv(&p, &mut memory).unwrap();
        let expected = ours * theirs;
        assert_eq!(value(&near, handle, XTP_CHECK), expected, "{ours} {theirs}");
        assert_eq!(value(&far, other.handle, XTP_CHECK), expected, "{ours} {theirs}");
        for len in [1, 7, 5000, 60_001] {
            send(&p, &adu(len, len as usize), &About::default());
            let (came, _) = recv(&other.p, &mut memory).unwrap();
            assert!(memory[..came] == adu(len, len as usize));
        }
    }
}

#[test]
fn a_peer_with_its_stack_inline_speaks_with_an_outboard() {
    let (a, b) = link();
    let outboard = start(1, a, Budget::default());
    let (clock, near) = (Clock::new(), outboard.client());
    let device = OnInterface::over_ip(stack(b, 2, &clock), at(2, 0), clock.clone()).unwrap();
    let config = context::Config { clock, ..context::Config::default() };
    let mut inline = Contexts::new(Box::new(device), config, &[5; 32]);
    let block = ControlBlock { check: Check::Cxor, ..ControlBlock::default() };
    inline.listen(4009, block.clone(), &Secrets { isn: [3; 16], cookie: [4; 16] });
    let (offered, _) = listener(&near, at(1, 4008), &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut memory = vec![0; ADU_MAX];
            // It calls, and is called.
            let (p, _) = calling(&near, at(2, 4009), &[(XTP_CHECK, 1), (XTP_SORT, 3)]);
            for seed in 0..50 {
                send(&p, &adu(seed, 3000), &About { sort: Some(seed as u16), ..About::default() });
                let (len, _) = recv(&p, &mut memory).unwrap();
                assert!(memory[..len] == adu(seed, 3000));
            }
            let called = accepted(&offered);
            let (len, _) = recv(&called.p, &mut memory).unwrap();
            send(&called.p, &memory[..len], &About::default());
            shutdown(&called.p, Shutdown::Write).unwrap();
            shutdown(&p, Shutdown::Write).unwrap();
            assert_eq!(recv(&p, &mut memory), None);
        });
        let ours = inline.context(block).unwrap();
        inline.connect(ours, at(1, 0), 4008).unwrap();
        inline.send(ours, &[StdSlice::new(&adu(99, 20_000))], Default::default()).unwrap();
        let (mut has_answer, mut open) = (false, 2);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while open > 0 {
            assert!(std::time::Instant::now() < end, "{open} of 2 are open");
            inline.poll(&mut Kept).unwrap();
            while let Some((context, event)) = inline.poll_event() {
                match event {
                    Event::Message(message) => {
                        let bytes = inline.message(context, &message).concat();
                        inline.release(context, &message);
                        if context == ours {
                            has_answer = bytes == adu(99, 20_000);
                        } else {
                            let back = [StdSlice::new(&bytes)];
                            assert!(inline.send(context, &back, Default::default()).unwrap());
                        }
                    }
                    Event::Finished => {
                        inline.finish(context);
                        open -= 1;
                    }
                    Event::Closed(ended) => assert_eq!(ended, context::Ended::InOrder),
                    _ => {}
                }
            }
            inline.wait(Some(std::time::Duration::from_millis(20))).unwrap();
        }
        assert!(has_answer);
        inline.poll(&mut Kept).unwrap();
    });
}

#[test]
fn who_calls_nobody_is_refused_and_who_is_left_hears_of_it() {
    let [here, there] = two();
    let (near, far) = (here.client(), there.client());
    let refused = || {
        let (p, handle) = calling(&near, at(2, 4701), &[]);
        // It may have ended already.
        let hello = [IoSlice::new(b"hello?")];
        let _ = client::send_message(&p, &hello, &About::default(), SendFlags::NOSIGNAL);
        why(&near, &p, handle)
    };
    assert_eq!(refused(), Some(Errno::HOSTUNREACH), "nobody speaks XTP there");
    let (offered, _) = listener(&far, at(2, 4702), &[]);
    assert_eq!(refused(), Some(Errno::CONNREFUSED));
    let (p, handle) = calling(&near, at(2, 4702), &[]);
    send(&p, b"not read", &About::default());
    drop(accepted(&offered));
    assert_eq!(why(&near, &p, handle), Some(Errno::CONNRESET));

    // What was sent before the last close comes, and then the end.
    let (p, _) = calling(&near, at(2, 4702), &[]);
    (0..20).for_each(|seed| send(&p, &adu(seed, 9000), &About::default()));
    drop(p);
    let other = accepted(&offered);
    let mut memory = vec![0; ADU_MAX];
    for seed in 0..20 {
        let (len, _) = recv(&other.p, &mut memory).expect("what was sent before the close");
        assert!(memory[..len] == adu(seed, 9000));
    }
    assert_eq!(recv(&other.p, &mut memory), None);

    // An outboard that ends resets its contexts.
    let (p, handle) = calling(&near, at(2, 4702), &[]);
    send(&p, b"one", &About::default());
    let other = accepted(&offered);
    recv(&other.p, &mut memory).unwrap();
    drop(there);
    assert_eq!(why(&near, &p, handle), Some(Errno::CONNRESET));
}

#[test]
fn a_slow_reader_stops_its_writer_and_loses_nothing() {
    let [here, there] = two();
    let (near, far) = (here.client(), there.client());
    let (offered, _) = listener(&far, at(2, 4703), &[]);
    let (p, _) = calling(&near, at(2, 4703), &[]);
    let (mut sent, mut waits) = (0, 0);
    while waits < 20 {
        let bytes = adu(sent, 20_000);
        let pieces = [IoSlice::new(&bytes)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match client::send_message(&p, &pieces, &About::default(), flags) {
            Ok(_) => (sent, waits) = (sent + 1, 0),
            Err(Errno::AGAIN) => {
                waits += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent * 20_000 < 16 << 20, "{sent} ADUs wait somewhere");
    let other = accepted(&offered);
    let mut memory = vec![0; ADU_MAX];
    for seed in 0..sent {
        let (len, _) = recv(&other.p, &mut memory).expect("an ADU");
        assert!(memory[..len] == adu(seed, 20_000), "{seed}");
    }
}

#[test]
fn what_is_no_adu_ends_its_own_socket_alone() {
    let [here, there] = two();
    let (near, far) = (here.client(), there.client());
    let (offered, _) = listener(&far, at(2, 4704), &[]);
    let (good, _) = calling(&near, at(2, 4704), &[]);
    let mut random = Random::new(4);
    for round in 0..100 {
        let (p, handle) = calling(&near, at(2, 4705), &[]);
        let mut bytes = vec![0; 1 + random.below(200) as usize];
        random.fill(&mut bytes);
        // Flags that are none.
        bytes[0] |= 0x80;
        // It may have been refused already.
        let _ = rustix::net::send(&p, &bytes, SendFlags::NOSIGNAL);
        let found = why(&near, &p, handle);
        assert!(matches!(found, Some(Errno::PROTO | Errno::CONNREFUSED)), "{round}: {found:?}");
    }
    send(&good, b"unharmed", &About::default());
    let other = accepted(&offered);
    let mut memory = [0; 64];
    assert_eq!(recv(&other.p, &mut memory).map(|(len, _)| len), Some(8));
    // A handle that is nearly right commands nothing.
    let (p, handle) = near.socket(OF).unwrap();
    for bit in 0..128 {
        let mut wrong = handle;
        wrong.token[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(near.bind(wrong, at(1, 4003)), Err(Errno::BADF));
        assert_eq!(near.connect(p.as_fd(), wrong, Some(at(2, 4704))), Err(Errno::BADF));
    }
}

#[test]
fn services_are_one_users_and_budgets_count_contexts() {
    if !is_root() {
        return eprintln!("skipped: it takes root to be other users");
    }
    let (a, b) = link();
    // One that was closed is given back a little later.
    let budget = Budget { sockets: 16, ..Budget::default() };
    let outboard = start(1, a, budget);
    let _peer = start(2, b, Budget::default());
    let as_user = |uid: u32, f: &(dyn Fn(&Client) + Sync)| {
        std::thread::scope(|scope| {
            let work = || {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).unwrap();
                f(&outboard.client());
            };
            scope.spawn(work).join().unwrap();
        });
    };
    let root = outboard.client();
    let (_kept, _) = listener(&root, at(1, 2000), &[]);
    as_user(USERS[0], &|client| {
        let bind = |local| {
            let (p, handle) = client.socket(OF).unwrap();
            client.bind(handle, local).and_then(|()| client.local(handle)).inspect(|_| drop(p))
        };
        assert_eq!(bind(at(1, 80)), Err(Errno::ACCESS), "it is root's");
        assert_eq!(bind(at(1, 2000)), Err(Errno::ADDRINUSE));
        assert_eq!(bind(([0, 0, 0, 0], 2000).into()), Err(Errno::ADDRINUSE));
        assert_eq!(bind(at(9, 2001)), Err(Errno::ADDRNOTAVAIL));
        assert!(bind(at(1, 0)).unwrap().port() >= 49_152);
    });
    as_user(USERS[1], &|client| {
        let all: Vec<_> = (0..16).map(|_| client.socket(OF).unwrap()).collect();
        assert_eq!(client.socket(OF).err(), Some(Errno::MFILE));
        drop(all);
    });
}
