//! Network namespaces without names: links, bridges and TAPs for an experiment, gone when it is.
//!
//! A namespace lives as long as a descriptor or a process holds it, and takes its links along. So
//! nothing has to be removed after a panic, Ctrl-C or SIGKILL, and nothing is stale at the next start:
//! children are told to die with us. Needs root, `unshare`, `nsenter` and `setpriv` (util-linux) and
//! `ip` (iproute2).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Output, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Error, Result};

/// A network namespace of our own. Its loopback interface is up.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

/// True if namespaces can be made here; otherwise why not, in words for who skips a test.
///
/// # Errors
/// What is missing.
pub fn available() -> std::result::Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("not root".into());
    }
    Namespace::new().map(drop).map_err(|e| e.to_string())
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// What the operating system says: not root, `unshare` or `ip` is missing.
    pub fn new() -> Result<Self> {
        // The child answers once it is in its namespace, and is not needed after that.
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::os("starting unshare"))?;
        let mut byte = [0];
        let ready = child.stdout.as_mut().map_or(Ok(()), |out| out.read_exact(&mut byte));
        let file = ready.and_then(|()| File::open(format!("/proc/{}/ns/net", child.id())));
        let _ = child.kill();
        let _ = child.wait();
        let namespace = Namespace { file: file.map_err(Error::os("making a network namespace"))? };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Where other processes find it, as long as we live and hold it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `f` in a thread that is in the namespace: sockets and TAPs that it opens stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|e| Error::os("entering a network namespace")(e.into()))?;
                Ok(f())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that will run `program` in the namespace and be killed when the calling thread ends.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path()));
        command.args(["setpriv", "--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// `ip` in the namespace, its arguments separated by spaces.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn ip(&self, arguments: &str) -> Result<()> {
        let mut command = self.command("ip");
        let output = command
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .map_err(Error::os("starting ip"))?;
        succeeded(&format!("ip {arguments}"), &output)
    }

    /// A pair of links, one end here, one in `peer`; both up.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn veth(&self, name: &str, peer: &Namespace, peer_name: &str) -> Result<()> {
        let path = peer.path();
        self.ip(&format!("link add {name} type veth peer name {peer_name} netns {path}"))?;
        self.ip(&format!("link set {name} up"))?;
        peer.ip(&format!("link set {peer_name} up"))
    }

    /// A TAP that stays when nobody has it open; up.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn tap(&self, name: &str) -> Result<()> {
        self.ip(&format!("tuntap add dev {name} mode tap"))?;
        self.ip(&format!("link set {name} up"))
    }

    /// A bridge that forwards at once, over links that are here; up.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn bridge(&self, name: &str, ports: &[&str]) -> Result<()> {
        self.ip(&format!("link add {name} type bridge forward_delay 0 mcast_snooping 0"))?;
        for port in ports {
            self.ip(&format!("link set {port} master {name}"))?;
        }
        self.ip(&format!("link set {name} up"))
    }

    /// Sets a variable below `/proc/sys/net`, such as `ipv4/tcp_sack`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<()> {
        self.run(|| {
            File::options()
                .write(true)
                .open(format!("/proc/sys/net/{name}"))
                .and_then(|mut file| file.write_all(value.as_bytes()))
                .map_err(Error::os("setting a variable of the kernel"))
        })?
    }

    /// Streams of the kernel's to what its links reach begin with this congestion control, whoever opens them: a program such
    /// as iperf3, which chooses one when it has connected, would go on pacing where the machine's default paces.
    ///
    /// # Errors
    /// The kernel does not have it, or `ip` speaks another language.
    pub fn begin_streams_with(&self, congestion: &str) -> Result<()> {
        let mut command = self.command("ip");
        command.args(["-json", "-4", "route", "show", "proto", "kernel"]).stdin(Stdio::null());
        let output = command.output().map_err(Error::os("starting ip"))?;
        succeeded("ip route show", &output)?;
        let unknown = || Error::Unsupported("the routes are not known".into());
        let routes: Vec<serde_json::Value> =
            serde_json::from_slice(&output.stdout).map_err(|_| unknown())?;
        for route in &routes {
            let of = |name: &str| route[name].as_str().ok_or_else(unknown);
            let (to, link, source) = (of("dst")?, of("dev")?, of("prefsrc")?);
            self.ip(&format!(
                "route replace {to} dev {link} proto kernel scope link src {source} \
                 congctl {congestion}"
            ))?;
        }
        Ok(())
    }

    /// The Ethernet address of a link.
    ///
    /// # Errors
    /// When there is no such link, or `ip` speaks another language.
    pub fn mac(&self, link: &str) -> Result<[u8; 6]> {
        let unknown = || Error::Unsupported(format!("the address of {link} is not known"));
        let mut command = self.command("ip");
        command.args(["-json", "link", "show", "dev", link]).stdin(Stdio::null());
        let output = command.output().map_err(Error::os("starting ip"))?;
        succeeded("ip link show", &output)?;
        let json: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| unknown())?;
        let text = json[0]["address"].as_str().ok_or_else(unknown)?;
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().ok_or_else(unknown)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| unknown())?;
        }
        Ok(mac)
    }
}

fn succeeded(what: &str, output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Unsupported(format!("{what}: {}", said.trim())))
}

/// A child that is killed and waited for when it is dropped.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_is_made_in_a_namespace_is_there_alone() {
        if let Err(why) = available() {
            println!("skipped: {why}");
            return;
        }
        let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        a.veth("fwtest0", &b, "fwtest1").unwrap();
        a.ip("address add 192.0.2.1/24 dev fwtest0").unwrap();
        b.ip("address add 192.0.2.2/24 dev fwtest1").unwrap();
        assert_ne!(a.mac("fwtest0").unwrap(), b.mac("fwtest1").unwrap());
        assert!(a.mac("fwtest1").is_err());
        assert!(!std::fs::read_to_string("/proc/net/dev").unwrap().contains("fwtest"));
        let reader = b.run(|| UdpSocket::bind("192.0.2.2:0").unwrap()).unwrap();
        let writer = a.run(|| UdpSocket::bind("192.0.2.1:0").unwrap()).unwrap();
        assert!(UdpSocket::bind("192.0.2.1:0").is_err());
        writer.send_to(b"over", reader.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(reader.recv(&mut bytes).unwrap(), 4);
        a.sysctl("ipv4/tcp_sack", "0").unwrap();
        let value = |ns: &Namespace| {
            ns.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap()).unwrap()
        };
        assert_eq!((value(&a).trim(), value(&b).trim()), ("0", "1"));
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        if let Err(why) = available() {
            println!("skipped: {why}");
            return;
        }
        let namespace = Namespace::new().unwrap();
        let start = || {
            let mut command = namespace.command("sh");
            let mut child = command.args(["-c", "echo; exec sleep 60"]);
            child = child.stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = child.spawn().unwrap();
            let _ = child.stdout.as_mut().unwrap().read_exact(&mut [0]);
            child
        };
        let mut child = std::thread::scope(|s| s.spawn(start).join().unwrap());
        assert!(!child.wait().unwrap().success());
    }
}
