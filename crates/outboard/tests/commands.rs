//! Requests by slots of shared memory: answered as messages are, by whatever thread, handler or child asks, and nobody is left
//! waiting for an outboard that is gone.

mod memory;
mod nonsense;

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fusewire_device::interface::memory::Memory;
use fusewire_device::interface::{Around, Interface};
use fusewire_outboard::client::Client;
use fusewire_outboard::commands::Table;
use fusewire_outboard::protocol::{Family, Handle, Kind, OptionName, Reply, Request, SocketType};
use fusewire_outboard::server::{Server, Settings};
use fusewire_stack::Clock;
use fusewire_testkit::Random;
use fusewire_testkit::scratch::Scratch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use memory::{Outboard, link, stack};

const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };
/// An option whose value is what was set.
const MARK: OptionName = OptionName { level: libc::IPPROTO_IP, name: libc::IP_TOS };
/// More requests than it takes until they go by slots.
const MANY: u64 = 40;

fn outboard() -> Outboard {
    Outboard::start(1, link().0, |settings| settings)
}

fn by_slots(outboard: &Outboard) -> u64 {
    outboard.commands.named()[0].1
}

fn by_messages(outboard: &Outboard) -> u64 {
    outboard.commands.named()[1].1
}

fn value(client: &Client, handle: Handle) -> Result<i32, Errno> {
    let mut value = [0; 4];
    client.option(handle, MARK, &mut value).map(|_| i32::from_ne_bytes(value))
}

/// Asks until that goes by slots.
fn warm(client: &Client, handle: Handle) {
    (0..MANY).for_each(|_| assert!(value(client, handle).is_ok()));
}

#[test]
fn answers_are_those_of_messages() {
    let outboard = outboard();
    let (first, second) = (outboard.client(), outboard.client());
    let all = |client: &Client| {
        let (_p, handle) = client.socket(STREAM).unwrap();
        let none = Handle::default();
        [
            format!("{:?}", client.local(handle)),
            format!("{:?}", client.peer(handle)),
            format!("{:?}", client.set_option(handle, MARK, &[8, 0, 0, 0])),
            format!("{:?}", client.set_option(handle, MARK, &[8; 300])),
            format!("{:?}", value(client, handle)),
            format!("{:?}", client.option(handle, OptionName { level: 6, name: -3 }, &mut [])),
            format!(
                "{:?}",
                client.option(handle, OptionName { level: 6, name: 11 }, &mut [0; 300])
            ),
            format!("{:?}", client.local(none)),
        ]
    };
    let by_message = all(&first);
    assert_eq!(by_slots(&outboard), 0, "few requests are not worth it");
    let (_p, handle) = second.socket(STREAM).unwrap();
    warm(&second, handle);
    let (before, messages) = (by_slots(&outboard), by_messages(&outboard));
    assert!(before > 0);
    assert_eq!(all(&second), by_message);
    let (slots, messages) = (by_slots(&outboard) - before, by_messages(&outboard) - messages);
    // To make a socket is a message.
    assert_eq!((slots, messages), (by_message.len() as u64, 1));
}

#[test]
fn binding_and_listening_are_messages_which_name_their_sender() {
    let outboard = outboard();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    warm(&client, handle);
    let (slots, messages) = (by_slots(&outboard), by_messages(&outboard));
    client.bind(handle, ([10, 0, 0, 1], 8080).into()).unwrap();
    client.listen(handle, 5).unwrap();
    assert_eq!((by_slots(&outboard) - slots, by_messages(&outboard) - messages), (0, 2));
}

/// Numbers of this process's descriptors that are sockets with a peer.
fn connected() -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<i32> = numbers.collect();
    let has_peer = |number: &i32| {
        // SAFETY: what is asked of a number that is closed meanwhile fails.
        let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(*number) };
        rustix::net::getpeername(socket).is_ok()
    };
    numbers.into_iter().filter(has_peer).collect()
}

