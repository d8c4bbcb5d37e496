//! `fusewire run`: unmodified programs over an outboard's sockets, with the kernel as their peer; what they are told, and what
//! is left when they end.

mod support;
#[path = "run/taken.rs"]
mod taken;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::process::{Pid, Signal, kill_process};
use support::{Done, World, next_line};

const OURS: [&str; 4] = ["--device", "packet:v0", "--address", "10.9.0.2/24"];

/// A veth to a peer of the kernel's, which serves `here` by HTTP at 10.9.0.1:8000.
struct Hosts {
    world: World,
    peer: Peer,
    server: Child,
}

impl Hosts {
    fn new() -> Hosts {
        let (world, peer) = (World::new(), Peer::joined());
        std::fs::create_dir(world.path("run")).unwrap();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at >> 8) as u8 ^ at as u8).collect();
        std::fs::write(world.here("file"), bytes).unwrap();
        let mut server = peer.command("python3");
        server.args(["-u", "-m", "http.server", "8000", "--bind", "10.9.0.1"]);
        let server = serving(server.current_dir(world.path("here")));
        Hosts { world, peer, server }
    }

    fn run(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = self.world.command("alice", &["run"]);
        command.args(options).arg("--").args(program);
        command.env("XDG_RUNTIME_DIR", self.world.path("run"));
        command
    }

    fn done(&self, options: &[&str], program: &[&str]) -> Done {
        Done::of(self.run(options, program).spawn().unwrap())
    }

    /// A second link, between the sockets of both kernels.
    fn join_kernels(&self) {
        let ours: &[&str] = &["10.8.0.2/24", "fd07::2/64"];
        self.peer.join([("k0", ours), ("k1", &["10.8.0.1/24", "fd07::1/64"])]);
    }

    /// What a program prints that asks servers at `far` and is asked at `own`: over an outboard of these options, with rings or
    /// without (`FUSEWIRE_LEASE`), or on the kernel's sockets.
    fn said(
        &self,
        (far, own): (&str, &str),
        program: &[&str],
        over: Option<(&[&str], &str)>,
    ) -> String {
        let mut echo = self.echo(far, own);
        let mut command = match over {
            Some((options, lease)) => {
                let mut run = self.run(options, program);
                run.env("FUSEWIRE_LEASE", lease);
                run
            }
            None => {
                let mut command = Command::new(program[0]);
                command.args(&program[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
                command
            }
        };
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        let done = Done::of(command.spawn().unwrap());
        echo.kill().unwrap();
        echo.wait().unwrap();
        done.ok().out
    }

    /// Servers on the kernel's sockets, which ask back at `own`.
    fn echo(&self, far: &str, own: &str) -> Child {
        let mut echo = self.peer.command("python3");
        let echo = echo.args([&beside("echo.py")[..], far, own]).stdout(Stdio::piped());
        let mut echo = echo.spawn().unwrap();
        assert_eq!(next_line(&mut BufReader::new(echo.stdout.take().unwrap())), "ready\n");
        echo
    }

    /// An outboard, when it is ready.
    fn outboard(&self, options: &[&str]) -> Child {
        let mut command = self.world.command("alice", &["outboard", "--json"]);
        command.args(options).env("XDG_RUNTIME_DIR", self.world.path("run"));
        let mut child = command.spawn().unwrap();
        assert!(next_line(&mut BufReader::new(child.stdout.take().unwrap())).contains("ready"));
        child
    }

    /// What is left of outboards that were started.
    fn left(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.world.path("run")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".sock")).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts Python's HTTP server, and waits until it listens.
fn serving(command: &mut Command) -> Child {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Serving HTTP"), "{line}");
    child
}

fn same(a: &Path, b: &Path) {
    assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap(), "{a:?} and {b:?}");
}

