//! What a script wants of the stack: `--so_flags`, and the kernel's settings as our configuration.
//!
//! Flags: `mtu=N` (default 1500), `local=ADDRESS` for connecting sockets (default packetdrill's own),
//! `sysctls` to follow `net.ipv4.tcp_*` of the network namespace that packetdrill runs in, `device=FILE`
//! whose text is what the script last told `tc` about its device, `outboard=PATH` for a stack in an outboard whose socket
//! is made there. Separated by commas.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use fusewire_transport::congestion::Algorithm;
use fusewire_transport::tcp::Config;

/// See the module.
#[derive(Debug)]
pub struct Settings {
    /// Largest IP packet in bytes.
    pub mtu: u16,
    local: Option<IpAddr>,
    sysctls: bool,
    device: Option<PathBuf>,
    /// Where the outboard's socket is to lie, if the stack is in one.
    pub outboard: Option<PathBuf>,
}

/// Which side of a connection is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connects.
    Client,
    /// It listens.
    Server,
}

impl Settings {
    /// Reads `--so_flags`; what it does not know it names on standard error.
    pub fn parse(flags: &str) -> Settings {
        let mut settings =
            Settings { mtu: 1500, local: None, sysctls: false, device: None, outboard: None };
        for flag in flags.split([',', ' ']).filter(|flag| !flag.is_empty()) {
            let known = match flag.split_once('=').unwrap_or((flag, "")) {
                ("mtu", value) => value.parse().map(|mtu| settings.mtu = mtu).is_ok(),
                ("local", value) => value.parse().map(|ip| settings.local = Some(ip)).is_ok(),
                ("sysctls", "") => {
                    settings.sysctls = true;
                    true
                }
                ("device", value) => {
                    settings.device = Some(value.into());
                    true
                }
                ("outboard", value) => {
                    settings.outboard = Some(value.into());
                    true
                }
                _ => false,
            };
            if !known {
                eprintln!(
                    "fusewire: --so_flags: {flag:?} is none of mtu=, local=, sysctls, device=, outboard="
                );
            }
        }
        settings
    }

    /// The address of a socket that connects to `remote` without having been bound.
    pub fn local(&self, remote: IpAddr) -> IpAddr {
        match (self.local, remote) {
            (Some(local), _) => local,
            (None, IpAddr::V4(_)) => Ipv4Addr::new(192, 168, 0, 1).into(),
            (None, IpAddr::V6(_)) => Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1).into(),
        }
    }

    /// Our addresses and their prefixes: the one that was given, or packetdrill's own.
    pub fn addresses(&self) -> Vec<(IpAddr, u8)> {
        let all = [IpAddr::from([0, 0, 0, 0]), IpAddr::from([0u16; 8])].map(|any| self.local(any));
        let mut all: Vec<_> =
            all.into_iter().map(|a| (a, if a.is_ipv4() { 16 } else { 64 })).collect();
        all.dedup();
        all
    }

    /// The device under the stack takes nothing: the script gave it a queue of length 0.
    pub fn device_refuses(&self) -> bool {
        self.device_text().contains("limit 0")
    }

    /// The device under the stack wants paced traffic: the script gave it fair queueing.
    pub fn device_paces(&self) -> bool {
        let text = self.device_text();
        text.split_whitespace().any(|word| word == "fq")
    }

    fn device_text(&self) -> String {
        self.device.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        if !self.sysctls {
            return None;
        }
        fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()
    }

    /// The `index`th number of a kernel setting.
    pub fn number(&self, name: &str, index: usize, default: u64) -> u64 {
        self.sysctl(name)
            .and_then(|text| text.split_whitespace().nth(index)?.parse().ok())
            .unwrap_or(default)
    }

    fn seconds(&self, name: &str, default: u64) -> Duration {
        Duration::from_secs(self.number(name, 0, default))
    }

    /// Our configuration for what the kernel's settings say. Defaults are those of Linux.
    pub fn config(&self, role: Role) -> Config {
        let algorithm = self.sysctl("tcp_congestion_control").unwrap_or_default();
        let window = self.number("tcp_rmem", 2, 6 << 20) as u32;
        let retries = match role {
            Role::Client => self.number("tcp_syn_retries", 0, 6),
            Role::Server => self.number("tcp_synack_retries", 0, 5),
        };
        Config {
            send_buffer: 8 << 20,
            recv_window: window,
            initial_recv_window: window.min(65_535),
            window_scaling: self.number("tcp_window_scaling", 0, 1) != 0,
            timestamps: self.number("tcp_timestamps", 0, 1) != 0,
            sack: self.number("tcp_sack", 0, 1) != 0,
            ecn: match self.number("tcp_ecn", 0, 2) {
                0 => false,
                1 => true,
                _ => role == Role::Server,
            },
            // Scripts are written for Linux's default: a machine's own default, such as bbr, is none of theirs.
            congestion: match algorithm.trim() {
                "reno" => Algorithm::NewReno,
                _ => Algorithm::default(),
            },
            pacing: self.device_paces(),
            nagle: true,
            delayed_ack: Duration::from_millis(40),
            peer_delayed_ack: Duration::from_millis(200),
            quick_acks: 16,
            rto_variance_min: Duration::from_millis(200),
            push_bursts: Some(self.number("tcp_min_tso_segs", 0, 2) as u32),
            tail_loss_probe: self.number("tcp_early_retrans", 0, 3) != 0,
            slow_start_after_idle: self.number("tcp_slow_start_after_idle", 0, 1) != 0,
            syn_transmissions: (retries + 1).min(255) as u8,
            max_retransmissions: self.number("tcp_retries2", 0, 15).min(255) as u8,
            fin_wait_2: Some(self.seconds("tcp_fin_timeout", 60)),
            ..Config::default()
        }
    }
}
