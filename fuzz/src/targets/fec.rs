//! A receiver of blocks and their repairs, and a peer that says of them what it likes.
//!
//! Whatever comes, what is restored keeps the limits, each packet of a block is restored once; and behind it a block that is
//! well is restored.
use crate::Choices;
use fusewire_service::fec::{Decoder, Encoder, Limits, Repair, Restored};
use std::collections::BTreeSet;

const LIMITS: Limits = Limits { packets: 6, repairs: 3, blocks: 2, len_max: 40 };
/// Beyond all that a step can say.
const WELL: u32 = u32::MAX;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut decoder = Decoder::new(&LIMITS);
    let mut restored = BTreeSet::new();
    while !choices.is_empty() {
        let (step, block, len) = (choices.u8(), choices.u8() & 7, usize::from(choices.u8() & 63));
        let bytes = choices.bytes(len);
        if step & 1 == 0 {
            decoder.on_packet(block.into(), step >> 1, bytes);
        } else if let Some(repair) = Repair::parse(bytes) {
            let _ = decoder.on_repair(&Repair { block: block.into(), ..repair });
        }
        // One that displaces it forgets what it was.
        restored.retain(|(other, _)| *other == block || (other ^ block) & 1 == 1);
        while let Some(Restored { block, index, packet }) = decoder.poll() {
            assert!((1..=LIMITS.len_max).contains(&packet.len()));
            assert!(usize::from(index) < LIMITS.packets);
            assert!(restored.insert((block as u8, index)), "restored twice");
        }
    }
    behind_it_all_is_well(&mut decoder);
}

fn behind_it_all_is_well(decoder: &mut Decoder) {
    let mut encoder = Encoder::new(&LIMITS);
    let packets = [&b"one"[..], b"two", b"three"];
    encoder.begin(WELL, 3, 2, 5);
    packets.iter().for_each(|packet| encoder.push(packet));
    decoder.on_packet(WELL, 1, packets[1]);
    for index in 0..2 {
        decoder.on_repair(&encoder.repair(index)).expect("it is well");
    }
    for index in [0, 2] {
        let packet = packets[usize::from(index)];
        assert_eq!(decoder.poll(), Some(Restored { block: WELL, index, packet }));
    }
}

/// Blocks of one repair and of two, with packets that are missing, and repairs that say something else.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(&LIMITS);
    let mut seeds = Vec::new();
    for repairs in 1..=3u8 {
        encoder.begin(3, 4, repairs, 20);
        let packets = [[1; 20], [2; 20], [3; 20], [4; 20]];
        packets.iter().for_each(|packet| encoder.push(packet));
        let mut seed = Vec::new();
        for at in 0..4 - repairs {
            seed.extend([at << 1, 3, 20]);
            seed.extend(packets[usize::from(at)]);
        }
        for index in 0..repairs {
            let repair = encoder.repair(index);
            seed.extend([1, 3, (8 + repair.symbol.len()) as u8]);
            seed.extend(repair.header());
            seed.extend(repair.symbol);
        }
        let mut wrong = seed.clone();
        let at = wrong.len() - 22;
        wrong[at] ^= 0x80;
        seeds.extend([seed, wrong]);
    }
    seeds
}
