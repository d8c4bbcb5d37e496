//! MacLean and Barvick, Figures 4 to 7: the outboard processor's throughput from its timing model.

use crate::Result;
use crate::bench::Bench;
use crate::record::Place;

/// Time for a header, in µs.
const HEADER_US: f64 = 13.0;
/// Time for the transport of a packet, in µs, header included.
const TRANSPORT_US: f64 = 66.0;
/// Words of a packet's payload.
const WORDS: f64 = 54.0;
/// Time for a word, in µs, from the board's memory and the host's.
const MEMORIES: [(&str, f64); 2] = [("120 ns a word", 0.12), ("660 ns a word", 0.66)];
/// What UNIX takes of long messages' time.
const UNIX_PART: f64 = 0.25;
/// Time that UNIX takes of a message however short: the call, the command, the interrupt. The paper shows it
/// as a picture; it is chosen so that UNIX takes two thirds of the time of a message of one packet.
const UNIX_CALL_US: f64 = 110.0;

fn packet_us(words: f64, word_us: f64) -> f64 {
    TRANSPORT_US.max(HEADER_US + words * word_us)
}

/// Times of a message of so many packets, in µs: the board's, and UNIX's.
fn message_us(packets: f64) -> [f64; 2] {
    let board = packets * packet_us(WORDS, MEMORIES[0].1);
    [board, UNIX_CALL_US + board * UNIX_PART / (1.0 - UNIX_PART)]
}

/// Part of the time that is UNIX's, for a message of so many packets.
fn unix_part(packets: f64) -> f64 {
    let [board, unix] = message_us(packets);
    unix / (unix + board)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.computed(Place::new("figure-4", "computed", "header"), HEADER_US);
    bench.computed(Place::new("figure-4", "computed", "transport, header with it"), TRANSPORT_US);
    for (memory, word_us) in MEMORIES {
        let at = format!("header and payload, {memory}");
        bench.computed(Place::new("figure-4", "computed", at), HEADER_US + WORDS * word_us);
        for step in 0..=36 {
            let words = 4.0 * 2f64.powf(f64::from(step) / 4.0);
            let us = packet_us(words, word_us);
            let bytes = words * 4.0;
            bench.computed(Place::new("figure-5-packets", memory, bytes), 1e6 / us);
            bench.computed(Place::new("figure-5-payload", memory, bytes), words * 32.0 / us);
        }
    }
    for step in 0..=24 {
        let packets = 2f64.powf(f64::from(step) / 4.0);
        let bytes = packets * WORDS * 4.0;
        let rate = 1e6 / packet_us(WORDS, MEMORIES[0].1);
        let part = unix_part(packets);
        let [board, unix] = message_us(packets);
        bench.computed(Place::new("figure-6-time", "UNIX", bytes), unix);
        bench.computed(Place::new("figure-6-time", "outboard processor", bytes), board);
        bench.computed(Place::new("figure-6", "computed", bytes), part * 100.0);
        bench.computed(Place::new("figure-7", "without UNIX", bytes), rate);
        bench.computed(Place::new("figure-7", "with UNIX", bytes), rate * (1.0 - part));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::At;

    #[test]
    fn the_texts_numbers_come_out() {
        let rate = 1e6 / packet_us(WORDS, 0.12);
        assert!(rate > 15_000.0 && rate < 15_500.0);
        let with_unix = rate * (1.0 - unix_part(1e6));
        assert!(with_unix > 11_000.0 && with_unix < 11_500.0);
        // At most so many Mbit/s.
        let most = |word_us| 32e6 * 1e6 / packet_us(1e6, word_us) / 1e6;
        assert!(most(0.12) > 250.0 && most(0.66) < 50.0);
        // Memory bounds only payloads beyond this many words.
        assert!(packet_us(440.0, 0.12) == TRANSPORT_US && packet_us(445.0, 0.12) > TRANSPORT_US);
    }

    #[test]
    fn points_without_a_size_say_so() {
        const PLACED: &str = ", size placed by us";
        for point in &crate::experiments::named("maclean-throughput").unwrap().published {
            // The only size that the text gives.
            let given = match &point.place.at {
                At::Number(at) => *at == WORDS * 4.0,
                At::Name(_) => true,
            };
            assert_eq!(point.place.series.ends_with(PLACED), !given, "{:?}", point.place);
        }
    }
}
