//! Where received ADUs go: the application's side of the one pass.

use fusewire_session::{Unmarshal, unmarshal};

use crate::ConnectionId;

/// An ADU on its way to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu {
    /// 0-based count of the peer's records on this connection; the order in which it sent them.
    pub index: u64,
    /// Bytes.
    pub len: usize,
    /// It is the first that the application has not had.
    pub is_next: bool,
}

/// Says where ADUs go while frames are being received.
///
/// For each ADU: [`place_message`](Application::place_message) or [`place`](Application::place), then the pass writes
/// into that memory, then either
/// [`delivered`](Application::delivered) or [`dropped`](Application::dropped). Before `delivered`
/// nothing in that memory may be believed (Law 3); after `dropped` it is wiped. ADUs come in any
/// order of index, each delivered once.
pub trait Application {
    /// Memory of at least `adu.len` bytes for an ADU; `None` to let the stack keep it until
    /// [`Stack::recv`](crate::Stack::recv) asks. Neither `adu` nor the fact that it comes is verified yet.
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]>;

    /// What the ADU is unmarshalled into, in the pass that opens it; asked before [`Application::place`], which is not
    /// asked if there is something. Wiped again unless `delivered` follows.
    fn place_message(&mut self, _from: ConnectionId, _adu: Adu) -> Option<&mut dyn Unmarshal> {
        None
    }

    /// The ADU lies in the memory that `place` gave, verified.
    fn delivered(&mut self, from: ConnectionId, adu: Adu);

    /// The memory that `place` gave for the ADU holds nothing of it.
    fn dropped(&mut self, _from: ConnectionId, _adu: Adu) {}

    /// False to stop after the frame at hand; the rest stay where they are until the next call.
    fn wants_more(&self) -> bool {
        true
    }
}

/// Lets the stack keep every ADU until it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep;

impl Application for Keep {
    fn place(&mut self, _: ConnectionId, _: Adu) -> Option<&mut [u8]> {
        None
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}

/// Where an ADU goes that is opened.
pub(crate) enum Destination<'a> {
    /// Of its length.
    Bytes(&'a mut [u8]),
    Message(&'a mut dyn Unmarshal),
}

/// One message.
pub(crate) struct Message<'a> {
    /// Of this connection alone.
    pub id: Option<ConnectionId>,
    pub into: &'a mut dyn Unmarshal,
    /// Whichever comes first; otherwise the next in order.
    pub any: bool,
    /// Its length, once it has come.
    pub got: Option<usize>,
}

impl Application for Message<'_> {
    fn place(&mut self, _: ConnectionId, _: Adu) -> Option<&mut [u8]> {
        None
    }

    fn place_message(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut dyn Unmarshal> {
        let is_it = self.id.is_none_or(|id| id == from) && (adu.is_next || self.any);
        if is_it && self.got.is_none() { Some(self.into) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.got = Some(adu.len);
    }

    fn wants_more(&self) -> bool {
        self.got.is_none()
    }
}

/// Memory for one ADU of one connection.
pub(crate) struct One<'a> {
    pub id: ConnectionId,
    pub memory: &'a mut [u8],
    pub got: Option<usize>,
    /// It is the next in order, and what others get meanwhile is theirs; otherwise whichever comes first, and no more.
    in_order: bool,
}

impl<'a> One<'a> {
    pub fn in_order(id: ConnectionId, memory: &'a mut [u8]) -> One<'a> {
        One { id, memory, got: None, in_order: true }
    }

    pub fn any(id: ConnectionId, memory: &'a mut [u8]) -> One<'a> {
        One { id, memory, got: None, in_order: false }
    }
}

impl Application for One<'_> {
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        let fits = from == self.id && self.got.is_none() && (adu.is_next || !self.in_order);
        if fits { self.memory.get_mut(..adu.len) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.got = Some(adu.len);
    }

    fn wants_more(&self) -> bool {
        self.in_order || self.got.is_none()
    }
}

/// Notes whether an ADU of one connection has come for an application.
pub(crate) struct Noting<'a> {
    pub id: ConnectionId,
    pub app: &'a mut dyn Application,
    pub any: bool,
}

impl Noting<'_> {
    /// The next ADU in order, which has come before.
    pub fn hand_over(&mut self, index: u64, adu: &mut [u8]) {
        hand_over(self.app, self.id, index, adu);
        self.any = true;
    }
}

impl Application for Noting<'_> {
    /// In order; what comes too early waits.
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        if from == self.id && adu.is_next { self.app.place(from, adu) } else { None }
    }

    fn place_message(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut dyn Unmarshal> {
        if from == self.id && adu.is_next { self.app.place_message(from, adu) } else { None }
    }

    fn delivered(&mut self, from: ConnectionId, adu: Adu) {
        self.any = true;
        self.app.delivered(from, adu);
    }

    fn dropped(&mut self, from: ConnectionId, adu: Adu) {
        self.app.dropped(from, adu);
    }
}

/// The next ADU in order to where `app` places it, if it does.
pub(crate) fn hand_over(
    app: &mut (impl Application + ?Sized),
    from: ConnectionId,
    index: u64,
    bytes: &mut [u8],
) {
    let adu = Adu { index, len: bytes.len(), is_next: true };
    if let Some(into) = app.place_message(from, adu) {
        unmarshal(bytes, into);
        app.delivered(from, adu);
    } else if let Some(memory) = app.place(from, adu).and_then(|m| m.get_mut(..adu.len)) {
        memory.copy_from_slice(bytes);
        app.delivered(from, adu);
    }
}
