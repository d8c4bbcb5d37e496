//! A network of one kernel and one stack of ours: a namespace with a TAP whose cable ends in the test.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::interface::tap::{self, Tap};
use fusewire_lab::namespace::{self, Killed, Namespace};
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, Event, SocketId, Stack};

pub const TAP: &str = "fwtap";
/// Longest that a conversation may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The kernel's address, and ours.
pub fn kernel(v6: bool) -> IpAddr {
    address(v6, 1)
}

pub fn ours(v6: bool) -> IpAddr {
    address(v6, 2)
}

fn address(v6: bool, host: u8) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into()
    } else {
        Ipv4Addr::new(10, 77, 9, host).into()
    }
}

/// Skips the test with a word when namespaces cannot be made, or a program is not there.
pub fn can_run(programs: &[&str]) -> bool {
    if let Err(why) = namespace::available() {
        println!("skipped: {why}");
        return false;
    }
    for program in programs {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            println!("skipped: {program} is not installed");
            return false;
        }
    }
    true
}

/// What differs from an ordinary network.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub mtu: usize,
    /// Super-frames and unfinished checksums; without them frames are as on a wire.
    pub offload: bool,
}

impl Default for Link {
    fn default() -> Self {
        Link { mtu: 1500, offload: false }
    }
}

pub struct Lan {
    pub namespace: Arc<Namespace>,
    pub stack: Stack,
    pub clock: Clock,
    /// What happened since it was last looked at.
    pub events: Vec<(SocketId, Event)>,
}

impl Lan {
    pub fn new(link: Link) -> Lan {
        Lan::in_namespace(Namespace::new().unwrap(), link, Config::default())
    }

    /// With a kernel that was set up before.
    pub fn in_namespace(namespace: Namespace, link: Link, config: Config) -> Lan {
        let config_of_tap = tap::Config {
            name: TAP.into(),
            mtu: Some(link.mtu),
            offload: link.offload,
            ..tap::Config::default()
        };
        namespace.sysctl("ipv6/conf/default/accept_dad", "0").unwrap();
        let tap = namespace.run(|| Tap::open(&config_of_tap).unwrap()).unwrap();
        namespace.ip(&format!("address add {}/24 dev {TAP}", kernel(false))).unwrap();
        if link.mtu >= 1280 {
            namespace.ip(&format!("address add {}/64 dev {TAP} nodad", kernel(true))).unwrap();
        }
        Lan::over(namespace, tap, config)
    }

    /// Over a TAP that is there.
    pub fn over(namespace: Namespace, tap: Tap, config: Config) -> Lan {
        let clock = Clock::new();
        let addresses =
            vec![Cidr::new(ours(false), 24).unwrap(), Cidr::new(ours(true), 64).unwrap()];
        let net = NetConfig { addresses, duplicate_detection: false, ..Stack::net_config(&tap) };
        let stack = Stack::new(Box::new(tap), net, config, [7; 32], clock.now());
        Lan { namespace: Arc::new(namespace), stack, clock, events: Vec::new() }
    }

    /// Drives the stack until `step` is done. It is called after everything that happened, with the events.
    pub fn drive<T>(&mut self, what: &str, mut step: impl FnMut(&mut Lan) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            self.turn();
            if let Some(done) = step(self) {
                self.turn();
                return done;
            }
            assert!(Instant::now() < end, "{what}: stalled; {:?}", self.stack.counters());
        }
    }

    fn turn(&mut self) {
        let worked = self.stack.poll(self.clock.now()).expect("the interface works");
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
        if !worked {
            let now = self.clock.now();
            self.stack
                .wait(now, Some(Duration::from_millis(2)), false)
                .expect("the interface works");
        }
    }

    /// Drives the stack until a program in the kernel's namespace has ended, and checks that it succeeded.
    pub fn until_ended(&mut self, command: &mut Command, mut step: impl FnMut(&mut Lan)) -> Output {
        let what = format!("{command:?}");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Killed(command.spawn().unwrap());
        // Threads read, so that no pipe is full.
        let (mut out, mut err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
        let read_out = std::thread::spawn(move || read_all(&mut out));
        let read_err = std::thread::spawn(move || read_all(&mut err));
        let status = self.drive(&what, |lan| {
            step(lan);
            child.0.try_wait().unwrap()
        });
        let (stdout, stderr) = (read_out.join().unwrap(), read_err.join().unwrap());
        let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{what}: {said}");
        Output { status, stdout, stderr }
    }

    /// Drives the stack while a thread in the kernel's namespace does something with its sockets.
    pub fn against<T: Send + 'static>(
        &mut self,
        what: &str,
        kernel: impl FnOnce() -> T + Send + 'static,
        mut step: impl FnMut(&mut Lan),
    ) -> T {
        let namespace = self.namespace.clone();
        let thread = std::thread::spawn(move || namespace.run(kernel).unwrap());
        self.drive(what, |lan| {
            step(lan);
            thread.is_finished().then_some(())
        });
        thread.join().unwrap()
    }

    /// A program in the kernel's namespace.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.namespace.command("timeout");
        command.arg(PATIENCE.as_secs().to_string()).arg(program).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Writes what goes over the TAP to a file, from now until [`Capture::check`].
    pub fn capture(&self) -> Capture {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("fusewire-interop-{}-{number}.pcapng", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut command = self.namespace.command("dumpcap");
        command.args(["-q", "-i", TAP, "-w"]).arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Killed(command.spawn().unwrap());
        // It says `File:` once it captures.
        let mut said = BufReader::new(child.0.stderr.take().unwrap());
        let mut line = String::new();
        while said.read_line(&mut line).is_ok_and(|n| n > 0) && !line.contains("File:") {
            line.clear();
        }
        Capture { child, path, _said: said }
    }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    bytes
}

/// A capture under way; its file is removed in the end.
pub struct Capture {
    child: Killed,
    path: PathBuf,
    /// It must be able to write there to its end.
    _said: BufReader<std::process::ChildStderr>,
}

/// What an independent reader finds wrong with a packet.
const WRONG: &str = "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 \
     || icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || _ws.malformed";

impl Capture {
    /// Ends the capture, and checks that tshark finds nothing wrong in at least `packets` of ours.
    pub fn check(mut self, packets: usize) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        let ours = format!("ip.src == {} || ipv6.src == {}", ours(false), ours(true));
        // What the kernel has queued for it is written first.
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            self.until_still();
            let found = self.tshark(&ours);
            let found = String::from_utf8_lossy(&found.stdout).lines().count();
            if found >= packets {
                break;
            }
            assert!(Instant::now() < end, "{found} of at least {packets} packets were captured");
        }
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.child.0.wait();
        // Of the kernel's own one in 65536 has a checksum of 0xffff, which is what 0 should be.
        let wrong = self.read(&format!("({WRONG}) && ({ours})"));
        assert!(wrong.is_empty(), "tshark finds wrong:\n{wrong}");
    }

    /// Waits until nothing is written for a while.
    fn until_still(&self) {
        let written = || std::fs::metadata(&self.path).map_or(0, |file| file.len());
        let mut before = None;
        while before != Some(written()) {
            before = Some(written());
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn read(&self, filter: &str) -> String {
        let output = self.tshark(filter);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn tshark(&self, filter: &str) -> Output {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.path).args(["-Y", filter]);
        for check in ["ip", "tcp", "udp"] {
            command.arg("-o").arg(format!("{check}.check_checksum:TRUE"));
        }
        command.output().unwrap()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// An address with a port.
pub fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

/// Bytes that tell their place.
pub fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
