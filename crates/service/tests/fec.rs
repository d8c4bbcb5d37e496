//! Every pattern of lost packets of small blocks, losses as networks have them, and repairs of a peer that lies.

use fusewire_base::Instant;
use fusewire_service::fec::{
    Copies, Decoder, Encoder, HEADER_LEN, Limits, Refused, Repair, symbol_len,
};
use fusewire_service::lifetime::Lifetime;
use fusewire_testkit::{Impairments, Link, Packet, Random, for_each_seed, for_each_seed_of};

const LIMITS: Limits = Limits { packets: 16, repairs: 4, blocks: 4, len_max: 300 };

/// A block's packets, and its repairs as they travel.
struct Made {
    packets: Vec<Vec<u8>>,
    repairs: Vec<Vec<u8>>,
}

fn bytes(repair: &Repair<'_>) -> Vec<u8> {
    [&repair.header()[..], repair.symbol].concat()
}

fn make(encoder: &mut Encoder, random: &mut Random, block: u32, packets: u8, repairs: u8) -> Made {
    let mut packet = || {
        let mut packet = vec![0; random.range(1..LIMITS.len_max as u64 + 1) as usize];
        random.fill(&mut packet);
        packet
    };
    let packets: Vec<Vec<u8>> = (0..packets).map(|_| packet()).collect();
    let longest = packets.iter().map(Vec::len).max().unwrap();
    encoder.begin(block, packets.len() as u8, repairs, longest);
    packets.iter().for_each(|packet| encoder.push(packet));
    let repairs = (0..repairs).map(|n| bytes(&encoder.repair(n))).collect();
    Made { packets, repairs }
}

/// What comes of a block of which these arrive, in this order: packets, and behind them repairs. The packets that are restored.
fn receive(decoder: &mut Decoder, block: u32, made: &Made, order: &[usize]) -> Vec<u8> {
    let mut restored = Vec::new();
    for &at in order {
        match made.packets.get(at) {
            Some(packet) => decoder.on_packet(block, at as u8, packet),
            None => {
                let repair = Repair::parse(&made.repairs[at - made.packets.len()]).unwrap();
                let _ = decoder.on_repair(&repair);
            }
        }
        while let Some(found) = decoder.poll() {
            assert_eq!(found.block, block);
            assert_eq!(found.packet, made.packets[usize::from(found.index)], "{order:?}");
            restored.push(found.index);
        }
    }
    restored
}

