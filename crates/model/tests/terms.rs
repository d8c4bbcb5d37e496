//! What the terms of the model say, each by itself, on the machine of the fixture.

use fusewire_model::machine::{Beyond, Moves};
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

/// The same through memory, where a link takes longer as more is stored.
#[test]
fn a_chain_through_state_in_memory_takes_what_its_links_take() {
    let of = |stored: &[(u32, f64)]| {
        let mut machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        machine.words.iter_mut().for_each(|words| words.stored = stored.to_vec());
        // The first has all registers.
        let pipeline = "avx2:state=15 > avx2:state=1,instructions=24,reads";
        let pipeline = parse(pipeline, "portable").unwrap();
        let way = Implementation::Integrated;
        predict(&machine, &pipeline, 8192.0, Cache::Warm, way).unwrap().cycles
    };
    let (all, more) = (of(&[(4, 8.0)]), of(&[(4, 1.0), (64, 16.0)]));
    assert!((24.0 * 8.0 * 256.0..24.0 * 8.0 * 256.0 * 1.05).contains(&all), "{all}");
    assert!((all * 0.7..all * 0.8).contains(&more), "{more} {all}");
}

/// Little waits abreast of little, and as much is left to wait for as the square of a chain; of what is longer than the
/// processor looks ahead each link more takes its own time.
#[test]
fn chains_of_results_grow_by_their_square_and_then_by_their_length() {
    let of = |changes: u32, window: f64| {
        let mut machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        for words in &mut machine.words {
            (words.window, words.issue_per_cycle, words.compute_per_cycle) = (window, 1e3, 1e3);
        }
        let pipeline = format!("scalar64:instructions={changes}");
        let pipeline = parse(&pipeline, "portable").unwrap();
        let way = Implementation::Integrated;
        let long = |bytes| predict(&machine, &pipeline, bytes, Cache::Warm, way).unwrap().cycles;
        (long(16384.0) - long(8192.0)) / 1024.0
    };
    let short = of(800, 10_000.0) / of(400, 10_000.0);
    assert!((3.5..4.0).contains(&short), "{short}");
    let long = of(2000, 80.0) / of(1000, 80.0);
    assert!((2.0..2.2).contains(&long), "{long}");
    // No more than one turn behind the other.
    assert!(of(1000, 1.0) < 1000.0 * 1.02, "{}", of(1000, 1.0));
}

/// A loop whose instructions compute on the ports that its own index and branch want takes those too.
#[test]
fn the_loop_itself_computes_beside_words_in_general_registers() {
    let turn = |words: &str, bytes: f64| {
        let mut machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        machine.words.iter_mut().for_each(|words| words.issue_per_cycle = 100.0);
        let pipeline = parse(&format!("{words}:state=8"), "portable").unwrap();
        let way = Implementation::Integrated;
        let cycles = |turns| predict(&machine, &pipeline, turns * bytes, Cache::Warm, way);
        (cycles(400.0).unwrap().cycles - cycles(200.0).unwrap().cycles) / 200.0
    };
    assert!((2.5..2.6).contains(&turn("scalar64", 8.0)), "{}", turn("scalar64", 8.0));
    assert!((2.0..2.1).contains(&turn("avx2", 32.0)), "{}", turn("avx2", 32.0));
}

/// The fixture's passes begin in 20 cycles alone; three of them in 30, or 40 where they are alike.
#[test]
fn where_passes_follow_each_other_each_begins_as_that_was_measured() {
    let start = |pipeline: &str| {
        let machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        let pipeline = parse(pipeline, "portable").unwrap();
        let of = |turns: f64| {
            let bytes = turns * 8.0;
            predict(&machine, &pipeline, bytes, Cache::Warm, Implementation::Sequential).unwrap()
        };
        let turn = (of(512.0).cycles - of(256.0).cycles) / 256.0;
        of(16.0).cycles - 16.0 * turn
    };
    for (pipeline, expected) in [
        ("scalar64:state=8", 20.0),
        ("scalar64:state=8 * 2", 2.0 * 20.0),
        ("scalar64:state=8 * 4", 4.0 * 40.0),
        ("scalar64:state=8 * 2 > scalar64:state=7", 3.0 * 30.0),
    ] {
        let found = start(pipeline);
        assert!((found - expected).abs() < 1e-6, "{pipeline}: {found}, not {expected}");
    }
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

/// Memory that answers later costs more in proportion, and caches as much as before.
#[test]
fn memory_costs_in_proportion_to_its_latency() {
    let machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
    let memory = machine.places.last().unwrap().latency_cycles;
    let slower = machine.clone().with_memory(2.0 * memory);
    let cycles = |machine: &Machine, pipeline: &str, cache| {
        let pipeline = parse(pipeline, "portable").unwrap();
        predict(machine, &pipeline, 4096.0, cache, Implementation::Integrated).unwrap().cycles
    };
    for pipeline in ["scalar64:state=1", "copy > swap32"] {
        let [near, far] = [Cache::Warm, Cache::Cold].map(|cache| cycles(&machine, pipeline, cache));
        assert!(far > near, "{pipeline}");
        assert!((cycles(&slower, pipeline, Cache::Warm) - near).abs() < 1e-6, "{pipeline}");
        let later = cycles(&slower, pipeline, Cache::Cold) - near;
        assert!((later / (far - near) - 2.0).abs() < 0.2, "{pipeline}: {later} {}", far - near);
    }
}

/// Where the first pass only reads, strips cost what that was measured to cost; otherwise that counts for nothing.
#[test]
fn a_pass_that_leads_and_only_reads_has_a_cost_of_its_own() {
    let of = |cycles_per_byte: f64, pipeline: &str| {
        let mut machine: Machine = serde_json::from_str(include_str!("machine.json")).unwrap();
        machine.places.last_mut().unwrap().beyond.push(Beyond {
            moves: Moves::Lead,
            word_bytes: 8,
            bytes: 4096.0,
            near_cycles_per_byte: 1e-4,
            instructions_per_byte: 1.0,
            cycles_per_byte,
        });
        let pipeline = parse(pipeline, "portable").unwrap();
        predict(&machine, &pipeline, 4096.0, Cache::Cold, Implementation::Blocked).unwrap().cycles
    };
    let more = |pipeline: &str| of(51.0, pipeline) - of(50.0, pipeline);
    assert!((more("scalar64:state=1,reads > scalar64:state=1") / 4096.0 - 1.0).abs() < 0.05);
    assert!(more("scalar64:state=1 > scalar64:state=1,reads").abs() < 1e-9);
}
