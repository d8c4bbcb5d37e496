//! A receiver: shows each second what came, and how old alarms were.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_codec::lws;
use fusewire_device::Device;
use fusewire_device::impair::{Impair, Rules};
use fusewire_session::group::{GroupKey, GroupOpened, GroupReceiver};
use fusewire_stack::Clock;
use fusewire_stack::group::{Receiver, ReceiverConfig, ReceiverEvent};

use crate::keys::{self, BODY_MAX, Keys};
use crate::types::plant::{Alarm, Sample};
use crate::{Outcome, now_us};

/// A group, and what opens what it is sent.
struct Heard {
    receiver: Receiver<Box<dyn Device>>,
    opens: GroupReceiver,
    body: Vec<u8>,
    is_over: bool,
}

impl Heard {
    /// At a group, with this share of its packets lost.
    fn open(group: SocketAddr, on_loopback: bool, loss: f64, key: GroupKey) -> Outcome<Heard> {
        let config = ReceiverConfig {
            interface: on_loopback.then(|| "lo".into()),
            nocheck: true,
            ..ReceiverConfig::new(group)
        };
        let mut device: Box<dyn Device> = Box::new(config.udp_device()?);
        if loss > 0.0 {
            let (clock, rules) = (Clock::new(), Rules { loss, ..Rules::NONE });
            let seed = u64::from(std::process::id());
            device = Box::new(Impair::new(device, Rules::NONE, rules, seed, move || clock.now()));
        }
        let mut opens = GroupReceiver::new(BODY_MAX, keys::data_pass());
        opens.learn(key)?;
        let receiver = Receiver::over(device, &config);
        Ok(Heard { receiver, opens, body: Vec::new(), is_over: false })
    }

    /// Takes what has come: each body, once it is known to be the plant's.
    fn drive(&mut self, name: u64, mut take: impl FnMut(&[u8]) -> Outcome) -> Outcome {
        self.receiver.drive(Some(Duration::from_millis(5)))?;
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Heard(heard) => self.receiver.join(&heard, name)?,
                ReceiverEvent::Finished { .. } | ReceiverEvent::Ended | ReceiverEvent::TimedOut => {
                    self.is_over = true;
                }
                ReceiverEvent::Dropped(why) => return Err(format!("let go: {why:?}").into()),
                _ => {}
            }
        }
        let (opens, body) = (&mut self.opens, &mut self.body);
        while let Some(opened) = self.receiver.recv(|_, message| opens.open(message, body)) {
            // Who forges is not heard.
            if let Ok(GroupOpened::Genuine) = opened {
                take(body)?;
            }
        }
        Ok(())
    }
}

/// What a viewer has had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub alarms: u64,
    pub samples: u64,
    /// The oldest alarm when it came.
    pub oldest: Duration,
}

/// Listens until the plant ends, and shows it.
pub fn run(
    groups: [SocketAddr; 2],
    name: u64,
    keys: &Keys,
    loss: f64,
    on_loopback: bool,
) -> Outcome<Seen> {
    let mut alarms = Heard::open(groups[0], on_loopback, loss, keys.alarms())?;
    let mut samples = Heard::open(groups[1], on_loopback, loss, keys.samples())?;
    let (mut seen, mut second, mut shown) = (Seen::default(), Instant::now(), Seen::default());
    let mut last = (0.0, 0.0);
    while !alarms.is_over {
        alarms.drive(name, |body| {
            let alarm = lws::from_bytes::<u32, Alarm<'_>>(body)?;
            let age = Duration::from_micros(now_us().saturating_sub(alarm.time));
            println!(
                "viewer {name}: alarm {} of {}: {} ms",
                alarm.sensor,
                alarm.text.as_str().unwrap_or("?"),
                age.as_millis()
            );
            (seen.alarms, seen.oldest) = (seen.alarms + 1, seen.oldest.max(age));
            Ok(())
        })?;
        samples.drive(name, |body| {
            let sample = lws::from_bytes::<u32, Sample<'_>>(body)?;
            last = (sample.pressure, sample.temperature);
            seen.samples += 1;
            Ok(())
        })?;
        if second.elapsed() >= Duration::from_secs(1) {
            second = Instant::now();
            let came = seen.samples - shown.samples;
            println!("viewer {name}: {came:2} samples, {:.3} bar, {:.1} K", last.0, last.1);
            shown = seen;
        }
    }
    Ok(seen)
}
