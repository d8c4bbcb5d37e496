//! A conference over the course of RFC 8867, section 5.1.

use core::time::Duration;

use fusewire_service::playout::Mode;
use fusewire_service::profile::{Adapted, Adu, Fec, Machine, Order, Profile, Step};
use fusewire_testkit::{Impairments, for_each_seed_of};
use fusewire_transport::media::{Made, Yields};

use crate::rfc8867::{AUDIO_LEN, course, over_tcp, shares};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Both ends of a conference.
struct Conference;

const AUDIO_DEADLINE: Duration = ms(180);
const VIDEO_DEADLINE: Duration = ms(250);
const VIDEO_BITS: (u64, u64) = (100_000, 2_300_000);
const VIDEO_HZ: (f64, f64) = (5.0, 30.0);

impl Profile for Conference {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[
        Adu {
            priority: 0,
            deadline: Some(AUDIO_DEADLINE),
            order: Order::Newest,
            fec: Fec::Copy { distance: 3 },
            playout: Mode::Adaptive { least: ms(70), most: ms(110), late: 0.002 },
            fixed_bits: AUDIO_LEN as u64 * 8 * 50,
            ..Adu::as_it_comes("audio", 200)
        },
        Adu {
            deadline: Some(VIDEO_DEADLINE),
            order: Order::Newest,
            fec: Fec::Parity(&[
                Step { packets_max: 4, repairs: 0 },
                Step { packets_max: 8, repairs: 1 },
                Step { packets_max: 60, repairs: 2 },
            ]),
            adapted: Some(Adapted {
                bits: VIDEO_BITS,
                hz: VIDEO_HZ,
                order: &[Yields::Quality, Yields::Frequency],
            }),
            ..Adu::as_it_comes("video", 60_000)
        },
    ];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (150_000, 2_500_000);
}

/// Five seconds after each step 0.7 to 1.0 of the capacity; quality yields before frequency; and at least twice as many ADUs in
/// time as over TCP.
#[test]
fn the_course_is_followed_and_more_is_in_time_than_over_tcp() {
    for_each_seed_of(4, "the_course_is_followed_and_more_is_in_time_than_over_tcp", |_, random| {
        let path = Impairments::default();
        let (call, seconds) = course::<Conference>(&path, random);
        let shares = shares(&seconds);
        println!("of the capacity {shares:.2?}");
        assert!(shares.iter().all(|share| (0.7..1.01).contains(share)), "{shares:?}: {seconds:?}");
        let made = call.pushed.iter().map(Vec::len).sum::<usize>() as u64;
        let in_time = call.all_in_time();
        println!(
            "in time {:?} of {made}, {} late; lowest {:?}",
            call.in_time, call.late, call.lowest
        );
        assert!(in_time * 100 >= made * 95, "{in_time} of {made}");
        assert_eq!(call.wrong, 0, "the frequency yields while the quality can");
        assert!(call.lowest.0 < 40_000, "the quality has yielded: {:?}", call.lowest);
        let hz = VIDEO_HZ.1;
        let most = Made { bits: VIDEO_BITS.1 / hz as u64, hz, is_below: false };
        let tcp = over_tcp::<Conference>(&path, random, most);
        println!("over TCP {:?}, {} late", tcp.in_time, tcp.late);
        assert!(in_time >= 2 * tcp.all_in_time());
        // Tuned by hand for the least capacity it is in time, too: with less in it.
        let least = Made { bits: 400_000 / hz as u64, ..most };
        let tuned = over_tcp::<Conference>(&path, random, least);
        let (ours, theirs) = (call.bytes_in_time, tuned.bytes_in_time);
        println!("tuned {:?}, {:.2} of our bytes", tuned.in_time, theirs as f64 / ours as f64);
        assert!(theirs < ours);
    });
}
