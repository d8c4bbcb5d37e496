//! The program itself, for some seconds: it fails if an alarm is missing or late, and if the last viewer, whose path is bad, lacks
//! no sample.

use std::process::Command;

#[test]
fn every_viewer_has_every_alarm() {
    let ran = Command::new(env!("CARGO_BIN_EXE_telemetry-example")).arg("10").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    for viewer in 1..=3 {
        assert!(out.contains(&format!("viewer {viewer}: 7 of 7 alarms")), "{out}");
    }
    let samples: Vec<u64> = out
        .lines()
        .filter_map(|line| line.strip_suffix(" samples")?.rsplit_once("; "))
        .map(|(_, samples)| samples.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        matches!(samples[..], [first, second, last] if last > 0 && last < first.max(second)),
        "{out}"
    );
}
