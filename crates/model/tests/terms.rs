//! What the terms of the model say, each by itself, on the machine of the fixture.

use fusewire_model::{Cache, Implementation, Machine, parse, predict};

fn cycles(pipeline: &str, implementation: Implementation) -> f64 {
    let machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
    let pipeline = parse(pipeline, "portable").unwrap();
    predict(&machine, &pipeline, 4096.0, Cache::Warm, implementation).unwrap().cycles
}

#[test]
fn what_only_reads_changes_state_in_memory_at_every_step() {
    let of = |steps: u32| {
        let pipeline = format!("scalar64:state=64,instructions={steps},reads");
        cycles(&pipeline, Implementation::Integrated)
    };
    let ratio = of(640) / of(64);
    assert!((8.0..=10.5).contains(&ratio), "{ratio}");
}

/// On a processor of which an addition takes two cycles a chain takes twice as long, and what is no chain as long.
#[test]
fn a_chain_through_state_takes_what_its_links_take() {
    let of = |chained_cycles: f64, pipeline: &str| {
        let mut machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        machine.words.iter_mut().for_each(|words| words.chained_cycles = chained_cycles);
        let pipeline = parse(pipeline, "portable").unwrap();
        let way = Implementation::Integrated;
        predict(&machine, &pipeline, 8192.0, Cache::Warm, way).unwrap().cycles
    };
    let ratio = |pipeline: &str| of(2.0, pipeline) / of(1.0, pipeline);
    let chain = ratio("avx2:state=1,instructions=24,reads");
    assert!((1.9..2.1).contains(&chain), "{chain}");
    let apart = ratio("avx2:block=8,instructions=0");
    assert!((1.0..1.01).contains(&apart), "{apart}");
}

#[test]
fn instructions_that_wait_grow_with_the_square_of_a_chain() {
    let of = |lookups: u32| {
        let pipeline = format!("scalar64:instructions=1,lookups={lookups},table=16384");
        cycles(&pipeline, Implementation::Integrated)
    };
    let ratio = of(64) / of(32);
    assert!((3.0..4.1).contains(&ratio), "{ratio}");
}

/// Four tables that the first level holds one of: each pass finds a part of its own pushed out.
#[test]
fn tables_of_separate_passes_push_each_other_out() {
    let of = |count: u32| {
        let pipeline = format!("scalar64:instructions=1,lookups=2,table=32768 * {count}");
        cycles(&pipeline, Implementation::Blocked)
    };
    assert!(of(4) > of(1) * 4.0 * 1.05, "{} {}", of(4), of(1));
}
