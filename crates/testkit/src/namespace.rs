//! Tests in a network namespace of their own: whatever they make in it, links, addresses, programs of the
//! kernel's, is gone when their process ends, however it ends.
//!
//! The test runs again as a child of itself inside `unshare`. As root it keeps the rights that it has;
//! else it gets those of a user namespace, where they are allowed, which is enough for TAP and AF_PACKET and
//! not for loading programs into the kernel.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::scratch::Scratch;

const INSIDE: &str = "FUSEWIRE_TEST_NAMESPACE";

/// What a test needs; without it, it is skipped and says so. Root has all of it but `/dev/net/tun`, which a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A namespace, which an unprivileged user may have too.
    Namespace,
    /// A namespace, and a TAP in it: some machines let only root open `/dev/net/tun`.
    Tap,
    /// The rights of the real root.
    Root,
}

/// Runs `inside` in a namespace where `setup`, a shell script, ran before. `test` is the test's own path, as
/// the test program lists it.
///
/// # Panics
/// When `inside` does, with what it printed; as root also when there is no such namespace, or `setup` fails: who may do all
/// that has a test that is wrong.
pub fn in_namespace(test: &str, need: Need, setup: &str, inside: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some_and(|name| name == test) {
        println!("inside");
        return inside();
    }
    let is_root = is_root();
    if need == Need::Root && !is_root {
        return eprintln!("skipped: {test} needs root");
    }
    let tun = || OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    if need == Need::Tap
        && let Err(e) = tun()
    {
        return eprintln!("skipped: {test} needs /dev/net/tun: {e}");
    }
    let mut command = Command::new("unshare");
    if !is_root {
        command.arg("--map-root-user");
    }
    let script = format!(
        "set -e\nip link set lo up\n{setup}\n\
         exec \"$0\" --exact {test} --nocapture --include-ignored --test-threads=1"
    );
    let program = std::env::current_exe().expect("the test program has a path");
    // What a child that is killed leaves behind goes with this.
    let scratch = Scratch::new();
    command.args(["--net", "sh", "-c", &script]).arg(program).env(INSIDE, test);
    let output = command.env("TMPDIR", scratch.path()).output();
    let output = match output {
        Ok(output) => output,
        Err(e) if is_root => panic!("unshare cannot be run: {e}"),
        Err(e) => return eprintln!("skipped: unshare cannot be run: {e}"),
    };
    let out = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    if !out.contains("inside") {
        assert!(!is_root, "no namespace as {test} wants it: {out}{error}");
        return eprintln!("skipped: no namespace, or not as {test} wants it: {out}{error}");
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}{error}");
    eprint!("{error}");
}

/// True for the real root, not that of a user namespace.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    uid.and_then(|ids| ids.split_whitespace().next()) == Some("0") && all
}

/// Runs a shell script where the test runs, and returns what it printed.
///
/// # Panics
/// When it fails.
pub fn sh(script: &str) -> String {
    run(Command::new("sh").args(["-e", "-c", script]), script)
}

fn run(command: &mut Command, script: &str) -> String {
    let output = command.stdin(Stdio::null()).output().expect("sh");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Another namespace beside the test's: a host of its own. It ends with the test.
pub struct Peer(Child);

impl Peer {
    /// A namespace with its loopback up, and nothing else.
    ///
    /// # Panics
    /// When there can be none.
    pub fn new() -> Peer {
        // It ends when its input does: when the test's process ends.
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        let _ = BufReader::new(out).read_line(&mut line);
        assert_eq!(line, "ready\n", "a namespace for a peer");
        Peer(child)
    }

    /// One at the other end of a veth, of which `v0` is here and without an address: `v1` has 10.9.0.1/24.
    ///
    /// # Panics
    /// As [`Peer::new`] and [`Peer::join`].
    pub fn joined() -> Peer {
        let peer = Peer::new();
        peer.join([("v0", &[]), ("v1", &["10.9.0.1/24"])]);
        peer
    }

    /// Lays a veth, up at both ends: what it is called here and there, and the addresses that each end has, which are those of IPv6 at
    /// once.
    ///
    /// # Panics
    /// When there can be none.
    pub fn join(&self, [here, there]: [(&str, &[&str]); 2]) {
        let (name, pid) = (here.0, self.pid());
        sh(&format!("ip link add {name} type veth peer name {} netns {pid}", there.0));
        let up = |(name, addresses): (&str, &[&str])| {
            let add = addresses.iter().map(|address| {
                let at_once = if address.contains(':') { "nodad" } else { "" };
                format!("ip addr add {address} dev {name} {at_once}\n")
            });
            add.collect::<String>() + &format!("ip link set {name} up")
        };
        sh(&up(here));
        self.sh(&up(there));
    }

    /// Its process, which `ip link set NAME netns PID` takes.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// A program that runs in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "-t", &self.pid().to_string(), program]);
        command
    }

    /// Runs a shell script in it, and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn sh(&self, script: &str) -> String {
        run(self.command("sh").args(["-e", "-c", script]), script)
    }
}

impl Default for Peer {
    fn default() -> Peer {
        Peer::new()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn what_a_killed_test_leaves_behind_is_removed() {
        let test = "namespace::tests::what_a_killed_test_leaves_behind_is_removed";
        let told = std::env::temp_dir().join(format!("fw-told-{}", std::process::id()));
        let setup = format!("[ -w {0} ] || exit 0; echo $TMPDIR > {0}", told.display());
        std::fs::write(&told, "").unwrap();
        let ran = catch_unwind(|| {
            in_namespace(test, Need::Namespace, &setup, || {
                std::fs::write(std::env::temp_dir().join("left"), "x").unwrap();
                sh("kill -9 $PPID");
            });
        });
        let folder = std::fs::read_to_string(&told).unwrap();
        std::fs::remove_file(&told).unwrap();
        // Where there are no namespaces it was skipped.
        if ran.is_err() {
            assert!(
                folder.contains("/fw-") && !std::path::Path::new(folder.trim()).exists(),
                "{folder}"
            );
        } else {
            assert!(!is_root());
        }
    }

    /// What cannot be set up is a failure where everything may be set up, and a test that is skipped elsewhere.
    #[test]
    fn who_may_do_everything_fails_where_others_skip() {
        let test = "namespace::tests::who_may_do_everything_fails_where_others_skip";
        let ran = catch_unwind(|| {
            in_namespace(test, Need::Namespace, "ip link set nowhere up", || unreachable!());
        });
        assert_eq!(ran.is_err(), is_root());
    }
}
