//! The program itself, for some seconds: it fails if an alarm is missing or late.

use std::process::Command;

#[test]
fn every_viewer_has_every_alarm() {
    let ran = Command::new(env!("CARGO_BIN_EXE_telemetry-example")).arg("6").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    for viewer in 1..=3 {
        assert!(out.contains(&format!("viewer {viewer}: 4 of 4 alarms")), "{out}");
    }
}