#[test]
fn programs_ask_and_are_asked_over_an_outboard() {
    let name = "programs_ask_and_are_asked_over_an_outboard";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let got = hosts.world.here("got");
        let curl = ["curl", "-sS", "-o", "got", "http://10.9.0.1:8000/file"];
        // The kernel of this namespace has no address there.
        hosts.done(&OURS, &curl).ok();
        same(&got, &hosts.world.here("file"));
        assert_eq!(hosts.left(), Vec::<String>::new());

        // Loopback is the kernel's unless it is asked for, and so is what rules say.
        let refused = ["curl", "-sS", "http://127.0.0.1:8001/file"];
        let done = hosts.done(&OURS, &refused);
        assert!(done.code == 7, "{done:?}");
        std::fs::write(hosts.world.here("rules"), "kernel tcp port 8000-8010\n").unwrap();
        let ruled = [&OURS[..], &["--rules", "rules"]].concat();
        assert_eq!(hosts.done(&ruled, &curl).code, 7, "the kernel has no way there");

        // A server of ours, and its end by the signal that ends `run`.
        std::fs::remove_file(&got).unwrap();
        let server = ["python3", "-u", "-m", "http.server", "8001"];
        let mut server = serving(&mut hosts.run(&OURS, &server));
        let asked = "curl -sS --retry 5 --retry-connrefused -o got http://10.9.0.2:8001/file";
        let here = hosts.world.path("here");
        hosts.peer.sh(&format!("cd {} && {asked}", here.display()));
        same(&got, &hosts.world.here("file"));
        assert_eq!(hosts.left().len(), 1);
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(128 + 15));
        assert_eq!(hosts.left(), Vec::<String>::new());
    });
}

#[test]
fn a_programs_end_is_its_own_and_leaves_nothing_behind() {
    let name = "a_programs_end_is_its_own_and_leaves_nothing_behind";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        assert_eq!(hosts.done(&OURS, &["sh", "-c", "exit 7"]).code, 7);
        assert_eq!(hosts.done(&OURS, &["sh", "-c", "kill -9 $$"]).code, 128 + 9);
        let none = hosts.done(&OURS, &["no-such-program"]);
        assert!(none.code == 127 && none.err.contains("no-such-program: not found"), "{none:?}");
        std::fs::write(hosts.world.here("text"), "no program").unwrap();
        assert_eq!(hosts.done(&OURS, &["./text"]).code, 126);
        assert_eq!(hosts.left(), Vec::<String>::new());

        let nobody = hosts.done(&[], &["true"]);
        assert!(nobody.code == 1 && nobody.err.contains("no outboard is there"), "{nobody:?}");
        std::fs::write(hosts.world.here("rules"), "kernel\nkernl\n").unwrap();
        let wrong = hosts.done(&["--rules", "rules"], &["true"]);
        assert!(wrong.code == 2 && wrong.err.contains("line 2: expected outboard"), "{wrong:?}");
        for (given, why) in [("kernl", "expected outboard"), ("/no/such/rules", "No such file")] {
            let mut run = hosts.run(&[], &["true"]);
            let wrong = Done::of(run.env("FUSEWIRE_RULES", given).spawn().unwrap());
            assert!(wrong.code == 2 && wrong.err.contains(why), "{wrong:?}");
        }
        let alone = hosts.done(&OURS[2..], &["true"]);
        assert!(alone.code == 2 && alone.err.contains("--device"), "{alone:?}");
        let library = hosts.done(&[&OURS[..], &["--library", "text"]].concat(), &["true"]);
        assert!(library.code == 1 && library.err.contains("no library that"), "{library:?}");

        // One that is started only now is waited for.
        let late = hosts.run(&[], &["true"]).spawn().unwrap();
        let mut outboard = hosts.outboard(&OURS);
        Done::of(late).ok();
        kill_process(Pid::from_child(&outboard), Signal::TERM).unwrap();
        outboard.wait().unwrap();

        // Killed, it takes its outboard with it.
        let mut run = hosts.run(&OURS, &["sleep", "30"]).spawn().unwrap();
        let begin = Instant::now();
        while hosts.left().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(10), "no outboard");
            std::thread::sleep(Duration::from_millis(10));
        }
        run.kill().unwrap();
        run.wait().unwrap();
        while !hosts.left().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", hosts.left());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// A file that is beside this one.
