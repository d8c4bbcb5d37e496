//! The example is right, and the model can be asked about it.

use fusewire_advise_example::MaskParity;
use fusewire_calibration::{Effort, Error, add_reader, add_stage, calibrate};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stages::Crc32c;
use fusewire_model::{Pipeline, advise};

#[test]
fn words_are_masked_and_their_parity_is_kept() {
    let words: Vec<u64> = (0..37_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let src: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let masked: Vec<u8> = words.iter().flat_map(|word| (word ^ 77).to_le_bytes()).collect();
    for level in Level::available() {
        let mut dst = vec![0; src.len()];
        let parity = level.run(Integrated { stage: &MaskParity(77), src: &src, dst: &mut dst });
        assert_eq!(parity, words.iter().fold(0, |a, b| a ^ b), "{}", level.name());
        assert_eq!(dst, masked, "{}", level.name());
    }
}

#[test]
fn advice_knows_a_stage_that_was_added() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut machine = calibrate(Effort::SMOKE, &mut |_| {}).unwrap();
    let names = ["mask-parity", "internet"].map(str::to_owned).to_vec();
    let pipeline = Pipeline::Stages { names, level: Level::detect().name().to_owned() };
    assert!(advise(&machine, &pipeline, 1408.0).is_err(), "nobody knows it yet");
    add_stage(&mut machine, MaskParity(77), Effort::SMOKE).unwrap();
    let advice = advise(&machine, &pipeline, 1408.0).unwrap();
    assert!(advice.warm.predictions.iter().all(|said| said.cycles > 0.0), "{advice:?}");
    let again = add_stage(&mut machine, MaskParity(77), Effort::SMOKE);
    assert!(again.unwrap_err().to_string().contains("mask-parity"));
    // Calibration measures this one already; here it stands for a stage that it does not know.
    for level in &mut machine.levels {
        level.stages.retain(|stage| stage.name != "crc32c");
        level.pairs.retain(|pair| pair.names.iter().all(|name| name != "crc32c"));
    }
    // What only reads is measured as such, or not at all.
    assert!(matches!(add_stage(&mut machine, Crc32c, Effort::SMOKE), Err(Error::Reads(_))));
    add_reader(&mut machine, Crc32c, Effort::SMOKE).unwrap();
    let level = machine.level_named(Level::detect().name()).unwrap();
    assert!(!level.stages.last().unwrap().writes);
}
