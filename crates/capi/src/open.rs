//! A stack from words: which device, which addresses, which gateway; and the default one, from the environment.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_outboard::client::Outboard;
pub use fusewire_outboard::sockets::Settings;
use fusewire_outboard::sockets::{Inline, Sockets};
use fusewire_stack::ip::posix::Bound;
use fusewire_stack::ip::{Host, Sharing};

use crate::errno::{Errno, Result};

/// Where the protocol work of sockets is done.
#[derive(Clone)]
pub enum Side {
    Inline(Arc<Opened>),
    Outboard(Arc<Outboard>),
}

impl Side {
    fn is(&self, other: &Side) -> bool {
        match (self, other) {
            (Side::Inline(one), Side::Inline(other)) => Arc::ptr_eq(one, other),
            (Side::Outboard(one), Side::Outboard(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A stack that runs in this process.
pub struct Opened {
    inline: Arc<Inline>,
    /// What TCP sockets are bound to.
    bound: Mutex<Bound>,
}

static DEFAULT: Mutex<Option<Side>> = Mutex::new(None);

/// Why something failed.
#[derive(Clone)]
enum Reason {
    Sentence(String),
    /// What the C library says of it.
    Number(Errno),
}

thread_local! {
    static REASON: RefCell<Option<Reason>> = const { RefCell::new(None) };
    /// Whether the call that runs has told its own.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Why the last call on this thread that failed did, as a sentence; empty where none has.
pub fn reason() -> String {
    REASON.with_borrow(|reason| match reason {
        None => String::new(),
        Some(Reason::Sentence(sentence)) => sentence.clone(),
        Some(Reason::Number(errno)) => io::Error::from(*errno).to_string(),
    })
}

/// Keeps that sentence.
pub fn tell(reason: String) {
    REASON.set(Some(Reason::Sentence(reason)));
    IS_TOLD.set(true);
}

/// Runs `call`. When it fails without a sentence of its own, its number is the reason, and not what an earlier call said.
pub fn reasoned<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    IS_TOLD.set(false);
    call().inspect_err(|errno| {
        if !IS_TOLD.get() {
            REASON.set(Some(Reason::Number(*errno)));
        }
    })
}

/// Opens a stack; the first becomes the default.
///
/// # Errors
/// `EINVAL`, `EPERM`, `ENODEV`, `EADDRINUSE`, what the kernel says; [`reason`] says more.
pub fn open(settings: &Settings) -> Result<Side> {
    open_in(&mut default_slot(), settings)
}

fn open_in(default: &mut Option<Side>, settings: &Settings) -> Result<Side> {
    let opened = Sockets::open(settings).map_err(failed)?;
    let side = match opened {
        Sockets::Inline(inline) => {
            Side::Inline(Arc::new(Opened { inline, bound: Mutex::default() }))
        }
        Sockets::Outboard(outboard) => Side::Outboard(outboard),
    };
    default.get_or_insert_with(|| side.clone());
    Ok(side)
}

/// Tells why.
fn failed(error: io::Error) -> Errno {
    tell(error.to_string());
    Errno::from(error)
}

fn default_slot() -> MutexGuard<'static, Option<Side>> {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The default stack; opens it, if there is none, as the environment says.
///
/// # Errors
/// `ENETDOWN` when the environment says nothing; as [`open`].
pub fn default() -> Result<Side> {
    let mut slot = default_slot();
    if let Some(opened) = &*slot {
        return Ok(opened.clone());
    }
    let settings = Settings::from_env().map_err(failed)?;
    if settings.device.is_empty() {
        tell("no stack: call fw_open, or set FUSEWIRE_DEVICE and FUSEWIRE_ADDRESS".into());
        return Err(Errno(libc::ENETDOWN));
    }
    open_in(&mut slot, &settings)
}

/// A stack is closed: it is no longer the default.
pub fn close(side: &Side) {
    let mut slot = default_slot();
    if slot.as_ref().is_some_and(|default| default.is(side)) {
        *slot = None;
    }
}

impl Opened {
    /// Its host.
    pub fn host(&self) -> &Host {
        self.inline.host()
    }

    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an address for a TCP socket, beside those that it shares it with; port 0 asks for any.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`.
    pub fn reserve(&self, local: SocketAddr, sharing: Sharing) -> Result<SocketAddr> {
        let mut bound = self.bound();
        Ok(self.host().with(|stack, _| bound.reserve(stack, local, sharing))??)
    }

    /// Gives back what [`Opened::reserve`] gave.
    pub fn release(&self, local: SocketAddr) {
        let mut bound = self.bound();
        // A stack whose interface is gone has none.
        let _ = self.host().with(|stack, _| bound.release(stack, local));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_nobody_knows_is_refused_with_a_sentence() {
        for device in ["", "tape:x", "packet", "xdp:"] {
            let settings = Settings {
                device: device.into(),
                addresses: "192.0.2.77/24".into(),
                ..Settings::default()
            };
            assert_eq!(open(&settings).err(), Some(Errno(libc::EINVAL)), "{device:?}");
            assert!(!reason().is_empty());
        }
    }
}
