//! What a context is told when it is made: the control block of the paper (Dabbous, section 4.1).

use crate::congestion::Algorithm;
use crate::machine::KeepAlive;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use fusewire_wire::xtp::Service;

/// Which packets go again when something was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// What the spans do not name.
    #[default]
    SelectiveRepeat,
    /// Everything from rseq on; spans are not looked at.
    GoBackN,
}

impl Retransmission {
    /// Both.
    pub const ALL: [Retransmission; 2] = [Retransmission::SelectiveRepeat, Retransmission::GoBackN];

    /// As settings spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Retransmission::SelectiveRepeat => "selective",
            Retransmission::GoBackN => "go-back-n",
        }
    }
}

impl FromStr for Retransmission {
    type Err = String;

    fn from_str(name: &str) -> Result<Retransmission, String> {
        Retransmission::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let names = Retransmission::ALL.map(Retransmission::name);
            format!("what is sent again is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Retransmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes a second, and bytes at once; [`Rate::NONE`] is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes a second, whole packets counted.
    pub rate: u32,
    /// Bytes in each RTIMER = burst ÷ rate.
    pub burst: u32,
}

impl Rate {
    /// No bound.
    pub const NONE: Rate = Rate { rate: 0, burst: 0 };

    /// 0 and the largest say that there is no bound.
    pub fn is_bounded(self) -> bool {
        !matches!(self.rate, 0 | u32::MAX)
    }
}

/// Settings of a context. `Default` is right for a reliable stream over UDP on an Ethernet path.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of header and body that we can receive in one packet; maxdata is 32 less.
    pub tpdu_len: usize,
    /// Bytes of header and body that we send in one packet until more is known of the path.
    pub send_tpdu_len: usize,
    /// What is asked for; a listener takes what it is and what is unspecified.
    pub service: Service,
    /// Bytes that may be reserved, queued and in flight together.
    pub send_buffer: u32,
    /// Entries of the ring of queued and in-flight packets.
    pub max_packets_in_flight: usize,
    /// Largest receive window, in bytes: what the receiver's memory holds.
    pub recv_window: u32,
    /// Receive window at the start; it doubles up to `recv_window` as the application keeps up.
    pub initial_recv_window: u32,
    /// Spans beyond a gap that the receiver remembers.
    pub max_ranges: usize,
    /// What is sent again.
    pub retransmission: Retransmission,
    /// Ask to be told of gaps at once (FASTNAK).
    pub fastnak: bool,
    /// Send nothing again (NOERR): the receiver passes over gaps.
    pub noerr: bool,
    /// Pass over gaps where the peer says NOERR, and tell of them: for who asks for them (`Connection::poll_gap`). Who reads
    /// a stream in order would wait for ever for what does not come; to such a receiver the bit says nothing.
    pub passes_gaps: bool,
    /// Look at no alloc (NOFLOW): what the receiver cannot hold it drops.
    pub noflow: bool,
    /// The check covers the headers alone of packets that hold whole records (NOCHECK), which prove themselves; and
    /// may do so in what comes.
    pub nocheck: bool,
    /// Ask by the change of a bit (EDGE) beside SREQ.
    pub edge: bool,
    /// CXOR behind the data, if the peer does too.
    pub cxor: bool,
    /// Room for the application's 8 bytes (BTAG) in each packet that begins a message.
    pub btag: bool,
    /// Account for messages by EOM, which are then told whole, in order or also behind a gap.
    pub messages: bool,
    /// Priority (SORT).
    pub sort: Option<u16>,
    /// The most that we send.
    pub out_rate: Rate,
    /// The most that we want to be sent.
    pub in_rate: Rate,
    /// Congestion control; `None` only on a path that the user vouches for.
    pub congestion: Option<Algorithm>,
    /// Packets of the initial window (RFC 6928).
    pub initial_window_packets: u32,
    /// Bytes of the answer to a transaction that its initiator takes before it has said an alloc, where both ends know that
    /// it does: 16,384 otherwise (docs/xtp.md, section 15).
    pub answer_alloc: u32,
    /// Bytes that who opens sends at least, with what it has to say: FIRSTs go twice until then, so that an answer that is
    /// longer than what was said needs not wait for the returned key.
    pub first_flight_bytes: u32,
    /// Spread transmissions over the round trip.
    pub pacing: bool,
    /// Begin anew with slow start after a pause (RFC 5681, section 4.1).
    pub slow_start_after_idle: bool,
    /// Ask once before WTIMER does (RFC 8985, section 7).
    pub tail_probe: bool,
    /// Smallest WTIMER.
    pub wtimer_min: Duration,
    /// Largest WTIMER.
    pub wtimer_max: Duration,
    /// CTIMER is `idle`.
    pub keep_alive: Option<KeepAlive>,
    /// CTIMEOUT: who asks and has accepted nothing for so long gives up.
    pub ctimeout: Duration,
    /// The same for who opens.
    pub opening_timeout: Duration,
    /// The same for a context whose peer has not shown its key.
    pub half_open_timeout: Duration,
    /// How long an inactive context answers.
    pub linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            tpdu_len: 1472,
            send_tpdu_len: 1472,
            service: Service::Stream,
            send_buffer: 4 << 20,
            max_packets_in_flight: 4096,
            recv_window: 4 << 20,
            initial_recv_window: 256 << 10,
            max_ranges: 256,
            retransmission: Retransmission::SelectiveRepeat,
            fastnak: true,
            noerr: false,
            passes_gaps: false,
            noflow: false,
            nocheck: false,
            edge: false,
            cxor: false,
            btag: false,
            messages: false,
            sort: None,
            out_rate: Rate::NONE,
            in_rate: Rate::NONE,
            congestion: Some(Algorithm::default()),
            initial_window_packets: 10,
            answer_alloc: super::connection::INITIAL_ALLOC as u32,
            first_flight_bytes: 0,
            pacing: true,
            slow_start_after_idle: true,
            tail_probe: true,
            wtimer_min: Duration::from_millis(200),
            wtimer_max: Duration::from_secs(60),
            keep_alive: Some(KeepAlive {
                idle: Duration::from_secs(60),
                interval: Duration::from_secs(15),
                probes: 4,
            }),
            ctimeout: Duration::from_secs(120),
            opening_timeout: Duration::from_secs(30),
            half_open_timeout: Duration::from_secs(10),
            linger: Duration::from_secs(60),
        }
    }
}
