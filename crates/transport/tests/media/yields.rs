//! NADA that yields to what is more important in the path's queue ([`Config::queue_max`]), over a simulated bottleneck.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(second: u64) -> Instant {
    Instant::from_ms(1000 * second)
}

/// As of a conference whose sounds bear no more.
const YIELDS: Config = Config {
    rate_min: 386_000,
    rate_max: 3_500_000,
    queue_max: Some(Duration::from_millis(19)),
    ..CONFIG
};
const AS_THE_RFC_HAS_IT: Config = Config { queue_max: None, ..YIELDS };

/// A bottleneck with a queue of so long, which loses so many.
fn buffered(bits: u64, buffer: Duration, loss: f64) -> Impairments {
    let queue_bytes = (bits as f64 / 8.0 * buffer.as_secs_f64()) as usize;
    Impairments { queue_bytes, loss, ..bottleneck(bits) }
}

/// Of what share of this time, looked at in tenths of a second, all packets waited for longer than that.
fn crowded(call: &Call, from: Instant, to: Instant, most: Duration) -> f64 {
    let tenths = (to - from).as_millis() as u64 / 100;
    let least = |tenth: u64| {
        let begin = from + ms(100 * tenth);
        let within = call.came.iter().filter(|(at, ..)| (begin..begin + ms(100)).contains(at));
        within.map(|(.., took)| *took - DELAY).min()
    };
    let long = (0..tenths).filter(|tenth| least(*tenth).is_some_and(|least| least > most)).count();
    long as f64 / tenths as f64
}

/// Behind a step from 2.5 to 0.6 Mbit/s the queue of its own goes, however long it may become and whatever the path loses, and stays
/// short, and no more than a tenth of the rate is given for it.
#[test]
fn a_queue_of_its_own_goes_and_stays_away() {
    for (buffer, loss) in [300, 1000, 2000].into_iter().flat_map(|b| [(b, 0.005), (b, 0.01)]) {
        let (mut queues, mut shares) = (Vec::new(), Vec::new());
        for_each_seed_of(8, "a_queue_of_its_own_goes_and_stays_away", |_, random| {
            let mut link = Link::new(buffered(2_500_000, ms(buffer), loss), random.fork());
            let mut call = Call::new(YIELDS, DELAY, 0.0, random.fork());
            let mut now = Instant::ZERO;
            run(&mut call, None, &mut link, &mut now, at(20));
            *link.impairments_mut() = buffered(600_000, ms(buffer), loss);
            run(&mut call, None, &mut link, &mut now, at(60));
            queues.push(crowded(&call, at(20), at(60), ms(40)));
            shares.push(call.rate(at(30), at(60)) / 600_000.0);
        });
        println!("{buffer} ms, {loss}: crowded {queues:.2?}, {:.2} of the rate", mean(&shares));
        assert!(mean(&queues) < 0.3 && mean(&shares) > 0.9, "{queues:.2?}, {shares:.2?}");
    }
}

/// A TCP's queue does not go by what media yield: they try it now and then, and have no less than the half of what they have when they
/// do not, or of their share.
#[test]
fn anothers_queue_is_left_to_him() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for (bits, buffer) in [1_000_000, 2_000_000]
            .into_iter()
            .flat_map(|bits| [60, 100, 300, 1000].map(|buffer| (bits, buffer)))
        {
            let [own, without] = [YIELDS, AS_THE_RFC_HAS_IT].map(|config| {
                let mut shares = Vec::new();
                for_each_seed_of(4, "anothers_queue_is_left_to_him", |_, random| {
                    let mut link = Link::new(buffered(bits, ms(buffer), 0.0), random.fork());
                    let mut call = Call::new(config, DELAY, 0.0, random.fork());
                    let mut now = Instant::ZERO;
                    let mut flow = Flow::new(algorithm, DELAY, now);
                    run(&mut call, None, &mut link, &mut now, at(10));
                    run(&mut call, Some(&mut flow), &mut link, &mut now, at(100));
                    shares.push(call.rate(at(10), now) / bits as f64);
                });
                mean(&shares)
            });
            println!("{algorithm}, {bits} bit/s, {buffer} ms: {own:.2}, of {without:.2}");
            assert!(own > 0.5 * without.min(0.7), "{own} of {without}");
        }
    }
}

/// Where little or nothing was made for a while, a queue that comes with more is not taken for one that carries as little.
#[test]
fn a_pause_takes_nothing() {
    for (rest, jitter) in [(0, 0), (0, 30), (50_000, 30), (200_000, 30)] {
        let mut rates = Vec::new();
        for_each_seed_of(8, "a_pause_takes_nothing", |_, random| {
            let path = Impairments { jitter: ms(jitter), ..bottleneck(1_000_000) };
            let mut link = Link::new(path, random.fork());
            let mut call = Call::new(YIELDS, DELAY, 0.0, random.fork());
            let mut now = Instant::ZERO;
            run(&mut call, None, &mut link, &mut now, at(20));
            call.makes_at_most = rest;
            run(&mut call, None, &mut link, &mut now, at(25));
            call.makes_at_most = u64::MAX;
            run(&mut call, None, &mut link, &mut now, at(27));
            rates.push([call.rate(at(25), at(26)) / 1e6, call.rate(at(26), at(27)) / 1e6]);
        });
        println!("{rest} bit/s, {jitter} ms: {rates:.2?}");
        assert!(rates.iter().flatten().all(|rate| *rate > 0.7), "{rates:.2?}");
    }
}
