//! Records over streams of an outboard's, sealed where they leave from: in the ring that the outboard has, too. The peer opens
//! them over the kernel's TCP.

mod scene;

use std::cell::Cell;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_kernels::message::{Marshal, Sealing};
use fusewire_outboard::client::{Client, Outboard, Stream};
use fusewire_session::{Allow, ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::byte_stream::{ByteStream, Connection};
use fusewire_stack::{Link, kernel_tcp};
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace};

use scene::{ROLE, SETUP, Scene, at, content};

/// Where the peer answers each ADU by its hash, and says how many there were and how they ended.
const PORT: u16 = 7100;
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to be sealed in place, and a small part of a ring.
const LONG: usize = 20_000;

/// Not a test: the kernel's peer.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let listener = TcpListener::bind(at(PORT)).unwrap();
    let mut config = ServerConfig::new(Arc::new(Identity::ephemeral().unwrap()));
    config.allow = Allow::Public;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            std::thread::spawn(move || answers(stream, &config));
        }
    });
    scene::kernel();
}

fn answers(stream: TcpStream, config: &ServerConfig) {
    let Ok(mut link) = kernel_tcp::Connection::accept(stream, config) else { return };
    let mut count = 0;
    let ended = loop {
        match link.recv_adu() {
            Ok(Some(adu)) => {
                count += 1;
                link.send(blake3::hash(&adu).as_bytes()).unwrap();
                link.flush().unwrap();
            }
            Ok(None) => {
                let _ = link.finish();
                break "finished".to_owned();
            }
            Err(error) => break error.to_string(),
        }
    };
    println!("{count} then {ended}");
}

type Records = Connection<Stream>;

fn connected(scene: &Scene) -> Records {
    let outboard = Outboard::at(&scene.path).unwrap();
    let stream = Stream::connect(&outboard, at(PORT), PATIENCE).unwrap();
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let config = ClientConfig::new(identity, Trust::Ask);
    Connection::connect_within(stream, &config, PATIENCE).unwrap()
}

/// One whose stream has its lease, and nothing under way.
fn leased(scene: &Scene) -> Records {
    let mut link = connected(scene);
    let end = Instant::now() + PATIENCE;
    while link.stream().sent_in_place() == 0 {
        assert!(Instant::now() < end, "no record was sealed in place");
        asks(&mut link, &content(3, LONG));
    }
    link
}

/// Sends an ADU, which the peer has when this returns.
fn asks(link: &mut Records, adu: &[u8]) {
    link.send(adu).unwrap();
    is_answered(link, adu);
}

fn is_answered(link: &mut Records, adu: &[u8]) {
    link.flush().unwrap();
    let answer = link.recv_adu_timeout(PATIENCE).unwrap();
    assert!(answer.as_deref() == Some(blake3::hash(adu).as_bytes()), "{answer:?}");
}

#[test]
fn long_records_are_sealed_where_they_leave_from() {
    in_namespace("long_records_are_sealed_where_they_leave_from", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        let mut link = leased(&scene);
        // Each has been answered before the next: but for those that the ring's end would cut, all have room in one piece.
        let before = link.stream().sent_in_place();
        let sent = 60 * LONG as u64;
        (0..60).for_each(|seed| asks(&mut link, &content(seed, LONG)));
        let in_place = link.stream().sent_in_place() - before;
        assert!(in_place >= sent / 4 * 3, "{in_place} bytes of {sent}");
        // Of all lengths, as many at once as there is room for, short ones among them.
        let mut random = Random::new(11);
        let lens: Vec<usize> = (0..400).map(|_| random.below(60_000) as usize).collect();
        for few in lens.chunks(20) {
            let adus: Vec<_> = few.iter().map(|len| content(*len as u8, *len)).collect();
            adus.iter().for_each(|adu| link.send(adu).unwrap());
            adus.iter().for_each(|adu| is_answered(&mut link, adu));
        }
        link.finish().unwrap();
        scene.hears("then finished");
    });
}

/// Bytes in two halves, between which something is done.
struct Halves<'a> {
    bytes: &'a [u8],
    /// What of them it says to have.
    len: usize,
    between: &'a dyn Fn(),
    done: Cell<bool>,
}

