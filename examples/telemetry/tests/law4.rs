//! Law 4 for generated ends of a group: after set-up nothing is allocated for what is sent and received. Sessions, which have
//! nothing to say then, ask after each other by threads of their own.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fusewire_testkit::counting::{self, Counting};
use telemetry_example::types::plant::AlarmSeverity;
use telemetry_example::{Alarm, Allow, Identity, Place, Plant, ToViewer, Viewer};

#[global_allocator]
static COUNTING: Counting = Counting;

const ALARMS: u16 = 400;
/// Of what grows until it is as large as it has to be: a queue doubles.
const GROWING: u64 = 16;

#[test]
fn alarms_allocate_nothing_each() {
    let before = counting::of_all();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(counting::of_all() > before, "allocations are counted");
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
                counted.push((counting::of_thread(), counting::of_all()));
            }
        }
        counted
    });
    plant.wait_for_receivers(Duration::from_secs(20)).unwrap();
    let mut sent = Vec::with_capacity(2);
    for sensor in 0..3 * ALARMS {
        if sensor == ALARMS || sensor == 2 * ALARMS {
            sent.push(counting::of_thread());
        }
        let text = fusewire_codec::types::Utf8String::new(&b"pressure is high"[..]).unwrap();
        let alarm = Alarm { time: 7, severity: AlarmSeverity::Stop, sensor, text };
        assert!(plant.send_alarm(&alarm).unwrap());
    }
    plant.finish(Duration::from_secs(20)).unwrap();
    let counted = viewing.join().unwrap();
    let of_sender = sent[1] - sent[0];
    let of_viewer = counted[1].0 - counted[0].0;
    println!("{of_sender} by the sender, {of_viewer} by the viewer, for {ALARMS} alarms");
    assert!(of_sender + of_viewer < GROWING, "{of_sender} and {of_viewer} for {ALARMS} alarms");
    let of_all = counted[1].1 - counted[0].1;
    assert!(of_all < u64::from(ALARMS), "{of_all} for {ALARMS} alarms");
}
