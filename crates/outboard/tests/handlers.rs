//! Calls in signal handlers, with the kernel's stack as peer over veth: what the handler interrupted may be one on the same
//! socket, and nobody waits for it, loses a byte of it, or mixes with it.

mod scene;

use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use scene::{BULK, ROLE, SETUP, Scene, Socket, content};

/// Rounds of each call.
const ROUNDS: u64 = 20;
/// Longest until a handler has come between often enough.
const PATIENCE: Duration = Duration::from_secs(40);

/// Not a test: the kernel's peer.
#[test]
#[ignore = "the test below starts it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_ok() {
        scene::kernel();
    }
}

/// What the handler does, and to which socket.
static SOCKET: AtomicPtr<Socket<'static>> = AtomicPtr::new(null_mut());
static RINGS: AtomicPtr<fusewire_outboard::client::Rings> = AtomicPtr::new(null_mut());
static DOES: AtomicU8 = AtomicU8::new(FINISHES);
const FINISHES: u8 = 0;
const GIVES_UP: u8 = 1;
const SENDS: u8 = 2;
const RECEIVES: u8 = 3;
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// What it has sent, in messages of [`message`]; bytes that it has received, and the sum of them.
static SENT: AtomicU64 = AtomicU64::new(0);
static RECEIVED: AtomicUsize = AtomicUsize::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);

/// Bytes of a message.
const MESSAGE: usize = 16;

/// The message of somebody's that has this number.
fn message(from: u8, number: u64) -> [u8; MESSAGE] {
    let mut bytes = [from; MESSAGE];
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

extern "C" fn handler(_: libc::c_int) {
    // SAFETY: both live until no signal comes any more, and are only shared.
    let (socket, rings) = unsafe {
        (SOCKET.load(Ordering::Acquire).as_ref(), RINGS.load(Ordering::Acquire).as_ref())
    };
    if let (Some(socket), Some(rings)) = (socket, rings) {
        match DOES.load(Ordering::Relaxed) {
            FINISHES => drop(rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write)),
            GIVES_UP => rings.give_up(socket.p.as_fd(), &socket.way),
            SENDS => {
                let next = message(b'h', SENT.load(Ordering::Relaxed));
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                // All of it, or nothing.
                if socket.send(&next, flags) == Ok(MESSAGE) {
                    SENT.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {
                let mut bytes = [0; 777];
                if let Ok(len) = socket.recv(&mut bytes, RecvFlags::DONTWAIT) {
                    RECEIVED.fetch_add(len, Ordering::Relaxed);
                    SUM.fetch_add(sum(&bytes[..len]), Ordering::Relaxed);
                }
            }
        }
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does something that a signal interrupts after a while, or again and again until it is done.
fn interrupted(
    scene: &Scene,
    socket: &Socket<'_>,
    (after, is_often): (Duration, bool),
    f: impl FnOnce(),
) {
    // SAFETY: `socket` and `scene` outlive the signal, which is awaited below; lifetimes alone change.
    SOCKET.store((&raw const *socket).cast_mut().cast(), Ordering::Release);
    RINGS.store((&raw const scene.rings).cast_mut(), Ordering::Release);
    // SAFETY: this thread's own name, which lives until it has joined the other.
    let caller = unsafe { libc::pthread_self() };
    let is_done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                std::thread::sleep(after);
                // SAFETY: that thread waits for this one.
                unsafe { libc::pthread_kill(caller, libc::SIGUSR2) };
                if !is_often || is_done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        f();
        is_done.store(true, Ordering::Relaxed);
    });
    SOCKET.store(null_mut(), Ordering::Release);
}

#[test]
fn what_a_handler_interrupted_holds_up_nobody() {
    in_namespace("what_a_handler_interrupted_holds_up_nobody", Need::Root, SETUP, || {
        let (scene, mut random) = (Scene::new(), Random::new(5));
        // SAFETY: the handler makes calls that are for handlers.
        unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(_) as libc::sighandler_t) };
        let sent = content(1, BULK);
        for round in 0..ROUNDS {
            let after = Duration::from_micros(random.below(4000));
            DOES.store(FINISHES, Ordering::Relaxed);
            let (socket, mut len) = (scene.leased(7001), 0);
            interrupted(&scene, &socket, (after, false), || {
                while len < BULK {
                    match socket.send(&sent[len..BULK.min(len + 100_000)], SendFlags::NOSIGNAL) {
                        Ok(more) => len += more,
                        Err(Errno::INTR) => {}
                        Err(error) => return assert_eq!(error, Errno::PIPE, "round {round}"),
                    }
                }
            });
            let mut hash = [0; 32];
            socket.recv_all(&mut hash);
            assert!(hash == *blake3::hash(&sent[..len]).as_bytes(), "round {round}, {len} bytes");
            socket.close();

            DOES.store(GIVES_UP, Ordering::Relaxed);
            let (socket, mut back) = (scene.leased(7004), vec![0; 4 << 20]);
            interrupted(&scene, &socket, (after, false), || socket.recv_all(&mut back));
            assert!(back[..] == content(2, BULK)[..back.len()], "round {round}");
            assert!(!socket.way.is_leased());
            assert!(matches!(
                socket.recv(&mut [0; 9], RecvFlags::DONTWAIT),
                Ok(1..) | Err(Errno::AGAIN)
            ));
            socket.close();
        }
        assert_eq!(CALLS.load(Ordering::Relaxed) as u64, 2 * ROUNDS);
    });
}