#[test]
fn a_forked_child_closes_the_control_connections_of_its_parent() {
    let name = "a_forked_child_closes_the_control_connections_of_its_parent";
    // The connections of other tests' clients are not seen in a process of its own.
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let done = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status();
        return assert!(done.unwrap().success());
    }
    let outboard = outboard();
    let client = outboard.client();
    let before = connected();
    let (_p, handle) = client.socket(STREAM).unwrap();
    warm(&client, handle);
    let own: Vec<i32> = connected().into_iter().filter(|one| !before.contains(one)).collect();
    // The placeholder and the outboard's end of it, and two connections with the outboard's ends of them.
    assert_eq!(own.len(), 6, "{own:?}");
    // SAFETY: the child looks at its descriptors, makes calls that are for handlers, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        client.close_inherited();
        let closed = own.iter().filter(|number| !connected().contains(number)).count();
        let is_right = closed == 2 && value(&client, handle) == Ok(0);
        // SAFETY: nothing of the parent's is to be done here.
        unsafe { libc::_exit(if is_right { 0 } else { 10 + closed as i32 }) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 0);
    assert_eq!(value(&client, handle), Ok(0), "the parent's are open");
}

#[test]
fn threads_have_each_the_answer_to_what_it_asked() {
    let outboard = outboard();
    let client = outboard.client();
    // More than there are slots.
    std::thread::scope(|scope| {
        for number in 0..80 {
            let client = &client;
            scope.spawn(move || {
                let (_p, handle) = client.socket(STREAM).unwrap();
                for round in 0..100 {
                    // The two lowest bits are the network's.
                    let wanted = (number + round) % 64 * 4;
                    client.set_option(handle, MARK, &i32::to_ne_bytes(wanted)).unwrap();
                    assert_eq!(value(client, handle), Ok(wanted), "{number}");
                }
            });
        }
    });
    assert!(by_slots(&outboard) > 8_000, "{}", by_slots(&outboard));
}

/// Done once, by the outboard's own thread, when it is about to look for packets: behind what it has heard of and what the kernel
/// has shown it, and before it answers.
type Within = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// An interface whose outboard does that.
struct Interrupted {
    inner: Memory,
    within: Within,
}

impl Around for Interrupted {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        if let Some(within) = self.within.lock().unwrap().take() {
            within();
        }
        self.inner.receive()
    }
}

/// What a thread did before it asks, the outboard has seen, though that comes by another way: at the worst moment, between what it
/// is shown and what it answers.
#[test]
fn what_was_closed_before_is_gone() {
    let within = Within::default();
    let interface = Interrupted { inner: link().0, within: within.clone() };
    let outboard = Outboard::start(1, interface, |settings| settings);
    let client = outboard.client();
    let (control, [commands, answers]) = nonsense::slots(&outboard.path);
    let commands = Arc::new(commands);
    for number in 1..=20 {
        let (p, handle) = client.socket(STREAM).unwrap();
        assert!(client.local(handle).is_ok());
        let (ask, (say, said)) = (commands.clone(), std::sync::mpsc::channel());
        *within.lock().unwrap() = Some(Box::new(move || {
            drop(p);
            let request = Request::Local(handle).emit();
            ask.write(Table::bytes_at(0), &request);
            ask.store(Table::word_at(0), 3 | (request.len() as u64) << 16 | number << 32);
            ask.fetch_or(0, 1);
            say.send(()).unwrap();
        }));
        // It may sleep.
        send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
        said.recv_timeout(Duration::from_secs(20)).unwrap();
        let answered = || answers.load(Table::word_at(0));
        wait_until(|| answered() >> 32 == number);
        let mut answer = vec![0; answered() as usize & 0xffff];
        answers.read(Table::bytes_at(0), &mut answer);
        assert_eq!(Reply::parse(&answer), Ok(Reply::Failed(libc::EBADF as u32)), "{number}");
    }
}

#[test]
fn a_forked_child_has_slots_of_its_own() {
    let outboard = outboard();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    warm(&client, handle);
    client.set_option(handle, MARK, &[8, 0, 0, 0]).unwrap();
    let before = by_messages(&outboard);
    // SAFETY: the child makes calls that are for handlers, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = (0..MANY).all(|_| value(&client, handle) == Ok(8));
        // SAFETY: nothing of the parent's is to be done here.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    // Both at once.
    (0..MANY).for_each(|_| assert_eq!(value(&client, handle), Ok(8)));
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let more = by_messages(&outboard) - before;
    assert!((10..MANY).contains(&more), "{more} messages of the child's, until it had slots");
    assert!(by_slots(&outboard) > MANY, "{}", by_slots(&outboard));
}

