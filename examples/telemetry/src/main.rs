//! A plant and its viewers, over generated ends: alarms that must arrive, and samples that may not. In one process, or on as many
//! hosts as there are viewers.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fusewire_codec::types::{BitString, Utf8String};
use fusewire_device::Device;
use fusewire_device::impair::{Impair, Rules};
use fusewire_service::group;
use fusewire_stack::Clock;
use telemetry_example::types::plant::AlarmSeverity;
use telemetry_example::{
    Alarm, Allow, Event, Fingerprint, Identity, Place, Plant, Sample, ToViewer, Viewer,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "telemetry-example [SECONDS] | plant ADDRESS SECONDS | viewer ADDRESS KEY\n\
    ADDRESS is one of the plant's host and a port, and not 0.0.0.0: viewers take the group from no other";
/// Alone, how many look at it, and what share of packets the last of them loses.
const VIEWERS: usize = 3;
const LOSS: f64 = 0.1;
const SAMPLES_EVERY: Duration = Duration::from_millis(100);
const ALARMS_EVERY: Duration = Duration::from_millis(1300);
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let identity = Arc::new(Identity::ephemeral()?);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plant", at, seconds] => {
            let place = Place::new(at.parse()?, ([239, 255, 19, 4], 9300).into());
            let key = identity.fingerprint();
            let plant = Plant::open(&place, identity, Allow::Public)?;
            println!("viewer {} {key}", plant.local_addr());
            plant.wait_for_receivers(Duration::MAX)?;
            run(&plant, Duration::from_secs(seconds.parse()?))?;
            Ok(plant.finish(PATIENCE)?)
        }
        ["viewer", at, key] => {
            let (at, key): (SocketAddr, Fingerprint) = (at.parse()?, key.parse()?);
            let interface = at.ip().is_loopback().then_some("lo");
            let seen = view(Viewer::join(at, interface, identity, key)?, "")?;
            println!("{} alarms, {} samples", seen.alarms, seen.samples);
            Ok(())
        }
        [] => alone(identity, 60),
        [seconds] => alone(identity, seconds.parse().map_err(|_| USAGE)?),
        _ => Err(USAGE.into()),
    }
}

/// The wall's clock.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// Samples ten times a second, and now and then an alarm; how many of each.
fn run(plant: &Plant, long: Duration) -> Outcome<[u64; 2]> {
    let (begun, mut alarms, mut samples) = (Instant::now(), 0, 0);
    while begun.elapsed() < long {
        let n = samples as f64;
        let valves = [0xf0, 0, 0, samples as u8];
        // What has no room is worth nothing by the time that there is.
        plant.send_sample(&Sample {
            time: now_us(),
            pressure: 1.0 + (n / 50.0).sin() / 10.0,
            temperature: 350.0 + (n / 80.0).cos(),
            valves: BitString::new(&valves[..], 0).ok_or("32 valves")?,
        })?;
        samples += 1;
        if begun.elapsed() >= ALARMS_EVERY * (alarms + 1) {
            let alarm = Alarm {
                time: now_us(),
                severity: AlarmSeverity::Danger,
                sensor: alarms as u16,
                text: Utf8String::new(&b"pressure is high"[..]).ok_or("a text")?,
            };
            if !plant.send_alarm(&alarm)? {
                println!("an alarm, and nobody is there");
            }
            alarms += 1;
        }
        loop {
            let next = SAMPLES_EVERY * samples;
            match plant.next_event(next.saturating_sub(begun.elapsed()))? {
                Some(Event::Joined { peer }) => println!("{peer} has come"),
                Some(Event::Left { peer, why }) => println!("{peer} has left: {why:?}"),
                None => break,
            }
        }
    }
    Ok([alarms.into(), samples.into()])
}

/// What a viewer has had.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    alarms: u64,
    samples: u64,
    /// The oldest alarm when it came, by the wall's clock.
    oldest: Duration,
}

