//! What `conference.toml` says, as constants: what the generator's plan has for it, by hand.

use core::time::Duration;

use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adapted, Adu, Fec, Machine, Order, Profile, Step};
use fusewire_transport::media::Yields;

/// Both ends.
pub struct Conference;

pub const AUDIO: usize = 0;
pub const VIDEO: usize = 1;
pub const AUDIO_HZ: u32 = 50;
/// Bytes of 20 ms of sound: 32 kbit/s.
pub const AUDIO_BYTES: usize = 80;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Of 100 pictures no more than 5 are lost where 2 of 100 packets are, two in a row.
const STEPS: &[Step] = &[
    Step { packets_max: 4, repairs: 0 },
    Step { packets_max: 8, repairs: 1 },
    Step { packets_max: 17, repairs: 2 },
    Step { packets_max: 29, repairs: 3 },
    Step { packets_max: 46, repairs: 4 },
    Step { packets_max: 63, repairs: 5 },
];

impl Profile for Conference {
    const NAME: &'static str = "conference";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            priority: 0,
            deadline: Some(ms(180)),
            order: Order::Newest,
            fec: Fec::Copy { distance: 3 },
            // 173 ms after it was sent where the way takes 60.
            playout: Mode::Fixed(ms(113)),
            fixed_bits: AUDIO_BYTES as u64 * 8 * AUDIO_HZ as u64,
            ..Adu::as_it_comes("Audio", 176)
        },
        Adu {
            deadline: Some(ms(250)),
            order: Order::Newest,
            fec: Fec::Parity(STEPS),
            adapted: Some(Adapted {
                bits: (150_000, 2_500_000),
                hz: (5.0, 30.0),
                order: &[Yields::Quality, Yields::Frequency],
            }),
            ..Adu::as_it_comes("Video", 65_600)
        },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (250_000, 3_000_000);
}