fn beside(name: &str) -> String {
    format!("{}/tests/run/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_program_is_told_that_its_outboard_was_killed_and_goes_on_with_the_next() {
    let name = "a_program_is_told_that_its_outboard_was_killed_and_goes_on_with_the_next";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let mut deaf = hosts.peer.command("python3");
        deaf.args(["-uc", "import socket, time; s = socket.create_server(('10.9.0.1', 8002)); print(); time.sleep(99)"]);
        let mut deaf = deaf.stdout(Stdio::piped()).spawn().unwrap();
        next_line(&mut BufReader::new(deaf.stdout.take().unwrap()));
        let mut first = hosts.outboard(&OURS);
        let mut program = hosts.run(&[], &["python3", &beside("outlives.py")]).spawn().unwrap();
        let mut out = BufReader::new(program.stdout.take().unwrap());
        assert_eq!(next_line(&mut out), "ready\n", "{:?}", Done::of(program));
        first.kill().unwrap();
        first.wait().unwrap();
        let told = next_line(&mut out);
        assert_eq!(told.matches("'gone'").count(), 7, "{told} {:?}", Done::of(program));
        assert_eq!(next_line(&mut out), "looked\n", "{:?}", Done::of(program));
        let next = hosts.outboard(&OURS);
        Done::of(program).ok();
        for mut child in [next, deaf] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
}

#[test]
fn a_worker_of_another_user_has_sockets_and_no_privileged_port() {
    let name = "a_worker_of_another_user_has_sockets_and_no_privileged_port";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let done = hosts.done(&OURS, &["python3", &beside("worker.py"), "rights"]);
        let parent = "['bound', None, 'EACCES', None, 'bound']";
        assert_eq!(done.ok().out, format!("{parent} ['bound', 'EACCES'] {{'made': 320}}\n"));
        // A listener that is there at the program's end is for no other outboard.
        let listens = "import os, socket; socket.create_server(('10.9.0.2', 80)); os._exit(0)";
        hosts.done(&OURS, &["python3", "-c", listens]).ok();
        let files = std::fs::read_dir(hosts.world.path("run")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.ends_with(".state")).count(), 0);
    });
}

#[test]
fn a_worker_serves_again_when_the_next_outboard_has_taken_its_sockets_over() {
    let name = "a_worker_serves_again_when_the_next_outboard_has_taken_its_sockets_over";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        for way in ["inherited", "used"] {
            let mut outboard = hosts.outboard(&OURS);
            let mut run = hosts.run(&[], &["python3", &beside("worker.py"), way]);
            let mut program = run.spawn().unwrap();
            let mut out = BufReader::new(program.stdout.take().unwrap());
            assert_eq!(next_line(&mut out), "ready\n", "{:?}", Done::of(program));
            outboard.kill().unwrap();
            outboard.wait().unwrap();
            assert_eq!(next_line(&mut out), "told\n", "{:?}", Done::of(program));
            let mut next = hosts.outboard(&OURS);
            let asks = "import socket, sys, time\n\
                        stream = socket.create_connection(('10.9.0.2', 80), 20)\n\
                        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                        s.settimeout(20)\n\
                        s.sendto(b'again', ('10.9.0.2', 53))\n\
                        print(stream.recv(10), s.recvfrom(10))";
            let mut peer = hosts.peer.command("python3");
            let peer = peer.args(["-c", asks]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let peer = Done::of(peer.spawn().unwrap());
            assert_eq!(peer.ok().out, "b'served' (b'again', ('10.9.0.2', 53))\n");
            let said = next_line(&mut out);
            assert_eq!(
                said,
                "['ENETDOWN', 'ENETDOWN'] True 33 EACCES\n",
                "{:?}",
                Done::of(program)
            );
            Done::of(program).ok();
            kill_process(Pid::from_child(&next), Signal::TERM).unwrap();
            next.wait().unwrap();
        }
    });
}

#[test]
fn an_outboard_without_a_descriptor_left_says_so_once() {
    let name = "an_outboard_without_a_descriptor_left_says_so_once";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let mut outboard = Command::new("sh");
        outboard.args(["-c", "ulimit -n 64; exec \"$0\" outboard --json \"$@\""]);
        outboard.arg(env!("CARGO_BIN_EXE_fusewire")).args(OURS);
        outboard.env("XDG_RUNTIME_DIR", hosts.world.path("run"));
        let mut outboard = outboard.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(outboard.stdout.take().unwrap());
        assert!(next_line(&mut out).contains("ready"));
        let opens = "import errno, socket\n\
                     all, errors = [], set()\n\
                     for _ in range(100):\n    \
                         try: all.append(socket.socket())\n    \
                         except OSError as error: errors.add(errno.errorcode[error.errno])\n\
                     print(errors)";
        let done = hosts.done(&[], &["python3", "-c", opens]);
        assert_eq!(done.ok().out, "{'EMFILE'}\n");
        kill_process(Pid::from_child(&outboard), Signal::TERM).unwrap();
        let done = Done::of(outboard);
        assert_eq!(done.err.matches("no descriptor is left").count(), 1, "{done:?}");
    });
}

