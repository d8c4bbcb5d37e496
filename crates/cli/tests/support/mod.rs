//! Runs the program itself: servers on free ports, clients of several users.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::is_root;
use serde_json::Value;

/// Longest that one run of the program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for one test, with one for each user's state.
pub struct World {
    dir: tempfile::TempDir,
    /// The user who runs the program, if it is another than the one who runs the tests.
    uid: Option<u32>,
}

impl World {
    pub fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        for name in ["served", "here"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        World { dir, uid: None }
    }

    /// A world in which the program runs as an ordinary user.
    pub fn of_ordinary_user() -> World {
        const NOBODY: u32 = 65_534;
        let mut world = World::new();
        if is_root() {
            world.uid = Some(NOBODY);
            for path in [world.dir.path(), &world.path("served"), &world.path("here")] {
                std::os::unix::fs::chown(path, world.uid, world.uid).unwrap();
            }
        }
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn served(&self, name: &str) -> PathBuf {
        self.path("served").join(name)
    }

    pub fn here(&self, name: &str) -> PathBuf {
        self.path("here").join(name)
    }

    /// The program, as the user `user`, without a terminal.
    pub fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fusewire"));
        command.args(args).current_dir(self.path("here"));
        command.env("XDG_STATE_HOME", self.path(user)).env_remove("RUST_LOG");
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// What an outboard has counted, of those whose user has `run` for his sockets.
    pub fn counted(&self, what: &str) -> u64 {
        let mut metrics = self.command("alice", &["metrics"]);
        metrics.env("XDG_RUNTIME_DIR", self.path("run"));
        let metrics = Done::of(metrics.spawn().unwrap()).ok().out;
        let name = format!("fusewire_outboard_{what}_total{{");
        let line = metrics.lines().find(|line| line.starts_with(&name));
        let line = line.unwrap_or_else(|| panic!("{metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub fn run(&self, user: &str, args: &[&str]) -> Done {
        Done::of(self.command(user, args).spawn().unwrap())
    }

    pub fn serve(&self, args: &[&str]) -> Server {
        let served = self.path("served");
        let mut all = vec!["serve", served.to_str().unwrap(), "--listen", "127.0.0.1:0", "--json"];
        all.extend(args);
        Server::start(self.command("alice", &all))
    }

    /// A server at an address where one was before.
    pub fn serve_again(&self, address: &str, args: &[&str]) -> Server {
        let served = self.path("served");
        let mut all = vec!["serve", served.to_str().unwrap(), "--listen", address, "--json"];
        all.extend(args);
        Server::start(self.command("alice", &all))
    }
}

/// A file of [`BIG`] bytes on its way to `here`, slow enough to be caught in the middle.
pub struct UnderWay {
    pub content: Vec<u8>,
    pub server: Server,
    pub url: String,
    pub child: Child,
}

/// Length of the file of [`World::get_big`], and its bytes a second.
pub const BIG: usize = 24 << 20;
pub const RATE: &str = "4M";

/// Words for what carries bytes, and nothing else: XTP in UDP, or a device, over which it is TCP.
pub fn over(way: &str) -> Vec<&str> {
    match way {
        "xtp" => vec!["--transport", way, "--device", "udp"],
        device => vec!["--device", device],
    }
}

/// The same for a server, which takes connections by all of these devices at once.
pub fn served_over(way: &str) -> [&str; 2] {
    ["--transport", if way == "xtp" { way } else { "tcp" }]
}

impl World {
    /// Serves a file and gets it as `alice` over `way`, until more than `until` bytes have come.
    pub fn get_big(&self, way: &str, until: u64) -> UnderWay {
        let content = bytes(BIG, 1);
        fs::write(self.served("big"), &content).unwrap();
        let server = self.serve(&served_over(way));
        let url = server.url("big");
        let args = [&["get", &url, "--rate", RATE][..], &over(way)].concat();
        let child = self.command("alice", &args).spawn().unwrap();
        wait_for_part(&self.path("here"), until);
        UnderWay { content, server, url, child }
    }

    /// Gets it again, with what has come already, and compares it.
    pub fn goes_on(&self, way: &str, url: &str, content: &[u8]) {
        assert!(!self.here("big").exists(), "an unfinished file has its name");
        let args = [&["get", url, "--json"][..], &over(way)].concat();
        let summary = self.run("alice", &args).ok().summary();
        assert!(summary["bytes_resumed"].as_u64().unwrap() >= 1 << 20, "{summary}");
        assert!(fs::read(self.here("big")).unwrap() == content);
        fs::remove_file(self.here("big")).unwrap();
    }
}

/// What a run of the program left.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(child: Child) -> Done {
        let output = finish(child);
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> Done {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    #[track_caller]
    pub fn failed(self, code: i32, word: &str) -> Done {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(word), "{word:?} is missing: {self:?}");
        self
    }

    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// The last line of JSON.
    pub fn summary(&self) -> Value {
        self.lines().pop().unwrap()
    }
}

/// Waits, but not for ever.
fn finish(mut child: Child) -> Output {
    // A pipe that nobody reads would fill, and the program would wait.
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("did not end: {}", String::from_utf8_lossy(&err.join().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// Whether a program is installed; says so where it is not.
pub fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("not tested: {program} is not installed");
    }
    found
}

/// Runs the program on a terminal of its own, where `answer` is typed.
pub fn on_a_terminal(world: &World, user: &str, args: &[&str], answer: &str) -> Done {
    let plain = world.command(user, args);
    let line = std::iter::once(plain.get_program()).chain(plain.get_args());
    let line: Vec<_> = line.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &line.join(" "), "/dev/null"]).current_dir(world.path("here"));
    // Without the name of a terminal there is no bar.
    command.env("TERM", "xterm");
    command.env("XDG_STATE_HOME", world.path(user)).env_remove("RUST_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answer.as_bytes()).unwrap();
    // Kept open until the end: its end would be that of the terminal.
    let done = Done::of(child);
    drop(input);
    done
}

/// Reads the next line of what a program prints.
pub fn next_line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

/// A running server; killed when dropped.
pub struct Server {
    child: Option<Child>,
    pub address: String,
    pub fingerprint: String,
}

impl Server {
    pub fn start(mut command: Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            panic!("the server did not start: {err}");
        }
        let value: Value = serde_json::from_str(&line).unwrap();
        let text = |key: &str| value[key].as_str().unwrap().to_string();
        Server { address: text("address"), fingerprint: text("fingerprint"), child: Some(child) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("fusewire://{}/{path}", self.address)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The most memory that it had at any time, in bytes.
    pub fn peak_memory(&self) -> u64 {
        peak_memory(self.pid())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let child = self.child.as_ref().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
    }

    /// SIGTERM, and the end.
    pub fn stop(mut self) -> Done {
        self.signal(rustix::process::Signal::TERM);
        Done::of(self.child.take().unwrap())
    }

    /// SIGHUP.
    pub fn reload(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// SIGINT, as of Ctrl-C.
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    pub fn wait(mut self) -> Done {
        Done::of(self.child.take().unwrap())
    }

    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The most memory that a process had at any time, in bytes.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// What the threads of a process have had of the processor.
fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // One that has just ended had nothing to do with what is measured.
    let had = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).ok();
    let ns = |had: String| had.split(' ').next().unwrap().parse::<u64>().unwrap();
    let all = tasks.filter_map(had).map(ns).sum();
    assert_ne!(all, 0, "the kernel does not say what threads have had");
    Duration::from_nanos(all)
}

/// The share of a processor that a process takes during so long, once it has done what it had to.
pub fn share_at_rest(pid: u32, during: Duration) -> f64 {
    const LOOK: Duration = Duration::from_millis(200);
    let share = |during: Duration| {
        let (begun, before) = (Instant::now(), cpu_time(pid));
        std::thread::sleep(during);
        cpu_time(pid).saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64()
    };
    let begun = Instant::now();
    while share(LOOK) > 0.01 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not rest");
    }
    share(during)
}

/// Bytes without a pattern.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// What the largest unfinished file in `dir` takes on disk, in bytes; `None` if there is none.
fn part_bytes(dir: &Path) -> Option<u64> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let parts = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
    let blocks = |m: fs::Metadata| std::os::unix::fs::MetadataExt::blocks(&m) * 512;
    parts.filter_map(|entry| entry.metadata().ok().map(blocks)).max()
}

/// Waits until `dir` is there and holds an unfinished file of more than `len` bytes.
pub fn wait_for_part(dir: &Path, len: u64) {
    let start = Instant::now();
    loop {
        if part_bytes(dir).is_some_and(|bytes| bytes > len) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no unfinished file appeared");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The longest time for which the unfinished file in `dir` did not grow, until there is none any more.
pub fn longest_pause(dir: &Path) -> Duration {
    let (mut had, mut since, mut longest) = (0, Instant::now(), Duration::ZERO);
    while let Some(bytes) = part_bytes(dir) {
        longest = longest.max(since.elapsed());
        assert!(longest < PATIENCE, "the file does not grow");
        if bytes > had {
            (had, since) = (bytes, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    longest
}

/// Measurements that take both of two processors: one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `fusewire bench BENCH --quick`: its lines, and what it said beside them; `None` without root.
pub fn quick_bench(bench: &str, test: &str, args: &[&str]) -> Option<(Vec<Value>, String)> {
    if !is_root() {
        eprintln!("skipped: {test} needs root");
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewire"));
    command.args(["bench", bench, "--quick", "--json"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = Done::of(command.spawn().unwrap()).ok();
    Some((done.lines(), done.err))
}

/// A number of a line, which the path of a JSON pointer names; no number where there is none.
pub fn number(line: &Value, path: &str) -> f64 {
    line.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}