/// How often the handler is called.
const OFTEN: (Duration, bool) = (Duration::from_micros(50), true);

fn until_done<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[test]
fn a_handler_sends_on_the_socket_that_it_interrupted() {
    in_namespace("a_handler_sends_on_the_socket_that_it_interrupted", Need::Root, SETUP, || {
        let scene = Scene::new();
        // SAFETY: the handler makes calls that are for handlers.
        unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(_) as libc::sighandler_t) };
        DOES.store(SENDS, Ordering::Relaxed);
        const LEAST: u64 = 20_000;
        for is_leased in [true, false] {
            let socket = if is_leased { scene.leased(7000) } else { scene.socket(7000) };
            SENT.store(0, Ordering::Relaxed);
            let (mut own, mut back, mut part) = (0, Vec::new(), [0; 4096]);
            let until = Instant::now() + PATIENCE;
            let has_enough = || SENT.load(Ordering::Relaxed) > 100 || Instant::now() > until;
            interrupted(&scene, &socket, OFTEN, || {
                while own < LEAST || !has_enough() {
                    let next = message(b'o', own);
                    own += 1;
                    let sent = until_done(|| socket.send(&next, SendFlags::empty()));
                    assert_eq!(sent, Ok(MESSAGE));
                    // As much is under way at least.
                    while back.len() + 100 * MESSAGE < own as usize * MESSAGE {
                        let len = until_done(|| socket.recv(&mut part, RecvFlags::empty()));
                        back.extend_from_slice(&part[..len.unwrap()]);
                    }
                }
            });
            let his = SENT.load(Ordering::Relaxed);
            let mut rest = vec![0; (own + his) as usize * MESSAGE - back.len()];
            socket.recv_all(&mut rest);
            back.extend_from_slice(&rest);
            let mut next = [(b'o', 0), (b'h', 0)];
            for found in back.chunks(MESSAGE) {
                let at = next.iter().position(|(from, number)| *found == message(*from, *number));
                let at = at.unwrap_or_else(|| panic!("{found:?}, where {next:?} were next"));
                next[at].1 += 1;
            }
            assert_eq!(next, [(b'o', own), (b'h', his)]);
            assert!(his > 100, "{his} in the handler");
            assert_eq!(socket.recv(&mut part, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
            socket.close();
        }
    });
}

#[test]
fn a_handler_receives_on_the_socket_that_it_interrupted() {
    in_namespace("a_handler_receives_on_the_socket_that_it_interrupted", Need::Root, SETUP, || {
        let scene = Scene::new();
        // SAFETY: the handler makes calls that are for handlers.
        unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(_) as libc::sighandler_t) };
        DOES.store(RECEIVES, Ordering::Relaxed);
        let wanted = sum(&content(2, BULK));
        let until = Instant::now() + PATIENCE;
        // As often as it takes until the handler has come between often enough.
        let (mut his_in_all, mut is_leased) = ([0; 2], true);
        while his_in_all.iter().any(|his| *his <= 100_000) {
            assert!(Instant::now() < until, "{his_in_all:?} in the handler");
            let socket = if is_leased { scene.leased(7004) } else { scene.socket(7004) };
            RECEIVED.store(0, Ordering::Relaxed);
            SUM.store(0, Ordering::Relaxed);
            let (mut own, mut own_sum, mut part) = (0, 0, [0; 5_000]);
            interrupted(&scene, &socket, OFTEN, || {
                while own + RECEIVED.load(Ordering::Relaxed) < BULK {
                    match socket.recv(&mut part, RecvFlags::DONTWAIT) {
                        Ok(len) => (own, own_sum) = (own + len, own_sum + sum(&part[..len])),
                        Err(Errno::INTR) => {}
                        Err(error) => {
                            assert_eq!(error, Errno::AGAIN);
                            while_interrupted(&socket);
                        }
                    }
                }
            });
            let his = RECEIVED.load(Ordering::Relaxed);
            assert_eq!((own + his, own_sum + SUM.load(Ordering::Relaxed)), (BULK, wanted));
            his_in_all[usize::from(is_leased)] += his;
            is_leased = !is_leased;
            socket.close();
        }
    });
}

/// Waits a little until something can be read, or a signal comes.
fn while_interrupted(socket: &Socket<'_>) {
    use rustix::event::{PollFd, Timespec, poll};
    let mut fds = [PollFd::new(&socket.p, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
}