/// Shows each alarm, and each second how many samples have come and what the last says.
fn view(mut viewer: Viewer, name: &str) -> Outcome<Seen> {
    let (mut seen, mut second, mut shown) = (Seen::default(), Instant::now(), 0);
    loop {
        match viewer.recv()? {
            Some(ToViewer::Alarm(alarm)) => {
                // Whoever has the group's keys could have written it.
                let text = alarm.text.as_str().unwrap_or("?").escape_debug();
                let wall = Duration::from_micros(now_us().saturating_sub(alarm.time));
                println!(
                    "viewer {name}: alarm {} of {text}: {} ms",
                    alarm.sensor,
                    wall.as_millis()
                );
                (seen.alarms, seen.oldest) = (seen.alarms + 1, seen.oldest.max(wall));
            }
            Some(ToViewer::Sample(Sample { pressure, temperature, .. })) => {
                seen.samples += 1;
                if second.elapsed() >= Duration::from_secs(1) {
                    let came = seen.samples - shown;
                    println!(
                        "viewer {name}: {came:2} samples, {pressure:.3} bar, {temperature:.1} K"
                    );
                    (second, shown) = (Instant::now(), seen.samples);
                }
            }
            None => return Ok(seen),
        }
    }
}

/// All of it in this process; the last viewer's path is bad.
fn alone(identity: Arc<Identity>, seconds: u64) -> Outcome {
    let port = 10_000 + std::process::id() as u16 % 20_000 * 2;
    let place = Place::new("127.0.0.1:0".parse()?, ([239, 255, 19, 4], port).into());
    let place = Place { interface: Some("lo".into()), ..place };
    let plant = Plant::open(&place, identity.clone(), Allow::OwnKey)?;
    let (at, key) = (plant.local_addr(), identity.fingerprint());
    let viewers = (1..=VIEWERS).map(|name| {
        let (identity, loss) = (identity.clone(), if name == VIEWERS { LOSS } else { 0.0 });
        thread::spawn(move || view(on_path(at, identity, key, loss)?, &name.to_string()))
    });
    let viewers: Vec<_> = viewers.collect();
    let begun = Instant::now();
    while plant.receivers() < VIEWERS {
        if begun.elapsed() > PATIENCE {
            return Err("not all viewers have come".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let [alarms, samples] = run(&plant, Duration::from_secs(seconds))?;
    plant.finish(PATIENCE)?;
    let mut came = Vec::new();
    for (name, viewer) in (1..).zip(viewers) {
        let seen = viewer.join().map_err(|_| "a viewer has panicked")??;
        println!(
            "viewer {name}: {} of {alarms} alarms, the oldest {} ms; {} of {samples} samples",
            seen.alarms,
            seen.oldest.as_millis(),
            seen.samples
        );
        if seen.alarms != alarms || seen.oldest > Duration::from_secs(1) {
            return Err("an alarm is missing, or was late".into());
        }
        came.push(seen.samples);
    }
    let most = came.iter().max();
    match came.last() {
        None | Some(0) => Err("the last viewer had no sample".into()),
        Some(last) if came.contains(&0) || Some(last) == most => {
            Err("the last viewer, on a bad path, lacks no sample that another had; or one had none"
                .into())
        }
        Some(_) => Ok(()),
    }
}

/// A viewer on this host, with this share of its packets lost.
fn on_path(
    at: SocketAddr,
    identity: Arc<Identity>,
    key: Fingerprint,
    loss: f64,
) -> Outcome<Viewer> {
    let rules = Rules { loss, ..Rules::NONE };
    let viewer: group::Receiver<Viewer> =
        group::Receiver::over(at, Some("lo"), identity, key, |config| {
            let (device, clock): (Box<dyn Device>, _) =
                (Box::new(config.udp_device()?), Clock::new());
            Ok(Box::new(Impair::new(device, Rules::NONE, rules, 19, move || clock.now())))
        })?;
    Ok(viewer.into())
}