#[test]
fn an_outboard_that_has_ipv6_of_loopback_alone_leaves_it_to_the_kernel() {
    let name = "an_outboard_that_has_ipv6_of_loopback_alone_leaves_it_to_the_kernel";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.peer.join([("k0", &["fd08::2/64"]), ("k1", &["fd08::1/64"])]);
        let mut server = hosts.peer.command("python3");
        server.args(["-u", "-m", "http.server", "8001", "--bind", "fd08::1"]);
        let mut server = serving(server.current_dir(hosts.world.path("here")));
        let ask = "import socket; s = socket.create_connection(('fd08::1', 8001), 5); print(s.getpeername()[0])";
        let done = hosts.done(&[&OURS[..], &["--loopback"]].concat(), &["python3", "-c", ask]);
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(done.ok().out, "fd08::1\n");
    });
}

#[test]
fn an_outboard_with_loopback_has_both_ends_of_ipv6s() {
    let name = "an_outboard_with_loopback_has_both_ends_of_ipv6s";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let both = "import socket\n\
                    l = socket.socket(socket.AF_INET6)\n\
                    l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n\
                    l.bind(('::', 0))\n\
                    l.listen()\n\
                    s = socket.create_connection(('::1', l.getsockname()[1]), 5)\n\
                    c, who = l.accept()\n\
                    c.sendall(b'six')\n\
                    print(s.recv(3), who == s.getsockname())";
        let done = hosts.done(&[&OURS[..], &["--loopback"]].concat(), &["python3", "-c", both]);
        assert_eq!(done.ok().out, "b'six' True\n");
        // Neither is the kernel's: it has no loopback any more.
        sh("ip link set lo down");
        let done = hosts.done(&[&OURS[..], &["--loopback"]].concat(), &["python3", "-c", both]);
        assert_eq!(done.ok().out, "b'six' True\n");
    });
}

#[test]
fn dprintf_says_that_it_sends_no_datagrams() {
    let name = "dprintf_says_that_it_sends_no_datagrams";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let send = "import ctypes, errno, socket\n\
                    libc = ctypes.CDLL(None, use_errno=True)\n\
                    s = socket.socket(type=socket.SOCK_DGRAM)\n\
                    s.connect(('10.9.0.1', 7000))\n\
                    done = libc.dprintf(s.fileno(), b'a text of more than 24 bytes, %d', 7)\n\
                    print(done, ctypes.get_errno() == errno.EOPNOTSUPP, s.send(b'next'))";
        let done = hosts.done(&OURS, &["python3", "-c", send]);
        assert_eq!(done.ok().out, "-1 True 4\n");
    });
}

#[test]
fn data_calls_ask_for_no_memory() {
    let name = "data_calls_ask_for_no_memory";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        // Its functions are those that libraries find.
        let program = compiled(&hosts, "counts.c", &["-rdynamic"]);
        let mut echo = hosts.echo("10.9.0.1", "10.9.0.2");
        for lease in ["1", "0"] {
            let mut run = hosts.run(&OURS, &[&program, "10.9.0.1", "10000"]);
            let done = Done::of(run.env("FUSEWIRE_LEASE", lease).spawn().unwrap());
            assert_eq!(done.ok().out, "datagrams: 0\nstream: 0\ncounted: 3\n", "{lease}");
        }
        echo.kill().unwrap();
        echo.wait().unwrap();
    });
}

#[test]
fn a_program_that_moves_messages_has_rings_for_them() {
    let name = "a_program_that_moves_messages_has_rings_for_them";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let mut outboard = hosts.outboard(&OURS);
        let moves = "import socket\n\
                     s = socket.create_connection(('10.9.0.1', 8000), 5)\n\
                     s.sendall(b'GET /file HTTP/1.0\\r\\n\\r\\n')\n\
                     u = socket.socket(type=socket.SOCK_DGRAM)\n\
                     for _ in range(20): u.sendto(b'message', ('10.9.0.1', 7000))\n\
                     while s.recv(9999): pass";
        let begun = |lease: &str| {
            let mut run = hosts.run(&[], &["python3", "-c", moves]);
            Done::of(run.env("FUSEWIRE_LEASE", lease).spawn().unwrap()).ok();
            hosts.world.counted("leases_begun")
        };
        assert_eq!(begun("0"), 0);
        assert_eq!(begun("1"), 2, "of the stream, and of the datagrams");
        outboard.kill().unwrap();
        outboard.wait().unwrap();
    });
}

#[test]
fn a_program_that_asks_much_has_slots_for_that() {
    let name = "a_program_that_asks_much_has_slots_for_that";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let mut outboard = hosts.outboard(&OURS);
        let asks = "import socket\n\
                    s = socket.socket()\n\
                    at = socket.SOL_SOCKET, socket.SO_KEEPALIVE\n\
                    for n in range(100):\n    \
                        s.setsockopt(*at, n % 2)\n    \
                        assert bool(s.getsockopt(*at)) == bool(n % 2)";
        hosts.done(&[], &["python3", "-c", asks]).ok();
        let (slots, messages) =
            (hosts.world.counted("commands_by_slots"), hosts.world.counted("commands_by_messages"));
        assert!(slots >= 150 && messages >= 16, "{slots} by slots, {messages} by messages");
        outboard.kill().unwrap();
        outboard.wait().unwrap();
    });
}

