//! Two hosts on a virtual wire, a server on one and who asks it on the other: an outboard has the sockets of one side, the
//! kernel those of the other.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::support::{Done, World, bytes, peak_memory};

/// The outboard's addresses, and its peer's.
const OURS: [&str; 2] = ["10.9.0.2", "fd08::2"];
const PEER: [&str; 2] = ["10.9.0.1", "fd08::1"];

/// `kernel` for the kernel's sockets on both sides: what fails then is wrong with the test, or with the program.
const OVER: &str = "FUSEWIRE_PROGRAMS";
/// How many times as much is asked for: 1, or what this says.
const TIMES: &str = "FUSEWIRE_PROGRAMS_TIMES";

/// Longest that a server may take to begin, to end, and the outboard to forget it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most memory that an outboard may take, in bytes: that of 10,000 connections, with much to spare.
const MEMORY: u64 = 384 << 20;

/// Sockets that a process of a server's may have more than before it was asked.
const KEPT: usize = 8;

/// Longest that a script may run.
const PATIENCE_S: &str = "50";

/// A program that serves and one that asks it, as shell scripts. Both run in one folder, where [`CONTENT`] is; `SERVER` and
/// `CLIENT` are the addresses of the two sides, `SERVER6` and `CLIENT6` those of IPv6, `TIMES` says how much is asked for, `PROGRAMS` is the folder of this file.
pub struct Program {
    /// Programs that it takes; without them the test is skipped.
    pub needs: &'static [&'static str],
    /// What is done before, on neither side.
    pub prepare: &'static str,
    /// Becomes the server.
    pub serve: &'static str,
    /// The TCP port where it listens when it is ready.
    pub port: u16,
    /// Asks it, and compares.
    pub ask: &'static str,
    /// What the latter prints.
    pub says: &'static str,
    pub end: End,
}

/// How a server is told to end, and what its shell would say that it ended with.
pub struct End {
    pub signal: Signal,
    pub code: i32,
}

/// Whose sockets are the outboard's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ours {
    Server,
    Client,
}

/// Bytes without a pattern, in the folder of both sides.
const CONTENT: &str = "content";
const CONTENT_BYTES: usize = 3_000_000;

/// A server on the outboard is asked by programs on the kernel's sockets. `test` is the test's name.
pub fn serves(test: &str, program: &Program) {
    play(test, program, Ours::Server);
}

/// Programs on the outboard ask a server on the kernel's sockets.
pub fn asks(test: &str, program: &Program) {
    play(test, program, Ours::Client);
}

