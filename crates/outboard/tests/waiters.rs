//! Who waits for many leases at once: he looks at their rings himself, one bell wakes him for all, and what he does not watch
//! any more is shown by its placeholder.

mod scene;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fusewire_outboard::client::Waiting;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};

use scene::{ROLE, SETUP, Scene, Socket};

/// Not a test: the kernel's peer.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_ok() {
        scene::kernel();
    }
}

const NAME: u32 = 77;
const SOCKETS: usize = 3;

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn watch(scene: &Scene, socket: &Socket<'_>, key: usize) {
    scene.rings.watch(socket.p.as_fd(), &socket.way, NAME, key as i32);
}

/// What is found, told once or as long as it is there.
fn found(waiting: &Waiting<'_>, sockets: &[Socket<'_>], is_once: bool) -> Vec<i32> {
    let mut all = Vec::new();
    waiting.look(
        |key| Some((&sockets[key as usize].way, is_once)),
        |key| {
            all.push(key);
            true
        },
    );
    all.sort();
    all
}

fn readable(socket: &Socket<'_>) -> bool {
    !socket.shown(PollFlags::IN, 0).is_empty()
}

/// Those that came back are read.
fn read(sockets: &[Socket<'_>], len: usize) {
    for socket in sockets {
        socket.recv_all(&mut vec![0; len]);
    }
}

fn come(waiting: &Waiting<'_>, sockets: &[Socket<'_>]) {
    assert!(found(waiting, sockets, true).is_empty());
    sockets.iter().for_each(|socket| socket.send_all(b"wakes"));
    until("what is watched is marked", || waiting.marked() == sockets.len());
}

#[test]
fn one_bell_wakes_who_waits_for_many() {
    in_namespace("one_bell_wakes_who_waits_for_many", Need::Root, SETUP, || {
        let scene = Scene::new();
        let sockets: Vec<_> = (0..SOCKETS).map(|_| scene.leased(7000)).collect();
        scene.rings.add_waiter(NAME);
        let waiter = scene.rings.waiter(NAME).unwrap();
        let waiting = scene.rings.wait(waiter).unwrap();
        assert!(scene.rings.wait(waiter).is_none(), "one at a time");
        for (key, socket) in sockets.iter().enumerate() {
            socket.send_all(b"first");
            socket.recv_all(&mut [0; 5]);
            watch(&scene, socket, key);
        }
        let mut watched: Vec<_> = scene.rings.watched(Some(waiter)).collect();
        watched.sort();
        assert_eq!(watched, [0, 1, 2]);
        // Of each is looked at what came before; a bell that was to ring for the next one does so once.
        assert_eq!((waiting.marked(), found(&waiting, &sockets, false)), (3, vec![]));
        come(&waiting, &sockets);
        read(&sockets, 5);
        let nothing = RecvFlags::DONTWAIT;
        sockets.iter().for_each(|socket| assert!(socket.recv(&mut [0; 9], nothing).is_err()));
        assert!(found(&waiting, &sockets, false).is_empty());

        // Who is awake hears no bell.
        come(&waiting, &sockets);
        assert_eq!(found(&waiting, &sockets, false), [0, 1, 2]);
        assert!(!waiting.sleeps(), "there is something");
        assert_eq!(found(&waiting, &sockets, false), [0, 1, 2], "as long as it is there");
        assert!(!sockets.iter().any(readable), "nobody was to be woken");
        read(&sockets, 5);
        assert_eq!((found(&waiting, &sockets, false), waiting.marked()), (vec![], 0));

        // Who sleeps hears one.
        assert!(waiting.sleeps());
        come(&waiting, &sockets);
        until("he is woken", || sockets.iter().any(readable));
        assert_eq!(sockets.iter().filter(|socket| readable(socket)).count(), 1);
        waiting.wakes();
        assert_eq!(found(&waiting, &sockets, false), [0, 1, 2]);
        read(&sockets, 5);
        assert!(!sockets.iter().any(readable), "it was taken out");

        // Told once.
        come(&waiting, &sockets);
        assert_eq!(found(&waiting, &sockets, true), [0, 1, 2]);
        assert_eq!((found(&waiting, &sockets, true), waiting.marked()), (vec![], 0));
        scene.rings.watch_again(sockets[1].p.as_fd(), &sockets[1].way);
        assert_eq!(found(&waiting, &sockets, true), [1]);
        come(&waiting, &sockets);
        assert_eq!(found(&waiting, &sockets, true), [0, 1, 2]);

        // What is not watched any more, its placeholder shows.
        scene.rings.unwatch(sockets[0].p.as_fd(), &sockets[0].way);
        until("it is shown", || readable(&sockets[0]));
        read(&sockets, 10);
        sockets[0].send_all(b"again");
        until("it is shown", || readable(&sockets[0]));
        read(&sockets[..1], 5);
        assert!(found(&waiting, &sockets, false).is_empty());
        // Nor what has its lease no more.
        scene.rings.give_up(sockets[1].p.as_fd(), &sockets[1].way);
        sockets[1].send_all(b"by it");
        until("it is shown", || readable(&sockets[1]));
        assert!(found(&waiting, &sockets, false).is_empty());
        // Nor for whom nothing is watched.
        assert_eq!(scene.rings.refuse_waiter(NAME), Some(waiter));
        watch(&scene, &sockets[0], 0);
        assert_eq!(scene.rings.watched(None).collect::<Vec<_>>(), [2]);
        assert_eq!(scene.rings.waiter(NAME), None);
    });
}