extern "C" fn asks_often(client: *mut libc::c_void) -> libc::c_int {
    // SAFETY: who has made this process waits for its end with it.
    let (client, handle) = unsafe { &*client.cast::<(Client, Handle)>() };
    i32::from(!(0..MANY).all(|_| value(client, *handle) == Ok(8)))
}

/// Asks often in a child that has this process's memory, and descriptors of its own, as between `vfork` and `exec`.
fn is_answered_in_a_vfork(asker: &mut (Client, Handle)) -> bool {
    let mut stack = vec![0u128; 16 << 10];
    let (top, flags) = (stack.as_mut_ptr_range().end, libc::CLONE_VM | libc::CLONE_VFORK);
    let asker = (&raw mut *asker).cast();
    // SAFETY: a stack of its own, and this thread waits until it has ended.
    let child = unsafe { libc::clone(asks_often, top.cast(), flags | libc::SIGCHLD, asker) };
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    unsafe { libc::waitpid(child, &mut status, 0) == child && status == 0 }
}

#[test]
fn a_forked_childs_slots_are_its_own_and_not_those_of_its_vfork() {
    let outboard = outboard();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    client.set_option(handle, MARK, &[8, 0, 0, 0]).unwrap();
    let mut asker = (client, handle);
    // SAFETY: the child makes calls that are for handlers, and leaves; the stack of its own child is the one thing that it allocates.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = value(&asker.0, handle) == Ok(8)
            && is_answered_in_a_vfork(&mut asker)
            && (0..3 * MANY).all(|_| value(&asker.0, handle) == Ok(8))
            && is_answered_in_a_vfork(&mut asker);
        // SAFETY: nothing of the parent's is to be done here.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(by_slots(&outboard) > 2 * MANY, "{}", by_slots(&outboard));
}

static CLIENT: AtomicPtr<(Client, Handle)> = AtomicPtr::new(std::ptr::null_mut());
static ASKED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    // SAFETY: it lives until no signal comes any more, and is only shared.
    let (client, handle) = unsafe { &*CLIENT.load(Ordering::Acquire) };
    if value(client, *handle) == Ok(8) {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_handler_asks_within_what_it_interrupted() {
    let outboard = outboard();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    let (_other, own) = client.socket(STREAM).unwrap();
    client.set_option(handle, MARK, &[8, 0, 0, 0]).unwrap();
    let mut both = (client, handle);
    CLIENT.store(&raw mut both, Ordering::Release);
    // SAFETY: the handler makes calls that are for handlers.
    unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(_) as libc::sighandler_t) };
    // SAFETY: this thread's own name, which lives until it has joined the other.
    let caller = unsafe { libc::pthread_self() };
    let is_done = &AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(40);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(50));
                // SAFETY: that thread waits for this one.
                unsafe { libc::pthread_kill(caller, libc::SIGUSR2) };
            }
        });
        let mut round = 0;
        while round < 20_000 || ASKED.load(Ordering::Relaxed) < 100 && Instant::now() < until {
            let wanted = round % 64 * 4;
            both.0.set_option(own, MARK, &i32::to_ne_bytes(wanted)).unwrap();
            assert_eq!(value(&both.0, own), Ok(wanted));
            round += 1;
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(ASKED.load(Ordering::Relaxed) >= 100);
    assert!(by_slots(&outboard) > 20_000);
}

/// In the environment of a process that has this test to itself.
const ALONE: &str = "FUSEWIRE_COMMANDS_ALONE";

