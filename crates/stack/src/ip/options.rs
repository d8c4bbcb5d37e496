//! What socket options of other stacks ask of a connection or a listener, beside the machine's own calls
//! ([`Stack::tcp_machine`]).

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::tcp::{self, Cut, State};

use super::backlog::SendLimit;
use super::config::{Result, SocketId};
use super::stack::{Stack, mss};

/// How a write is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// More follows at once: what does not fill a segment waits a little (`MSG_MORE`).
    pub more: bool,
    /// A message ends here: nothing that is written later shares a segment with it (`MSG_EOR`).
    pub end_of_record: bool,
}

impl Stack {
    /// As [`Stack::tcp_write`], with flags.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_send(&mut self, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        let stream = self.core.table.stream(id)?;
        stream.tcp.set_more(flags.more);
        let cut = if flags.end_of_record { Cut::StreamEnd } else { Cut::Stream };
        let written = stream.write_cut(bytes.len(), cut, |offset, memory| {
            memory.copy_from_slice(&bytes[offset..offset + memory.len()]);
        })?;
        if written > 0 {
            self.core.mark(id.index);
        }
        Ok(written)
    }

    /// Bounds what a writer may queue.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_set_send_limit(&mut self, id: SocketId, limit: SendLimit) -> Result<()> {
        self.core.table.stream(id)?.backlog.set_limit(limit);
        Ok(())
    }

    /// There is enough room to wake a writer.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_is_writable(&mut self, id: SocketId) -> Result<bool> {
        let stream = self.core.table.stream(id)?;
        let open = matches!(stream.tcp.state(), State::Established | State::CloseWait);
        Ok(open && stream.is_writable())
    }

    /// Bytes that were written and not sent.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_unsent(&mut self, id: SocketId) -> Result<u64> {
        Ok(self.core.table.stream(id)?.unsent())
    }

    /// For how long up to `now` the writer's bound alone kept the connection from sending.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_starved(&mut self, id: SocketId, now: Instant) -> Result<Duration> {
        Ok(self.core.table.stream(id)?.backlog.starved(now))
    }

    /// Connections that wait to be accepted.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_waiting(&mut self, id: SocketId) -> Result<usize> {
        Ok(self.core.table.listener(id)?.waiting.len())
    }

    /// Connections that a listener takes from now on are made with these settings.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn tcp_configure_listener(&mut self, id: SocketId, config: &tcp::Config) -> Result<()> {
        let mtu = self.core.output.offload.mtu;
        let listener = self.core.table.listener(id)?;
        listener.config = config.clone();
        for (machine, ipv4) in listener.machines.iter_mut().zip([true, false]) {
            if let Some(machine) = machine {
                machine.set_config(&config.for_path(mss(mtu, ipv4), ipv4));
            }
        }
        Ok(())
    }
}
