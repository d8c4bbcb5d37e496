//! What a stack can show of itself: its packets from now on, and a connection's last segments.

use fusewire_device::capture::feed::{self, Blocks, Options};
use fusewire_transport::machine::Protocol as _;

use super::Stack;
use crate::ConnectionId;
use crate::machine::settings;
use crate::trace::Entry;

impl Stack {
    /// Begins a capture of every TPDU that comes and leaves, each with a comment where there is something to say: why
    /// it was dropped, why it was sent again. It ends when its blocks are dropped. `None`: one is under way.
    pub fn capture(&mut self, options: Options) -> Option<Blocks> {
        let (caps, local, now) = (self.device.caps(), self.device.local_addr(), self.clock.now());
        let protocol = settings(&self.config).number();
        self.watch.begin(|| feed::of_device(caps.name, local, protocol, options, now))
    }

    /// The last segments of a connection either way, oldest first, in the time of [`Config::clock`](crate::Config);
    /// `None` when it is gone.
    pub fn trace(&self, id: ConnectionId) -> Option<Vec<Entry>> {
        Some(self.get(id)?.trace.iter().copied().collect())
    }
}
