//! One run of one script.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Ip, Tests, applicable};
use crate::shell::{Result, cargo, is_root, root, step};

/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of it.
pub enum Outcome {
    Passed,
    Failed(String),
    NotApplicable(String),
}

impl Outcome {
    pub fn words(&self) -> (&'static str, &str) {
        match self {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed(reason) => ("failed", reason),
            Outcome::NotApplicable(reason) => ("not applicable", reason),
        }
    }
}

/// A script that ran.
pub struct Run {
    pub script: PathBuf,
    pub ip: Ip,
    pub tests: Tests,
    pub outcome: Outcome,
    pub seconds: f64,
}

/// What all runs share.
pub struct Bench {
    program: PathBuf,
    /// `None`: the kernel's TCP.
    shared_object: Option<PathBuf>,
    /// That library's stack is in an outboard.
    outboard: bool,
    folder: PathBuf,
    /// What makes a network namespace, if anything does.
    namespace: Option<Vec<&'static str>>,
    count: AtomicUsize,
}

impl Bench {
    /// Builds the library, and the commands that scripts find instead of the system's.
    pub fn new(program: &Path, kernel: bool, outboard: bool) -> Result<Bench> {
        let shared_object = if kernel { None } else { Some(library()?) };
        let folder = root().join("target/packetdrill");
        let bin = folder.join("bin");
        std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
        put(
            &bin.join("tc"),
            "#!/bin/sh\n# The stack's device is memory: remembers what is wanted of it.\necho \"$@\" > \"$FUSEWIRE_DEVICE\"\n",
        )?;
        put(
            &bin.join("ethtool"),
            "#!/bin/sh\n# The stack's device is memory: it has no offloads.\n",
        )?;
        let namespaces = [&["unshare", "--net"][..], &["unshare", "--map-root-user", "--net"]];
        let namespace = namespaces.into_iter().find(|words| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg("true").stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        if kernel && (namespace.is_none() || !is_root()) {
            return Err("--kernel: needs root, for a namespace and a TUN device".into());
        }
        Ok(Bench {
            program: program.to_path_buf(),
            shared_object,
            outboard,
            folder,
            namespace: namespace.map(<[_]>::to_vec),
            count: AtomicUsize::new(0),
        })
    }

    /// Runs a script over one version of IP.
    pub fn run(&self, script: &Path, ip: Ip) -> Run {
        let start = Instant::now();
        let text = std::fs::read(script).map(|b| String::from_utf8_lossy(&b).into_owned());
        let tests = text.as_deref().map_or(Tests::Wire, applicable::tests);
        let outcome = match text {
            Ok(text) => self.outcome(script, ip, &text),
            Err(error) => Outcome::Failed(format!("{}: {error}", script.display())),
        };
        let seconds = start.elapsed().as_secs_f64();
        Run { script: script.to_path_buf(), ip, tests, outcome, seconds }
    }

    fn outcome(&self, script: &Path, ip: Ip, text: &str) -> Outcome {
        let commands = applicable::runs_commands(text);
        if self.shared_object.is_some()
            && let Some(reason) = applicable::reason(text)
        {
            return Outcome::NotApplicable(reason.into());
        }
        if self.outboard
            && let Some(how) = applicable::outboard_differs(text)
        {
            return Outcome::NotApplicable(how.into());
        }
        if self.shared_object.is_none()
            && let Some(how) = applicable::kernel_differs(text)
        {
            return Outcome::NotApplicable(format!("Linux: {how}"));
        }
        if commands && self.namespace.is_none() {
            return Outcome::NotApplicable("shell commands, and no namespace can be had".into());
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let device = self.folder.join(format!("device-{}-{number}", std::process::id()));
        let mut command = self.command(script, ip, commands, &device);
        let outcome = match command.spawn() {
            Ok(child) => wait(child),
            Err(error) => Outcome::Failed(format!("{}: {error}", self.program.display())),
        };
        let _ = std::fs::remove_file(device.with_extension("sock"));
        let _ = std::fs::remove_file(device);
        outcome
    }

    fn command(&self, script: &Path, ip: Ip, commands: bool, device: &Path) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(namespace) =
            self.namespace.as_ref().filter(|_| commands || self.shared_object.is_none())
        {
            words.extend(namespace.iter().map(|word| (*word).to_string()));
        }
        // packetdrill locks its memory: a small stack for its thread keeps within an ordinary user's limit.
        words.extend(["sh", "-c", "ulimit -s 512; exec \"$@\"", "sh"].map(String::from));
        words.extend(["env".to_string(), format!("PATH={}", self.path())]);
        if let Some(library) = &self.shared_object {
            words.push(format!("LD_PRELOAD={}", library.display()));
        }
        if self.shared_object.is_none() {
            let settings = root().join("conformance/kernel.sh").display().to_string();
            words.extend(["sh", "-c", "\"$0\" && exec \"$@\""].map(String::from));
            words.push(settings);
        }
        words.push(self.program.display().to_string());
        let mtu = if ip == Ip::Ipv6 { 1520 } else { 1500 };
        if let Some(library) = &self.shared_object {
            words.push(format!("--so_filename={}", library.display()));
            let sysctls = if commands { ",sysctls" } else { "" };
            let socket = device.with_extension("sock");
            let outboard = match self.outboard {
                true => format!(",outboard={}", socket.display()),
                false => String::new(),
            };
            let device = device.display();
            words.push(format!("--so_flags=mtu={mtu},device={device}{sysctls}{outboard}"));
        }
        words.extend(addresses(ip).iter().map(|word| (*word).to_string()));
        words.push("--send_omit_free".into());
        words.push(script.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("FUSEWIRE_DEVICE", device);
        command.current_dir(script.parent().unwrap_or(Path::new(".")));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn path(&self) -> String {
        let system = std::env::var("PATH").unwrap_or_default();
        match self.shared_object {
            Some(_) => format!("{}:{system}", self.folder.join("bin").display()),
            None => system,
        }
    }
}

/// packetdrill's addresses, and the names that scripts use for what differs.
fn addresses(ip: Ip) -> &'static [&'static str] {
    match ip {
        Ip::Ipv4 => &[
            "--ip_version=ipv4",
            "--local_ip=192.168.0.1",
            "--gateway_ip=192.168.0.1",
            "--netmask_ip=255.255.0.0",
            "--remote_ip=192.0.2.1",
            "-DCMSG_LEVEL_IP=SOL_IP",
            "-DCMSG_TYPE_RECVERR=IP_RECVERR",
        ],
        Ip::Mapped => &[
            "--ip_version=ipv4-mapped-ipv6",
            "--local_ip=192.168.0.1",
            "--gateway_ip=192.168.0.1",
            "--netmask_ip=255.255.0.0",
            "--remote_ip=192.0.2.1",
            "-DCMSG_LEVEL_IP=SOL_IPV6",
            "-DCMSG_TYPE_RECVERR=IPV6_RECVERR",
        ],
        Ip::Ipv6 => &[
            "--ip_version=ipv6",
            "--mtu=1520",
            "--local_ip=fd3d:0a0b:17d6::1",
            "--gateway_ip=fd3d:0a0b:17d6:8888::1",
            "--remote_ip=fd3d:fa7b:d17d::1",
            "-DCMSG_LEVEL_IP=SOL_IPV6",
            "-DCMSG_TYPE_RECVERR=IPV6_RECVERR",
        ],
    }
}

/// Waits for the end, and kills what does not end.
fn wait(mut child: Child) -> Outcome {
    let pipes = [
        child.stdout.take().map(|p| Box::new(p) as Box<dyn Read + Send>),
        child.stderr.take().map(|p| Box::new(p) as Box<dyn Read + Send>),
    ];
    let readers = pipes.map(|pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => break None,
        }
    };
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        return Outcome::Failed("hangs".into());
    };
    let said: String = readers.into_iter().filter_map(|r| r.join().ok()).collect();
    if status.success() {
        return Outcome::Passed;
    }
    let lines = said.lines().filter(|line| !line.starts_with("sysctl: "));
    Outcome::Failed(lines.collect::<Vec<_>>().join("\n"))
}

fn library() -> Result<PathBuf> {
    let mut build = cargo();
    step("packetdrill: library", build.args(["build", "--quiet", "-p", "fusewire-packetdrill"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    Ok(target.join("debug/libfusewire_packetdrill.so"))
}

/// Writes a command.
fn put(path: &Path, text: &str) -> Result {
    use std::os::unix::fs::PermissionsExt;
    let failed = |e| format!("{}: {e}", path.display());
    std::fs::write(path, text).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(failed)
}
