//! The channel that loses packets in bursts: Gilbert's, with two states. In one every packet arrives, in the other
//! every one is lost.
//!
//! `p` is the share of lost packets and `b` how many are lost in a row in the mean: a loss goes on with probability
//! 1 - 1/b, and begins behind an arrival with p / (b (1 - p)).

/// A channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    loss: f64,
    /// A loss behind an arrival.
    begins: f64,
    /// A loss behind a loss.
    lasts: f64,
}

impl Channel {
    /// One that loses this share of packets, so many in a row in the mean.
    pub fn new(loss: f64, burst: f64) -> Channel {
        let loss = loss.clamp(0.0, 0.999);
        let ends = 1.0 / burst.max(1.0);
        let begins = loss * ends / (1.0 - loss);
        // Independent losses are those whose bursts are no longer than chance makes them.
        let (begins, lasts) = match burst <= 1.0 || begins > 1.0 {
            true => (loss, loss),
            false => (begins, 1.0 - ends),
        };
        Channel { loss, begins, lasts }
    }

    /// One whose losses last so long in the mean, of packets that are so far apart. A loss that is not over lasts on as likely as
    /// before, whatever has passed of it.
    pub fn timed(loss: f64, burst_ms: f64, apart_ms: f64) -> Channel {
        let loss = loss.clamp(0.0, 0.999);
        // Losses end at a rate of 1/b, and begin at p / (b (1 - p)): the channel forgets at the sum of both.
        let lasts = loss + (1.0 - loss) * decay(apart_ms / (burst_ms.max(1e-3) * (1.0 - loss)));
        Channel { loss, begins: loss * (1.0 - lasts) / (1.0 - loss), lasts }
    }

    /// The share of ADUs that are lost, of `data` packets with `parity` packets behind them of which any as many as are
    /// lost restore it.
    pub fn adu_loss(&self, data: u16, parity: u8) -> f64 {
        let most = usize::from(parity);
        // By how many are lost, up to `most`: with the last packet arrived, and with it lost.
        let mut arrived = vec![0.0; most + 1];
        let mut lost = vec![0.0; most + 1];
        arrived[0] = 1.0 - self.loss;
        if most > 0 {
            lost[1] = self.loss;
        }
        for _ in 1..u32::from(data) + u32::from(parity) {
            for count in (0..=most).rev() {
                let goes_on = match count {
                    0 => 0.0,
                    _ => arrived[count - 1] * self.begins + lost[count - 1] * self.lasts,
                };
                arrived[count] =
                    arrived[count] * (1.0 - self.begins) + lost[count] * (1.0 - self.lasts);
                lost[count] = goes_on;
            }
        }
        let kept: f64 = arrived.iter().chain(&lost).sum();
        (1.0 - kept).clamp(0.0, 1.0)
    }

    /// The share of packets that are lost with the copy that goes `distance` packets later.
    pub fn copy_loss(&self, distance: u8) -> f64 {
        self.loss * self.again(u32::from(distance))
    }

    /// The share of packets that are lost with both of two copies behind them, `distance` apart.
    pub fn again(&self, distance: u32) -> f64 {
        let turn = self.lasts - self.begins;
        let kept = (0..distance).fold(1.0, |all, _| all * turn);
        self.loss + (1.0 - self.loss) * kept
    }

    /// The share of ADUs with which more than `run` in a row begin to be lost, of ADUs that are each lost with this
    /// probability, one behind the other, `packets` long.
    pub fn run_loss(&self, adu_loss: f64, packets: u16, run: u32) -> f64 {
        // A burst goes on into the next ADU as it does into the next packet; behind one that is longer than a
        // burst, losses are as good as new.
        let lasts =
            if packets <= 1 { self.lasts } else { adu_loss.max(self.lasts * adu_loss.sqrt()) };
        adu_loss * lasts.powi(run.min(i32::MAX as u32) as i32)
    }
}

/// e to the power of `-x`, by repeated squares, which every machine rounds alike.
fn decay(x: f64) -> f64 {
    const SQUARES: u32 = 20;
    let base = (1.0 - x / f64::from(1_u32 << SQUARES)).max(0.0);
    (0..SQUARES).fold(base, |power, _| power * power)
}

/// Steps by which times on the way are looked at.
const STEPS: u32 = 200;
/// What is less is none.
const NONE: f64 = 1e-9;
/// More that come within the jitter, by the packets of each, are taken for as many: nearly all of them are overtaken.
const WITHIN_MAX: f64 = 2e3;

/// ADUs of which the newest count: one is sent each interval, and each takes up to the jitter longer than the fastest, whatever others
/// take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overtaking {
    interval_ms: f64,
    jitter_ms: f64,
    packets: i32,
}

