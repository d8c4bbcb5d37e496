//! The program itself, for some seconds.

use std::process::Command;

#[test]
fn a_short_call_is_heard_and_seen_both_ways() {
    let ran = Command::new(env!("CARGO_BIN_EXE_conference-example")).arg("6").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // to the far end: in time 99.1 % of 300 sounds, 98.0 % of 171 pictures; …
    let sums: Vec<&str> = out.lines().filter(|line| line.contains("in time")).collect();
    assert_eq!(sums.len(), 2, "{out}");
    for sum in sums {
        let mut shares =
            sum.split(' ').zip(sum.split(' ').skip(1)).filter(|(_, unit)| *unit == "%");
        let mut share = || shares.next().unwrap().0.parse::<f64>().unwrap();
        let (sounds, pictures) = (share(), share());
        // How many come in time is for the simulated course: this machine may have others to serve.
        assert!(sounds > 0.0 && pictures > 0.0, "{out}");
    }
}
