//! Samples of the delivery rate (draft-ietf-ccwg-bbr, section "Delivery Rate Samples", which took
//! draft-cheng-iccrg-delivery-rate-estimation in): how fast data arrived between the transmission of a packet
//! and its acknowledgement, never faster than it was sent.

use core::time::Duration;

use fusewire_base::Instant;

use super::{Acked, Sent};

/// What is known when a packet leaves (the draft's P); it comes back with the acknowledgement, or with the
/// loss. The time of sending is the transport's to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// `P.delivered`: bytes delivered on this connection before.
    pub delivered: u64,
    /// `P.delivered_time`: when that number last changed.
    pub delivered_time: Instant,
    /// `P.first_send_time`: when the flight began that this packet ends.
    pub first_send_time: Instant,
    /// `P.lost`: bytes taken for lost before.
    pub lost: u64,
    /// `P.tx_in_flight`: bytes in the network, this packet included.
    pub tx_in_flight: u32,
    /// `P.is_app_limited`: the application had left a gap.
    pub is_app_limited: bool,
}

/// What one acknowledgement showed (the draft's RS).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Bytes a second; 0: no reliable sample.
    pub delivery_rate: u64,
    pub is_app_limited: bool,
    /// Bytes delivered from the packet's transmission until now.
    pub delivered: u64,
    /// `P.delivered` of the newest packet; `None` when nothing is known of what was acknowledged.
    pub prior_delivered: Option<u64>,
    /// `P.tx_in_flight` of it.
    pub tx_in_flight: u64,
    /// Bytes taken for lost since it was sent.
    pub lost: u64,
    pub newly_acked: u64,
    pub rtt: Option<Duration>,
}

/// The state of the connection (the draft's C).
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    pub delivered: u64,
    pub lost: u64,
    delivered_time: Instant,
    first_send_time: Instant,
    /// Until so many bytes are delivered, samples are limited by the application; 0: they are not.
    app_limited: u64,
    /// Least round-trip time ever.
    min_rtt: Duration,
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler {
            delivered: 0,
            lost: 0,
            delivered_time: Instant::ZERO,
            first_send_time: Instant::ZERO,
            app_limited: 0,
            min_rtt: Duration::MAX,
        }
    }
}

impl Sampler {
    /// `OnPacketSent`.
    pub fn on_sent(&mut self, sent: &Sent) -> Packet {
        if sent.in_flight <= sent.bytes {
            (self.first_send_time, self.delivered_time) = (sent.now, sent.now);
        }
        Packet {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
            lost: self.lost,
            tx_in_flight: u32::try_from(sent.in_flight).unwrap_or(u32::MAX),
            is_app_limited: self.is_app_limited(),
        }
    }

    /// `UpdateRateSample` of all that was delivered, and `GenerateRateSample`.
    pub fn on_acked(&mut self, acked: &Acked) -> Sample {
        let mut sample = Sample { newly_acked: acked.bytes, rtt: acked.rtt, ..Sample::default() };
        self.delivered += acked.bytes;
        self.delivered_time = acked.now;
        if let Some(rtt) = acked.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
        }
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Some((send_time, packet)) = acked.newest else { return sample };
        let send_elapsed = send_time - packet.first_send_time;
        let ack_elapsed = acked.now - packet.delivered_time;
        self.first_send_time = send_time;
        sample.is_app_limited = packet.is_app_limited;
        sample.delivered = self.delivered - packet.delivered;
        sample.prior_delivered = Some(packet.delivered);
        sample.tx_in_flight = packet.tx_in_flight.into();
        sample.lost = self.lost - packet.lost;
        // Less than the path's round trip is the acknowledgement of an earlier transmission.
        let interval = send_elapsed.max(ack_elapsed);
        if interval >= self.min_rtt && !interval.is_zero() {
            let rate = u128::from(sample.delivered) * 1_000_000_000 / interval.as_nanos();
            sample.delivery_rate = u64::try_from(rate).unwrap_or(u64::MAX);
        }
        sample
    }

    /// `MarkConnectionAppLimited`.
    pub fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    pub fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn acked(now: Instant, bytes: u64, newest: Option<(Instant, Packet)>) -> Acked {
        Acked {
            now,
            bytes,
            in_flight_before: 0,
            in_flight: 0,
            snd_una: 0,
            snd_nxt: 0,
            rtt: newest.map(|(sent, _)| now - sent),
            srtt: Duration::from_millis(10),
            window_limited: true,
            newest,
        }
    }

    fn send(sampler: &mut Sampler, now: Instant, in_flight: u64) -> (Instant, Packet) {
        (now, sampler.on_sent(&Sent { now, bytes: MSS, in_flight }))
    }

    #[test]
    fn the_rate_is_that_of_the_slower_of_sending_and_acknowledging() {
        // Ten packets, one a millisecond: acknowledged as they were sent, or all at once.
        for (spread, expected) in [(1, 1_000_000), (0, 1_000_000), (2, 500_000)] {
            let mut sampler = Sampler::default();
            let ms = Instant::from_ms;
            let sent: Vec<_> = (0..10).map(|i| send(&mut sampler, ms(i), (i + 1) * MSS)).collect();
            let mut last = Sample::default();
            for (i, sent) in (0..10).zip(&sent) {
                let now = ms(20 + i * spread);
                last = sampler.on_acked(&acked(now, MSS, Some(*sent)));
                send(&mut sampler, now, 10 * MSS);
            }
            assert_eq!(last.delivered, 10 * MSS);
            // The first flight counts from when it began to be sent: 20 ms to the first acknowledgement.
            assert!(last.delivery_rate <= expected, "{spread}: {}", last.delivery_rate);
        }
    }

    #[test]
    fn a_steady_flow_gives_its_rate() {
        let mut sampler = Sampler::default();
        let mut sent = std::collections::VecDeque::new();
        for i in 0..200u64 {
            let now = Instant::from_ms(i);
            sent.push_back(send(&mut sampler, now, (i + 1).min(20) * MSS));
            if i >= 20 {
                let sample = sampler.on_acked(&acked(now, MSS, sent.pop_front()));
                if i > 50 {
                    assert!((950_000..=1_050_000).contains(&sample.delivery_rate), "{sample:?}");
                    assert_eq!((sample.tx_in_flight, sample.lost), (20 * MSS, 0));
                }
            }
        }
    }

    #[test]
    fn what_follows_a_gap_of_the_application_is_marked_for_a_round_trip() {
        let mut sampler = Sampler::default();
        sampler.mark_app_limited(3 * MSS);
        let first = send(&mut sampler, Instant::from_ms(1), 4 * MSS);
        assert!(first.1.is_app_limited);
        let sample = sampler.on_acked(&acked(Instant::from_ms(11), 4 * MSS, Some(first)));
        assert!(sample.is_app_limited && !sampler.is_app_limited());
        assert!(!send(&mut sampler, Instant::from_ms(12), MSS).1.is_app_limited);
    }

    #[test]
    fn less_than_a_round_trip_is_no_sample() {
        let mut sampler = Sampler::default();
        let first = send(&mut sampler, Instant::from_ms(0), MSS);
        sampler.on_acked(&acked(Instant::from_ms(10), MSS, Some(first)));
        let again = send(&mut sampler, Instant::from_ms(10), MSS);
        let early = Acked { rtt: None, ..acked(Instant::from_ms(12), MSS, Some(again)) };
        assert_eq!(sampler.on_acked(&early).delivery_rate, 0);
        assert!(
            sampler.on_acked(&acked(Instant::from_ms(20), MSS, None)).prior_delivered.is_none()
        );
    }
}
