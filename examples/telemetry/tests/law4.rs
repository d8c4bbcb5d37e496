//! Law 4 for generated ends of a group: after set-up nothing is allocated for what is sent and received, by any thread of either
//! side; sessions, which have nothing to say then, may ask after each other.

#[path = "../../tests/counting.rs"]
mod counting;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use telemetry_example::types::plant::AlarmSeverity;
use telemetry_example::{Alarm, Allow, Identity, Place, Plant, ToViewer, Viewer};

const ALARMS: u16 = 400;
/// Of the sessions.
const OTHERS: u64 = 40;

#[test]
fn alarms_allocate_nothing_each() {
    let before = counting::allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(counting::allocations() > before, "allocations are counted");
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let port = 10_000 + std::process::id() as u16 % 20_000 * 2;
    let place = Place::new("127.0.0.1:0".parse().unwrap(), ([239, 255, 19, 5], port).into());
    let place = Place { interface: Some("lo".into()), ..place };
    let plant = Plant::open(&place, identity.clone(), Allow::OwnKey).unwrap();
    let (at, key) = (plant.local_addr(), identity.fingerprint());
    let viewing = thread::spawn(move || {
        let mut viewer = Viewer::join(at, Some("lo"), identity, key).unwrap();
        let mut counted = Vec::with_capacity(2);
        while let Some(adu) = viewer.recv().unwrap() {
            if let ToViewer::Alarm(alarm) = adu
                && (alarm.sensor == ALARMS || alarm.sensor == 2 * ALARMS)
            {
                counted.push(counting::allocations());
            }
        }
        counted
    });
    plant.wait_for_receivers(Duration::from_secs(20)).unwrap();
    for sensor in 0..3 * ALARMS {
        let text = fusewire_codec::types::Utf8String::new(&b"pressure is high"[..]).unwrap();
        let alarm = Alarm { time: 7, severity: AlarmSeverity::Stop, sensor, text };
        assert!(plant.send_alarm(&alarm).unwrap());
    }
    plant.finish(Duration::from_secs(20)).unwrap();
    let counted = viewing.join().unwrap();
    let found = counted[1] - counted[0];
    println!("{found} allocations for {ALARMS} alarms");
    assert!(found < OTHERS, "{found} for {ALARMS} alarms");
}
