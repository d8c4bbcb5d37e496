//! Floods of what opens connections, SYNs of TCP's and FIRSTs of XTP's, at a server that serves somebody: what is left of
//! his rate, what one costs, what the server keeps for them, and what it says to them.
//!
//! Both stacks and the strangers are in one thread ([`crate::joined`]). In turns the same packets, as many, go to the
//! server and to another host, so that only what the server does with them is in the difference.

use std::time::Instant;

use fusewire_base::Sum;
use fusewire_device::memory::Memory;
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_session::{Check, Cipher};
use fusewire_stack::Config;
use fusewire_stack::transport::{self, Protocol, Retransmission};

use super::Flood;
use crate::joined::{Joined, address};
use crate::stats::median;
use crate::transfer::Transport;
use crate::{Error, Result};

/// Hosts that the packets come from.
const STRANGERS: u16 = 64;
/// ADUs between two looks at the clock, the bytes of each, and packets of the flood for each.
const ADUS: usize = 200;
const ADU_BYTES: usize = 1388;
const PACKETS: usize = 4;
/// Where the checksum lies, in both.
const CHECK_AT: usize = 16;
/// Rounds with the flood at the server come beside as many with it elsewhere.
const WARM: usize = 1;

/// One packet that opens a connection, and what of its first bytes differs between any two.
struct First {
    bytes: Vec<u8>,
    varies: u64,
    count: u64,
}

impl First {
    fn new(protocol: Protocol, bytes: Vec<u8>) -> First {
        let varies = match protocol {
            // The source port, and the sequence number.
            Protocol::Tcp => 0xffff_0000_ffff_ffff,
            // The key, but for the bit that says whose it is.
            Protocol::Xtp => u64::MAX >> 1,
        };
        First { bytes, varies, count: 0 }
    }

    /// The next, with a checksum that is right.
    fn next(&mut self) -> &[u8] {
        self.count += 1;
        // Of an odd constant, all differ.
        let drawn = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (front, _) = self.bytes.split_first_chunk_mut::<8>().expect("a header");
        let old = u64::from_be_bytes(*front);
        let new = old & !self.varies | drawn & self.varies;
        *front = new.to_be_bytes();
        let check = &mut self.bytes[CHECK_AT..CHECK_AT + 2];
        // RFC 1624: a word that goes is added inverted.
        let sum = !u16::from_be_bytes([check[0], check[1]]);
        let sum = Sum::from_words(u64::from(sum)) + Sum::from_words(!old) + Sum::from_words(new);
        check.copy_from_slice(&sum.checksum().to_be_bytes());
        &self.bytes
    }
}

/// Who sends them, and hears what is said to them.
struct Strangers {
    devices: Vec<Memory>,
    batch: RxBatch,
    sent_bytes: u64,
    got_bytes: u64,
}

