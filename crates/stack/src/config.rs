//! Settings of a stack.

use std::time::Duration;

use fusewire_kernels::{Check, Level};
use fusewire_transport::either;
use fusewire_transport::machine::Protocol as _;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::refusals::Refusals;
use crate::{Error, Result};

/// Settings of a stack; `Default` is right for bulk transfer.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPU level for sums outside records.
    pub level: Level,
    /// The transport of every connection, and its settings. Lengths of TPDUs, windows and buffers are lowered to what the
    /// device can do.
    pub transport: either::Config,
    /// What proves the bytes of records that have no tag; beside a tag there is no other check over XTP. TCP has the
    /// Internet checksum alone. Over XTP [`Check::Cxor`] is a trailer that is made in the loop of the cipher, if the peer
    /// wants it too, and the Internet checksum otherwise; who offers ciphers with tags does not offer it. [`Check::None`]
    /// leaves it to UDP's checksum: both sides have to say so, and records behind one that was lost come twice.
    pub check: Check,
    /// Retransmission memory of a connection, in bytes.
    pub send_ring_bytes: usize,
    /// The longest ADU that this side takes, in bytes. Each side has its own limit: to send longer ADUs, raise the limit of
    /// the peer that receives them. Windows, the retransmission memory and the session's `body_len_max` are sized for it.
    /// The ceiling is [`Config::MAX_ADU_CEILING`], the longest record; more is
    /// [`Error::MaxAdu`](crate::Error::MaxAdu). `None` is [`Config::MAX_ADU_DEFAULT`], or less if `body_len_max`, the
    /// initial window of `transport` or the device's receive buffer are smaller.
    pub max_adu: Option<u32>,
    /// Who serves timers and tasks of an [`Endpoint`](crate::Endpoint) while no thread of the application waits.
    pub driver: Driver,
    /// Largest UDP payload to send and to take, in bytes; `None`: what the device and the path carry.
    pub datagram_bytes: Option<usize>,
    /// Short ADUs that wait share a segment. None waits for another in any case.
    pub packs: bool,
    /// How long to look for frames without sleeping after there was work; for the answer to a call up to eight times as
    /// long, where answers come so soon lately.
    pub spin: Duration,
    /// Connections at once; further ones are refused.
    pub max_connections: usize,
    /// Half-open connections before SYN cookies.
    pub backlog: usize,
    /// How many resets and DIAGs leave in a second; a clone is shared.
    pub refusals: Refusals,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// What time it is; a test brings its own.
    pub clock: Clock,
}

impl Config {
    /// The longest ADU that a side takes by default, in bytes: what fits into the initial window.
    pub const MAX_ADU_DEFAULT: u32 = 262_080;
    /// The largest value of [`Config::max_adu`], in bytes: 16 MiB.
    pub const MAX_ADU_CEILING: u32 = fusewire_session::BODY_LEN_MAX;

    /// The number in IP of the protocol that carries the connections of such a stack: captures name it.
    pub fn protocol(&self) -> u8 {
        crate::machine::settings(self).number()
    }

    /// The transport has that check.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub(crate) fn check_fits(&self) -> Result<()> {
        match (&self.transport, self.check) {
            (either::Config::Tcp(_), Check::Cxor | Check::None) => Err(Error::Misuse(
                "TCP has the Internet checksum and no other: CXOR, and none, are XTP's",
            )),
            _ => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            level: Level::detect(),
            transport: either::Config::of_records(either::Protocol::default()),
            check: Check::default(),
            send_ring_bytes: 2 << 20,
            max_adu: None,
            driver: Driver::default(),
            datagram_bytes: None,
            packs: true,
            spin: Duration::from_micros(50),
            max_connections: 4096,
            backlog: 256,
            refusals: Refusals::default(),
            handshake_timeout: Duration::from_secs(10),
            clock: Clock::new(),
        }
    }
}