#[test]
fn beside_the_kernel_what_was_bound_may_stay_on_this_host() {
    let name = "beside_the_kernel_what_was_bound_may_stay_on_this_host";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        sh("ip link set lo up\nip addr add 10.9.0.2/24 dev v0");
        let beside = &OURS[..2];
        let curl = ["curl", "-sS", "-o", "got", "http://10.9.0.1:8000/file"];
        hosts.done(beside, &curl).ok();
        same(&hosts.world.here("got"), &hosts.world.here("file"));
        let mut far = hosts.peer.command("python3");
        far.args([
            "-c",
            "import socket, time\n\
                         s = socket.socket(type=socket.SOCK_DGRAM)\n\
                         while True: s.sendto(b'far', ('10.9.0.2', 7302)); time.sleep(0.05)",
        ]);
        let mut far = far.spawn().unwrap();
        let binds = "import socket, time\n\
                     def new(kind, *at):\n    \
                         s = socket.socket(type=kind); s.settimeout(5); s.bind(at); return s\n\
                     UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM\n\
                     u, l = new(UDP, '127.0.0.1', 0), new(TCP, '127.0.0.1', 0)\n\
                     l.listen()\n\
                     for port in 0, 7300:\n    \
                         s, t = new(UDP, '', port), new(TCP, '', port)\n    \
                         s.sendto(b'near', u.getsockname())\n    \
                         t.connect(l.getsockname())\n    \
                         for got, who in u.recvfrom(9), l.accept():\n        \
                             print(got == b'near' or got.getpeername() == who, not port or who[1] == port)\n\
                     server = new(UDP, '', 7302)\n\
                     print(server.recv(9))\n\
                     try: server.sendto(b'on', u.getsockname())\n\
                     except OSError: pass\n\
                     print([server.recv(9) for _ in range(20)][-1])";
        let done = hosts.done(beside, &["python3", "-c", binds]);
        far.kill().unwrap();
        far.wait().unwrap();
        assert_eq!(done.ok().out, ["True True\n"; 4].concat() + &"b'far'\n".repeat(2));
    });
}

#[test]
fn what_rules_leave_to_the_kernel_is_its_own_from_the_beginning() {
    let name = "what_rules_leave_to_the_kernel_is_its_own_from_the_beginning";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        // UDP_GRO, which an outboard refuses.
        let sets = "import socket\n\
                    s = socket.socket(type=socket.SOCK_DGRAM)\n\
                    try: print(s.setsockopt(socket.IPPROTO_UDP, 104, 1))\n\
                    except OSError as e: print(e.errno)";
        let out = |rules: &str| {
            let run = [&OURS[..], &["--rules", "rules"]].concat();
            std::fs::write(hosts.world.here("rules"), rules).unwrap();
            hosts.done(&run, &["python3", "-c", sets]).ok().out
        };
        assert_eq!(out("kernel tcp\n"), "92\n");
        assert_eq!(out("kernel program nobody; kernel udp\n"), "None\n");
        // By the name that it was called by: its file may have a longer one.
        assert_eq!(out("kernel program python3\n"), "None\n");
    });
}