#[test]
fn who_has_closed_the_connection_of_his_slots_asks_by_messages() {
    if std::env::var_os(ALONE).is_none() {
        let name = "who_has_closed_the_connection_of_his_slots_asks_by_messages";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let alone = alone.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1");
        return assert!(alone.status().unwrap().success());
    }
    let outboard = outboard();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    let numbers = || -> Vec<i32> {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let high = limit.current.unwrap_or(u64::MAX).min(1024) as i32 - 100;
    for _ in 0..3 {
        warm(&client, handle);
        let before = by_slots(&outboard);
        warm(&client, handle);
        assert!(by_slots(&outboard) > before);
        // The client's are those of high numbers.
        let own: Vec<_> = numbers().into_iter().filter(|number| *number >= high).collect();
        assert!(own.len() >= 2, "{own:?}");
        // SAFETY: what closes behind the client's back is what this test is about.
        own.into_iter().for_each(|number| assert_eq!(unsafe { libc::close(number) }, 0));
        (0..MANY).for_each(|_| assert!(value(&client, handle).is_ok()));
    }
}

/// In the environment of a process that is to be an outboard: where.
const PLACE: &str = "FUSEWIRE_COMMANDS_PLACE";

/// Not a test: an outboard that is killed.
#[test]
#[ignore = "the test below starts it as a process of its own"]
fn role() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let clock = Clock::new();
    let settings = Settings::at(Path::new(&place));
    let mut server = Server::new(stack(link().0, 1, &clock), clock, settings).unwrap();
    server.run().unwrap();
}

/// An outboard as another process.
fn process(place: &Path) -> Child {
    let mut outboard = Command::new(std::env::current_exe().unwrap());
    let outboard = outboard.args(["--exact", "role", "--ignored", "--test-threads=1"]);
    outboard.env(PLACE, place).stdout(Stdio::null()).spawn().unwrap()
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "it has not come to that");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_outboard_that_is_killed_or_stopped_hangs_nobody() {
    let folder = Scratch::new();
    let (path, mut random) = (folder.path().join("socket"), Random::new(4));
    let client = Client::new(&path).unwrap();
    for round in 0..4 {
        let mut outboard = process(&path);
        wait_until(|| client.welcome().is_ok());
        let (_p, handle) = client.socket(STREAM).unwrap();
        warm(&client, handle);
        let pid = rustix::process::Pid::from_child(&outboard);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let end = loop {
                        if let Err(error) = value(&client, handle) {
                            break error;
                        }
                    };
                    assert_eq!(end, Errno::NETDOWN);
                });
            }
            std::thread::sleep(random.duration_below(Duration::from_millis(20)));
            if round % 2 == 1 {
                // They are asleep by then, and nobody has their requests.
                rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
            outboard.kill().unwrap();
            outboard.wait().unwrap();
        });
        assert_eq!(client.welcome(), Err(Errno::NETDOWN));
    }
}

