//! The library as C sees it: the header compiles by itself, `border.c` calls everything against a kernel at the
//! other end of a TAP, and the example echoes what the kernel's sockets send it.

mod dhcp;
mod outboard;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use outboard::Outboard;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Werror", "-Wpedantic"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where cargo has put the library: beside the test program.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_path_buf()
}

/// Runs a compiler; false when there is none.
fn compile(compiler: &str, arguments: &[&str]) -> bool {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: {compiler} is not installed");
        return false;
    }
    let output = Command::new(compiler).args(WARNINGS).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {arguments:?}: {error}");
    true
}

/// A program from C, removed with the test.
struct Program(PathBuf);

impl Program {
    fn new(source: &str) -> Option<Program> {
        Program::with(source, "OURS")
    }

    /// With a word that the source may look at.
    fn with(source: &str, word: &str) -> Option<Program> {
        let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
        let name = format!("{name}-{word}");
        let out = std::env::temp_dir().join(format!("fusewire-{name}-{}", std::process::id()));
        let (include, from) = (here("include"), here(source));
        // Before what cargo names in the environment, where an earlier build may have left another.
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", libraries().display());
        let lib = libraries();
        let arguments = [
            "-std=gnu11",
            "-D",
            word,
            "-O1",
            "-g",
            "-I",
            include.to_str()?,
            from.to_str()?,
            "-o",
            out.to_str()?,
            "-L",
            lib.to_str()?,
            "-lfusewire",
            "-lpthread",
            &rpath,
        ];
        compile("cc", &arguments).then_some(Program(out))
    }

    fn command(&self, device: &str, address: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.env("FUSEWIRE_DEVICE", device).env("FUSEWIRE_ADDRESS", address);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, device: &str, address: &str, arguments: &[&str]) -> Running {
        Running(self.command(device, address).args(arguments).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that is not there need not be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A program that runs, ended with the test.
struct Running(Child);

impl Running {
    /// Waits until it says that it is ready; panics with what it says else.
    fn ready(&mut self) {
        self.says("ready");
    }

    /// Waits until it says this.
    fn says(&mut self, what: &str) {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, out).read_line(&mut line).unwrap();
        if line.trim_end() != what {
            panic!("{line}{}", self.errors());
        }
    }

    /// Waits until it ends, which it does well.
    fn succeeds(mut self) {
        let end = Instant::now() + Duration::from_secs(90);
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() > end {
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        // One that hangs is ended, so that its errors do.
        let _ = self.0.kill();
        let errors = self.errors();
        assert!(status.is_some_and(|status| status.success()), "{status:?}: {errors}");
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        // What cannot be read is not told.
        let _ = self.0.stderr.take().unwrap().read_to_string(&mut text);
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_header_stands_by_itself_in_c_and_cplusplus() {
    let header = here("include/fusewire.h");
    let header = header.to_str().unwrap();
    compile("cc", &["-std=c11", "-fsyntax-only", "-x", "c", header]);
    compile("c++", &["-std=c++17", "-fsyntax-only", "-x", "c++", header]);
    let (include, example) = (here("include"), here("examples/echo.c"));
    let (include, example) = (include.to_str().unwrap(), example.to_str().unwrap());
    compile("cc", &["-std=gnu11", "-fsyntax-only", "-I", include, example]);
    compile("c++", &["-std=c++17", "-fsyntax-only", "-x", "c++", "-I", include, example]);
}

/// The names of functions in C: words of ours before a bracket.
fn functions(text: &str) -> std::collections::BTreeSet<&str> {
    text.match_indices("fw_")
        .map(|(at, _)| &text[at..])
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            rest[end..].starts_with('(').then_some(&rest[..end])
        })
        .collect()
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let read = |path: &str| std::fs::read_to_string(here(path)).unwrap();
    let header = read("include/fusewire.h");
    let rooms = ["mod", "messages", "files", "events", "adus", "contexts"];
    let calls = rooms.map(|room| read(&format!("src/border/{room}.rs")));
    let exported: Vec<_> = calls
        .iter()
        .flat_map(|text| text.match_indices("fn fw_").map(|(at, _)| &text[at + 3..]))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    let declared: Vec<_> = functions(&header).into_iter().collect();
    let exported: Vec<_> = std::collections::BTreeSet::from_iter(exported).into_iter().collect();
    assert_eq!(declared, exported);
    assert!(declared.len() >= 25);
    let library = libraries().join("libfusewire.so");
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output()
    else {
        return eprintln!("skipped: nm is not installed");
    };
    let symbols = String::from_utf8_lossy(&output.stdout);
    for name in declared {
        assert!(symbols.lines().any(|line| line.ends_with(&format!(" T {name}"))), "{name}");
    }
}

/// Echoes of TCP and UDP on port 7, and on 9 a counter that answers when it has `count` datagrams.
fn serve(ip: &str, count: usize) {
    let listener = TcpListener::bind((ip, 7)).unwrap();
    // Of more handshakes than std's 128 the kernel keeps nothing but a cookie, and resets those whose last
    // segment it could not take.
    rustix::net::listen(&listener, 1024).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                // One that resets us has had enough.
                let _ = std::io::copy(&mut stream, &mut out);
            });
        }
    });
    let echo = UdpSocket::bind((ip, 7)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        loop {
            let (len, from) = echo.recv_from(&mut bytes).unwrap();
            echo.send_to(&bytes[..len], from).unwrap();
        }
    });
    let counter = UdpSocket::bind((ip, 9)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        for i in 0..count {
            let (len, from) = counter.recv_from(&mut bytes).unwrap();
            let expected = if i + 1 == count { 30 } else { 64 };
            let right = len == expected && bytes[..len].iter().all(|b| usize::from(*b) == i % 256);
            if !right {
                counter.send_to(format!("-{i}").as_bytes(), from).unwrap();
            } else if i + 1 == count {
                counter.send_to(count.to_string().as_bytes(), from).unwrap();
            }
        }
    });
}

