//! What a process tells of its stacks at one moment. Names carry their units; a field that a reader does not
//! know is ignored, and one that is missing is 0, so that versions may differ.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Counters by name.
pub type Counts = BTreeMap<String, u64>;

/// One process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// When, since the start of 1970.
    pub time_ms: u64,
    /// Its stacks.
    pub stacks: Vec<Stack>,
}

/// One stack.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// Number of the stack in its process.
    pub id: u32,
    /// `ip`: on an interface; `udp`: TPDUs in datagrams.
    pub kind: String,
    /// Name of the device: `tap`, `packet`, `xdp`, `udp`.
    pub device: String,
    /// Addresses of its own.
    pub addresses: Vec<String>,
    /// Largest packet in bytes.
    pub mtu: u64,
    /// False: it did not answer in time, and what stands here is not whole.
    pub answered: bool,
    /// What it counts, from its start on.
    pub counters: Counts,
    /// What it dropped, by cause.
    pub drops: Counts,
    /// Its sockets.
    pub sockets: Vec<Socket>,
    /// Sockets that are not in the list, because it is too long.
    pub sockets_more: u64,
}

/// One socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// Its name in its stack.
    pub id: String,
    /// `tcp`, `xtp`, `udp`, `shm`, `kernel-tcp`.
    pub protocol: String,
    /// As `ss` spells it: `ESTAB`, `LISTEN`, `UNCONN`, `TIME-WAIT` and so on.
    pub state: String,
    /// Bytes that nobody has read; of a listener, connections that wait; of UDP, messages that wait.
    pub recv_queue: u64,
    /// Bytes written and not acknowledged; of a listener, handshakes that are half open.
    pub send_queue: u64,
    /// Our end.
    pub local: SocketAddr,
    /// The other end; port 0 where it is a whole address.
    pub remote: Option<SocketAddr>,
    /// What it dropped, by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: Counts,
    /// What names a connection besides its addresses: of XTP both keys, and the service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// Estimates and counters of a connection, whichever its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Box<Transport>>,
}

/// An end for people. One without a port is a whole address: XTP straight on IP has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End(pub SocketAddr);

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            0 => self.0.ip().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

/// What TCP or XTP tell of a connection, in the manner of `TCP_INFO`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are those of the specifications, with units")]
pub struct Transport {
    pub rtt_us: u64,
    pub rttvar_us: u64,
    pub min_rtt_us: u64,
    pub rto_us: u64,
    /// The name of the congestion controller; empty where none controls anything.
    pub congestion_control: String,
    pub cwnd_bytes: u64,
    /// None before the first loss.
    pub ssthresh_bytes: Option<u64>,
    pub in_flight_bytes: u64,
    pub unacked_bytes: u64,
    pub send_window_bytes: u64,
    pub recv_window_bytes: u64,
    pub max_payload_bytes: u64,
    pub send_shift: u8,
    pub recv_shift: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    /// What the sender does about congestion: `open`, `disorder`, `reduced`, `recovery`, `loss`.
    pub congestion: String,
    pub pacing_bytes_per_s: Option<u64>,
    /// Payload bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segments_sent: u64,
    pub segments_received: u64,
    pub retransmissions: u64,
    pub lost_segments: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub tail_loss_probes: u64,
    pub spurious: u64,
    pub dsacks: u64,
    pub out_of_order: u64,
    pub reordering: u64,
    pub ecn_marks: u64,
    pub ecn_echoes: u64,
    pub challenge_acks: u64,
    pub probes: u64,
    /// Packets with SREQ that left, and that came (XTP).
    pub asks_sent: u64,
    pub asks_received: u64,
    /// Spans that came in ECNTL (XTP).
    pub spans_received: u64,
}

/// A segment or super-frame of a connection's trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Segment {
    /// How long ago.
    pub ago_us: u64,
    /// What happened: `sent`, `received`, `retransmission (RACK)`, `dropped: checksum` and so on.
    pub what: String,
    /// Flags in letters. TCP: `S` SYN, `A` ACK, `P` PSH, `F` FIN, `R` RST, `U` URG, `E` ECE, `W` CWR. XTP: `S` SREQ, `D`
    /// DREQ, `R` RCLOSE, `W` WCLOSE, `M` EOM, `E` END, `B` BTAG, `N` FASTNAK.
    pub flags: String,
    /// Sequence number.
    pub seq: u32,
    /// What it acknowledged.
    pub ack: u32,
    /// Payload bytes.
    pub len: u32,
    /// The window field.
    pub window: u16,
}

impl Stack {
    /// Adds to a counter.
    pub fn count(&mut self, name: &str, n: u64) {
        *self.counters.entry(name.into()).or_default() += n;
    }

    /// Adds drops, where there are any: names of causes, and how often each was.
    pub fn dropped<'a>(&mut self, drops: impl IntoIterator<Item = (&'a str, u64)>) {
        for (cause, n) in drops.into_iter().filter(|(_, n)| *n > 0) {
            *self.drops.entry(cause.into()).or_default() += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_port_is_its_address() {
        let said = |end: &str| End(end.parse().unwrap()).to_string();
        let ends = ["10.0.0.2:0", "10.0.0.2:80", "[fd00::2]:0", "[fd00::2]:80"];
        assert_eq!(ends.map(said), ["10.0.0.2", "10.0.0.2:80", "fd00::2", "[fd00::2]:80"]);
    }
}