impl Strangers {
    /// One packet of each of `count`.
    fn send(&mut self, first: &mut First, to: std::net::SocketAddr, count: usize) -> Result<()> {
        let len = self.devices.len();
        for nth in 0..count {
            let device = &mut self.devices[(first.count as usize + nth) % len];
            let header = first.next();
            self.sent_bytes += header.len() as u64;
            let frame = TxFrame { peer: to, header, payload: &[], ecn: Ecn::NotEct };
            device.transmit(&[frame]).map_err(Error::os("sending"))?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<()> {
        for device in &mut self.devices {
            while device.receive(&mut self.batch).map_err(Error::os("receiving"))? > 0 {
                let bytes = self.batch.iter().map(|packet| packet.bytes.len() as u64);
                self.got_bytes += bytes.sum::<u64>();
            }
        }
        Ok(())
    }
}

/// A server that serves somebody, strangers, and another host for their packets.
struct Bench {
    joined: Joined,
    first: First,
    strangers: Strangers,
    elsewhere: Memory,
    backlog: usize,
    most: usize,
    adu: Vec<u8>,
    came: Vec<u8>,
}

impl Bench {
    fn new(protocol: Protocol) -> Result<Bench> {
        let (retransmission, check) = (Retransmission::default(), Check::default());
        let transport = Transport { protocol, retransmission, check };
        let joined = Joined::new(transport, Cipher::AES_256_GCM, ADU_BYTES)?;
        let config =
            Config { transport: transport::Config::of_records(protocol), ..Config::default() };
        let first = First::new(protocol, joined.first_packet(&config)?);
        let hosts = (0..STRANGERS).map(|nth| joined.host(address(100, 1000 + nth)));
        let devices = hosts.collect::<Result<_>>()?;
        let strangers = Strangers { devices, batch: RxBatch::new(64), sent_bytes: 0, got_bytes: 0 };
        let elsewhere = joined.host(address(3, 1))?;
        let (adu, came) = (vec![0; ADU_BYTES], vec![0; ADU_BYTES]);
        let backlog = config.backlog;
        Ok(Bench { joined, first, strangers, elsewhere, backlog, most: 0, adu, came })
    }

    /// ADUs, with packets of the flood before each: to the server, or elsewhere. Seconds.
    fn round(&mut self, at_server: bool) -> Result<f64> {
        let to = if at_server { self.joined.server.local_addr() } else { address(3, 1) };
        let start = Instant::now();
        for nth in 0..ADUS {
            self.strangers.send(&mut self.first, to, PACKETS)?;
            self.adu[..8].copy_from_slice(&nth.to_be_bytes());
            let len = self.joined.carry(&self.adu, &mut self.came)?;
            if self.came[..len] != self.adu {
                return Err(Error::Wrong { method: "floods".into(), what: "another ADU".into() });
            }
            self.most = self.most.max(self.joined.server.connections() - 1);
        }
        let seconds = start.elapsed().as_secs_f64();
        self.strangers.hear()?;
        while self.elsewhere.receive(&mut self.strangers.batch).map_err(Error::os("receiving"))? > 0
        {
        }
        Ok(seconds)
    }
}

/// So many rounds of each, in turns.
pub(super) fn measure(protocol: Protocol, rounds: usize) -> Result<Flood> {
    let mut bench = Bench::new(protocol)?;
    let (mut under, mut beside) = (Vec::new(), Vec::new());
    for round in 0..rounds + WARM {
        let seconds = [bench.round(true)?, bench.round(false)?];
        if round >= WARM {
            under.push(seconds[0]);
            beside.push(seconds[1]);
        }
    }
    let ratios = under.iter().zip(&beside).map(|(under, beside)| beside / under);
    let ratio = median(ratios.collect::<Vec<_>>());
    let rate = |seconds: Vec<f64>| median(seconds).map(|s| (ADUS * ADU_BYTES) as f64 / s);
    let packets = (ADUS * PACKETS) as f64;
    let costs = under.iter().zip(&beside).map(|(under, beside)| (under - beside) / packets * 1e9);
    let ns_per_packet = median(costs.collect::<Vec<_>>());
    Ok(Flood {
        protocol: protocol.name(),
        packet_bytes: bench.first.bytes.len(),
        packets: bench.first.count,
        beside_bytes_per_s: rate(beside),
        under_bytes_per_s: rate(under),
        ratio,
        ns_per_packet,
        contexts_max: bench.most,
        contexts_bound: bench.backlog,
        cookies: bench.joined.server.cookies(),
        // Half of them went to the server.
        in_bytes: bench.strangers.sent_bytes / 2,
        out_bytes: bench.strangers.got_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_are_bounded_and_not_answered_with_more() {
        for protocol in Protocol::ALL {
            let flood = measure(protocol, 3).unwrap();
            println!("{flood:?}");
            assert!(flood.packets as usize == 2 * 4 * ADUS * PACKETS);
            assert!(flood.contexts_max <= flood.contexts_bound, "{flood:?}");
            assert!(flood.out_bytes <= flood.in_bytes, "amplifies: {flood:?}");
            assert!(flood.out_bytes > 0, "they are taken for what they are: {flood:?}");
            // What is beyond the bound is answered, and nothing is kept of it.
            assert!(flood.cookies > flood.packets / 4, "{flood:?}");
        }
    }

    #[test]
    fn each_packet_is_another_and_right() {
        for protocol in Protocol::ALL {
            let mut first = Bench::new(protocol).unwrap().first;
            let begun = Sum::of(&first.bytes);
            let mut all = std::collections::HashSet::new();
            for _ in 0..1000 {
                let bytes = first.next().to_vec();
                assert_eq!(Sum::of(&bytes), begun, "the sum stays what it was");
                assert!(all.insert(bytes));
            }
        }
    }
}
