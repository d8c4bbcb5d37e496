//! Reports as Prometheus text (exposition format 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::report::{Report, Stack};

/// Media type of the text.
pub const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric: its words, its type, and its samples.
struct Family {
    help: String,
    kind: &'static str,
    samples: Vec<(String, u64)>,
}

/// All processes in one text: every metric stands once, with a sample for each stack.
pub fn text(reports: &[Report]) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for report in reports {
        for stack in &report.stacks {
            let labels = labels(report, stack);
            of_stack(stack, &labels, |name, kind, help, labels, value| {
                let new = || Family { help: help.to_string(), kind, samples: Vec::new() };
                families.entry(name).or_insert_with(new).samples.push((labels, value));
            });
        }
    }
    let mut out = String::new();
    for (name, Family { help, kind, samples }) in families {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    }
    out
}

type Sample<'a> = dyn FnMut(String, &'static str, &str, String, u64) + 'a;

fn of_stack(
    stack: &Stack,
    labels: &str,
    mut sample: impl FnMut(String, &'static str, &str, String, u64),
) {
    let sample: &mut Sample<'_> = &mut sample;
    sample(
        "fusewire_up".into(),
        "gauge",
        "1 when the stack answered in time.",
        labels.into(),
        stack.answered.into(),
    );
    for (name, value) in &stack.counters {
        let Some(name) = metric(name) else { continue };
        let help = format!("{} of the stack, from its start on.", name.replace('_', " "));
        sample(format!("fusewire_{name}_total"), "counter", &help, labels.into(), *value);
    }
    for (cause, value) in &stack.drops {
        let labels = format!("{labels},cause=\"{}\"", escaped(cause));
        let help = "Packets, segments and messages that were dropped, by cause.";
        sample("fusewire_drops_total".into(), "counter", help, labels, *value);
    }
    let mut states: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let (mut recv, mut send) = (0u64, 0u64);
    for socket in &stack.sockets {
        *states.entry((&socket.protocol, &socket.state)).or_default() += 1;
        if socket.remote.is_some() && matches!(&*socket.protocol, "tcp" | "xtp") {
            recv = recv.saturating_add(socket.recv_queue);
            send = send.saturating_add(socket.send_queue);
        }
    }
    for ((protocol, state), count) in states {
        let (protocol, state) = (escaped(protocol), escaped(state));
        let labels = format!("{labels},protocol=\"{protocol}\",state=\"{state}\"");
        sample("fusewire_sockets".into(), "gauge", "Sockets, by state.", labels, count);
    }
    let help = "Bytes that wait in connections, by direction.";
    for (direction, bytes) in [("receive", recv), ("send", send)] {
        let labels = format!("{labels},direction=\"{direction}\"");
        sample("fusewire_queue_bytes".into(), "gauge", help, labels, bytes);
    }
}

fn labels(report: &Report, stack: &Stack) -> String {
    let (program, device) = (escaped(&report.program), escaped(&stack.device));
    format!(
        "pid=\"{}\",program=\"{program}\",stack=\"{}\",device=\"{device}\"",
        report.pid, stack.id
    )
}

/// A counter's name, if it can be one of a metric.
fn metric(name: &str) -> Option<&str> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.len() <= 64 && name.chars().all(fine)).then_some(name)
}

/// A label's value: no quote, line or control character ends it.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_stands_once_and_no_name_breaks_a_line() {
        let mut stack = Stack { id: 0, device: "tap".into(), answered: true, ..Stack::default() };
        stack.count("packets_received", 7);
        stack.count("bad name\n", 7);
        stack.dropped([("ipv4\"}\n-checksum", 2)]);
        let report =
            |pid| Report { pid, program: "a\"b".into(), time_ms: 0, stacks: vec![stack.clone()] };
        let text = text(&[report(1), report(2)]);
        assert_eq!(text.matches("# TYPE fusewire_packets_received_total counter").count(), 1);
        assert!(text.contains(
            "fusewire_packets_received_total{pid=\"2\",program=\"a\\\"b\",stack=\"0\",device=\"tap\"} 7"
        ));
        assert!(text.contains(r#"cause="ipv4\"}�-checksum"} 2"#), "{text}");
        assert!(!text.contains("bad name"));
        for line in text.lines() {
            assert!(line.starts_with("# ") || line.starts_with("fusewire_"), "{line}");
        }
    }
}
