//! Reading straight from the interface: what is not the next segment of the connection that reads goes where it
//! belongs, and nothing of it stays in the reader's memory.

use std::time::Duration;

use fusewire_device::interface::Link;
use fusewire_stack::Cause;
use fusewire_stack::ip::{Config, SocketId};

use crate::net::{Kind, Net, kinds, pattern};
use crate::tcp::connected;

const MARK: u8 = 0xa5;

/// Writes a message and puts it on the wire.
fn send(net: &mut Net, id: SocketId, bytes: &[u8]) {
    assert_eq!(net.stacks[0].tcp_write(id, bytes).unwrap(), bytes.len());
    net.stacks[0].transmit(net.now).unwrap();
}

/// Reads once; what lies behind what was read is as it was, or wiped.
fn read(net: &mut Net, id: SocketId, len: usize) -> Vec<u8> {
    let mut memory = vec![MARK; len];
    let read = net.stacks[1].tcp_read_into(net.now, id, &mut memory).unwrap().unwrap();
    let behind = &memory[read.unwrap_or(0)..];
    assert!(behind.iter().all(|byte| matches!(*byte, MARK | 0)), "bytes of nobody's business");
    memory.truncate(read.unwrap_or(0));
    memory
}

#[test]
fn two_connections_read_each_their_own() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let (a, b) = (connected(&mut net, 80), connected(&mut net, 81));
        let (mut at, mut got) = ([0; 2], [0; 2]);
        for turn in 0..200usize {
            for (i, which) in [turn % 2, turn / 3 % 2, 1 - turn % 2].into_iter().enumerate() {
                let len = 1 + (turn * 7919 + i * 31) % 1200;
                send(&mut net, [a, b][which].0, &pattern(which as u64, at[which], len));
                at[which] += len;
            }
            // One reads while what is for the other comes in between.
            for which in [turn % 2, 1 - turn % 2] {
                let bytes = read(&mut net, [a, b][which].1, 70_000);
                assert!(bytes == pattern(which as u64, got[which], bytes.len()), "{kind:?} {turn}");
                got[which] += bytes.len();
            }
            net.settle();
        }
        let end = net.now + Duration::from_secs(60);
        for which in [0, 1] {
            while got[which] < at[which] {
                let bytes = read(&mut net, [a, b][which].1, 70_000);
                assert!(bytes == pattern(which as u64, got[which], bytes.len()), "{kind:?}");
                got[which] += bytes.len();
                // The last may wait for an acknowledgement (Nagle), and that for its timer.
                net.step(Duration::from_secs(1));
                assert!(net.now < end);
            }
        }
    }
}

#[test]
fn super_frames_of_a_bulk_sender_need_no_copy() {
    let kind = Kind { v6: false, link: Link::Ethernet, checksum: true, segmentation: true };
    let mut net = Net::new(kind, 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    let (mut written, mut got) = (0, 0);
    while got < 4_000_000 {
        let bytes = pattern(3, written, 60_000);
        written += net.stacks[0].tcp_write(client, &bytes).unwrap();
        net.stacks[0].transmit(net.now).unwrap();
        let mut memory = vec![0; 256 << 10];
        let read = net.stacks[1].tcp_read_into(net.now, server, &mut memory).unwrap().unwrap();
        if let Some(read) = read {
            assert!(memory[..read] == pattern(3, got, read));
            got += read;
        }
        net.stacks[1].transmit(net.now).unwrap();
        net.stacks[0].poll(net.now).unwrap();
    }
    let counters = *net.stacks[1].counters();
    assert_eq!(
        (
            counters.drops.of(Cause::BadOffload),
            counters.drops.of(Cause::Malformed),
            counters.drops.of(Cause::Checksum)
        ),
        (0, 0, 0)
    );
}