impl Overtaking {
    /// Of so many packets, so many of them a second; `None`: none overtakes another, or nobody says how often they come.
    pub fn new(hz: f64, jitter_ms: f64, packets: u16) -> Option<Overtaking> {
        let interval_ms = (1000.0 / hz).max(jitter_ms / WITHIN_MAX / f64::from(packets.max(1)));
        (hz > 0.0 && hz.is_finite() && interval_ms < jitter_ms).then_some(Overtaking {
            interval_ms,
            jitter_ms,
            packets: packets.max(1).into(),
        })
    }

    /// The share of ADUs that have come so long after the fastest could have: a whole one has with the last of its packets.
    fn came(&self, ms: f64) -> f64 {
        (ms / self.jitter_ms).clamp(0.0, 1.0).powi(self.packets)
    }

    /// The probability that of ADUs of which the first is sent now, and all that follow, none has come by then.
    fn none_came(&self, ms: f64) -> f64 {
        let mut none = 1.0;
        for n in 0u32.. {
            let came = self.came(ms - f64::from(n) * self.interval_ms);
            if came < NONE || none < NONE {
                break;
            }
            none *= 1.0 - came;
        }
        if none < NONE { 0.0 } else { none }
    }

    /// The share of ADUs with which so many in a row begin that are overtaken; of one: of those that are.
    pub fn share(&self, run: u32) -> f64 {
        // All of them are if they come behind the first that comes of those that follow.
        let last = self.jitter_ms - f64::from(run) * self.interval_ms;
        if last <= 0.0 {
            return 0.0;
        }
        // Before the one nearly none has come, and by the other nearly surely one.
        let until = |is_over: &dyn Fn(f64) -> bool| {
            let (mut from, mut to) = (0.0, last);
            for _ in 0..30 {
                let ms = (from + to) / 2.0;
                if is_over(self.none_came(ms)) { to = ms } else { from = ms }
            }
            (from, to)
        };
        let from = until(&|none| none < 1.0 - 1e-6).0;
        let to = until(&|none| none == 0.0).1;
        let behind = |ms: f64| {
            let mut all = 1.0;
            for n in 1..=run {
                all *= 1.0 - self.came(ms + f64::from(n) * self.interval_ms);
                if all < NONE {
                    return 0.0;
                }
            }
            all
        };
        let step = (to - from) / f64::from(STEPS);
        let (mut share, mut before) = (0.0, 1.0);
        for n in 1..=STEPS {
            let none = self.none_came(from + f64::from(n) * step);
            share += (before - none) * behind(from + (f64::from(n) - 0.5) * step);
            before = none;
        }
        share
    }
}

/// The share of ADUs with which more than `run` in a row begin to be lost by the network, of which the first are lost with `lost`
/// for so many, or to be overtaken, or first the one and then the other.
pub fn run_share(run: u32, lost: impl Fn(u32) -> f64, newer: Option<Overtaking>) -> f64 {
    let all = lost(run);
    let Some(newer) = newer else { return all };
    let mut share = all + newer.share(run.saturating_add(1));
    for first in 1..=run.min(RUN_MAX) {
        // In a row: so many of them the network's, and the others overtaken, in either order.
        let one = lost(first - 1);
        let mixed = 2.0 * one * newer.share(run - first + 1);
        share += mixed;
        if mixed < NONE && one < NONE {
            break;
        }
    }
    share.min(1.0)
}

