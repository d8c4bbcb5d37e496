//! Prints what `fusewire bench kernels` measures: `cargo run --release -p fusewire-kernels --example
//! bench -- [--level NAME] [--sizes A,B,…] [--only TEXT]`.

use fusewire_kernels::Level;
use fusewire_kernels::measure::{Effort, Plan, SIZES, checks, pipelines};

fn main() {
    let mut level = Level::detect();
    let mut sizes = SIZES.to_vec();
    let mut only = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--level" => level = Level::from_name(&value).expect("a level of this CPU"),
            "--sizes" => {
                let size = |size: &str| size.parse().expect("a size in bytes");
                sizes = value.split(',').map(size).collect();
            }
            "--only" => only = value,
            _ => panic!("unknown argument {argument}"),
        }
    }
    println!("GB/s at level {level}; int÷seq, int÷ref are ratios");
    println!(
        "{:46} {:8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "pipeline",
        "way",
        "bytes",
        "integ",
        "block",
        "sequ",
        "pointer",
        "words",
        "ref",
        "int÷seq",
        "int÷ref"
    );
    let plan = Plan {
        level,
        sizes: &sizes,
        effort: Effort::FULL,
        wanted: &|name| name.contains(&only),
        begins: &|_, _| {},
    };
    pipelines(&plan, &mut |line| {
        let gb = |rate: f64| format!("{:7.2}", rate / 1e9);
        let maybe = |rate: Option<f64>| rate.map_or("      -".to_owned(), gb);
        let ratio = line.reference.map(|reference| 1e9 * line.integrated / reference);
        println!(
            "{:46} {:8} {:9} {} {} {} {} {} {} {:7.2} {}",
            line.pipeline,
            line.direction.name(),
            line.size_bytes,
            gb(line.integrated),
            gb(line.blocked),
            gb(line.sequential),
            maybe(line.function_pointers),
            maybe(line.word_filters),
            maybe(line.reference),
            line.integrated / line.sequential,
            maybe(ratio)
        );
    });
    println!("{:8} {:10} {:>9} {:>7}", "function", "form", "bytes", "GB/s");
    checks(&plan, &mut |line| {
        let rate = line.rate / 1e9;
        println!("{:8} {:10} {:9} {rate:7.2}", line.function, line.form, line.size_bytes);
    });
}
