//! `fusewire ss`.

use std::io::Write;

use clap::Args;
use fusewire_view::client::Process;
use fusewire_view::{End, Report, Segment, Socket, Stack, Transport};
use serde_json::json;

use super::table::{Side, Table};
use super::{reports, who};
use crate::output::{LOCAL_EXIT_CODES, Result, json, printable};

/// The states that stacks tell.
const STATES: [&str; 17] = [
    "closed",
    "listen",
    "unconn",
    "syn-sent",
    "syn-recv",
    "estab",
    "fin-wait-1",
    "fin-wait-2",
    "close-wait",
    "closing",
    "last-ack",
    "time-wait",
    // XTP's.
    "opening",
    "half-open",
    "open",
    "inactive",
    "quiescent",
];

/// Which sockets to list, and how much of each.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Ss {
    /// Only these processes [default: all that this user may ask].
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// Estimates and counters of each connection, and what each socket dropped.
    #[arg(short, long)]
    info: bool,
    /// What each connection did last: its newest segments, and what became of them.
    #[arg(long)]
    trace: bool,
    /// Only sockets with this port at either end.
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// Only sockets in this state, such as estab, listen, time-wait, or open of XTP; may be given several times.
    #[arg(short, long, value_name = "STATE", ignore_case = true, value_parser = STATES)]
    state: Vec<String>,
    /// Only TCP, XTP, UDP, shared memory (shm) or the kernel's TCP (kernel-tcp).
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "xtp", "udp", "shm", "kernel-tcp"])]
    protocol: Option<String>,
    /// Print a line of JSON for each socket.
    #[arg(long)]
    json: bool,
}

impl Ss {
    fn wants(&self, socket: &Socket) -> bool {
        let ports = [Some(socket.local), socket.remote];
        let has_port = |port| ports.iter().flatten().any(|addr| addr.port() == port);
        self.port.is_none_or(has_port)
            && (self.state.is_empty()
                || self.state.iter().any(|state| state.eq_ignore_ascii_case(&socket.state)))
            && self.protocol.as_ref().is_none_or(|protocol| *protocol == socket.protocol)
    }
}

/// One socket with where it is.
struct Found<'a> {
    process: &'a Process,
    report: &'a Report,
    stack: &'a Stack,
    socket: &'a Socket,
}

impl Found<'_> {
    /// Nothing where nothing is kept, or the connection has gone meanwhile.
    fn trace(&self) -> Vec<Segment> {
        // Of XTP, services of single messages have one, too.
        if self.socket.transport.is_none() && self.socket.protocol != "xtp" {
            return Vec::new();
        }
        self.process.trace(self.stack.id, &self.socket.id).unwrap_or_default()
    }
}

/// Lists them.
pub fn run(ss: &Ss) -> Result {
    let all = reports(&ss.pids)?;
    let mut found = Vec::new();
    for (process, report) in &all {
        for stack in &report.stacks {
            let sockets = stack.sockets.iter().filter(|socket| ss.wants(socket));
            found.extend(sockets.map(|socket| Found { process, report, stack, socket }));
            if !stack.answered || stack.sockets_more > 0 {
                let (who, more) = (who(report), stack.sockets_more);
                eprintln!("fusewire: {who}: the list is not whole ({more} sockets more are known)");
            }
        }
    }
    if ss.json {
        return found.iter().try_for_each(|found| line(ss, found));
    }
    let [left, right] = [Side::Left, Side::Right];
    let mut table = Table::new([
        ("Proto", left),
        ("State", left),
        ("Recv-Q", right),
        ("Send-Q", right),
        ("Local address", left),
        ("Peer address", left),
        ("Process", left),
        ("Device", left),
    ]);
    for Found { report, stack, socket, .. } in &found {
        table.row([
            printable(&socket.protocol),
            printable(&socket.state),
            socket.recv_queue.to_string(),
            socket.send_queue.to_string(),
            End(socket.local).to_string(),
            socket.remote.map_or_else(|| "*".into(), |remote| End(remote).to_string()),
            application(report, socket),
            printable(&stack.device),
        ]);
    }
    let mut out = std::io::stdout().lock();
    let mut lines = table.lines().into_iter();
    writeln!(out, "{}", lines.next().unwrap_or_default())?;
    for (text, found) in lines.zip(&found) {
        writeln!(out, "{text}")?;
        if ss.info {
            details(found.socket).iter().try_for_each(|line| writeln!(out, "       {line}"))?;
        }
        if ss.trace {
            let trace = found.trace();
            trace.iter().try_for_each(|one| writeln!(out, "       {}", segment(one)))?;
        }
    }
    Ok(())
}

/// The process of a stack, and the one that it has the socket for, if it does.
fn application(report: &Report, socket: &Socket) -> String {
    match socket.names.get("application") {
        Some(name) => format!("{} for {}", who(report), printable(name)),
        None => who(report),
    }
}

fn line(ss: &Ss, found: &Found<'_>) -> Result {
    let Found { report, stack, socket, .. } = found;
    let mut value = serde_json::to_value(socket)?;
    value["pid"] = json!(report.pid);
    value["program"] = json!(report.program);
    value["stack"] = json!(stack.id);
    value["device"] = json!(stack.device);
    if ss.trace {
        value["trace"] = serde_json::to_value(found.trace())?;
    }
    json(&value)
}

/// Milliseconds, of which microseconds matter.
fn ms(us: u64) -> String {
    format!("{:.3}", us as f64 / 1000.0)
}

