//! What `fusewire generate` chooses for `bulk.toml`, `rpc.toml` and `conference.toml`: a test compares it with what their crates
//! have.

use std::time::Duration;

use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adapted, Adu, Fec, Machine, Network, Order, Profile, Step};
use fusewire_service::{Congestion, Yields};

/// Blocks as they come, and what is handed over behind all of them.
pub struct Bulk;

impl Profile for Bulk {
    const NAME: &'static str = "bulk";
    const MACHINE: Machine = Machine::Tcp;
    const CONGESTION: Congestion = Congestion::Bbr;
    const SENDS: &'static [Adu] = &[
        Adu { order: Order::None, len_max: 65_548, ..Adu::new("Block", 0) },
        Adu { after: 1, len_max: 40, ..Adu::new("Done", 1) },
    ];
    const TAKES: &'static [Adu] = &[];
}

/// Requests, each a transaction.
pub struct Client;

/// The longest value, as it is marshalled.
const GOT_LEN: usize = 16_400;

impl Profile for Client {
    const NAME: &'static str = "rpc";
    const MACHINE: Machine = Machine::Xtp;
    const PACKS: bool = false;
    const SPIN: Duration = Duration::from_micros(200);
    const SENDS: &'static [Adu] = &[Adu {
        order: Order::None,
        deadline: Some(Duration::from_millis(250)),
        drops_late: false,
        len_max: 260,
        answered_by: Some(1),
        ..Adu::new("Get", 0)
    }];
    const TAKES: &'static [Adu] =
        &[Adu { order: Order::None, len_max: GOT_LEN, is_answer: true, ..Adu::new("Got", 1) }];
}

/// One side of a call.
pub struct Conference;

/// Their places among those that are sent.
pub(super) const SOUND: usize = 0;
pub(super) const PICTURE: usize = 1;

impl Profile for Conference {
    const NAME: &'static str = "conference";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            order: Order::Newest,
            deadline: Some(Duration::from_millis(180)),
            len_max: 168,
            priority: 0,
            fec: Fec::Copy { distance: 3 },
            playout: Mode::Fixed(Duration::from_micros(113_307)),
            fixed_bits: 67_200,
            hz: 50.0,
            loss_max: 0.005,
            jitter: Some(Duration::from_millis(5)),
            ..Adu::new("Audio", 0)
        },
        Adu {
            order: Order::Newest,
            deadline: Some(Duration::from_millis(250)),
            len_max: 65_556,
            fec: Fec::Parity(&[
                Step { packets_max: 4, repairs: 0 },
                Step { packets_max: 8, repairs: 1 },
                Step { packets_max: 17, repairs: 2 },
                Step { packets_max: 29, repairs: 3 },
                Step { packets_max: 46, repairs: 4 },
                Step { packets_max: 60, repairs: 5 },
            ]),
            adapted: Some(Adapted {
                bits: (150_000, 2_500_000),
                hz: (5.0, 30.0),
                order: &[Yields::Quality, Yields::Frequency],
            }),
            hz: 30.0,
            loss_max: 0.05,
            ..Adu::new("Video", 1)
        },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const MTU: usize = 1200;
    const RATES: (u64, u64) = (386_160, 3_549_600);
    const NETWORK: Network = Network {
        one_way: Duration::from_millis(60),
        jitter: Duration::from_millis(30),
        loss: 0.02,
        loss_burst: 2.0,
        rate: 75_000,
    };
}