impl<'a> Halves<'a> {
    fn of(bytes: &'a [u8], between: &'a dyn Fn()) -> Halves<'a> {
        Halves { bytes, len: bytes.len(), between, done: Cell::new(false) }
    }
}

impl Marshal for Halves<'_> {
    fn marshalled_len(&self) -> usize {
        self.len
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        let (front, rest) = self.bytes.split_at(self.bytes.len() / 2);
        to.put_elements(front, 1);
        (self.between)();
        self.done.set(true);
        to.put_elements(rest, 1);
    }
}

#[test]
fn a_lease_that_is_taken_back_within_a_record_loses_nothing_of_it() {
    let name = "a_lease_that_is_taken_back_within_a_record_loses_nothing_of_it";
    in_namespace(name, Need::Root, SETUP, || {
        let mut scene = Scene::new();
        for round in 0..8 {
            let mut link = leased(&scene);
            let other = Client::new(&scene.path).unwrap();
            let placeholder = link.stream().descriptor().as_fd().try_clone_to_owned().unwrap();
            let adu = content(round, LONG);
            let before = link.stream().sent_in_place();
            let attach = || {
                let _ = other.attach(placeholder.as_fd()).unwrap();
            };
            let message = Halves::of(&adu, &attach);
            link.send_message(&message).unwrap();
            assert!(message.done.get());
            is_answered(&mut link, &adu);
            assert_eq!(link.stream().sent_in_place(), before, "it went by the placeholder");
            asks(&mut link, &content(round + 1, 3 * LONG));
            assert_eq!(link.stream().sent_in_place(), before, "there is no lease");
            link.finish().unwrap();
            scene.hears("then finished");
        }
    });
}

#[test]
fn nothing_leaves_of_a_record_that_is_not_whole() {
    in_namespace("nothing_leaves_of_a_record_that_is_not_whole", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        let mut link = connected(&scene);
        for _ in 0..30 {
            asks(&mut link, &content(1, LONG));
        }
        assert!(link.stream().sent_in_place() > 0);
        let adu = content(2, LONG);
        let message = Halves { len: LONG + 1, ..Halves::of(&adu, &|| {}) };
        assert!(link.send_message(&message).is_err());
        let _ = link.flush();
        drop(link);
        let line = scene.next_line();
        assert!(line.starts_with("30 then truncated"), "{line}");
    });
}

/// Another bit in every byte of what streams have lain down in the memory that this process's outboard shares, as it may do.
fn write_over_rings() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapping = maps.lines().find(|line| {
        // The longer of the two files of a region.
        line.contains("memfd:fusewire") && line.contains("rw-s") && bytes_of(line).len() > 1 << 20
    });
    let all = bytes_of(mapping.expect("a region"));
    for at in (all.start + (16 << 10)..all.end).step_by(8) {
        // SAFETY: mapped as long as the outboard runs, and no Rust object lies there.
        let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
        if word.load(Ordering::Relaxed) != 0 {
            word.fetch_xor(0x0101_0101_0101_0101, Ordering::Relaxed);
        }
    }
}

fn bytes_of(mapping: &str) -> std::ops::Range<usize> {
    let (begin, rest) = mapping.split_once('-').unwrap();
    let end = rest.split_once(' ').unwrap().0;
    let number = |hex| usize::from_str_radix(hex, 16).unwrap();
    number(begin)..number(end)
}

#[test]
fn what_an_outboard_writes_over_while_it_is_sealed_is_refused() {
    let name = "what_an_outboard_writes_over_while_it_is_sealed_is_refused";
    in_namespace(name, Need::Root, SETUP, || {
        let mut scene = Scene::new();
        for round in 0..8 {
            let mut link = leased(&scene);
            let before = link.stream().sent_in_place();
            let adu = content(round, LONG);
            link.send_message(&Halves::of(&adu, &write_over_rings)).unwrap();
            assert!(link.stream().sent_in_place() > before);
            let answer = link.flush().and_then(|()| link.recv_adu_timeout(PATIENCE));
            assert!(!matches!(answer, Ok(Some(_))), "it was believed");
            scene.hears("is not authentic");
        }
    });
}
