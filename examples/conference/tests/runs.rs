//! The program itself, for some seconds, of which it judges nothing by the clock: of a minute it fails where less than eight tenths come in
//! time.

use std::process::Command;

#[test]
fn a_short_call_is_heard_and_seen_both_ways() {
    let ran = Command::new(env!("CARGO_BIN_EXE_conference-example")).arg("30").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // to the far end: in time 92.7 % of 1500 sounds, 92.4 % of 629 pictures; …
    let sums: Vec<&str> = out.lines().filter(|line| line.contains("in time")).collect();
    assert_eq!(sums.len(), 2, "{out}");
    for sum in sums {
        let mut shares =
            sum.split(' ').zip(sum.split(' ').skip(1)).filter(|(_, unit)| *unit == "%");
        let mut share = || shares.next().unwrap().0.parse::<f64>().unwrap();
        let (sounds, pictures) = (share(), share());
        assert!(sounds > 0.0 && pictures > 0.0, "{out}");
    }
}
