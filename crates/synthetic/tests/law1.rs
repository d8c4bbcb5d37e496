//! Law 1: one loop, and one pass a function, make what the oracle makes, for every kind of word that
//! this machine has.

use fusewire_synthetic::{Error, Function, Lanes, Program, oracle};

fn message(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect()
}

fn compare(lanes: Lanes, functions: &[Function], units: usize) {
    let mut fused = Program::new(lanes, functions).unwrap();
    let src = message(units * fused.unit_bytes());
    let (bytes, states) = oracle(lanes, functions, &src).unwrap();
    let mut dst = vec![0xA5; src.len()];
    fused.run(&src, &mut dst).unwrap();
    let wanted = if fused.writes() { bytes.clone() } else { vec![0xA5; src.len()] };
    assert!(dst == wanted, "{lanes:?} {functions:?}: bytes of the one loop");
    assert_eq!(fused.states(), states, "{lanes:?} {functions:?}: state of the one loop");
    fused.reset();
    assert!(fused.states().iter().all(|word| *word == 0));
    let mut work = src.clone();
    fused.run_in_place(&mut work).unwrap();
    assert!(work == bytes, "{lanes:?} {functions:?}: in place");

    let mut work = src.clone();
    let mut alone = Vec::new();
    for mut pass in Program::passes(lanes, functions).unwrap() {
        if pass.writes() {
            pass.run_in_place(&mut work).unwrap();
        } else {
            pass.read(&work).unwrap();
        }
        alone.extend(pass.states());
    }
    assert!(work == bytes, "{lanes:?} {functions:?}: bytes of the passes");
    assert_eq!(alone, states, "{lanes:?} {functions:?}: state of the passes");
}

/// The lanes of this machine; the test says which they are.
fn available() -> Vec<Lanes> {
    let lanes: Vec<_> = Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()).collect();
    let names: Vec<_> = lanes.iter().map(|lanes| lanes.name()).collect();
    println!("words covered: {}", names.join(", "));
    #[cfg(target_arch = "x86_64")]
    assert!(lanes.len() >= 2);
    lanes
}

#[test]
fn every_shape_makes_what_the_oracle_makes() {
    for lanes in available() {
        for state in [0, 1, 2, 3, 5, 8, 11, 13, 31, 32, 64] {
            for (instructions, block) in [(0, 1), (3, 1), (10, 2), (7, 4), (40, 8)] {
                let f = Function::new(state, instructions, block);
                for count in [1, 2, 3, 8] {
                    compare(lanes, &vec![f; count], 5);
                }
            }
        }
    }
}

#[test]
fn functions_of_different_shapes_are_joined() {
    for lanes in available() {
        let sum = Function { writes: false, ..Function::new(1, 1, 1) };
        let wide = Function::new(3, 9, 4);
        let narrow = Function::new(0, 5, 2);
        for functions in
            [vec![narrow, wide, sum], vec![sum, narrow], vec![sum], vec![sum, sum, wide, narrow]]
        {
            for units in [0, 1, 7, 64] {
                compare(lanes, &functions, units);
            }
        }
    }
}

#[test]
fn tables_are_looked_up() {
    for lanes in [Lanes::Scalar32, Lanes::Scalar64] {
        if !lanes.is_available() {
            continue;
        }
        for entries in [1, 16, 4096] {
            let f = Function { lookups: 3, table_entries: entries, ..Function::new(2, 6, 2) };
            compare(lanes, &[f], 9);
            compare(lanes, &[f, Function::new(12, 3, 1), f], 9);
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    if !Lanes::Scalar64.is_available() {
        return;
    }
    let new = |functions: &[Function]| Program::new(Lanes::Scalar64, functions).err().unwrap();
    let parameter = |function| match new(&[function]) {
        Error::Parameter { parameter, .. } => parameter,
        other => panic!("{other}"),
    };
    let plain = Function::new(0, 1, 1);
    assert!(matches!(new(&[]), Error::Functions(0)));
    assert!(matches!(new(&[plain; 65]), Error::Functions(65)));
    assert_eq!(parameter(Function::new(0, 1, 0)), "block_words");
    assert_eq!(parameter(Function::new(0, 1, 9)), "block_words");
    assert_eq!(parameter(Function::new(usize::MAX, 1, 1)), "state_words");
    assert_eq!(parameter(Function { writes: false, ..plain }), "state_words");
    assert_eq!(parameter(Function { lookups: 1, table_entries: 3, ..plain }), "table_entries");
    assert!(matches!(new(&[Function::new(0, 1, 7), Function::new(0, 1, 4)]), Error::Unit(28)));
    let mut program = Program::new(Lanes::Scalar64, &[Function::new(0, 1, 2)]).unwrap();
    assert!(matches!(program.run(&[0; 24], &mut [0; 24]), Err(Error::Length { unit: 16, .. })));
    assert!(matches!(program.run(&[0; 32], &mut [0; 16]), Err(Error::Length { .. })));
}
