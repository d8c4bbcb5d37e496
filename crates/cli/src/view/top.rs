//! `fusewire top`.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use fusewire_view::{End, Report};

use super::rates::{Connection, Rates, Sort, rates};
use super::reports;
use super::screen::{Input, Screen};
use super::table::{Side, Table};
use crate::output::{LOCAL_EXIT_CODES, Result, count, json, rate};

/// Lines of drops under the list.
const DROPS: usize = 6;

/// Connections of running stacks as they work: rates, retransmissions, round trips, drops. In a terminal it
/// goes on until `q`, and `s` sorts by something else; elsewhere it prints one report.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Top {
    /// Only these processes [default: all that this user may ask].
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// What to sort by.
    #[arg(short, long, value_enum, default_value_t)]
    sort: Sort,
    /// Print one report, of one interval, and end.
    #[arg(long)]
    once: bool,
    /// Print a line of JSON an interval.
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds, such as 0.5")?;
    if (0.05..=3600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("expected 0.05 to 3600 seconds".into())
}

/// The last look, and when it was.
struct Look {
    reports: Vec<Report>,
    at: Instant,
}

impl Look {
    fn new(top: &Top) -> Result<Look> {
        let reports = reports(&top.pids)?.into_iter().map(|(_, report)| report).collect();
        Ok(Look { reports, at: Instant::now() })
    }

    /// Looks again, and says what has changed since.
    fn again(&mut self, top: &Top, sort: Sort) -> Result<Rates> {
        let next = Look::new(top)?;
        let seconds = (next.at - self.at).as_secs_f64();
        let rates = rates(&self.reports, &next.reports, seconds, sort);
        *self = next;
        Ok(rates)
    }
}

/// Looks again and again.
pub fn run(top: &Top) -> Result {
    let mut look = Look::new(top)?;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if top.json || top.once || !is_terminal {
        loop {
            std::thread::sleep(top.interval);
            let rates = look.again(top, top.sort)?;
            if top.json {
                json(&rates)?;
            } else {
                let mut out = std::io::stdout().lock();
                picture(&rates, top.sort, None)
                    .iter()
                    .try_for_each(|line| writeln!(out, "{line}"))?;
            }
            if top.once || !top.json {
                return Ok(());
            }
        }
    }
    let screen = Screen::open()?;
    let (mut sort, mut shown) = (top.sort, rates(&[], &look.reports, 1.0, top.sort));
    loop {
        screen.draw(&picture(&shown, sort, Some(screen.size().0)))?;
        match screen.input(look.at + top.interval)? {
            // Ctrl-C too: it comes as a key.
            Input::End | Input::Key(b'q' | b'Q' | 3) => return Ok(()),
            Input::Key(b's') => {
                sort = sort.next();
                shown.sort(sort);
            }
            Input::Key(_) | Input::Resized => {}
            Input::Timeout => shown = look.again(top, sort)?,
        }
    }
}

/// Columns that a narrow window can do without, the first first: queues, the window, what was resent in all,
/// the state, our own address.
const SPARE: [usize; 7] = [11, 10, 9, 7, 3, 1, 6];

/// A report in lines, every one printable; within `columns`, if there is a window.
fn picture(rates: &Rates, sort: Sort, columns: Option<usize>) -> Vec<String> {
    let mut lines = vec![
        format!(
            "fusewire top   {} processes, {} stacks, {} connections, {} listeners, {} UDP",
            rates.processes,
            rates.stacks,
            rates.connections.len(),
            rates.listeners,
            rates.udp_sockets
        ),
        format!(
            "in {}  out {}   packets {:.0}/s in, {:.0}/s out   resent {:.1}/s",
            rate(rates.received_bytes_per_s),
            rate(rates.sent_bytes_per_s),
            rates.packets_received_per_s,
            rates.packets_sent_per_s,
            rates.retransmissions_per_s
        ),
        String::new(),
    ];
    if !rates.drops.is_empty() {
        let shown = rates.drops.iter().take(DROPS);
        lines.extend(shown.map(|drop| {
            let of = format!("{} {}", drop.process, drop.device);
            format!("dropped {:>9.1}/s {:>10}  {}  {of}", drop.per_s, drop.total, drop.cause)
        }));
        lines.push(String::new());
    }
    let [left, right] = [Side::Left, Side::Right];
    let mut table = Table::new([
        ("PROCESS", left),
        ("LOCAL", left),
        ("PEER", left),
        ("STATE", left),
        ("IN", right),
        ("OUT", right),
        ("RESENT/S", right),
        ("RESENT", right),
        ("RTT MS", right),
        ("CWND", right),
        ("RECV-Q", right),
        ("SEND-Q", right),
    ]);
    rates.connections.iter().for_each(|connection| table.row(row(connection)));
    let (rows, left_out) = table.lines_within(columns.unwrap_or(usize::MAX), &SPARE);
    if columns.is_some() {
        lines[2] = format!("by {sort:?} (s), end (q)");
        if left_out > 0 {
            lines[2] += &format!("; {} more in a wider window", count(left_out as u64, "column"));
        }
    }
    lines.extend(rows);
    lines
}

fn row(c: &Connection) -> [String; 12] {
    [
        c.process.clone(),
        End(c.local).to_string(),
        c.remote.map_or_else(|| "*".into(), |remote| End(remote).to_string()),
        c.state.clone(),
        rate(c.received_bytes_per_s),
        rate(c.sent_bytes_per_s),
        format!("{:.1}", c.retransmissions_per_s),
        c.retransmissions.to_string(),
        format!("{:.3}", c.rtt_us as f64 / 1000.0),
        c.cwnd_bytes.to_string(),
        c.recv_queue_bytes.to_string(),
        c.send_queue_bytes.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(local: &str, remote: &str) -> Connection {
        Connection {
            process: "fusewire/4194303".into(),
            device: "udp".into(),
            state: "FIN-WAIT-1".into(),
            local: local.parse().unwrap(),
            remote: Some(remote.parse().unwrap()),
            received_bytes_per_s: 21e6,
            sent_bytes_per_s: 999e6,
            retransmissions_per_s: 1234.5,
            retransmissions: 1_000_000,
            rtt_us: 123_456,
            cwnd_bytes: 100_000_000,
            recv_queue_bytes: 1_000_000,
            send_queue_bytes: 100_000_000,
        }
    }

    #[test]
    fn a_window_of_eighty_columns_shows_what_matters() {
        let v4 = connection("192.168.100.100:49152", "203.0.113.255:9293");
        let v6 = connection("[2001:db8:1:2::3]:9293", "[2001:db8:ffff:ffff::1]:49152");
        for connection in [v4, v6] {
            let peer = connection.remote.unwrap().to_string();
            let mut rates = Rates { packets_received_per_s: 14_000.0, ..Rates::default() };
            rates.connections.push(connection);
            let lines = picture(&rates, Sort::Retransmissions, Some(80));
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
            let text = lines.join("\n");
            for part in [
                "fusewire/4194303",
                "21 MB/s",
                "999 MB/s",
                "123.456",
                &peer,
                "14000/s in",
                "(q)",
                "columns more",
            ] {
                assert!(text.contains(part), "{part} is missing:\n{text}");
            }
            let whole = picture(&rates, Sort::Rate, None).join("\n");
            assert!(whole.contains("SEND-Q") && whole.contains("FIN-WAIT-1"), "{whole}");
            assert!(!whole.contains("(q)"), "{whole}");
        }
    }
}
