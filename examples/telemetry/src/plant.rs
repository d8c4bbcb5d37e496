//! The sender: samples ten times a second to whoever listens, and now and then an alarm that goes again until all have it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fusewire_codec::lws;
use fusewire_codec::types::{BitString, Utf8String};
use fusewire_session::group::{GroupKey, GroupSender};
use fusewire_stack::group::{Sender, SenderConfig, SenderEvent};

use crate::keys::{self, BODY_MAX, Keys};
use crate::types::plant::{Alarm, AlarmSeverity, Sample};
use crate::{Outcome, now_us};

/// Bytes a second below which a viewer that others wait for is let go (`floor_kbit`).
const FLOOR: u32 = 200_000 / 8;
const SAMPLES_EVERY: Duration = Duration::from_millis(100);
const ALARMS_EVERY: Duration = Duration::from_millis(1300);

/// A group and what seals for it.
struct Cast {
    sender: Sender,
    seals: GroupSender,
}

impl Cast {
    fn open(group: SocketAddr, from: IpAddr, reliable: bool, key: &GroupKey) -> Outcome<Cast> {
        let config = SenderConfig {
            interface: from.is_loopback().then(|| "lo".into()),
            local: (from, 0).into(),
            reliable,
            rate: Some(FLOOR),
            floor: FLOOR / 8,
            // Each message proves itself.
            nocheck: true,
            ..SenderConfig::new(group)
        };
        let seals = GroupSender::new(key, BODY_MAX, keys::data_pass())?;
        Ok(Cast { sender: Sender::open(&config)?, seals })
    }

    /// False: there is no room now.
    fn cast(&mut self, body: &[u8]) -> Outcome<bool> {
        let mut sealed = Ok(());
        let seals = &mut self.seals;
        let len = seals.message_len(body.len());
        let sent = self.sender.send(len, |_, bytes| sealed = seals.seal(body, bytes));
        sealed?;
        Ok(sent.is_some())
    }

    /// Lets in who asks: what it hears only those can read who were told the keys. Who is a member now, and whether one left.
    fn drive(&mut self) -> Outcome<usize> {
        self.sender.drive(Some(Duration::from_millis(5)))?;
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Asked { ask, .. } => {
                    self.sender.accept(ask)?;
                }
                SenderEvent::Left { why, .. } => println!("a viewer has left: {why:?}"),
                _ => {}
            }
        }
        Ok(self.sender.members().count())
    }
}

/// Casts for so long, once so many listen; how many alarms and samples there were.
pub fn run(
    groups: [SocketAddr; 2],
    from: IpAddr,
    keys: &Keys,
    viewers: usize,
    long: Duration,
) -> Outcome<[u64; 2]> {
    let mut alarms = Cast::open(groups[0], from, true, &keys.alarms())?;
    let mut samples = Cast::open(groups[1], from, false, &keys.samples())?;
    while alarms.drive()? < viewers {
        samples.drive()?;
    }
    let (begun, mut sent) = (Instant::now(), [0; 2]);
    while begun.elapsed() < long {
        if begun.elapsed() >= SAMPLES_EVERY * sent[1] as u32 {
            let n = sent[1] as f64;
            let valves = [0xf0, 0, 0, sent[1] as u8];
            let sample = Sample {
                time: now_us(),
                pressure: 1.0 + (n / 50.0).sin() / 10.0,
                temperature: 350.0 + (n / 80.0).cos(),
                valves: BitString::new(&valves[..], 0).ok_or("32 valves")?,
            };
            // What has no room is worth nothing by the time that there is.
            samples.cast(&lws::to_vec::<u32, _>(&sample)?)?;
            sent[1] += 1;
        }
        if begun.elapsed() >= ALARMS_EVERY * (sent[0] as u32 + 1) {
            let alarm = Alarm {
                time: now_us(),
                severity: AlarmSeverity::Danger,
                sensor: sent[0] as u16,
                text: Utf8String::new(&b"pressure is high"[..]).ok_or("a text")?,
            };
            if alarms.cast(&lws::to_vec::<u32, _>(&alarm)?)? {
                sent[0] += 1;
            }
        }
        alarms.drive()?;
        samples.drive()?;
    }
    alarms.sender.finish();
    samples.sender.finish();
    let end = Instant::now();
    while !alarms.sender.has_ended() && end.elapsed() < Duration::from_secs(10) {
        alarms.drive()?;
        samples.drive()?;
    }
    Ok(sent)
}