/// Every call of a list, on an outboard's sockets and on the kernel's: it prints the same.
#[test]
fn calls_say_what_they_say_on_the_kernels_sockets() {
    let name = "calls_say_what_they_say_on_the_kernels_sockets";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.join_kernels();
        hosts.peer.sh("ip addr add fd08::1/64 dev v1 nodad");
        // Each refused datagram is told of.
        hosts.peer.sh(
            "for of in ipv4/icmp_ratelimit ipv6/icmp/ratelimit; do echo 0 >/proc/sys/net/$of; done",
        );
        let said = |far: &str, own: &str, used: &str, over: Option<(&[&str], &str)>| {
            let calls = ["python3", &beside("calls.py"), far, own, used];
            hosts.said((far, own), &calls[..if used.is_empty() { 4 } else { 5 }], over)
        };
        let both = [&OURS[..], &["--address", "fd08::2/64"]].concat();
        let versions = [
            (["10.8.0.1", "10.8.0.2"], ["10.9.0.1", "10.9.0.2"], &OURS[..]),
            (["fd07::1", "fd07::2"], ["fd08::1", "fd08::2"], &both),
        ];
        for ([far, own], [ours_far, ours_own], options) in versions {
            let kernel = said(far, own, "", None);
            assert!(kernel.lines().count() > 30 && !kernel.contains("Error"), "{kernel}");
            for (used, lease) in [("", "1"), ("used", "1"), ("used", "0")] {
                let ours = said(ours_far, ours_own, used, Some((options, lease)));
                // Without rings what is to wait for more leaves at once.
                let is_same = |line: &str| lease == "1" || !line.starts_with("more_follows");
                let both = kernel.lines().zip(ours.lines()).filter(|(line, _)| is_same(line));
                let different: Vec<_> = both.filter(|(kernel, ours)| kernel != ours).collect();
                assert!(
                    different.is_empty(),
                    "on the kernel's sockets, and on ours at {ours_own}, {used} {lease}: {different:#?}"
                );
                assert_eq!(kernel.lines().count(), ours.lines().count());
            }
        }
    });
}

/// Compiles a program in C that lies beside this file.
fn compiled(hosts: &Hosts, name: &str, options: &[&str]) -> String {
    let program = hosts.world.path(name.trim_end_matches(".c"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options).arg("-o");
    assert!(cc.arg(&program).arg(beside(name)).status().unwrap().success(), "{name}");
    program.into_os_string().into_string().unwrap()
}

/// A wrapper that a preloaded library reaches runs programs that it does not reach: they are named, each once.
#[test]
fn programs_that_cannot_be_preloaded_are_named_behind_a_wrapper() {
    let name = "programs_that_cannot_be_preloaded_are_named_behind_a_wrapper";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let source = hosts.world.path("alone.c");
        std::fs::write(&source, "int main(void) { return 0; }").unwrap();
        let alone = hosts.world.here("alone");
        let mut cc = Command::new("cc");
        if !cc.arg("-static").arg("-o").arg(&alone).arg(&source).status().unwrap().success() {
            return eprintln!("skipped: no static libc");
        }
        // Its dynamic linker is not there, so that it cannot start; that is none of the library's fault.
        let linker = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
        let musl = hosts.world.here("musl");
        let done = Command::new("cc").arg(linker).arg("-o").args([&musl, &source]).status();
        assert!(done.unwrap().success());
        std::fs::write(hosts.world.here("script"), "./alone; ./alone; (./alone)\n./musl\ntrue\n")
            .unwrap();
        let why = |path: &str, why: &str| {
            format!("fusewire: {path}: its sockets stay the kernel's: {why}\n")
        };
        let is_static = why("./alone", "it is statically linked");
        let of_musl = why("./musl", "it uses another C library than glibc (musl, for example)");
        let said = |options: &[&str], program: &[&str]| {
            let done = hosts.done(&[&OURS[..], options].concat(), program).ok();
            let ours = |line: &&str| line.starts_with("fusewire: ");
            done.err.split_inclusive('\n').filter(ours).collect::<String>()
        };
        assert_eq!(said(&[], &["sh", "script"]), [&*is_static, &of_musl].concat());
        assert_eq!(said(&["--quiet"], &["sh", "script"]), "");
        for call in ["execv('./alone', ['x'])", "execvp('alone', ['x'])"] {
            let program = format!("import os; os.environ['PATH'] = '.'; os.{call}");
            assert_eq!(said(&[], &["python3", "-c", &program]), is_static, "{call}");
        }
        let spawns = "import os; p = os.posix_spawn('./alone', ['x'], {}); os.waitpid(p, 0)";
        assert_eq!(said(&[], &["python3", "-c", spawns]), is_static);
        let runs = "import os; os.system('./alone')";
        assert_eq!(said(&[], &["python3", "-c", runs]), is_static);
        if cfg!(not(target_arch = "x86_64")) {
            return;
        }
        let lists = "import ctypes; c = ctypes.CDLL(None); c.execl(b'./alone', b'x', None)";
        assert_eq!(said(&[], &["python3", "-c", lists]), is_static);

        // The library would end a program of another C library, so it is not named in its environment: glibc's dynamic
        // linker by another name stands for one here.
        let linker = hosts.world.path("ld-musl");
        std::fs::copy("/lib64/ld-linux-x86-64.so.2", &linker).unwrap();
        let prints = "#include <stdio.h>\n#include <stdlib.h>\n\
                      int main(void) { puts(getenv(\"LD_PRELOAD\") ? \"given\" : \"none\"); }";
        std::fs::write(&source, prints).unwrap();
        let linker = format!("-Wl,--dynamic-linker={}", linker.display());
        let done = Command::new("cc").arg(linker).arg("-o").args([&musl, &source]).status();
        assert!(done.unwrap().success());
        for program in [&["./musl"][..], &["sh", "-c", "./musl; true"]] {
            assert_eq!(hosts.done(&OURS, program).ok().out, "none\n", "{program:?}");
        }
    });
}

