//! A capture of a running stack: what comes and leaves, each with what became of it.

use std::collections::BTreeMap;
use std::time::Duration;

use fusewire_device::capture::feed::{Blocks, Options};
use fusewire_device::interface::Link;
use fusewire_device::pcapng::read::Splitter;
use fusewire_stack::TraceKind;
use fusewire_stack::ip::Config;
use fusewire_testkit::link::Impairments;

use crate::lossy::lossy;
use crate::net::{Kind, Net};
use crate::tcp::{connected, transfer};

/// Every packet of a capture with its comment.
fn packets(blocks: &mut Blocks) -> Vec<(Vec<u8>, String)> {
    let (mut splitter, mut all) = (Splitter::default(), Vec::new());
    while let Some(chunk) = blocks.try_next() {
        splitter.push(&chunk);
        while let Some(block) = splitter.next().unwrap() {
            if let Some((packet, comment)) = block.packet() {
                all.push((packet.to_vec(), comment.unwrap_or_default().to_string()));
            }
        }
    }
    all
}

fn words(packets: &[(Vec<u8>, String)]) -> BTreeMap<&str, usize> {
    let mut words = BTreeMap::new();
    for (_, comment) in packets {
        *words.entry(comment.as_str()).or_default() += 1;
    }
    words
}

#[test]
fn a_capture_says_why() {
    let impairments = Impairments {
        loss: 0.03,
        duplicate: 0.02,
        corrupt: 0.02,
        delay: Duration::from_millis(10),
        reorder: 0.03,
        reorder_delay: Duration::from_millis(3),
        ..Impairments::default()
    };
    let mut net = lossy(false, 1500, false, &impairments, 11);
    let captures = [0, 1].map(|which: usize| {
        let now = net.now;
        net.stacks[which].capture(now, Options { snap_len: 60 }).unwrap()
    });
    let now = net.now;
    assert!(net.stacks[0].capture(now, Options::default()).is_none(), "one at a time");
    let ids = connected(&mut net, 80);
    transfer(&mut net, 0, ids, 300_000, 20_000, false);
    // What waits for room in the queue comes with what is sent after.
    let mut captures = captures;
    let first = captures.each_mut().map(packets);
    transfer(&mut net, 0, ids, 10_000, 10_000, false);
    let info = net.stacks[0].tcp_info(ids.0).unwrap();
    let dropped = net.stacks[1].tcp_info(ids.1).unwrap();
    let [mut sender, mut receiver] = first;
    let [sent_later, came_later] = captures.each_mut().map(packets);
    sender.extend(sent_later);
    receiver.extend(came_later);
    drop(captures);
    let (sent, came) = (words(&sender), words(&receiver));
    println!("{sent:?}\n{came:?}");
    let again: usize =
        sent.iter().filter(|(w, _)| w.starts_with("retransmission (")).map(|(_, n)| n).sum();
    assert_eq!(again as u64, info.counters.retransmissions);
    assert!(sent.contains_key("retransmission (RACK)"));
    assert_eq!(came["out of order, held"] as u64, dropped.counters.out_of_order);
    assert!(came.contains_key("received before"));
    let checksums = came.keys().filter(|word| word.contains("checksum")).count();
    assert!(checksums > 0, "corruption shows");
    assert!(receiver.iter().all(|(packet, _)| packet.len() <= 60));
    // Nobody reads any more: the next capture may begin.
    net.run(Duration::from_millis(500));
    transfer(&mut net, 0, ids, 10_000, 10_000, false);
    assert!(net.stacks[0].capture(net.now, Options::default()).is_some());
    // The trace of the connection knows the same words.
    let trace = net.stacks[1].tcp_trace(ids.1).unwrap();
    assert!(trace.iter().any(|entry| entry.kind == TraceKind::Received));
}

#[test]
fn a_reader_that_does_not_read_costs_packets_and_not_memory() {
    let kind = Kind { v6: false, link: Link::Ip, checksum: true, segmentation: false };
    let mut net = Net::new(kind, 1500, Config::default());
    let mut blocks = net.stacks[0].capture(net.now, Options::default()).unwrap();
    let ids = connected(&mut net, 80);
    transfer(&mut net, 0, ids, 16 << 20, 1 << 16, false);
    let statistics = blocks.statistics();
    let missed = u64::from_le_bytes(statistics[36..44].try_into().unwrap());
    let kept = packets(&mut blocks);
    let bytes: usize = kept.iter().map(|(packet, _)| packet.len()).sum();
    assert!(missed > 1000 && bytes < 8 << 20, "{missed} missed, {bytes} kept");
    // What is read again is whole, and says what is missing.
    transfer(&mut net, 0, ids, 10_000, 10_000, false);
    let later = packets(&mut blocks);
    let told = format!("{missed} packets before this one were not captured");
    assert!(kept.iter().chain(&later).any(|(_, comment)| comment.ends_with(&told)), "{told}");
}