#[test]
fn every_call_does_what_posix_says() {
    in_namespace("every_call_does_what_posix_says", Need::Tap, "", || {
        let Some(program) = Program::new("tests/border.c") else { return };
        let mut running = program.run("tap:fwcapi", "10.81.0.2/24", &[]);
        running.ready();
        sh("ip addr add 10.81.0.1/24 dev fwcapi");
        serve("10.81.0.1", 200);
        running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        running.succeeds();
    });
}

#[test]
fn every_call_does_the_same_over_an_outboard() {
    in_namespace("every_call_does_the_same_over_an_outboard", Need::Tap, "", || {
        let Some(program) = Program::new("tests/border.c") else { return };
        let outboard = Outboard::new("tap:fwcapi", "10.81.0.2/24");
        sh("ip addr add 10.81.0.1/24 dev fwcapi");
        serve("10.81.0.1", 200);
        let mut running = program.run(&outboard.device(), "", &["outboard"]);
        running.ready();
        running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        running.succeeds();
    });
}

#[test]
fn forked_workers_accept_on_one_listener_of_an_outboard() {
    let test = "forked_workers_accept_on_one_listener_of_an_outboard";
    in_namespace(test, Need::Tap, "", || {
        let Some(program) = Program::new("tests/fork.c") else { return };
        let outboard = Outboard::new("tap:fwcapi", "10.81.0.2/24");
        program.run(&outboard.device(), "", &[]).succeeds();
    });
}

#[test]
fn contexts_of_an_outboard_are_sockets_for_messages() {
    let (test, setup) = (
        "contexts_of_an_outboard_are_sockets_for_messages",
        "ip link add v0 type veth peer name v1\nip link set v0 up\nip link set v1 up",
    );
    in_namespace(test, Need::Tap, setup, || {
        let Some(program) = Program::new("tests/sequence.c") else { return };
        let ends = [("packet:v0", "10.81.0.2/24"), ("packet:v1", "10.81.0.3/24")];
        let [here, there] = ends.map(|(interface, address)| Outboard::new(interface, address));
        program.run("", "", &[&here.device(), &there.device(), "tap:fwcapi"]).succeeds();
    });
}

#[test]
fn a_message_that_is_gone_is_told_behind_those_that_are_not() {
    let Some(program) = Program::new("tests/gone.c") else { return };
    let [here, there] = Outboard::two_that_lose();
    program.run("", "", &[&here.device(), &there.device()]).succeeds();
}

