//! What changed between two looks at the same processes: pure functions over reports.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use clap::ValueEnum;
use fusewire_view::{Report, Socket};
use serde::Serialize;

use super::who;
use crate::output::printable;

/// What the list is sorted by, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Bytes a second, both ways.
    #[default]
    Rate,
    /// Segments sent again in a second, then in all.
    Retransmissions,
    /// Round-trip time.
    Rtt,
    /// Congestion window.
    Cwnd,
    /// Bytes that wait, both ways.
    Queue,
}

impl Sort {
    /// The one after it.
    pub fn next(self) -> Sort {
        let all = Sort::value_variants();
        let at = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }
}

/// A connection between two looks.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    pub process: String,
    pub device: String,
    pub state: String,
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    pub received_bytes_per_s: f64,
    pub sent_bytes_per_s: f64,
    pub retransmissions_per_s: f64,
    pub retransmissions: u64,
    pub rtt_us: u64,
    pub cwnd_bytes: u64,
    pub recv_queue_bytes: u64,
    pub send_queue_bytes: u64,
}

/// What one stack dropped for one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drop {
    pub process: String,
    pub device: String,
    pub cause: String,
    pub per_s: f64,
    pub total: u64,
}

/// Everything between two looks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    pub time_ms: u64,
    pub interval_s: f64,
    pub processes: usize,
    pub stacks: usize,
    pub listeners: usize,
    pub udp_sockets: usize,
    pub received_bytes_per_s: f64,
    pub sent_bytes_per_s: f64,
    pub retransmissions_per_s: f64,
    pub packets_received_per_s: f64,
    pub packets_sent_per_s: f64,
    pub connections: Vec<Connection>,
    pub drops: Vec<Drop>,
}

/// Which connection, among all processes.
type Key<'a> = (u32, u32, &'a str);

fn tcp<'a>(reports: &'a [Report]) -> HashMap<Key<'a>, &'a Socket> {
    let mut all = HashMap::new();
    for report in reports {
        for stack in &report.stacks {
            for socket in &stack.sockets {
                all.insert((report.pid, stack.id, socket.id.as_str()), socket);
            }
        }
    }
    all
}

/// Per second; counters of a new incarnation begin again at 0.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// What changed from `before` to `now`, which is `seconds` later.
pub fn rates(before: &[Report], now: &[Report], seconds: f64, sort: Sort) -> Rates {
    let (seconds, known) = (seconds.max(1e-3), tcp(before));
    let mut rates = Rates {
        time_ms: now.iter().map(|r| r.time_ms).max().unwrap_or_default(),
        interval_s: seconds,
        processes: now.len(),
        ..Rates::default()
    };
    for report in now {
        let process = who(report);
        for stack in &report.stacks {
            rates.stacks += 1;
            let device = printable(&stack.device);
            let old = before.iter().find(|r| r.pid == report.pid);
            let old = old.and_then(|r| r.stacks.iter().find(|s| s.id == stack.id));
            let none = BTreeMap::new();
            let (counters, drops) = old.map_or((&none, &none), |s| (&s.counters, &s.drops));
            // A process that is new has no rate yet.
            let changed = |name: &str| match (stack.counters.get(name), counters.get(name)) {
                (Some(now), Some(before)) => rate(*now, *before, seconds),
                _ => 0.0,
            };
            // A stack over UDP has no packets of its own: each of its segments is one.
            let either = |packets: &str, segments: [&str; 2]| {
                let own = stack.counters.contains_key(packets);
                if own { changed(packets) } else { segments.map(changed).iter().sum() }
            };
            rates.packets_received_per_s +=
                either("packets_received", ["tcp_segments_received", "xtp_segments_received"]);
            rates.packets_sent_per_s +=
                either("packets_sent", ["tcp_segments_sent", "xtp_segments_sent"]);
            // Of the stack, whose members of a group are listed each with what one stream brought them all.
            let both = |names: [&str; 2]| names.map(changed).iter().sum::<f64>();
            rates.received_bytes_per_s += both(["tcp_bytes_received", "xtp_bytes_received"]);
            rates.sent_bytes_per_s += both(["tcp_bytes_acked", "xtp_bytes_acked"]);
            rates.retransmissions_per_s += both(["tcp_retransmissions", "xtp_retransmissions"]);
            for (cause, total) in &stack.drops {
                let before =
                    drops.get(cause).copied().unwrap_or(if old.is_some() { 0 } else { *total });
                let (process, device) = (process.clone(), device.clone());
                let (cause, total) = (printable(cause), *total);
                rates.drops.push(Drop {
                    process,
                    device,
                    cause,
                    per_s: rate(total, before, seconds),
                    total,
                });
            }
            for socket in &stack.sockets {
                let before = known.get(&(report.pid, stack.id, socket.id.as_str())).copied();
                rates.socket(&process, &device, socket, before, seconds);
            }
        }
    }
    rates.drops.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then(b.total.cmp(&a.total)));
    rates.sort(sort);
    rates
}

