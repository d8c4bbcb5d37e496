//! The published model gives what the paper prints.

use fusewire_model::paper::{
    AbbottPeterson, BSWAP_PES_CKSUM, Cache, Error, Figure, HP_9000_735, Implementation, Machine,
    TABLE_2, clocks, time,
};

#[test]
fn table_2_comes_out_to_the_nanosecond() {
    for row in TABLE_2 {
        let ns = time(row.machine, &BSWAP_PES_CKSUM, row.cache, row.implementation).unwrap();
        assert_eq!(
            ns.0.round(),
            row.modelled,
            "{} {:?} {:?}",
            row.machine.name,
            row.cache,
            row.implementation
        );
    }
}

/// The aggregated state of 3 functions is more than the HP's 13 registers from 5 words on.
#[test]
fn figure_3_bends_where_registers_end() {
    let points = Figure::Three.points().unwrap();
    let at = |state, implementation| {
        points
            .iter()
            .find(|p| {
                p.state_words == state
                    && p.cache == Cache::Warm
                    && p.implementation == implementation
            })
            .unwrap()
            .clocks
            .0
    };
    assert_eq!(at(0, Implementation::Integrated), at(4, Implementation::Integrated));
    assert!(at(5, Implementation::Integrated) > at(4, Implementation::Integrated));
    assert_eq!(at(0, Implementation::Sequential), at(13, Implementation::Sequential));
    assert!(at(13, Implementation::Integrated) > at(13, Implementation::Sequential));
    // Two words of 15 have no register: equation 3 gives 2 / 4 × 2 accesses of a clock each.
    assert_eq!(at(5, Implementation::Integrated) - at(4, Implementation::Integrated), 1.0);
    // One word of 14 in each of the three loops: equation 6.
    assert_eq!(at(14, Implementation::Sequential) - at(13, Implementation::Sequential), 1.5);
}

/// "The integrated implementation is faster than the sequential when the block size reaches 32 bytes,
/// regardless of state size" (section 6.2).
#[test]
fn figure_6_favours_one_loop_for_large_blocks() {
    let points = Figure::Six.points().unwrap();
    let loses = |block| {
        (0..=16).any(|state| {
            let at = |implementation| {
                points
                    .iter()
                    .find(|p| {
                        p.state_words == state
                            && p.other == block
                            && p.implementation == implementation
                    })
                    .unwrap()
                    .clocks
            };
            at(Implementation::Integrated) > at(Implementation::Sequential)
        })
    };
    assert!(loses(4) && !loses(32));
}

/// "In extreme cases with low cache hit rates and slow memory, the integrated implementation may always
/// be faster" (section 6.3).
#[test]
fn figure_7_favours_one_loop_for_slow_memory() {
    let points = Figure::Seven.points().unwrap();
    let [loses_fast, loses_slow] = [1, 20].map(|memory| {
        let of = |implementation| {
            points
                .iter()
                .filter(move |p| p.other == memory && p.implementation == implementation)
                .map(|p| p.clocks)
        };
        of(Implementation::Integrated).zip(of(Implementation::Sequential)).any(|(a, b)| a > b)
    });
    assert!(loses_fast && !loses_slow);
}

/// With one cycle an instruction and no state the two models differ in the loop alone (section 6.1).
#[test]
fn abbott_and_peterson_never_favour_layers() {
    let model =
        AbbottPeterson { layers: 3, write_layers: 2, computation_cycles: 12.0, access_cycles: 4.0 };
    assert_eq!(model.cycles_per_word(Implementation::Sequential), 9.0 + 12.0 + 20.0);
    assert_eq!(model.cycles_per_word(Implementation::Integrated), 3.0 + 12.0 + 8.0);
}

#[test]
fn absurd_machines_are_refused() {
    let of = |machine: Machine| {
        clocks(&machine, &BSWAP_PES_CKSUM, Cache::Warm, Implementation::Integrated).unwrap_err()
    };
    for (machine, parameter) in [
        (Machine { clock_mhz: -1.0, ..HP_9000_735 }, "clock_mhz"),
        (Machine { word_bytes: 0, ..HP_9000_735 }, "word_bytes"),
        (Machine { memory_clocks_per_word: f64::NAN, ..HP_9000_735 }, "memory_clocks_per_word"),
        (Machine { loop_instructions: -2.0, ..HP_9000_735 }, "loop_instructions"),
    ] {
        assert_eq!(of(machine), Error::Absurd { of: HP_9000_735.name.into(), parameter });
    }
    let none = clocks(&HP_9000_735, &[], Cache::Warm, Implementation::Integrated);
    assert_eq!(none, Err(Error::NoFunctions));
}
