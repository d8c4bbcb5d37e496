//! Contracts of generated ends at each level of CPU instructions that this machine has, and between ends of two of them.

use std::marker::PhantomData;

use fusewire_generate_example::{again, mixed, rich, swift};
use fusewire_service::contract::{self, datagrams, group};
use fusewire_service::profile::{Adu, Machine, Network, Profile};
use fusewire_service::{Cipher, Congestion, DataPass, Execution, Level};

/// The end of another profile, at a level: the lowest is 0.
struct At<P, const LEVEL: usize>(PhantomData<P>);

/// Levels of this machine; the highest stands for those that it has not.
fn level(at: usize) -> Level {
    let all = Level::available();
    all[at.min(all.len() - 1)]
}

impl<P: Profile, const LEVEL: usize> Profile for At<P, LEVEL> {
    const NAME: &'static str = P::NAME;
    const CLAUSES: &'static [&'static str] = P::CLAUSES;
    const MACHINE: Machine = P::MACHINE;
    const CONGESTION: Congestion = P::CONGESTION;
    const CIPHERS: &'static [Cipher] = P::CIPHERS;
    fn data_pass() -> DataPass {
        DataPass { level: level(LEVEL), execution: Execution::Integrated }
    }
    const PACKS: bool = P::PACKS;
    const SENDS: &'static [Adu] = P::SENDS;
    const TAKES: &'static [Adu] = P::TAKES;
    const MTU: usize = P::MTU;
    const RATES: (u64, u64) = P::RATES;
    const SENDS_BESIDE: &'static [Adu] = P::SENDS_BESIDE;
    const TAKES_BESIDE: &'static [Adu] = P::TAKES_BESIDE;
    const NETWORK: Network = P::NETWORK;
    const RECEIVERS: (usize, usize) = P::RECEIVERS;
    const FLOOR: u32 = P::FLOOR;
    const CAST_RATES: [u32; 2] = P::CAST_RATES;
    const CAST_BUFFERS: [usize; 2] = P::CAST_BUFFERS;
}

/// Calls this with each level at either end, and the next one at the other.
macro_rules! each_pair {
    ($name:ident) => {
        #[test]
        fn $name() {
            let all: Vec<_> = Level::available().iter().map(|level| level.name()).collect();
            println!("{all:?}");
            match all.len() {
                1 => between::$name::<0, 0>(),
                2 => {
                    between::$name::<0, 1>();
                    between::$name::<1, 0>();
                }
                3 => {
                    between::$name::<0, 1>();
                    between::$name::<1, 2>();
                    between::$name::<2, 0>();
                }
                4 => {
                    between::$name::<0, 1>();
                    between::$name::<1, 2>();
                    between::$name::<2, 3>();
                    between::$name::<3, 0>();
                }
                _ => panic!("a level that nobody is at: {all:?}"),
            }
        }
    };
}

mod between {
    use super::*;

    pub fn a_stream_and_its_calls<const A: usize, const B: usize>() {
        contract::arrives::<At<rich::Asker, A>, At<rich::Keeper, B>>().unwrap();
        contract::answers::<At<rich::Asker, A>, At<rich::Keeper, B>>().unwrap();
    }

    pub fn datagrams_and_what_is_beside<const A: usize, const B: usize>() {
        datagrams::judges_forged::<At<again::Hand, A>, At<again::Arm, B>>().unwrap();
        datagrams::carries::<At<again::Hand, A>, At<again::Arm, B>>().unwrap();
        datagrams::arrives::<At<mixed::Player, A>, At<mixed::Game, B>>().unwrap();
    }

    pub fn a_group<const A: usize, const B: usize>() {
        group::passes_over::<At<swift::Exchange, A>, At<swift::Trader, B>>().unwrap();
    }
}

each_pair!(a_stream_and_its_calls);
each_pair!(datagrams_and_what_is_beside);
each_pair!(a_group);