fn shuffle(random: &mut Random, order: &mut [usize]) {
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// As many packets as there is data are enough, whichever they are and in whatever order they come; fewer restore nothing.
#[test]
fn every_pattern_of_losses_of_small_blocks() {
    let mut random = Random::new(1);
    let (mut encoder, mut decoder) = (Encoder::new(&LIMITS), Decoder::new(&LIMITS));
    let mut block = 0;
    for packets in 1..=6u8 {
        for repairs in 1..=4u8 {
            let all = usize::from(packets + repairs);
            for pattern in 0..1u32 << all {
                let made = make(&mut encoder, &mut random, block, packets, repairs);
                let mut order: Vec<_> = (0..all).filter(|at| pattern >> at & 1 == 1).collect();
                shuffle(&mut random, &mut order);
                let mut restored = receive(&mut decoder, block, &made, &order);
                let came: Vec<u8> = order.iter().map(|at| *at as u8).collect();
                restored.retain(|index| !came.contains(index));
                let lost = (0..packets).filter(|index| !came.contains(index)).count();
                let is_enough = order.len() >= usize::from(packets);
                let expected = if is_enough { lost } else { 0 };
                assert_eq!(restored.len(), expected, "{packets}+{repairs}: {order:?}");
                block += 1;
            }
        }
    }
    assert_eq!(decoder.counters().broken, 0);
}

#[test]
fn blocks_lie_across_each_other_and_old_ones_are_forgotten() {
    for_each_seed("blocks_lie_across_each_other_and_old_ones_are_forgotten", |_, random| {
        let (mut encoder, mut decoder) = (Encoder::new(&LIMITS), Decoder::new(&LIMITS));
        let mut made = |n| make(&mut encoder, random, n, 5, 2);
        let blocks: Vec<Made> = (0..6).map(&mut made).collect();
        // The first three of each block, all blocks in turn; then a repair of each, which lacks one, and one more.
        for (n, block) in blocks.iter().enumerate() {
            assert!(receive(&mut decoder, n as u32, block, &[0, 2, 4]).is_empty());
        }
        for (n, block) in blocks.iter().enumerate() {
            let restored = receive(&mut decoder, n as u32, block, &[5, 6]);
            let is_kept = n >= 2;
            assert_eq!(restored, if is_kept { vec![1, 3] } else { vec![] }, "{n}");
        }
    });
}

/// A packet of the simulated link.
#[derive(Clone)]
struct Numbered(u64);

impl Packet for Numbered {
    fn len_bytes(&self) -> usize {
        1
    }
    fn corrupt(&mut self, _: &mut Random) {}
    fn mark(&mut self) -> bool {
        false
    }
}

/// Two of a hundred packets are lost, two in a row (Gilbert): which of so many arrive.
fn arrived(random: &mut Random, count: u64) -> Vec<bool> {
    let rules = Impairments { loss: 0.02, loss_burst: 2.0, ..Impairments::default() };
    let mut link = Link::new(rules, random.fork());
    let mut came = vec![false; count as usize];
    for number in 0..count {
        link.send(Instant::ZERO, Numbered(number));
        while let Some(Numbered(number)) = link.poll(Instant::ZERO) {
            came[number as usize] = true;
        }
    }
    came
}

/// Of audio of one packet, copied so many packets later: what share is lost.
fn lost_of_copied(distance: u8, random: &mut Random) -> f64 {
    const ADUS: u64 = 200_000;
    let came = arrived(random, ADUS);
    let mut copies = Copies::new(distance, 8);
    let mut heard = vec![false; ADUS as usize];
    for (number, came) in came.iter().enumerate() {
        let copy = copies.push(Instant::ZERO, &(number as u64).to_be_bytes(), Lifetime::ENDLESS);
        if *came {
            heard[number] = true;
            let copy = copy.map(|copy| u64::from_be_bytes(copy.try_into().unwrap()));
            if let Some(number) = copy {
                heard[number as usize] = true;
            }
        }
    }
    heard.iter().filter(|heard| !**heard).count() as f64 / ADUS as f64
}

/// Of frames of so many packets with so many repairs.
fn lost_of_frames(packets: u8, repairs: u8, random: &mut Random) -> f64 {
    const FRAMES: u32 = 30_000;
    let all = u64::from(packets + repairs);
    let came = arrived(random, u64::from(FRAMES) * all);
    let limits = Limits { len_max: 8, ..LIMITS };
    let (mut encoder, mut decoder) = (Encoder::new(&limits), Decoder::new(&limits));
    let mut lost = 0;
    for (frame, came) in came.chunks(all as usize).enumerate() {
        let frame = frame as u32;
        let mut have = came[..packets.into()].iter().filter(|came| **came).count();
        if repairs > 0 {
            encoder.begin(frame, packets, repairs, 4);
        }
        for index in 0..packets {
            let packet = (frame ^ u32::from(index)).to_be_bytes();
            if repairs > 0 {
                encoder.push(&packet);
            }
            if came[usize::from(index)] {
                decoder.on_packet(frame, index, &packet);
            }
        }
        for index in (0..repairs).filter(|index| came[usize::from(packets + index)]) {
            let _ = decoder.on_repair(&encoder.repair(index));
        }
        while let Some(found) = decoder.poll() {
            assert_eq!(found.packet, (frame ^ u32::from(found.index)).to_be_bytes());
            have += 1;
        }
        lost += u32::from(have < packets.into());
    }
    f64::from(lost) / f64::from(FRAMES)
}

/// The figures by which what is lost is predicted (`fusewire_generate::choice`), of the code itself.
#[test]
fn losses_in_a_row_leave_what_is_predicted() {
    let mut random = Random::new(19);
    let is_near = |what: &str, percent: f64, predicted: f64| {
        println!("{what}: {percent:.2} % are lost, {predicted} % predicted");
        assert!((percent / predicted - 1.0).abs() < 0.12, "{what}: {percent} %");
    };
    for (distance, predicted) in [(2, 0.51), (3, 0.27)] {
        let lost = 100.0 * lost_of_copied(distance, &mut random);
        is_near(&format!("copied {distance} later"), lost, predicted);
    }
    for (packets, repairs, predicted) in [(4, 0, 5.0), (10, 1, 5.6), (10, 2, 2.9)] {
        let lost = 100.0 * lost_of_frames(packets, repairs, &mut random);
        is_near(&format!("{packets}+{repairs}"), lost, predicted);
    }
}

#[test]
fn every_other_header_is_refused() {
    let mut encoder = Encoder::new(&LIMITS);
    let made = make(&mut encoder, &mut Random::new(3), 9, 3, 2);
    let whole = &made.repairs[1];
    for n in 0..HEADER_LEN + 4 {
        assert!(n > HEADER_LEN + 2 && n % 2 == 0 || Repair::parse(&whole[..n]).is_none(), "{n}");
    }
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        let mut decoder = Decoder::new(&LIMITS);
        Repair::parse(&bytes).map(|repair| decoder.on_repair(&repair))
    };
    assert_eq!(with(4, 0), None, "no packets");
    assert_eq!(with(4, 17), Some(Err(Refused::Wrong)), "too many");
    assert_eq!(with(5, 1), None, "the second of one");
    assert_eq!(with(5, 5), Some(Err(Refused::Wrong)), "too many");
    assert_eq!(with(7, 1), None, "reserved");
    let mut decoder = Decoder::new(&LIMITS);
    let long = vec![0; symbol_len(LIMITS.len_max) + 2];
    let repair = Repair { block: 9, packets: 3, repairs: 2, index: 0, symbol: &long };
    assert_eq!(decoder.on_repair(&repair), Err(Refused::Wrong));
    // Repairs of one block say the same of it.
    let repair = Repair::parse(whole).unwrap();
    assert_eq!(decoder.on_repair(&repair), Ok(()));
    assert_eq!(decoder.on_repair(&repair), Err(Refused::Useless), "twice");
    let other = Repair { index: 0, packets: 4, ..repair };
    assert_eq!(decoder.on_repair(&other), Err(Refused::Wrong));
}

