//! What a connection is told when it is made.

use crate::congestion::Algorithm;
use crate::machine::KeepAlive;
use core::time::Duration;

/// Settings of a connection. `Default` is right for bulk transfer over UDP on an Ethernet path.
#[derive(Clone, Debug)]
pub struct Config {
    /// What goes into our MSS option: payload **plus options** that we can receive in one TPDU
    /// (RFC 6691); with timestamps the payload itself is 12 bytes less.
    pub mss: u16,
    /// Most payload plus options that we send in one TPDU until path MTU discovery says otherwise.
    pub send_mss: u16,
    /// MSS of a peer that names none: 536 over IPv4, 1220 over IPv6 (RFC 9293, section 3.7.1).
    pub default_mss: u16,
    /// Neither says nor sends more than this, when the application asks for less than the path carries
    /// (`TCP_MAXSEG`).
    pub mss_limit: Option<u16>,
    /// Bytes that may be reserved, queued and in flight together.
    pub send_buffer: u32,
    /// Entries of the ring of queued and in-flight segments; when full, `reserve` gives nothing.
    pub max_segments_in_flight: usize,
    /// Largest receive window, in bytes: what the receiver's memory holds.
    pub recv_window: u32,
    /// Receive window at the start; autotuning doubles it up to `recv_window` as the application keeps up.
    pub initial_recv_window: u32,
    /// Ranges beyond a hole that the receiver remembers; when full, a segment that would make one more
    /// is dropped and counted.
    pub max_ranges: usize,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Segments of the initial window (RFC 6928).
    pub initial_window_segments: u32,
    /// Spread transmissions over the round trip.
    pub pacing: bool,
    /// Nagle's algorithm: a small segment waits while another is unacknowledged (RFC 9293, section 3.7.4).
    pub nagle: bool,
    /// Longest time that an acknowledgement is held back (RFC 9293, section 3.8.6.3).
    pub delayed_ack: Duration,
    /// Segments that are acknowledged one by one when a connection begins, so that the peer's slow start
    /// need not wait for delayed acknowledgements.
    pub quick_acks: u8,
    /// In bulk an acknowledgement waits for a sixteenth of the window, as long as
    /// [`Connection::acknowledge`](crate::machine::Connection::acknowledge) is called when nothing comes; otherwise each
    /// batch of two segments or more is acknowledged.
    pub stretch_acks: bool,
    /// How long a peer may hold back an acknowledgement: a tail loss probe for a single segment waits so much
    /// longer (RFC 8985, section 7.2: WCDelAckT).
    pub peer_delayed_ack: Duration,
    /// Send tail loss probes (RFC 8985, section 7).
    pub tail_loss_probe: bool,
    /// Begin anew with slow start after a pause (RFC 5681, section 4.1).
    pub slow_start_after_idle: bool,
    /// Set PSH where a burst of segments ends, so that a receiver which merges them hands them on: bursts of
    /// about a millisecond at the path's rate, at least so many segments, at most half a window.
    pub push_bursts: Option<u32>,
    /// Probes on an idle connection (RFC 9293, section 3.8.4).
    pub keep_alive: Option<KeepAlive>,
    /// Longest time that data may stay unacknowledged (RFC 5482); also offered to the peer.
    pub user_timeout: Option<Duration>,
    /// Smallest retransmission timeout. RFC 6298 says one second; hosts of today use 200 ms.
    pub rto_min: Duration,
    /// The retransmission timeout is longer than the smoothed round-trip time by at least so much: G of RFC
    /// 6298, rule 2.3. As long as peers delay acknowledgements, it leaves time for one.
    pub rto_variance_min: Duration,
    /// Largest retransmission timeout.
    pub rto_max: Duration,
    /// Transmissions of SYN before `TimedOut`.
    pub syn_transmissions: u8,
    /// Retransmissions of data in a row before `TimedOut`, when there is no `user_timeout`.
    pub max_retransmissions: u8,
    /// How long TIME-WAIT lasts (2 MSL).
    pub time_wait: Duration,
    /// How long FIN-WAIT-2 lasts when nothing is heard of the peer; `None`: for as long as it takes. For
    /// applications that read on after `finish` it must be `None` or longer than the peer may think.
    pub fin_wait_2: Option<Duration>,
    /// `reserve` also waits until the range could be transmitted at once ("nothing is manipulated until
    /// there is room"), or what is longer than a segment at least begun; otherwise only `send_buffer` and the ring bound it.
    pub reserve_within_window: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mss: 1452,
            send_mss: 1452,
            default_mss: 536,
            mss_limit: None,
            send_buffer: 4 << 20,
            max_segments_in_flight: 4096,
            recv_window: 4 << 20,
            initial_recv_window: 256 << 10,
            max_ranges: 256,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: true,
            congestion: Algorithm::default(),
            initial_window_segments: 10,
            pacing: true,
            nagle: false,
            delayed_ack: Duration::from_millis(25),
            quick_acks: 0,
            stretch_acks: false,
            peer_delayed_ack: Duration::from_millis(50),
            tail_loss_probe: true,
            push_bursts: None,
            slow_start_after_idle: true,
            keep_alive: None,
            user_timeout: None,
            rto_min: Duration::from_millis(200),
            rto_variance_min: Duration::from_millis(1),
            rto_max: Duration::from_secs(60),
            syn_transmissions: 6,
            max_retransmissions: 15,
            time_wait: Duration::from_secs(60),
            fin_wait_2: None,
            reserve_within_window: false,
        }
    }
}

impl Config {
    /// With `mss` as what the path carries, unless the application wants less, and the default of the
    /// version of IP.
    #[must_use]
    pub fn for_path(&self, mss: u16, ipv4: bool) -> Config {
        let mss = self.mss_limit.map_or(mss, |limit| mss.min(limit));
        let default_mss = if ipv4 { 536 } else { 1220 };
        Config { mss, send_mss: mss, default_mss, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_sets_the_segment_size_unless_the_application_wants_less() {
        let sizes = |cfg: &Config| (cfg.mss, cfg.send_mss, cfg.default_mss);
        let free = Config::default();
        assert_eq!(sizes(&free.for_path(1460, true)), (1460, 1460, 536));
        assert_eq!(sizes(&free.for_path(1440, false)), (1440, 1440, 1220));
        let limited = Config { mss_limit: Some(700), ..Config::default() };
        assert_eq!(sizes(&limited.for_path(1460, true)), (700, 700, 536));
        assert_eq!(sizes(&limited.for_path(600, true)), (600, 600, 536), "the path carries less");
    }
}