fn play(test: &str, program: &Program, ours: Ours) {
    if let Some(missing) = program.needs.iter().find(|name| !is_there(name)) {
        return eprintln!("skipped: {test} needs {missing}");
    }
    in_namespace(test, Need::Root, "", || {
        let scene = Scene::new(ours);
        scene.done(Command::new("timeout"), program.prepare);
        let before = scene.outboard.as_ref().map(Outboard::descriptors);
        let server = Server::start(&scene, program);
        server.wait_until(|| scene.is_listening(program.port), "listen");
        let open = server.sockets();
        let client = scene.program(scene.command(Ours::Client), program.ask).spawn().unwrap();
        let asked = Done::of(client);
        let is_right = asked.code == 0 && asked.out == program.says;
        assert!(is_right, "{asked:#?}\nfor {:?}\nserver: {}", program.says, server.log());
        // A process of its has a connection to ask the outboard by, and what it keeps of its own.
        let most = || open + KEPT * server.processes().len();
        let has_closed = soon(|| server.sockets() <= most());
        assert!(has_closed, "{} sockets, {open} before: {}", server.sockets(), server.log());
        server.end(&program.end);
        if let (Some(outboard), Some(before)) = (scene.outboard, before) {
            outboard.forgets(&scene.world, before);
            let memory = peak_memory(outboard.child.id());
            assert!(memory <= MEMORY, "{memory} bytes");
            outboard.end();
        }
    });
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Both hosts, and the outboard unless all sockets are the kernel's.
struct Scene {
    world: World,
    peer: Peer,
    ours: Ours,
    outboard: Option<Outboard>,
}

impl Scene {
    fn new(ours: Ours) -> Scene {
        let (world, peer) = (World::new(), Peer::new());
        // Some servers are another user's.
        std::fs::set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(world.path("run")).unwrap();
        std::fs::write(world.here(CONTENT), bytes(CONTENT_BYTES, 7)).unwrap();
        let is_kernel = std::env::var(OVER).is_ok_and(|over| over == "kernel");
        let of = |[v4, v6]: [&str; 2]| [format!("{v4}/24"), format!("{v6}/64")];
        let (here, there) = (of(OURS), of(PEER));
        let (here, there) = (here.each_ref(), there.each_ref());
        let (here, there) = (here.map(String::as_str), there.map(String::as_str));
        peer.join([("v0", if is_kernel { &here } else { &[] }), ("v1", &there)]);
        let outboard = (!is_kernel).then(|| Outboard::start(&world));
        Scene { world, peer, ours, outboard }
    }

    /// `timeout` on this side.
    fn command(&self, side: Ours) -> Command {
        match &self.outboard {
            _ if side != self.ours => self.peer.command("timeout"),
            None => Command::new("timeout"),
            Some(outboard) => {
                let path = outboard.path.to_str().unwrap();
                self.world.command("alice", &["run", "--outboard", path, "--", "timeout"])
            }
        }
    }

    /// `shell` runs a script of a program's, not for ever.
    fn program(&self, mut shell: Command, script: &str) -> Command {
        let (server, client) = match self.ours {
            Ours::Server => (OURS, PEER),
            Ours::Client => (PEER, OURS),
        };
        // By `--foreground` what it is told to end by is told once, and not by its group, too.
        shell.args(["--foreground", "--signal=KILL", PATIENCE_S, "sh", "-e", "-c", script]);
        shell.current_dir(self.world.path("here"));
        shell.env("SERVER", server[0]).env("CLIENT", client[0]);
        shell.env("SERVER6", server[1]).env("CLIENT6", client[1]);
        shell.env("TIMES", std::env::var(TIMES).unwrap_or("1".into()));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        shell.env("PROGRAMS", folder).env("LC_ALL", "C.UTF-8");
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    fn done(&self, shell: Command, script: &str) {
        Done::of(self.program(shell, script).spawn().unwrap()).ok();
    }

    /// True when the server does at this port, as who has its sockets says.
    fn is_listening(&self, port: u16) -> bool {
        let local = format!("{port}");
        match &self.outboard {
            Some(_) if self.ours == Ours::Server => sockets(&self.world).iter().any(|socket| {
                let at = socket["local"].as_str().unwrap_or_default();
                socket["state"] == "LISTEN" && at.rsplit(':').next() == Some(&local)
            }),
            _ => {
                let script = format!("ss -Htln sport = :{local}");
                let out =
                    if self.ours == Ours::Client { self.peer.sh(&script) } else { sh(&script) };
                !out.is_empty()
            }
        }
    }
}

/// What `fusewire ss` lists.
fn sockets(world: &World) -> Vec<Value> {
    let mut command = world.command("alice", &["ss", "--json"]);
    command.env("XDG_RUNTIME_DIR", world.path("run"));
    Done::of(command.spawn().unwrap()).ok().lines()
}

/// Polls until it is so, or [`PATIENCE`] is over.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

struct Outboard {
    child: Child,
    path: PathBuf,
}

impl Outboard {
    fn start(world: &World) -> Outboard {
        let path = world.path("run").join("outboard.sock");
        let [v4, v6] = [format!("{}/24", OURS[0]), format!("{}/64", OURS[1])];
        let mut command =
            world.command("alice", &["outboard", "--device", "packet:v0", "--json", "--loopback"]);
        command.args(["--address", &v4, "--address", &v6, "--socket"]).arg(&path);
        // Whoever a server becomes.
        for user in ["postgres", "nobody"] {
            command.args(["--allow", sh(&format!("id -u {user} || echo 0")).trim()]);
        }
        command.env("XDG_RUNTIME_DIR", world.path("run"));
        command.stderr(File::create(world.path("outboard.log")).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(world.path("outboard.log")).unwrap();
        assert!(line.contains("ready"), "outboard: {line}{}", log());
        Outboard { child, path }
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// It has nothing left of any program: as many descriptors as before, and no socket but what waits for old packets.
    fn forgets(&self, world: &World, before: usize) {
        let has_forgotten = soon(|| self.descriptors() <= before);
        assert!(has_forgotten, "{} descriptors, {before} before", self.descriptors());
        let left = || -> Vec<Value> {
            // Those of other stacks are no matter here.
            let is_left =
                |socket: &Value| socket["pid"] == self.child.id() && socket["state"] != "TIME-WAIT";
            sockets(world).into_iter().filter(is_left).collect()
        };
        assert!(soon(|| left().is_empty()), "{:#?}", left());
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Outboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server and whatever it starts; killed when it is dropped.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    fn start(scene: &Scene, program: &Program) -> Server {
        let log = scene.world.path("server.log");
        let mut command = scene.program(scene.command(Ours::Server), program.serve);
        let file = File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        Server { child: command.spawn().unwrap(), log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// It, and what it has started.
    fn processes(&self) -> Vec<u32> {
        let parent = |process: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // Behind the name, which may be anything: state, parent.
            stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let listed = std::fs::read_dir("/proc").unwrap().flatten();
        let listed = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parents: Vec<_> = listed.filter_map(|one| Some((one, parent(one)?))).collect();
        let mut all = vec![self.child.id()];
        let mut at = 0;
        while let Some(process) = all.get(at).copied() {
            let children = parents.iter().filter(|(_, parent)| *parent == process);
            all.extend(children.map(|(child, _)| *child));
            at += 1;
        }
        all
    }

    /// Sockets that they have open, those of the outboard's included.
    fn sockets(&self) -> usize {
        let of = |process: u32| {
            let all = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            let names = all.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
            names.filter(|name| name.to_string_lossy().starts_with("socket:")).count()
        };
        self.processes().into_iter().map(of).sum()
    }

    fn wait_until(&self, is_so: impl Fn() -> bool, what: &str) {
        assert!(soon(is_so), "the server does not {what}: {}", self.log());
    }

    /// Tells it to end, and looks how it does.
    fn end(mut self, end: &End) {
        kill_process(Pid::from_child(&self.child), end.signal).unwrap();
        let mut status = None;
        let begin = Instant::now();
        while status.is_none() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
            status = self.child.try_wait().unwrap();
        }
        let code = status.map(code_of);
        assert_eq!(code, Some(end.code), "{status:?}: {}", self.log());
    }
}

/// As a shell has it.
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