#[test]
fn programs_list_the_outboards_addresses_as_if_the_kernel_had_them() {
    let name = "programs_list_the_outboards_addresses_as_if_the_kernel_had_them";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        sh("ip link set lo up");
        let program = compiled(&hosts, "interfaces.c", &[]);
        let sorted = |said: String| {
            // The kernel and the outboard choose different addresses of the link.
            let mut lines: Vec<_> = said.lines().filter(|line| !line.contains("fe80:")).collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        let mut outboard = hosts.outboard(&[&OURS[..], &["--address", "fd08::2/64"]].concat());
        let begin = Instant::now();
        let ours = loop {
            let said = hosts.done(&[], &[&program]).ok().out;
            // Duplicate address detection takes a while.
            if said.contains("fd08::2") || begin.elapsed() > Duration::from_secs(20) {
                break said;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        outboard.kill().unwrap();
        outboard.wait().unwrap();
        sh("ip addr add 10.9.0.2/24 brd + dev v0\nip addr add fd08::2/64 dev v0 nodad");
        let kernel = Command::new(&program).output().unwrap();
        assert!(kernel.status.success(), "{kernel:?}");
        let kernel = String::from_utf8(kernel.stdout).unwrap();
        assert!(kernel.contains("10.9.0.255") && kernel.contains("fd08::2"), "{kernel}");
        assert_eq!(sorted(ours), sorted(kernel.clone()));

        // A resolver that is asked for what the host has (AI_ADDRCONFIG) sees those of the outboard.
        sh("ip addr del 10.9.0.2/24 dev v0");
        let resolves = "import socket\n\
                        for family in socket.AF_UNSPEC, socket.AF_INET:\n    \
                            flags = socket.AI_ADDRCONFIG | socket.AI_NUMERICHOST\n    \
                            print(socket.getaddrinfo('10.9.0.1', 80, family, flags=flags)[0][4])";
        let done = hosts.done(&OURS, &["python3", "-c", resolves]);
        assert_eq!(done.ok().out, "('10.9.0.1', 80)\n".repeat(2));
        sh("ip addr add 10.9.0.2/24 brd + dev v0");

        // Where the addresses are the kernel's, they are listed once.
        let beside = hosts.done(&OURS[..2], &[&program]).ok().out;
        assert_eq!(sorted(beside), sorted(kernel));
    });
}

/// The kernel makes operations of an io_uring on placeholders, so a process that has one has no rings.
#[test]
fn streams_are_whole_to_a_process_with_an_io_uring() {
    let name = "streams_are_whole_to_a_process_with_an_io_uring";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        let program = compiled(&hosts, "uring.c", &[]);
        let mut outboard = hosts.outboard(&OURS);
        let streams = "sent 10, received 10: abcdefghij\n".repeat(5);
        for (how, leases) in [("syscall", 0), ("early", 0), ("late", 1)] {
            let (far, own) = ("10.9.0.1", "10.9.0.2");
            let before = hosts.world.counted("leases_begun");
            let said = hosts.said((far, own), &[&program, far, own, how], Some((&[], "1")));
            if said == "no io_uring\n" {
                eprintln!("skipped: {said}");
                break;
            }
            assert_eq!(said, format!("{streams}connect fails\naccept fails\n"), "{how}");
            assert_eq!(hosts.world.counted("leases_begun") - before, leases, "{how}");
        }
        outboard.kill().unwrap();
        outboard.wait().unwrap();
    });
}

#[test]
fn threads_are_cancelled_in_calls_on_every_kind_of_descriptor() {
    let name = "threads_are_cancelled_in_calls_on_every_kind_of_descriptor";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.join_kernels();
        let program = compiled(&hosts, "cancel.c", &[]);
        let said = |net: &str, over: Option<(&[&str], &str)>| {
            let [far, own, nobody] = ["1", "2", "99"].map(|host| format!("{net}.{host}"));
            hosts.said((&far, &own), &[&program, &far, "7002", &own, &nobody], over)
        };
        let kernel = said("10.8.0", None);
        let is_right = |line: &str| line.ends_with(": was cancelled, 1 cleaned");
        let wrong: Vec<_> = kernel.lines().filter(|line| !is_right(line)).collect();
        assert_eq!(wrong, ["goes on"], "on the kernel's sockets");
        for lease in ["1", "0"] {
            assert_eq!(said("10.9.0", Some((&OURS, lease))), kernel, "FUSEWIRE_LEASE={lease}");
        }
    });
}