#[test]
fn options_do_what_they_do_in_the_kernel() {
    in_namespace("options_do_what_they_do_in_the_kernel", Need::Tap, "", || {
        let program = Program::new("tests/options.c");
        let kernel = Program::with("tests/options.c", "KERNEL");
        let (Some(program), Some(kernel)) = (program, kernel) else { return };
        let says = |program: &Program, device: &str, address: &str| {
            let mut command = program.command(device, address);
            let output = command.stdin(Stdio::null()).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{error}: {said}");
            said
        };
        sh("ip link set lo up");
        let theirs = says(&kernel, "", "");
        let outboard = Outboard::new("tap:fwcapio", "10.82.0.2/24");
        for (device, address) in
            [("tap:fwcapi", "10.81.0.2/24,loopback"), (&outboard.device()[..], "")]
        {
            let ours = says(&program, device, address);
            let differ = ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs);
            let differ: Vec<_> = differ.collect();
            let same = differ.is_empty() && ours.len() == theirs.len();
            assert!(same, "{device}: {differ:#?}\n{ours}\n{theirs}");
        }
    });
}

#[test]
fn a_set_of_sockets_and_of_the_kernels_descriptors_serves_a_hundred() {
    let name = "a_set_of_sockets_and_of_the_kernels_descriptors_serves_a_hundred";
    in_namespace(name, Need::Tap, "", || {
        let Some(program) = Program::new("tests/epoll.c") else { return };
        for how in ["level", "edge", "once"] {
            let mut running = program.run("tap:fwcapi", "10.81.0.2/24,loopback", &[how]);
            running.ready();
            sh("ip addr add 10.81.0.1/24 dev fwcapi");
            a_hundred_are_echoed(running);
            // The next has it anew.
            let gone = || !Path::new("/sys/class/net/fwcapi").exists();
            let end = Instant::now() + Duration::from_secs(20);
            while !gone() {
                assert!(Instant::now() < end, "{how}: the interface is there still");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let outboard = Outboard::new("tap:fwcapi", "10.81.0.2/24");
        sh("ip addr add 10.81.0.1/24 dev fwcapi");
        for how in ["level", "edge", "once"] {
            let mut running = program.run(&outboard.device(), "", &[how]);
            running.ready();
            a_hundred_are_echoed(running);
        }
    });
}

/// The kernel's stack sends and hears back what it has sent, by a hundred connections; then the server is told to end.
fn a_hundred_are_echoed(mut running: Running) {
    let at: SocketAddr = "10.81.0.2:700".parse().unwrap();
    let clients: Vec<_> = (0..4u32)
        .map(|part| {
            std::thread::spawn(move || {
                let content: Vec<u8> =
                    (0..30_000).map(|i| (i * 31 + i / 251 + part) as u8).collect();
                let time = Duration::from_secs(20);
                let mut streams = Vec::new();
                for _ in 0..25 {
                    let stream = TcpStream::connect_timeout(&at, time).unwrap();
                    stream.set_read_timeout(Some(time)).unwrap();
                    streams.push(stream);
                }
                for piece in content.chunks(7_500) {
                    streams.iter_mut().for_each(|stream| stream.write_all(piece).unwrap());
                }
                for stream in &mut streams {
                    let mut back = vec![0; content.len()];
                    stream.read_exact(&mut back).unwrap();
                    assert!(back == content);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    running.says("100 connections");
    running.succeeds();
}

/// Runs a program whose argument is a folder for keys.
fn with_keys(source: &str) {
    let Some(program) = Program::new(source) else { return };
    let keys = program.0.with_extension("keys");
    std::fs::create_dir(&keys).unwrap();
    let mut command = Command::new(&program.0);
    command.arg(&keys).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().unwrap()).succeeds();
    std::fs::remove_dir_all(&keys).unwrap();
}

#[test]
fn adus_travel_on_encrypted_connections() {
    with_keys("tests/adu.c");
}

#[test]
fn calls_are_answered_beside_encrypted_connections() {
    with_keys("tests/calls.c");
}

#[test]
fn messages_travel_by_contexts() {
    let Some(program) = Program::new("tests/context.c") else { return };
    let mut command = Command::new(&program.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().unwrap()).succeeds();
}

#[test]
fn who_may_look_at_a_stack_is_told_by_the_environment() {
    let test = "who_may_look_at_a_stack_is_told_by_the_environment";
    in_namespace(test, Need::Root, "", || {
        let Some(program) = Program::new("tests/border.c") else { return };
        let run = std::env::temp_dir().join(format!("fusewire-observe-{}", std::process::id()));
        std::fs::create_dir(&run).unwrap();
        fusewire_view::place::choose(run.join("fusewire"));
        for (device, address) in [("tap:fwcapi", "10.81.0.2/24"), ("packet:fwb", "kernel")] {
            let is_shared = address == "kernel";
            let _peer = is_shared.then(|| hosts("ip addr add 10.81.0.2/24 dev fwb"));
            for (word, is_seen) in [(Some("1"), true), (Some("0"), false), (None, false)] {
                let mut command = program.command(device, address);
                command.env("XDG_RUNTIME_DIR", &run).env_remove("FUSEWIRE_OBSERVE");
                if let Some(word) = word {
                    command.env("FUSEWIRE_OBSERVE", word);
                }
                let mut running = Running(command.spawn().unwrap());
                running.ready();
                let seen = fusewire_view::client::processes();
                let seen: Vec<_> = seen.iter().filter(|p| p.pid == running.0.id()).collect();
                assert_eq!(seen.len(), usize::from(is_seen), "{device} {word:?}");
                for process in seen {
                    let stacks = process.report().unwrap().stacks;
                    let named: Vec<_> = stacks.iter().map(|s| s.device.as_str()).collect();
                    assert_eq!(named, [device.split(':').next().unwrap()]);
                }
            }
        }
        std::fs::remove_dir_all(&run).unwrap();
    });
}

/// Our end of the pair is `fwb`, with 10.81.0.2; the other host has 10.81.0.1 on `fwa`, and the services.
fn hosts(address: &str) -> Peer {
    let peer = Peer::new();
    sh(&format!(
        "ip link add fwb type veth peer name fwa netns {}\n{address}\nip link set fwb up",
        peer.pid()
    ));
    peer.sh("ip addr add 10.81.0.1/24 dev fwa\nip link set fwa up\n\
         ip addr add 10.82.7.1/32 dev lo\nip route add 255.255.255.255/32 dev fwa");
    in_peer(&peer, || serve("10.81.0.1", 200));
    peer
}

/// Threads that `f` starts, and its sockets, are the other host's.
fn in_peer(peer: &Peer, f: impl FnOnce() + Send) {
    let namespace = std::fs::File::open(format!("/proc/{}/ns/net", peer.pid())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            f();
        });
    });
}

#[test]
fn every_call_does_the_same_beside_the_kernel() {
    in_namespace("every_call_does_the_same_beside_the_kernel", Need::Root, "", || {
        let Some(program) = Program::new("tests/border.c") else { return };
        for (device, argument) in
            [("packet:fwb", ""), ("xdp:fwb", "without-icmp"), ("auto:fwb", "")]
        {
            eprintln!("{device}");
            let _peer = hosts("ip addr add 10.81.0.2/24 dev fwb");
            let mut running = program.run(device, "kernel", &[argument]);
            running.ready();
            running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
            running.succeeds();
            sh("ip link del fwb");
        }
    });
}

#[test]
fn a_port_is_ours_or_the_kernels() {
    in_namespace("a_port_is_ours_or_the_kernels", Need::Root, "", || {
        let Some(program) = Program::new("tests/coexist.c") else { return };
        for device in ["packet:fwb", "xdp:fwb"] {
            eprintln!("{device}");
            let peer = hosts("ip addr add 10.81.0.2/24 dev fwb");
            let mut running = program.run(device, "kernel", &[]);
            running.says("connect");
            let script = "exec 3<>/dev/tcp/10.81.0.2/702; for text in ping pong; do \
                          printf $text >&3; test $(head -c 4 <&3) = $text; done";
            let status = peer.command("bash").args(["-e", "-c", script]).status().unwrap();
            assert!(status.success(), "{device}");
            running.says("remove");
            sh("ip addr del 10.81.0.2/24 dev fwb");
            running.succeeds();
            sh("ip link del fwb");
        }
    });
}

#[test]
fn an_address_is_lent_by_a_server() {
    in_namespace("an_address_is_lent_by_a_server", Need::Root, "", || {
        let Some(program) = Program::new("tests/border.c") else { return };
        let peer = hosts("ip addr add 10.81.0.3/24 dev fwb");
        let lease = dhcp::Lease {
            server: [10, 81, 0, 1].into(),
            address: [10, 81, 0, 2].into(),
            route: ([10, 82, 7, 0].into(), [10, 81, 0, 1].into()),
        };
        in_peer(&peer, move || dhcp::serve(lease));
        let mut running = program.run("auto:fwb", "dhcp", &[]);
        running.ready();
        running.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        running.succeeds();
        let mut refused = program.run("xdp:fwb", "dhcp", &[]);
        assert!(!refused.0.wait().unwrap().success() && refused.errors().contains("dhcp"));
    });
}

#[test]
fn the_example_echoes() {
    in_namespace("the_example_echoes", Need::Tap, "", || {
        let Some(program) = Program::new("examples/echo.c") else { return };
        let mut running = program.run("tap:fwcapi", "10.81.0.2/24", &["700"]);
        running.ready();
        sh("ip addr add 10.81.0.1/24 dev fwcapi");
        let at: SocketAddr = "10.81.0.2:700".parse().unwrap();
        let content: Vec<u8> = (0..200_000u32).map(|i| (i * 31 + i / 251) as u8).collect();
        let mut streams = Vec::new();
        for _ in 0..3 {
            let stream = TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            streams.push(stream);
        }
        for stream in &streams {
            let (mut out, all) = (stream.try_clone().unwrap(), content.clone());
            let writer = std::thread::spawn(move || out.write_all(&all).unwrap());
            let mut back = vec![0; content.len()];
            let mut stream = stream;
            stream.read_exact(&mut back).unwrap();
            writer.join().unwrap();
            assert!(back == content);
        }
        let socket = UdpSocket::bind("10.81.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for len in [0, 1, 1400, 5000] {
            socket.send_to(&content[..len], at).unwrap();
            let mut back = vec![0; 6000];
            let (got, from) = socket.recv_from(&mut back).unwrap();
            assert!(from == at && back[..got] == content[..len], "{len}");
        }
    });
}

/// The command lines in the example's comment, in order.
fn example_lines() -> Vec<String> {
    let source = std::fs::read_to_string(here("examples/echo.c")).unwrap();
    let comment = source.split("*/").next().unwrap();
    let lines = comment.lines().filter_map(|line| line.strip_prefix(" *   "));
    lines.map(str::to_string).collect()
}

#[test]
fn the_example_builds_and_runs_by_the_lines_of_its_comment() {
    let test = "the_example_builds_and_runs_by_the_lines_of_its_comment";
    in_namespace(test, Need::Tap, "", || {
        if Command::new("cc").arg("--version").output().is_err() {
            return eprintln!("skipped: cc is not installed");
        }
        let lines = example_lines();
        let begins = |with: &'static str| lines.iter().filter(move |line| line.starts_with(with));
        assert_eq!(begins("cargo build").count(), 1, "{lines:?}");
        let (builds, run) = (begins("cc "), begins("FUSEWIRE_DEVICE=").next().unwrap());
        let address = begins("ip addr").next().unwrap();
        assert_eq!(builds.clone().count(), 2, "shared and static: {lines:?}");
        let folder = std::env::temp_dir().join(format!("fusewire-echo-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let repository = here("../..").canonicalize().unwrap();
        let (libraries, program) = (libraries(), folder.join("echo"));
        for build in builds {
            // The build of this test stands for the release build.
            let build = build.replace("$PWD/target/release", libraries.to_str().unwrap());
            let build = build.replace("target/release", libraries.to_str().unwrap());
            let build = build.replace("-o echo", &format!("-o {}", program.display()));
            let mut shell = Command::new("sh");
            let built = shell.args(["-c", &build]).current_dir(&repository).output().unwrap();
            let error = String::from_utf8_lossy(&built.stderr);
            assert!(built.status.success(), "{build}: {error}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec env {run}")]).current_dir(&folder);
            // The program finds the library by its own path.
            shell.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
            shell.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut running = Running(shell.spawn().unwrap());
            running.ready();
            sh(address);
            let at: SocketAddr = "10.9.0.2:7".parse().unwrap();
            let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut back = [0; 5];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"hello");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn a_program_without_a_stack_is_told_what_is_missing() {
    let Some(program) = Program::new("tests/border.c") else { return };
    let mut running = program.run("", "", &[]);
    let status = running.0.wait().unwrap();
    let errors = running.errors();
    assert!(!status.success() && errors.contains("FUSEWIRE_DEVICE"), "{errors}");
}