/// A lease that is taken back takes its bell with it, which was to wake for the others, too.
#[test]
fn who_takes_a_lease_back_leaves_no_bell_unheard() {
    in_namespace("who_takes_a_lease_back_leaves_no_bell_unheard", Need::Root, SETUP, || {
        let scene = Scene::new();
        let sockets: Vec<_> = (0..SOCKETS).map(|_| scene.leased(7000)).collect();
        scene.rings.add_waiter(NAME);
        let waiting = scene.rings.wait(scene.rings.waiter(NAME).unwrap()).unwrap();
        for (key, socket) in sockets.iter().enumerate() {
            socket.send_all(b"first");
            socket.recv_all(&mut [0; 5]);
            watch(&scene, socket, key);
        }
        assert!(found(&waiting, &sockets, false).is_empty());
        // Those bells that were to ring for each are heard.
        come(&waiting, &sockets);
        read(&sockets, 5);
        let nothing = RecvFlags::DONTWAIT;
        sockets.iter().for_each(|socket| assert!(socket.recv(&mut [0; 9], nothing).is_err()));
        assert!(found(&waiting, &sockets, false).is_empty() && waiting.sleeps());
        come(&waiting, &sockets);
        until("he is woken", || sockets.iter().any(readable));
        // Before he has heard it, another process has that socket, and reads what came for it.
        let (rung, others): (Vec<_>, Vec<_>) = sockets.iter().partition(|socket| readable(socket));
        assert_eq!(rung.len(), 1);
        scene.client.attach(rung[0].p.as_fd()).unwrap();
        let mut back = [0; 5];
        assert_eq!(recv(&rung[0].p, &mut back, RecvFlags::WAITALL).unwrap().1, 5);
        assert_eq!(&back, b"wakes");
        assert!(!readable(rung[0]));
        until("he is woken for the others", || others.iter().any(|socket| readable(socket)));
        waiting.wakes();
        assert_eq!(found(&waiting, &sockets, false).len(), others.len());
    });
}

#[test]
fn who_had_no_room_comes_first() {
    in_namespace("who_had_no_room_comes_first", Need::Root, SETUP, || {
        let scene = Scene::new();
        let sockets: Vec<_> = (0..SOCKETS).map(|_| scene.leased(7000)).collect();
        scene.rings.add_waiter(NAME);
        let waiting = scene.rings.wait(scene.rings.waiter(NAME).unwrap()).unwrap();
        for (key, socket) in sockets.iter().enumerate() {
            socket.send_all(b"first");
            socket.recv_all(&mut [0; 5]);
            watch(&scene, socket, key);
        }
        come(&waiting, &sockets);
        for is_once in [false, true] {
            let mut all = Vec::new();
            for _ in 0..SOCKETS {
                let mut room = 1;
                waiting.look(
                    |key| Some((&sockets[key as usize].way, is_once)),
                    |key| {
                        if room > 0 {
                            all.push(key);
                        }
                        room -= 1;
                        room >= 0
                    },
                );
            }
            all.sort();
            assert_eq!(all, [0, 1, 2], "{is_once}");
        }
    });
}