/// Whatever a peer says, it is no panic, and what is restored keeps the limits.
#[test]
fn a_peer_that_lies_spoils_its_own_packets_alone() {
    for_each_seed_of(60, "a_peer_that_lies_spoils_its_own_packets_alone", |_, random| {
        let mut decoder = Decoder::new(&LIMITS);
        let mut bytes = vec![0; 400];
        for _ in 0..400 {
            random.fill(&mut bytes);
            let block = random.below(8) as u32;
            let few = random.range(1..7) as u8;
            let header = [0, 0, 0, block as u8, few, 1 + few / 2, few % 3, 0];
            if random.chance(0.5) {
                let len = random.range(1..320) as usize;
                decoder.on_packet(block, random.below(18) as u8, &bytes[..len]);
            } else {
                bytes[..8].copy_from_slice(&header);
                let len = HEADER_LEN + 2 * random.range(1..160) as usize;
                // A length that fits, as it is when all is well, or one by chance.
                if random.chance(0.5) {
                    bytes[8] = 0;
                }
                if let Some(repair) = Repair::parse(&bytes[..len]) {
                    let _ = decoder.on_repair(&repair);
                }
            }
            while let Some(found) = decoder.poll() {
                assert!((1..=LIMITS.len_max).contains(&found.packet.len()));
            }
        }
        // And a block that is well behind it is whole.
        let mut encoder = Encoder::new(&LIMITS);
        let made = make(&mut encoder, random, 1000, 4, 2);
        assert_eq!(receive(&mut decoder, 1000, &made, &[0, 2, 4, 5]), [1, 3]);
    });
}
