//! A bridge with a host for each receiver.

use std::process::Stdio;

use super::Case;
use crate::namespace::Namespace;
use crate::process::said;
use crate::{Error, Result};

/// The link of the sender, and that of each receiver.
pub const SENDER_LINK: &str = "br7";
pub const RECEIVER_LINK: &str = "eth0";

/// The sender's host, at whose bridge all others are.
pub struct Network {
    pub sender: Namespace,
    pub receivers: Vec<Namespace>,
}

impl Network {
    pub fn new(case: Case) -> Result<Network> {
        let sender = Namespace::new()?;
        let (mut receivers, mut ports) = (Vec::new(), Vec::new());
        for n in 0..case.receivers {
            let (receiver, port) = (Namespace::new()?, format!("v{n}"));
            sender.veth(&port, &receiver, RECEIVER_LINK)?;
            let (high, low) = ((n + 2) >> 8, (n + 2) & 255);
            receiver.ip(&format!("address add 10.77.{high}.{low}/16 dev {RECEIVER_LINK}"))?;
            receiver.ip(&format!("route add 224.0.0.0/4 dev {RECEIVER_LINK}"))?;
            receivers.push(receiver);
            ports.push(port);
        }
        let names: Vec<&str> = ports.iter().map(String::as_str).collect();
        sender.bridge(SENDER_LINK, &names)?;
        sender.ip(&format!("address add 10.77.0.1/16 dev {SENDER_LINK}"))?;
        sender.ip(&format!("route add 224.0.0.0/4 dev {SENDER_LINK}"))?;
        let network = Network { sender, receivers };
        if case.lost_percent > 0.0 {
            network.lose(case.lost_percent, &names)?;
        }
        Ok(network)
    }

    /// Single packets are lost, not trains of them: they are cut before they come to the bridge.
    fn lose(&self, percent: f64, ports: &[&str]) -> Result<()> {
        self.sender.ip(&format!("link set {SENDER_LINK} gso_max_segs 1"))?;
        self.tell("nft", "add table bridge lossy")?;
        let hook = "add chain bridge lossy out { type filter hook postrouting priority 0 ; }";
        self.tell("nft", hook)?;
        let of_a_million = (percent * 1e4).round() as u32;
        for port in ports {
            let meant = format!("oifname {port} ip daddr 224.0.0.0/4");
            let lost = format!("numgen random mod 1000000 < {of_a_million} drop");
            self.tell("nft", &format!("add rule bridge lossy out {meant} {lost}"))?;
        }
        Ok(())
    }

    fn tell(&self, program: &str, arguments: &str) -> Result<()> {
        let mut command = self.sender.command(program);
        command.args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::os("starting a program of the network"))?;
        let status = child.wait().map_err(Error::os("waiting for a program of the network"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Unsupported(format!("{program} {arguments}: {}", said(&mut child, "failed"))))
    }
}