/// Of longer runs the mixed are as good as none.
const RUN_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as draws by a seed say, of one and of many packets, and of so many in a row.
    #[test]
    fn what_is_overtaken_is_what_draws_say() {
        let mut state = 19u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        for packets in [1u16, 3, 10] {
            for (hz, jitter) in [(30.0, 30.0), (60.0, 30.0), (100.0, 30.0), (500.0, 50.0)] {
                let came: Vec<f64> = (0..20_000)
                    .map(|n| {
                        let last = (0..packets).map(|_| draw()).fold(0.0, f64::max);
                        f64::from(n) * 1000.0 / hz + last * jitter
                    })
                    .collect();
                let is_overtaken =
                    |n: usize| came[n + 1..came.len().min(n + 60)].iter().any(|at| *at < came[n]);
                let is_overtaken: Vec<bool> = (0..came.len()).map(is_overtaken).collect();
                for run in 1..=4u32 {
                    let rows = is_overtaken.windows(run as usize);
                    let drawn = rows.filter(|row| row.iter().all(|one| *one)).count() as f64;
                    let drawn = drawn / came.len() as f64;
                    let newer = Overtaking::new(hz, jitter, packets);
                    let found = newer.map_or(0.0, |newer| newer.share(run));
                    let what = format!("{hz} {jitter} {packets} {run}: {found} and {drawn}");
                    assert!((found - drawn).abs() < 0.012, "{what}");
                    assert!(found > 0.0 || drawn == 0.0, "{what}");
                }
            }
        }
        for (hz, jitter) in [(0.0, 30.0), (f64::INFINITY, 30.0), (1000.0 / 30.0, 29.0), (1.0, 0.0)]
        {
            assert_eq!(Overtaking::new(hz, jitter, 1), None);
        }
    }

    /// Whatever a specification says of them, an answer comes.
    #[test]
    fn any_rate_and_any_jitter_are_looked_at_in_few_steps() {
        for (hz, jitter) in [(1e9, 8.64e7), (1e9, 1e-3), (1e-9, 8.64e7), (1e4, 1e4)] {
            for packets in [1u16, 10, 60_000] {
                let newer = Overtaking::new(hz, jitter, packets);
                let share = |run: u32| newer.map_or(0.0, |newer| newer.share(run));
                let shares = [1, 2, 900, u32::MAX].map(share);
                assert!(shares.is_sorted_by(|a, b| a >= b), "{hz} {jitter}: {shares:?}");
                assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
                assert!((0.0..=1.0).contains(&run_share(u32::MAX, |_| 0.5, newer)));
                let is_dense = hz * jitter > 1e7 * f64::from(packets);
                assert!(!is_dense || shares[0] > 0.9, "{hz} {jitter}: {shares:?}");
            }
        }
    }

    /// What draws say of runs of those that are lost, or overtaken.
    #[test]
    fn runs_are_of_what_is_lost_and_of_what_is_overtaken() {
        let channel = Channel::new(0.02, 2.0);
        let lost = |run| channel.run_loss(0.02, 1, run);
        let newer = Overtaking::new(100.0, 30.0, 1);
        let share = |run| newer.map_or(0.0, |newer| newer.share(run));
        assert_eq!(run_share(1, lost, None), lost(1));
        assert!((run_share(1, |_| 0.0, newer) - share(2)).abs() < 1e-12);
        let both = lost(1) + share(2) + 2.0 * 0.02 * share(1);
        assert!((run_share(1, lost, newer) - both).abs() < 1e-12);
    }

    /// Two in a hundred, two in a row: the conference's network.
    const CONFERENCE: (f64, f64) = (0.02, 2.0);

    fn percent(share: f64) -> String {
        format!("{:.2}", share * 100.0)
    }

    #[test]
    fn losses_are_those_of_the_research() {
        let channel = Channel::new(CONFERENCE.0, CONFERENCE.1);
        assert_eq!(percent(channel.copy_loss(3)), "0.27");
        assert_eq!(percent(channel.copy_loss(2)), "0.51");
        let tenth = |share: f64| format!("{:.1}", share * 100.0);
        assert_eq!(tenth(channel.adu_loss(4, 0)), "5.0");
        assert_eq!(tenth(channel.adu_loss(10, 2)), "2.9");
        assert_eq!(tenth(channel.adu_loss(10, 1)), "5.6");
    }

    #[test]
    fn a_channel_is_what_counting_says() {
        // Every sequence of packets, with its probability: an oracle without the recursion.
        let channel = Channel::new(0.1, 3.0);
        for (data, parity) in [(1_u16, 0_u8), (1, 1), (3, 0), (3, 2), (5, 1)] {
            let packets = u32::from(data) + u32::from(parity);
            let mut lost = 0.0;
            for all in 0..1_u32 << packets {
                let mut share = 1.0;
                let mut before = None;
                for bit in 0..packets {
                    let is_lost = all >> bit & 1 == 1;
                    let p = match before {
                        None => 0.1,
                        Some(false) => 0.1 / (3.0 * 0.9),
                        Some(true) => 2.0 / 3.0,
                    };
                    share *= if is_lost { p } else { 1.0 - p };
                    before = Some(is_lost);
                }
                if all.count_ones() > u32::from(parity) {
                    lost += share;
                }
            }
            let found = channel.adu_loss(data, parity);
            assert!((found - lost).abs() < 1e-12, "{data}+{parity}: {found} and {lost}");
        }
    }

    #[test]
    fn losses_in_time_are_forgotten_with_it() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3 * b;
        // Packets that are far apart are lost independently, and those that are close together.
        assert!(near(Channel::timed(0.05, 60.0, 1600.0).again(1), 0.05));
        assert!(near(Channel::timed(0.05, 60.0, 0.0).again(1), 1.0));
        // One burst later: p + (1 - p) e^(-1 / (1 - p)).
        let expected = 0.05 + 0.95 * (-1.0_f64 / 0.95).exp();
        assert!(near(Channel::timed(0.05, 60.0, 60.0).again(1), expected));
        // The share that is lost is the same whatever the distance.
        assert!(near(Channel::timed(0.05, 60.0, 20.0).adu_loss(1, 0), 0.05));
    }

    #[test]
    fn independent_losses_are_products() {
        let channel = Channel::new(0.1, 1.0);
        assert!((channel.copy_loss(1) - 0.01).abs() < 1e-12);
        assert!((channel.adu_loss(2, 0) - 0.19).abs() < 1e-12);
        assert_eq!(Channel::new(0.0, 1.0).adu_loss(200, 0), 0.0);
    }
}
