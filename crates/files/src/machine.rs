//! What the machines of both sides have in common, for whatever drives them.

use crate::channel::Channel;
use crate::inbox::{Intake, Receiver};
use crate::{Error, Scratch, Turn};
use fusewire_base::Instant;

/// A machine of the transfer, on one connection: [`Session`](crate::server::Session),
/// [`get::Worker`](crate::client::get::Worker), [`put::Worker`](crate::client::put::Worker) or
/// [`List`](crate::client::list::List).
///
/// ADUs come in by [`Machine::turn`], which asks the channel for them, or, where a stack opens them straight
/// into memory of ours, by [`Machine::place`] and what follows it; both ways can be mixed.
pub trait Machine {
    /// Does what can be done now, within bounds.
    ///
    /// # Errors
    /// The peer broke the protocol or the channel broke: drop the machine and the connection.
    fn turn(
        &mut self,
        channel: &mut dyn Channel,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Turn, Error>;

    /// Memory for the next ADU, or nothing while the machine takes no more: then the connection keeps it.
    ///
    /// # Errors
    /// As [`Machine::turn`].
    fn place<'a>(&mut self, intake: &'a mut Intake) -> Result<Option<&'a mut [u8]>, Error>;

    /// An ADU of `len` bytes, verified, is in the memory that was given last.
    ///
    /// # Errors
    /// As [`Machine::turn`].
    fn delivered(&mut self, intake: &mut Intake, len: usize) -> Result<(), Error>;

    /// No ADU came into the memory that was given last.
    fn dropped(&mut self, intake: &mut Intake) {
        intake.dropped();
    }

    /// Takes what was delivered out of `intake`, so that another machine can use it.
    ///
    /// # Errors
    /// As [`Machine::turn`].
    fn flush(&mut self, intake: &mut Intake) -> Result<(), Error>;
}

/// A machine whose desk receives.
pub(crate) trait Desked {
    fn desk(&mut self) -> &mut dyn Receiver;
    fn turn_on(
        &mut self,
        channel: &mut dyn Channel,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Turn, Error>;
}

impl<M: Desked> Machine for M {
    fn turn(
        &mut self,
        channel: &mut dyn Channel,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Turn, Error> {
        self.turn_on(channel, scratch, now)
    }

    fn place<'a>(&mut self, intake: &'a mut Intake) -> Result<Option<&'a mut [u8]>, Error> {
        let desk = self.desk();
        if !desk.accepts() {
            return Ok(None);
        }
        intake.make_room(desk).inspect_err(|_| intake.clear())?;
        Ok(Some(intake.place()))
    }

    fn delivered(&mut self, intake: &mut Intake, len: usize) -> Result<(), Error> {
        intake.take(len, self.desk()).inspect_err(|_| intake.clear())
    }

    fn flush(&mut self, intake: &mut Intake) -> Result<(), Error> {
        intake.flush(self.desk()).inspect_err(|_| intake.clear())
    }
}
