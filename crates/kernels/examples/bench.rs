//! Prints what `fusewire bench kernels` measures: `cargo run --release -p fusewire-kernels --example
//! bench [--level NAME] [--sizes A,B,…]`.

use fusewire_kernels::Level;
use fusewire_kernels::measure::{Effort, SIZES, pipelines};

fn main() {
    let mut level = Level::detect();
    let mut sizes = SIZES.to_vec();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--level" => level = Level::from_name(&value).expect("a level of this CPU"),
            "--sizes" => {
                sizes =
                    value.split(',').map(|size| size.parse().expect("a size in bytes")).collect();
            }
            _ => panic!("unknown argument {argument}"),
        }
    }
    println!("GB/s at level {level}; int÷seq, int÷ref are ratios");
    println!(
        "{:40} {:8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "pipeline",
        "way",
        "bytes",
        "integ",
        "block",
        "sequ",
        "pointer",
        "ref",
        "int÷seq",
        "int÷ref"
    );
    pipelines(level, &sizes, Effort::FULL, &mut |line| {
        let gb = |rate: f64| rate / 1e9;
        println!(
            "{:40} {:8} {:9} {:7.2} {:7.2} {:7.2} {:7.2} {:7.2} {:7.2} {:7.2}",
            line.pipeline,
            line.direction.name(),
            line.size_bytes,
            gb(line.integrated),
            gb(line.blocked),
            gb(line.sequential),
            gb(line.function_pointers.unwrap_or(0.0)),
            gb(line.reference),
            line.integrated / line.sequential,
            line.integrated / line.reference
        );
    });
}