#[test]
fn what_is_no_request_in_a_slot_ends_its_connection_and_nobody_elses() {
    let outboard = outboard();
    let client = outboard.client();
    let (p, handle) = client.socket(STREAM).unwrap();
    warm(&client, handle);
    let requests = [
        Request::Bind(handle, ([10, 0, 0, 1], 0).into()),
        Request::Listen(handle, 3),
        Request::Local(handle),
        Request::Peer(Handle::default()),
        Request::Option(handle, MARK),
        Request::SetOption(handle, MARK, &[8, 0, 0, 0]),
        // Those that carry descriptors, or have none to carry.
        Request::Socket(STREAM),
        Request::Attach,
        Request::Connect(handle, None),
        Request::Region,
        Request::Wake,
        Request::Commands,
    ];
    let requests = requests.map(|request| request.emit());
    let (mut random, mut ended) = (Random::new(77), 0);
    for round in 0..60 {
        let (control, [commands, _answers]) = nonsense::slots(&outboard.path);
        let few = if round % 2 == 0 { &requests[..6] } else { &requests[..] };
        for _ in 0..200 {
            nonsense::nonsense_in_slots(&commands, few, &mut random);
            if random.below(8) == 0 {
                let wake = Request::Wake.emit();
                let _ = send(&control, &wake, SendFlags::NOSIGNAL);
            }
        }
        assert!(value(&client, handle).is_ok(), "{round}");
        let mut fds = [PollFd::new(&control, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        ended += u64::from(fds[0].revents().contains(PollFlags::HUP));
    }
    assert!(ended > 0, "he may say what he likes");
    // None of it was the honest one's socket's but what has its handle.
    assert_eq!(client.attach(p.as_fd()), Ok((handle, STREAM)));
    // What carries descriptors ends him by itself.
    for request in &requests[6..] {
        let (control, [commands, _answers]) = nonsense::slots(&outboard.path);
        let at = Table::bytes_at(9);
        commands.write(at, request);
        commands.store(at - 64, 3 | (request.len() as u64) << 16 | 1 << 32);
        commands.fetch_or(0, 1 << 9);
        send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
        let mut fds = [PollFd::new(&control, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
        assert!(fds[0].revents().contains(PollFlags::HUP), "{:?}", Request::parse(request));
    }
}

#[test]
fn a_user_has_so_many_tables_and_each_connection_one() {
    let budget = fusewire_outboard::server::Budget { regions: 3, ..Default::default() };
    let outboard = Outboard::start(1, link().0, |settings| Settings { budget, ..settings });
    let refused = |control: &std::os::fd::OwnedFd| {
        nonsense::ask(control, &Request::Commands) == Reply::Failed(libc::ENFILE as u32)
    };
    let mut all: Vec<_> = (0..3).map(|_| nonsense::slots(&outboard.path)).collect();
    assert!(refused(&all[0].0));
    all.remove(0);
    // When its end is noticed, another has one.
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    wait_until(|| {
        warm(&client, handle);
        by_slots(&outboard) > 0
    });
    let other = outboard.client();
    let before = by_slots(&outboard);
    warm(&other, handle);
    assert_eq!(by_slots(&outboard), before, "a fourth one asks by messages");
}

#[test]
fn who_has_few_control_connections_left_keeps_none_for_slots() {
    let budget = fusewire_outboard::server::Budget { connections: 8, ..Default::default() };
    let outboard = Outboard::start(1, link().0, |settings| Settings { budget, ..settings });
    let mut others: Vec<_> = (0..5).map(|_| nonsense::control(&outboard.path)).collect();
    let is_refused = || {
        let control = nonsense::control(&outboard.path);
        nonsense::ask(&control, &Request::Commands) == Reply::Failed(libc::ENFILE as u32)
    };
    assert!(is_refused(), "the sixth of eight");
    others.clear();
    let client = outboard.client();
    let (_p, handle) = client.socket(STREAM).unwrap();
    wait_until(|| {
        warm(&client, handle);
        by_slots(&outboard) > 0
    });
}

/// How often something is done within so long, in a second.
fn rate(window: Duration, mut call: impl FnMut()) -> f64 {
    let (begun, mut count) = (Instant::now(), 0u64);
    while begun.elapsed() < window {
        (0..16).for_each(|_| call());
        count += 16;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Says how many more requests a second go by slots than by messages: one round, of which the figure means nothing, or
/// `FUSEWIRE_ROUNDS`, with `--nocapture`.
#[test]
fn requests_a_second() {
    let rounds = std::env::var("FUSEWIRE_ROUNDS").map_or(1, |n| n.parse().unwrap());
    let window = Duration::from_millis(if rounds == 1 { 10 } else { 200 });
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let mut outboard = process(&path);
    let client = Client::new(&path).unwrap();
    wait_until(|| client.welcome().is_ok());
    let (_p, handle) = client.socket(STREAM).unwrap();
    client.set_option(handle, MARK, &[8, 0, 0, 0]).unwrap();
    warm(&client, handle);
    let (control, wanted) = (nonsense::control(&path), Reply::Value(&[8, 0, 0, 0]).emit());
    let by_message = || {
        let (request, mut answer) = (Request::Option(handle, MARK).emit(), [0; 512]);
        send(&control, &request, SendFlags::NOSIGNAL).unwrap();
        let (_, len) = recv(&control, &mut answer, RecvFlags::empty()).unwrap();
        assert_eq!(answer[..len], wanted[..]);
    };
    let by_slot = || assert_eq!(value(&client, handle), Ok(8));
    let mut ratios: Vec<f64> =
        (0..rounds).map(|_| rate(window, by_slot) / rate(window, by_message)).collect();
    ratios.sort_by(f64::total_cmp);
    let [least, median, most] = [0, rounds / 2, rounds - 1].map(|at| ratios[at]);
    println!("requests by slots, by messages: {median:.2} ({least:.2} to {most:.2})");
    outboard.kill().unwrap();
    outboard.wait().unwrap();
}
