//! Connections whose sockets are gone, and which the stack still has: what waits in them for their peers is their user's
//! expense until the stack has forgotten them, and of such that do not end by themselves he has no more than of sockets.

use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_stack::ip::{SocketId, Stack, State as TcpState};

use super::contexts::Used;
use super::engine::Engine;

/// How many are looked at when a user has as many as he may have.
const LOOKS: usize = 512;

/// All of them, those first that were not looked at for long.
#[derive(Default)]
pub struct Closed(VecDeque<Left>);

struct Left {
    payer: u32,
    gone: Gone,
    /// What its user was charged for it, in bytes.
    charged: u64,
}

/// What is left of a socket.
#[derive(Clone, Copy)]
pub enum Gone {
    Tcp(SocketId),
    Context(Used),
}

impl Closed {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Engine {
    /// A connection that nobody has any more ends: in order, as long as its user may have another such.
    pub(super) fn close(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (payer, gone): (u32, Gone),
        is_reset: bool,
    ) {
        if !self.accounts.admits_closed(payer) {
            self.look_at_closed(stack, LOOKS);
        }
        let is_reset = is_reset || !self.accounts.admits_closed(payer);
        match gone {
            Gone::Tcp(id) => {
                // What the stack does not know any more has ended by itself.
                if is_reset {
                    let _ = stack.abort(now, id);
                }
                let _ = stack.close(now, id);
            }
            Gone::Context(used) => self.xtp.leave(&used, is_reset, now),
        }
        if !is_reset && let Some(bytes) = self.waits(stack, gone) {
            self.accounts.add_closed(payer, bytes, now);
            self.closed.0.push_back(Left { payer, gone, charged: bytes });
        }
    }

    /// Bytes that a connection has waiting, unless it is over but for the time that its addresses are kept.
    fn waits(&self, stack: &mut Stack, gone: Gone) -> Option<u64> {
        let id = match gone {
            Gone::Tcp(id) => id,
            Gone::Context(used) => return self.xtp.waits(&used),
        };
        let state = stack.tcp_state(id).ok()?;
        let load = stack.load(id).ok()?;
        (!matches!(state, TcpState::TimeWait | TcpState::Closed)).then_some(load.bytes)
    }

    /// Charges users for what some of them have now.
    pub fn look_at_closed(&mut self, stack: &mut Stack, most: usize) {
        for _ in 0..most.min(self.closed.0.len()) {
            let Some(left) = self.closed.0.pop_front() else { return };
            let Left { payer, gone, charged } = left;
            let bytes = self.waits(stack, gone);
            self.accounts.charge_closed(payer, charged, bytes);
            if let Some(charged) = bytes {
                self.closed.0.push_back(Left { charged, ..left });
            }
        }
    }
}
