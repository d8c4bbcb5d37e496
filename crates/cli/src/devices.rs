//! `fusewire devices`.

use std::io::Write;

use clap::Args;
use fusewire_device::interface::devices::{Found, Offer, choose, list};
use serde_json::{Value, json};

use crate::device::why_udp;
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, json, printable};

/// What of this host can carry packets of our own.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Devices {
    /// Print a line of JSON for each interface.
    #[arg(long)]
    json: bool,
    /// Only this interface.
    name: Option<String>,
}

/// Lists them.
pub fn run(devices: &Devices) -> Result {
    let all = list()?;
    let wanted = |found: &&Found| devices.name.is_none() || name(found) == devices.name.as_deref();
    let shown: Vec<_> = all.iter().filter(wanted).collect();
    if let (true, Some(name)) = (shown.is_empty(), &devices.name) {
        return Err(Failure::new(Code::Usage, format!("no interface {name}")).into());
    }
    for found in shown {
        if devices.json {
            json(&line(&all, found))?;
        } else {
            let text = paragraph(&all, found);
            let mut out = std::io::stdout().lock();
            text.iter().try_for_each(|line| writeln!(out, "{}", printable(line)))?;
        }
    }
    if devices.name.is_none() && !devices.json {
        writeln!(
            std::io::stdout(),
            "\n\"auto\" is what --device auto:INTERFACE takes. --device auto alone takes shm with a server on this host, \
             else udp:\nno interface is known to gain over it (docs/devices.md)."
        )?;
    }
    Ok(())
}

fn name(found: &Found) -> Option<&str> {
    found.link.as_ref().map(|link| link.name.as_str())
}

/// What `--device auto:INTERFACE` would take, or nothing.
fn auto(all: &[Found], found: &Found) -> Option<&'static str> {
    choose(all, name(found)).ok().map(|(device, _)| device)
}

fn line(all: &[Found], found: &Found) -> Value {
    let addrs: Vec<_> = found.addrs.iter().map(|(addr, len)| format!("{addr}/{len}")).collect();
    let offer = |offer: &Offer| {
        json!({
            "device": offer.device,
            "available": offer.available,
            "mode": offer.mode,
            "zero_copy": offer.zero_copy,
            "checksum": offer.checksum,
            "tcp_segmentation": offer.tcp_segmentation,
            "udp_segmentation": offer.udp_segmentation,
            "receive_offload": offer.receive_offload,
            "queues": offer.queues,
            "why": offer.why,
            "missing": offer.missing,
        })
    };
    json!({
        "interface": name(found),
        "driver": found.driver,
        "mac": found.link.as_ref().and_then(|link| link.mac).map(mac),
        "mtu": found.link.as_ref().map(|link| link.mtu),
        "running": found.link.as_ref().map(|link| link.is_running),
        "addresses": addrs,
        "offers": found.offers.iter().map(offer).collect::<Vec<_>>(),
        "auto": auto(all, found),
        "transfer_auto": "udp",
        "transfer_why": why_udp(all, |other| other == found),
    })
}

fn mac(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

fn paragraph(all: &[Found], found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    match &found.link {
        None => lines.push("(an interface of our own)".into()),
        Some(link) => {
            let addrs: Vec<_> = found.addrs.iter().map(|(a, len)| format!("{a}/{len}")).collect();
            let state = if link.is_running { "up" } else { "down" };
            lines.push(format!(
                "{}  {state}  driver {}  MTU {}  {}  {}",
                link.name,
                if found.driver.is_empty() { "?" } else { &found.driver },
                link.mtu,
                link.mac.map_or_else(|| "no Ethernet".into(), mac),
                addrs.join(" ")
            ));
        }
    }
    let auto = auto(all, found);
    for offer in &found.offers {
        let mark = match (offer.available, auto == Some(offer.device)) {
            (_, true) => "auto",
            (true, false) => "yes",
            (false, _) => "no",
        };
        let queues = if offer.queues == 1 { "queue" } else { "queues" };
        lines.push(format!(
            "  {:7} {mark:5} {}; up to {} {queues}",
            offer.device, offer.mode, offer.queues
        ));
        let given: Vec<_> = [
            (offer.zero_copy, "zero-copy"),
            (offer.checksum, "checksums"),
            (offer.tcp_segmentation, "TCP super-frames"),
            (offer.udp_segmentation, "UDP super-frames"),
            (offer.receive_offload, "super-frames received"),
        ]
        .iter()
        .filter_map(|(given, word)| given.then_some(*word))
        .collect();
        if !given.is_empty() {
            lines.push(format!("                gives: {}", given.join(", ")));
        }
        lines.extend(offer.why.iter().map(|why| format!("                {why}")));
        lines.extend(offer.missing.iter().map(|what| format!("                missing: {what}")));
    }
    lines
}
