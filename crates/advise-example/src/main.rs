//! Measures the stage of this crate, and says whether it should run in one loop with a byte swap and a
//! checksum. `fusewire model calibrate` comes first.
#![forbid(unsafe_code)]

use std::error::Error;

use fusewire_advise_example::MaskParity;
use fusewire_calibration::{Effort, add_stage, kept};
use fusewire_kernels::Level;
use fusewire_kernels::stage::Stage;
use fusewire_model::{Machine, Pipeline, advise};

fn main() -> Result<(), Box<dyn Error>> {
    let path = kept().ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}: run `fusewire model calibrate`", path.display()))?;
    let mut machine: Machine = serde_json::from_str(&text)?;
    machine.check()?;
    add_stage(&mut machine, MaskParity(0x5bd1_e995), Effort::STAGE)?;
    let names = ["swap32", MaskParity::NAME, "internet"].map(str::to_owned).to_vec();
    let pipeline = Pipeline::Stages { names, level: Level::detect().name().to_owned() };
    let advice = advise(&machine, &pipeline, 1408.0)?;
    for comparison in [&advice.warm, &advice.cold] {
        println!("1408 bytes {}:", comparison.cache.in_words());
        comparison.why.iter().for_each(|sentence| println!("  {sentence}"));
    }
    Ok(())
}
