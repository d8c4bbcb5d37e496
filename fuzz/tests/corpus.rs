//! Every kept input through its target, as an ordinary test: what a fuzzer once found stays found.

use std::fs;
use std::path::Path;

use fusewire_fuzz::targets::TARGETS;

#[test]
fn every_kept_input_runs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut folders: Vec<_> = fs::read_dir(&corpus)
        .expect("corpus/")
        .map(|entry| entry.expect("corpus/").file_name())
        .collect();
    folders.sort();
    let names: Vec<_> = TARGETS.iter().map(|t| t.name).collect();
    assert_eq!(folders, names, "a folder for each target, and no other");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let inputs: Vec<_> = fs::read_dir(&folder)
            .expect("its folder")
            .map(|entry| entry.expect("its folder").path())
            .collect();
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        for input in inputs {
            let bytes = fs::read(&input).expect("an input");
            let run = || (target.run)(&bytes);
            if std::panic::catch_unwind(run).is_err() {
                panic!("{} fails on {}", target.name, input.display());
            }
        }
    }
}

#[test]
fn every_seed_runs() {
    for target in TARGETS {
        for seed in (target.seeds)() {
            (target.run)(&seed);
        }
    }
}

/// Puts the seeds into the corpus, for `cargo xtask fuzz --keep` to
/// sift.
#[test]
#[ignore = "writes into corpus/: `cargo xtask fuzz --seeds` runs it"]
fn write_seeds() {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        fs::create_dir_all(&folder).expect("its folder");
        for (n, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{n}")), seed).expect("a seed");
        }
    }
}