impl Rates {
    fn socket(
        &mut self,
        process: &str,
        device: &str,
        socket: &Socket,
        before: Option<&Socket>,
        seconds: f64,
    ) {
        let Some(tcp) = &socket.transport else {
            self.listeners += usize::from(socket.state == "LISTEN");
            self.udp_sockets += usize::from(socket.protocol == "udp");
            return;
        };
        // The same name with another peer is another connection.
        let before =
            before.filter(|b| b.remote == socket.remote).and_then(|b| b.transport.as_ref());
        let changed = |now: u64, then: u64| match before {
            Some(_) => rate(now, then, seconds),
            None => 0.0,
        };
        let then = |field: fn(&fusewire_view::Transport) -> u64| before.map_or(0, |tcp| field(tcp));
        let connection = Connection {
            process: process.into(),
            device: device.into(),
            state: printable(&socket.state),
            local: socket.local,
            remote: socket.remote,
            received_bytes_per_s: changed(tcp.bytes_received, then(|t| t.bytes_received)),
            sent_bytes_per_s: changed(tcp.bytes_acked, then(|t| t.bytes_acked)),
            retransmissions_per_s: changed(tcp.retransmissions, then(|t| t.retransmissions)),
            retransmissions: tcp.retransmissions,
            rtt_us: tcp.rtt_us,
            cwnd_bytes: tcp.cwnd_bytes,
            recv_queue_bytes: socket.recv_queue,
            send_queue_bytes: socket.send_queue,
        };
        self.connections.push(connection);
    }

    /// Largest first; what is equal stands in the order of its addresses, so that lines do not jump.
    pub fn sort(&mut self, sort: Sort) {
        self.connections.sort_by_key(|c| (c.local, c.remote));
        let whole = |x: f64| (x * 1000.0) as u64;
        self.connections.sort_by_key(|c| {
            Reverse(match sort {
                Sort::Rate => (whole(c.received_bytes_per_s + c.sent_bytes_per_s), 0),
                Sort::Retransmissions => (whole(c.retransmissions_per_s), c.retransmissions),
                Sort::Rtt => (c.rtt_us, 0),
                Sort::Cwnd => (c.cwnd_bytes, 0),
                Sort::Queue => (c.recv_queue_bytes.saturating_add(c.send_queue_bytes), 0),
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_view::{Stack, Transport};

    fn report(received: u64, resent: u64, dropped: u64) -> Report {
        let socket = |id: &str, port: u16, bytes_received: u64| Socket {
            id: id.into(),
            protocol: "tcp".into(),
            state: "ESTAB".into(),
            recv_queue: 0,
            send_queue: 5,
            local: ([10, 0, 0, 1], 80).into(),
            remote: Some(([10, 0, 0, 2], port).into()),
            drops: BTreeMap::new(),
            names: BTreeMap::new(),
            transport: Some(Box::new(Transport {
                bytes_received,
                retransmissions: resent,
                ..Transport::default()
            })),
        };
        let mut stack = Stack { answered: true, ..Stack::default() };
        stack.sockets = vec![socket("1.0", 1000, 7), socket("2.0", 2000, received)];
        stack.count("packets_received", received / 100);
        stack.count("tcp_bytes_received", received);
        stack.count("tcp_retransmissions", resent);
        stack.dropped([("transport-stray", dropped)]);
        Report { pid: 7, program: "x\u{1b}".into(), time_ms: 0, stacks: vec![stack] }
    }

    #[test]
    fn rates_are_differences_and_the_busiest_stands_first() {
        let (before, now) = ([report(1000, 1, 0)], [report(5000, 3, 8)]);
        let rates = rates(&before, &now, 2.0, Sort::Rate);
        assert_eq!((rates.received_bytes_per_s, rates.packets_received_per_s), (2000.0, 20.0));
        assert_eq!(rates.connections[0].received_bytes_per_s, 2000.0);
        assert_eq!(rates.retransmissions_per_s, 1.0);
        let drop = &rates.drops[0];
        assert_eq!((drop.per_s, drop.total, drop.cause.as_str()), (4.0, 8, "transport-stray"));
        assert!(!rates.connections[0].process.contains('\u{1b}'));
    }

    #[test]
    fn segments_are_the_packets_of_a_stack_over_udp() {
        let [before, now] = [100, 700].map(|segments| {
            let mut report = report(1000, 0, 0);
            report.stacks[0].counters.clear();
            report.stacks[0].count("tcp_segments_received", segments);
            report.stacks[0].count("tcp_segments_sent", 2 * segments);
            [report]
        });
        let rates = rates(&before, &now, 2.0, Sort::Rate);
        assert_eq!((rates.packets_received_per_s, rates.packets_sent_per_s), (300.0, 600.0));
    }

    #[test]
    fn what_all_members_of_a_group_got_was_sent_once() {
        let [before, now] = [100, 700].map(|acked| {
            let mut report = report(7, 0, 0);
            for socket in &mut report.stacks[0].sockets {
                socket.transport.as_mut().unwrap().bytes_acked = acked;
            }
            report.stacks[0].count("xtp_bytes_acked", acked);
            [report]
        });
        let rates = rates(&before, &now, 2.0, Sort::Rate);
        assert_eq!(rates.sent_bytes_per_s, 300.0);
        assert_eq!(rates.connections[0].sent_bytes_per_s, 300.0);
    }

    #[test]
    fn what_is_new_has_no_rate() {
        let now = [report(5000, 3, 8)];
        let first = rates(&[], &now, 1.0, Sort::Rate);
        assert_eq!((first.received_bytes_per_s, first.drops[0].per_s), (0.0, 0.0));
        // Another connection in the same place.
        let mut before = [report(1, 0, 0)];
        before[0].stacks[0].sockets[1].remote = Some(([10, 0, 0, 9], 9).into());
        let changed = rates(&before, &now, 1.0, Sort::Rate).connections;
        assert!(changed.iter().all(
            |c| c.received_bytes_per_s <= 0.0 || c.remote != now[0].stacks[0].sockets[1].remote
        ));
    }

    #[test]
    fn every_order_comes_round() {
        let mut sort = Sort::Rate;
        for _ in 0..5 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Rate);
    }
}