/// The same of who waits for many at once.
#[test]
fn who_waits_for_many_is_shown_what_the_kernels_sockets_show() {
    let name = "who_waits_for_many_is_shown_what_the_kernels_sockets_show";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.join_kernels();
        let said = |far: &str, own: &str, lease: Option<&str>| {
            let waits = ["python3", &beside("waits.py"), far];
            hosts.said((far, own), &waits, lease.map(|lease| (&OURS[..], lease)))
        };
        let kernel = said("10.8.0.1", "10.8.0.2", None);
        assert!(kernel.lines().count() > 15 && !kernel.contains("Error"), "{kernel}");
        for lease in ["1", "0"] {
            let ours = said("10.9.0.1", "10.9.0.2", Some(lease));
            let both = kernel.lines().zip(ours.lines());
            let different: Vec<_> = both.filter(|(kernel, ours)| kernel != ours).collect();
            assert!(different.is_empty(), "the kernel's, and ours ({lease}): {different:#?}");
            assert_eq!(kernel.lines().count(), ours.lines().count());
        }
    });
}

/// The same of link-local addresses.
#[test]
fn zones_are_those_that_the_kernels_sockets_show() {
    let name = "zones_are_those_that_the_kernels_sockets_show";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.join_kernels();
        sh("ip addr add fe80::a2/64 dev k0 nodad");
        hosts.peer.sh("ip addr add fe80::a1/64 dev k1 nodad");
        hosts.peer.sh("ip addr add fe80::b1/64 dev v1 nodad");
        let zones = beside("zones.py");
        let kernel = ["python3", &zones, "fe80::a1", "fe80::a2", "k0"];
        let kernel = hosts.said(("::", "fe80::a2%k1"), &kernel, None);
        assert!(kernel.lines().count() == 4 && !kernel.contains("Timeout"), "{kernel}");
        let options = [&OURS[..], &["--address", "fe80::b2/64"]].concat();
        let ours = ["python3", &zones, "fe80::b1", "fe80::b2", "v0"];
        for lease in ["1", "0"] {
            let ends = ("::", "fe80::b2%v1");
            let ours = hosts.said(ends, &ours, Some((&options, lease)));
            let alike = ours.replace("fe80::b", "fe80::a");
            assert_eq!(alike, kernel, "with {lease} leases");
        }
    });
}

/// The same of options, as far as the outboard has them.
#[test]
fn options_are_those_of_the_kernels_sockets() {
    let name = "options_are_those_of_the_kernels_sockets";
    in_namespace(name, Need::Root, "", || {
        let hosts = Hosts::new();
        hosts.join_kernels();
        let options = beside("options.py");
        let kernel = ["python3", &options, "10.8.0.2", "fd07::2"];
        let kernel = hosts.said(("10.8.0.1", "10.8.0.2"), &kernel, None);
        let both = [&OURS[..], &["--address", "fd08::2/64"]].concat();
        let ours = ["python3", &options, "10.9.0.2", "fd08::2"];
        let ours = hosts.said(("10.9.0.1", "10.9.0.2"), &ours, Some((&both, "1")));
        let both = kernel.lines().zip(ours.lines());
        let different: Vec<_> = both.filter(|(kernel, ours)| kernel != ours).collect();
        assert!(different.is_empty(), "the kernel's, and ours: {different:#?}");
        assert_eq!(kernel.lines().count(), ours.lines().count());

        // Another interface is refused by the call that makes the socket the outboard's.
        let elsewhere = "import socket\n\
            for kind in 1, 2:\n \
             for call in 'bind', 'connect':\n  \
              s = socket.socket(socket.AF_INET, kind)\n  \
              s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'lo')\n  \
              print(refused(s, call))\n";
        let refused = "def refused(s, call):\n \
            try: getattr(s, call)(('10.9.0.2' if call == 'bind' else '10.9.0.1', 7000))\n \
            except OSError as e: return e.errno\n";
        let program = ["python3", "-c", &format!("{refused}{elsewhere}")];
        let found = hosts.said(("10.9.0.1", "10.9.0.2"), &program, Some((&OURS, "1")));
        assert_eq!(found, "19\n19\n19\n19\n");
    });
}
