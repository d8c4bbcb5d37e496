//! `fusewire top`.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use fusewire_view::Report;

use super::rates::{Connection, Rates, Sort, rates};
use super::reports;
use super::screen::{Input, Screen};
use super::table::{Side, Table};
use crate::output::{EXIT_CODES, Result, json, rate};

/// Lines of drops under the list.
const DROPS: usize = 6;

/// Connections of running stacks as they work: rates, retransmissions, round trips, drops. In a terminal it
/// goes on until `q`, and `s` sorts by something else; elsewhere it prints one report.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
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
                picture(&rates, top.sort).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            }
            if top.once || !top.json {
                return Ok(());
            }
        }
    }
    let screen = Screen::open()?;
    let (mut sort, mut shown) = (top.sort, rates(&[], &look.reports, 1.0, top.sort));
    loop {
        screen.draw(&picture(&shown, sort))?;
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

/// A report in lines, every one printable.
fn picture(rates: &Rates, sort: Sort) -> Vec<String> {
    let mut lines = vec![
        format!(
            "fusewire top   {} processes, {} stacks, {} connections, {} listeners, {} UDP sockets",
            rates.processes,
            rates.stacks,
            rates.connections.len(),
            rates.listeners,
            rates.udp_sockets
        ),
        format!(
            "in {}  out {}   packets {:.0}/s in, {:.0}/s out   retransmissions {:.1}/s   by {sort:?} (s), end (q)",
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
    lines.extend(table.lines());
    lines
}

fn row(c: &Connection) -> [String; 12] {
    [
        c.process.clone(),
        c.local.to_string(),
        c.remote.map_or_else(|| "*".into(), |remote| remote.to_string()),
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
