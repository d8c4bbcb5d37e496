//! Calls in signal handlers, with the kernel's stack as peer over veth: what the handler interrupted may be one on the same
//! socket, and nobody waits for it.

mod scene;

use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;

use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use scene::{BULK, ROLE, SETUP, Scene, Socket, content};

/// Rounds of each call.
const ROUNDS: u64 = 20;

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
static FINISHES: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: libc::c_int) {
    // SAFETY: both live until no signal comes any more, and are only shared.
    let (socket, rings) = unsafe {
        (SOCKET.load(Ordering::Acquire).as_ref(), RINGS.load(Ordering::Acquire).as_ref())
    };
    if let (Some(socket), Some(rings)) = (socket, rings) {
        match FINISHES.load(Ordering::Relaxed) {
            true => drop(rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write)),
            false => rings.give_up(socket.p.as_fd(), &socket.way),
        }
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does something that a signal interrupts after a while.
fn interrupted(scene: &Scene, socket: &Socket<'_>, after: Duration, f: impl FnOnce()) {
    // SAFETY: `socket` and `scene` outlive the signal, which is awaited below; lifetimes alone change.
    SOCKET.store((&raw const *socket).cast_mut().cast(), Ordering::Release);
    RINGS.store((&raw const scene.rings).cast_mut(), Ordering::Release);
    // SAFETY: this thread's own name, which lives until it has joined the other.
    let caller = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(after);
            // SAFETY: that thread waits for this one.
            unsafe { libc::pthread_kill(caller, libc::SIGUSR2) };
        });
        f();
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
            FINISHES.store(true, Ordering::Relaxed);
            let (socket, mut len) = (scene.leased(7001), 0);
            interrupted(&scene, &socket, after, || {
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

            FINISHES.store(false, Ordering::Relaxed);
            let (socket, mut back) = (scene.leased(7004), vec![0; 4 << 20]);
            interrupted(&scene, &socket, after, || socket.recv_all(&mut back));
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
