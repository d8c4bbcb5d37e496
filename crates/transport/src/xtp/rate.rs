//! Rate and burst (`docs/xtp.md`, section 11): in each RTIMER = burst ÷ rate seconds at most burst bytes leave, whole
//! packets counted.

use super::config::Rate;
use core::time::Duration;
use fusewire_base::Instant;

/// The bound on what a context sends: the smaller of ours and the peer's.
#[derive(Clone, Debug)]
pub(super) struct RateControl {
    own: Rate,
    bound: Rate,
    /// Bytes that may still leave before `until`.
    credit: u64,
    /// When RTIMER ends.
    until: Instant,
}

impl RateControl {
    pub fn new(own: Rate) -> RateControl {
        RateControl { own, bound: own, credit: 0, until: Instant::ZERO }
    }

    /// The peer wants no more than this.
    pub fn bound(&mut self, rate: u32, burst: u32) {
        let peer = Rate { rate, burst };
        let bound = match (self.own.is_bounded(), peer.is_bounded()) {
            (true, true) => {
                Rate { rate: self.own.rate.min(rate), burst: least(self.own.burst, burst) }
            }
            (true, false) => self.own,
            (false, _) => peer,
        };
        // It is told more than once: what left under it counts.
        if bound != self.bound {
            (self.bound, self.credit, self.until) = (bound, 0, Instant::ZERO);
        }
    }

    /// When something may leave; `None`: now.
    pub fn next_send(&self, now: Instant) -> Option<Instant> {
        (self.bound.is_bounded() && self.credit == 0 && now < self.until).then_some(self.until)
    }

    /// A packet of `bytes` leaves.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        if !self.bound.is_bounded() {
            return;
        }
        let (rate, burst) = (u64::from(self.bound.rate), u64::from(self.bound.burst).max(1));
        if now >= self.until {
            self.credit = burst;
            self.until = now + Duration::from_nanos(nanos(burst, rate));
        }
        // A burst smaller than a packet lets one go: the next waits as much longer.
        if bytes > self.credit {
            self.until += Duration::from_nanos(nanos(bytes - self.credit, rate));
        }
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Bytes a second, when bounded.
    pub fn rate(&self) -> Option<u64> {
        self.bound.is_bounded().then(|| self.bound.rate.into())
    }
}

/// The smaller burst, of which 0 and the largest say nothing.
fn least(a: u32, b: u32) -> u32 {
    [a, b].into_iter().filter(|burst| !matches!(burst, 0 | &u32::MAX)).min().unwrap_or(0)
}

/// How long `bytes` take.
fn nanos(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets of `len` for a second as fast as it may; the bytes.
    fn run(control: &mut RateControl, len: u64) -> (u64, Vec<(Instant, u64)>) {
        let (mut now, mut sent) = (Instant::from_ms(10), Vec::new());
        let end = now + Duration::from_secs(1);
        while now < end {
            match control.next_send(now) {
                Some(at) => now = at,
                None => {
                    control.on_sent(now, len);
                    sent.push((now, len));
                }
            }
        }
        (sent.iter().map(|s| s.1).sum(), sent)
    }

    #[test]
    fn a_burst_leaves_in_each_rtimer_and_no_more() {
        let mut control = RateControl::new(Rate { rate: 1_000_000, burst: 10_000 });
        let (bytes, sent) = run(&mut control, 1000);
        assert!((990_000..=1_010_000).contains(&bytes), "{bytes}");
        let first = sent[0].0;
        let rtimer = Duration::from_millis(10);
        for n in 0..90 {
            let (from, to) = (first + rtimer * n, first + rtimer * (n + 1));
            let in_it: u64 = sent.iter().filter(|s| s.0 >= from && s.0 < to).map(|s| s.1).sum();
            assert!(in_it <= 10_000, "{in_it} in RTIMER {n}");
        }
    }

    #[test]
    fn a_burst_smaller_than_a_packet_lets_one_go_and_keeps_the_rate() {
        let mut control = RateControl::new(Rate { rate: 100_000, burst: 100 });
        let (bytes, _) = run(&mut control, 1000);
        assert!((99_000..=101_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_bound_that_is_told_again_lets_no_second_burst_out() {
        let now = Instant::from_ms(10);
        let mut control = RateControl::new(Rate::NONE);
        control.bound(5000, 1000);
        control.on_sent(now, 1000);
        let until = control.next_send(now);
        assert_eq!(until, Some(now + Duration::from_millis(200)));
        control.bound(5000, 1000);
        assert_eq!(control.next_send(now), until);
        control.bound(6000, 1000);
        assert_eq!(control.next_send(now), None, "another rate begins anew");
    }

    #[test]
    fn the_smaller_of_both_rules() {
        let mut control = RateControl::new(Rate::NONE);
        assert_eq!(control.rate(), None);
        control.bound(5000, 700);
        assert_eq!(control.rate(), Some(5000));
        control.bound(u32::MAX, 0);
        assert_eq!(control.rate(), None);
        let mut control = RateControl::new(Rate { rate: 4000, burst: 0 });
        control.bound(5000, 700);
        assert_eq!((control.rate(), control.bound.burst), (Some(4000), 700));
    }
}
