//! What happens to the interface and to our addresses under way.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::interface::Change;

use super::config::{Error, Event};
use super::stack::Stack;
use super::table::Socket;

/// How often a stack that never sleeps looks for changes of its interface.
const LOOK: Duration = Duration::from_millis(10);

impl Stack {
    /// Follows the interface, when it is time to look or the stack has slept.
    ///
    /// # Errors
    /// `NotFound` when the link was deleted.
    pub(super) fn follow(&mut self, now: Instant) -> io::Result<()> {
        if self.look_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.look_at = Some(now + LOOK);
        self.kernel_looked_at(now);
        while let Some(change) = self.interface.poll_change() {
            self.follow_kernel(now, &change)?;
            match change {
                Change::Gone => return Err(self.interface.gone()),
                // The interface's capabilities have the MTU, which `poll_rest` compares. Addresses,
                // neighbours and routes of the kernel's are not ours, unless we live beside it; what
                // cannot be sent while the link is down waits, or is lost as on any network.
                Change::Mtu(_)
                | Change::Running(_)
                | Change::AddressAdded(..)
                | Change::AddressRemoved(_)
                | Change::Neighbour(..)
                | Change::Routes
                | Change::Overrun => {}
            }
        }
        Ok(())
    }

    /// Gives up an address of ours: connections from it end with [`Error::NotOurs`], which their peers are
    /// told by RST; UDP sockets that are bound to it, or to all of a network of which it was our last, have that error.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn remove_address(&mut self, now: Instant, address: IpAddr) -> io::Result<()> {
        let core = &mut self.core;
        for index in 0..core.table.slots.len() as u32 {
            match &mut core.table.slots[index as usize].socket {
                Some(Socket::Stream(stream)) if stream.tuple.local.ip() == address => {
                    stream.error.get_or_insert(Error::NotOurs(stream.tuple.local));
                    stream.tcp.abort();
                    core.mark(index);
                    core.settle(index);
                }
                _ => {}
            }
        }
        self.tell_bound_to(address);
        self.transmit(now)?;
        self.core.layer_speaks = true;
        let all = self.core.layer.addresses().find(|entry| entry.cidr.address() == address);
        let all = all.and_then(|entry| entry.cidr.broadcast()).map(IpAddr::from);
        self.core.layer.remove_address(now, address);
        if let Some(all) = all.filter(|all| !self.core.layer.is_group(*all)) {
            self.tell_bound_to(all);
        }
        Ok(())
    }

    /// UDP sockets that are bound to an address that is ours no more have that error.
    fn tell_bound_to(&mut self, address: IpAddr) {
        let core = &mut self.core;
        for index in 0..core.table.slots.len() as u32 {
            if let Some(Socket::Udp(udp)) = &mut core.table.slots[index as usize].socket
                && udp.local.ip() == address
            {
                udp.error = Some(Error::NotOurs(udp.local));
                core.notify(index, Event::Error);
            }
        }
    }
}
