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
        (0..run).fold(adu_loss, |all, _| all * lasts)
    }
}

/// Steps by which times on the way are looked at.
const STEPS: u32 = 200;

/// The share of ADUs that a newer one overtakes, of which one is sent each `interval_ms`, where each takes up to `jitter_ms` longer
/// than the fastest, whatever others take.
pub fn overtaken(interval_ms: f64, jitter_ms: f64) -> f64 {
    if interval_ms <= 0.0 || jitter_ms <= interval_ms {
        return 0.0;
    }
    // One that takes so long comes before one behind it only if that takes at least as long, less the time between them.
    let comes = |late_ms: f64| {
        let behind = (1..).map(|n: u32| late_ms - f64::from(n) * interval_ms);
        behind.take_while(|ms| *ms > 0.0).map(|ms| 1.0 - ms / jitter_ms).product::<f64>()
    };
    let step = jitter_ms / f64::from(STEPS);
    let all = (0..STEPS).map(|n| comes((f64::from(n) + 0.5) * step));
    1.0 - all.sum::<f64>() / f64::from(STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as draws by a seed say.
    #[test]
    fn what_is_overtaken_is_what_draws_say() {
        let mut state = 19u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        for (interval, jitter) in [(33.0, 30.0), (1000.0 / 60.0, 30.0), (10.0, 30.0), (2.0, 50.0)] {
            let came: Vec<f64> =
                (0..20_000).map(|n| f64::from(n) * interval + draw() * jitter).collect();
            let is_overtaken =
                |n: &usize| came[n + 1..came.len().min(n + 60)].iter().any(|at| *at < came[*n]);
            let drawn = (0..came.len()).filter(is_overtaken).count() as f64 / came.len() as f64;
            let found = overtaken(interval, jitter);
            assert!((found - drawn).abs() < 0.01, "{interval} {jitter}: {found} and {drawn}");
        }
        assert_eq!((overtaken(30.0, 30.0), overtaken(0.0, 30.0)), (0.0, 0.0));
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
    fn independent_losses_are_products() {
        let channel = Channel::new(0.1, 1.0);
        assert!((channel.copy_loss(1) - 0.01).abs() < 1e-12);
        assert!((channel.adu_loss(2, 0) - 0.19).abs() < 1e-12);
        assert_eq!(Channel::new(0.0, 1.0).adu_loss(200, 0), 0.0);
    }
}
