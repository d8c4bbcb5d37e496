//! What socket options of other stacks ask of a connection or a listener, beside the machine's own calls
//! ([`Stack::tcp_machine`]).

use std::time::Duration;

use bytes::Bytes;
use fusewire_transport::machine::Cut;
use fusewire_transport::tcp::{self, State};

use super::backlog::SendLimit;
use super::config::{Error, Marking, Result, Sent, SocketId};
use super::stack::{Stack, mss};
use super::table::Socket;

/// How a write is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// More follows at once: what does not fill a segment waits a little (`MSG_MORE`).
    pub more: bool,
    /// A message ends here: nothing that is written later shares a segment with it (`MSG_EOR`).
    pub end_of_record: bool,
}

impl SendFlags {
    /// How segments are cut behind such a write.
    pub(super) fn cut(self) -> Cut {
        if self.end_of_record { Cut::StreamEnd } else { Cut::Stream }
    }
}

impl Stack {
    /// As [`Stack::tcp_write`], with flags.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_send(&mut self, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        self.write_by(id, |stream| {
            stream.tcp.set_more(flags.more || stream.corked);
            stream.write(bytes, flags.cut())
        })
    }

    /// As [`Stack::tcp_write_shared`], with flags.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`].
    pub fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Bytes,
        flags: SendFlags,
    ) -> Result<usize> {
        self.write_by(id, |stream| {
            stream.tcp.set_more(flags.more || stream.corked);
            stream.write_shared(bytes, flags.cut())
        })
    }

    /// Copies what was written without a copy and is not acknowledged: the connection refers to memory of nobody else's any
    /// more.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_keep(&mut self, id: SocketId) -> Result<()> {
        self.core.table.stream(id)?.keep_shared();
        Ok(())
    }

    /// How far what was written is.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_sent(&mut self, id: SocketId) -> Result<Sent> {
        Ok(self.core.table.stream(id)?.sent())
    }

    /// Whether what does not fill a segment waits for more, a retransmission timeout at most; no more of it waits when that
    /// is undone.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_set_cork(&mut self, id: SocketId, on: bool) -> Result<()> {
        let stream = self.core.table.stream(id)?;
        if on {
            stream.tcp.set_more(true);
        } else if stream.corked {
            stream.tcp.push();
        }
        stream.corked = on;
        self.core.mark(id.index);
        Ok(())
    }

    /// Connections that a listener takes from now on are there to accept when they have brought something, or after `time`;
    /// `None`: at once.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_set_defer(&mut self, id: SocketId, time: Option<Duration>) -> Result<()> {
        self.core.table.listener(id)?.defer = time;
        Ok(())
    }

    /// What the IP headers of a socket's packets say from now on; a listener's connections to come have it
    /// too (RFC 9293, section 3.9.2, MUST-48).
    ///
    /// # Errors
    /// [`Error::NoSocket`]; [`Error::Misuse`] for a hop limit of zero (RFC 1122, section 3.2.1.7).
    pub fn set_marking(&mut self, id: SocketId, marking: Marking) -> Result<()> {
        if marking.hop_limit == Some(0) {
            return Err(Error::Misuse("a packet goes one hop at least"));
        }
        *self.marking_of(id)? = marking;
        Ok(())
    }

    /// What the IP headers of a socket's packets say.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn marking(&mut self, id: SocketId) -> Result<Marking> {
        self.marking_of(id).copied()
    }

    fn marking_of(&mut self, id: SocketId) -> Result<&mut Marking> {
        Ok(match self.core.table.socket(id)? {
            Socket::Stream(stream) => &mut stream.marking,
            Socket::Listener(listener) => &mut listener.marking,
            Socket::Udp(udp) => &mut udp.marking,
        })
    }

    /// Bounds what a writer may queue.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_set_send_limit(&mut self, id: SocketId, limit: SendLimit) -> Result<()> {
        self.core.table.stream(id)?.backlog.set_limit(limit);
        Ok(())
    }

    /// There is enough room to wake a writer.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_is_writable(&mut self, id: SocketId) -> Result<bool> {
        let stream = self.core.table.stream(id)?;
        let open = matches!(stream.tcp.state(), State::Established | State::CloseWait);
        Ok(open && stream.is_writable())
    }

    /// Bytes that were written and not sent.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_unsent(&mut self, id: SocketId) -> Result<u64> {
        Ok(self.core.table.stream(id)?.unsent())
    }

    /// Connections that wait to be accepted.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn tcp_waiting(&mut self, id: SocketId) -> Result<usize> {
        Ok(self.core.table.listener(id)?.waiting.len())
    }

    /// Connections that a listener takes from now on are made with these settings.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
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