/// As `ss -i`.
fn details(socket: &Socket) -> Vec<String> {
    let mut lines = Vec::new();
    if !socket.names.is_empty() {
        let names = socket.names.iter();
        let names = names.map(|(what, name)| format!("{}:{}", printable(what), printable(name)));
        lines.push(names.collect::<Vec<_>>().join(" "));
    }
    if let Some(tcp) = &socket.transport {
        lines.push(path(tcp));
        lines.push(counters(tcp));
    }
    if !socket.drops.is_empty() {
        let drops = socket.drops.iter().map(|(cause, n)| format!("{}:{n}", printable(cause)));
        lines.push(format!("dropped {}", drops.collect::<Vec<_>>().join(" ")));
    }
    lines
}

/// What the sender knows of the path.
fn path(tcp: &Transport) -> String {
    let agreed = [(tcp.timestamps, "ts"), (tcp.sack, "sack"), (tcp.ecn, "ecn")];
    let mut words: Vec<_> =
        agreed.iter().filter(|(on, _)| *on).map(|(_, word)| (*word).to_string()).collect();
    // Of a group some are not known: its receivers send no data, its members have no window of their own.
    let controls = !tcp.congestion_control.is_empty();
    words.extend(controls.then(|| printable(&tcp.congestion_control)));
    // XTP has none.
    if (tcp.send_shift, tcp.recv_shift) != (0, 0) {
        words.push(format!("wscale:{},{}", tcp.send_shift, tcp.recv_shift));
    }
    let known = [
        ("rto", tcp.rto_us, (tcp.rto_us / 1000).to_string()),
        ("rtt", tcp.rtt_us, format!("{}/{}", ms(tcp.rtt_us), ms(tcp.rttvar_us))),
        ("minrtt", tcp.min_rtt_us, ms(tcp.min_rtt_us)),
        ("mss", tcp.max_payload_bytes, tcp.max_payload_bytes.to_string()),
        ("cwnd", tcp.cwnd_bytes, tcp.cwnd_bytes.to_string()),
    ];
    let known = known.iter().filter(|(_, n, _)| controls || *n > 0);
    words.extend(known.map(|(name, _, text)| format!("{name}:{text}")));
    words.extend(tcp.ssthresh_bytes.map(|bytes| format!("ssthresh:{bytes}")));
    if controls {
        words.push(format!("inflight:{}", tcp.in_flight_bytes));
    }
    let windows = [("snd_wnd", tcp.send_window_bytes), ("rcv_wnd", tcp.recv_window_bytes)];
    let windows = windows.iter().filter(|(_, bytes)| controls || *bytes > 0);
    words.extend(windows.map(|(name, bytes)| format!("{name}:{bytes}")));
    words.extend(tcp.pacing_bytes_per_s.map(|rate| format!("pacing:{rate}B/s")));
    words.extend(controls.then(|| format!("congestion:{}", printable(&tcp.congestion))));
    words.join(" ")
}

/// What it counted.
fn counters(tcp: &Transport) -> String {
    let always = [
        ("bytes_acked", tcp.bytes_acked),
        ("bytes_received", tcp.bytes_received),
        ("segs_out", tcp.segments_sent),
        ("segs_in", tcp.segments_received),
    ];
    let sometimes = [
        ("retrans", tcp.retransmissions),
        ("lost", tcp.lost_segments),
        ("timeouts", tcp.timeouts),
        ("recoveries", tcp.recoveries),
        ("tlp", tcp.tail_loss_probes),
        ("spurious", tcp.spurious),
        ("dsack", tcp.dsacks),
        ("out_of_order", tcp.out_of_order),
        ("ecn_marks", tcp.ecn_marks),
        ("ecn_echoes", tcp.ecn_echoes),
        ("challenge_acks", tcp.challenge_acks),
        ("probes", tcp.probes),
        ("asks_out", tcp.asks_sent),
        ("asks_in", tcp.asks_received),
        ("spans_in", tcp.spans_received),
    ];
    let words = always.iter().chain(sometimes.iter().filter(|(_, n)| *n > 0));
    words.map(|(name, n)| format!("{name}:{n}")).collect::<Vec<_>>().join(" ")
}

fn segment(one: &Segment) -> String {
    let Segment { ago_us, what, flags, seq, ack, len, window } = one;
    format!(
        "-{:>10} ms  {:4} seq {seq:10} ack {ack:10} len {len:5} win {window:5}  {}",
        ms(*ago_us),
        printable(flags),
        printable(what)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_process_says_moves_the_cursor() {
        let mut tcp = Transport {
            congestion: "\x1b[2J".into(),
            congestion_control: "\x1b[3J".into(),
            ..Transport::default()
        };
        tcp.retransmissions = 3;
        let socket = Socket {
            id: "0.0".into(),
            protocol: "tcp".into(),
            state: "ESTAB".into(),
            recv_queue: 0,
            send_queue: 0,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: None,
            drops: [("\x07bell".to_string(), 2)].into(),
            names: [("key".to_string(), "\u{1b}[2J".to_string())].into(),
            transport: Some(Box::new(tcp)),
        };
        let lines = details(&socket);
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
        assert!(lines[2].contains("retrans:3") && !lines[2].contains("timeouts"));
        assert!(lines.iter().all(|line| !line.contains("wscale")), "{lines:?}");
        assert!(path(&Transport { send_shift: 7, ..Transport::default() }).contains("wscale:7,0"));
        let one = Segment { what: "\n\x1b]0;x".into(), flags: "\r".into(), ..Segment::default() };
        assert!(!segment(&one).contains(char::is_control));
    }
}
