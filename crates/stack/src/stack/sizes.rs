//! How large everything is: segments as device and path carry them, windows and memory for the longest ADU.

use fusewire_session::BODY_LEN_MAX;

use super::*;

/// More than a record adds to its body.
const RECORD_OVERHEAD: u32 = 64;

impl Stack {
    /// Settings of a connection as the device and the path allow.
    pub(super) fn settings(&self, remote: SocketAddr) -> Settings {
        let mut settings = settings(&self.config).clone();
        let mut sizes = settings.sizes();
        let datagram = self.datagram_len();
        let start = if self.knows_path(remote) { datagram } else { datagram.min(BASE_DATAGRAM) };
        (sizes.tpdu_len, sizes.send_tpdu_len) = (datagram, start);
        sizes.recv_window = self.recv_window();
        // A record that comes in pieces is held until it is whole, so it has to fit into the window. Of that
        // the peer may not know a segment, which is not worth saying (RFC 9293, section 3.8.6.2.2), and a part
        // of the unit in which windows are said (RFC 7323, section 2.3), wherever the record begins.
        let record = self.longest_adu().saturating_add(RECORD_OVERHEAD);
        let unsaid = datagram as u32 + (sizes.recv_window.max(record) >> 14) + 256;
        sizes.initial_recv_window = record.saturating_add(unsaid);
        sizes.recv_window = sizes.recv_window.max(sizes.initial_recv_window);
        let ring_bytes = u32::try_from(self.ring_bytes()).unwrap_or(u32::MAX);
        sizes.send_buffer = sizes.send_buffer.min(ring_bytes);
        if self.config.max_adu.is_some() {
            sizes.send_buffer = sizes.send_buffer.max(record);
        }
        settings.set_sizes(&sizes);
        settings
    }

    /// Bytes of the longest packet that device and settings let out.
    pub(super) fn datagram_len(&self) -> usize {
        let most = self.device.caps().max_datagram;
        self.config.datagram_bytes.map_or(most, |bytes| bytes.min(most))
    }

    /// The largest window that the settings want and the device can hold. The longest ADU may need more: what the device has no
    /// room for at once is sent again.
    fn recv_window(&self) -> u32 {
        let buffer = u32::try_from(self.device.caps().receive_buffer_bytes).unwrap_or(u32::MAX);
        settings(&self.config).sizes().recv_window.min(buffer.max(64 << 10))
    }

    /// The longest ADU that we take.
    fn longest_adu(&self) -> u32 {
        let first = settings(&self.config).sizes().initial_recv_window.min(self.recv_window());
        let fits = first.saturating_sub(RECORD_OVERHEAD).max(1);
        self.config.max_adu.unwrap_or(fits)
    }

    /// The longest body to agree on, where the session's own configuration says `own`.
    pub(super) fn body_len_max(&self, own: u32) -> u32 {
        self.config.max_adu.unwrap_or(own.min(self.longest_adu()))
    }

    /// Bytes of a connection's retransmission memory.
    pub(super) fn ring_bytes(&self) -> usize {
        let record = self.config.max_adu.map_or(0, |n| n as usize + 4 * RECORD_OVERHEAD as usize);
        self.config.send_ring_bytes.max(record)
    }

    /// Whether `Config::max_adu` can be had.
    ///
    /// # Errors
    /// [`Error::MaxAdu`] when it cannot.
    pub fn check_max_adu(&self) -> Result<()> {
        let Some(wanted) = self.config.max_adu else { return Ok(()) };
        match wanted {
            0 => Err(Error::Misuse("the longest ADU must have a byte")),
            wanted if wanted > BODY_LEN_MAX => {
                let why = "no record is longer";
                Err(Error::MaxAdu { wanted, max: BODY_LEN_MAX, why })
            }
            _ => Ok(()),
        }
    }

    /// On loopback the path is known, and where the user says so; elsewhere it has to be found.
    pub(super) fn knows_path(&self, remote: SocketAddr) -> bool {
        remote.ip().is_loopback()
            || self.device.caps().is_whole_path
            || self.config.datagram_bytes.is_some()
    }
}
