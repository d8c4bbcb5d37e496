//! The whole way, short: what comes out is a machine, and the model knows every case.

use fusewire_calibration::{Check, Checked, Effort, calibrate, check, score};
use fusewire_model::{Cache, Implementation, Pipeline};

#[test]
fn a_machine_is_found_and_every_case_is_known_to_the_model() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut said = Vec::new();
    let machine = calibrate(Effort::SMOKE, &mut |part| said.push(part)).unwrap();
    machine.check().unwrap();
    assert!(machine.words.len() >= 2 && machine.transforms.len() >= 30, "{machine:?}");
    assert!(machine.words.iter().all(|words| words.runs.len() == 7 && words.stored.len() >= 4));
    assert!(machine.levels.iter().all(|level| level.stages.len() >= 7 && level.pairs.len() >= 14));
    assert!(machine.places[1..].iter().all(|place| !place.beyond.is_empty()));
    assert_eq!(said.last(), Some(&1.0));
    assert!(machine.levels.iter().all(|level| level.far.len() >= 4 * 3 * 4));
    let mut pipelines = Vec::new();
    for seed in [None, Some(1), Some(2)] {
        let Check { all, memory_cycles } =
            check(&machine, seed, Effort::SMOKE, &mut |_| {}).unwrap();
        assert!(memory_cycles > machine.places[0].latency_cycles, "{memory_cycles}");
        let score = score(&all);
        assert!(score.cases >= 40 * 12 && all.len() == score.cases * 3, "{}", score.cases);
        assert!(all.iter().all(|one| one.predicted > 0.0 && one.measured > 0.0));
        pipelines.push(all.into_iter().map(|one| one.pipeline).collect::<Vec<_>>());
    }
    assert!(pipelines[0] != pipelines[1] && pipelines[1] != pipelines[2]);
}

#[test]
fn the_score_is_that_of_the_cases() {
    let one = |bytes, implementation, predicted, measured| Checked {
        pipeline: Pipeline::Stages { names: vec!["copy".into()], level: "portable".into() },
        bytes,
        cache: Cache::Warm,
        implementation,
        predicted,
        measured,
    };
    use Implementation::{Blocked, Integrated, Sequential};
    // In the first case the model is right, in the second it takes what is half as fast.
    let all = [
        one(1, Integrated, 1.0, 1.0),
        one(1, Blocked, 2.2, 2.0),
        one(1, Sequential, 3.0, 4.0),
        one(2, Integrated, 1.0, 2.0),
        one(2, Blocked, 1.5, 1.0),
        one(2, Sequential, 3.0, 3.0),
    ];
    let score = score(&all);
    assert_eq!((score.cases, score.right, score.integration_loses), (2, 0.5, 0.5));
    assert_eq!(score.right_always, [0.5, 0.5, 0.0]);
    assert_eq!(score.worst_error, 0.5);
    assert!((score.mean_error - (0.0 + 0.1 + 0.25 + 0.5 + 0.5 + 0.0) / 6.0).abs() < 1e-12);
}
