//! A message on its way out.

use super::Message;
use super::swapped::Swapping;
use crate::Element;
use fusewire_codec::pipeline::{Marshal, Sealing, marshal};
use fusewire_codec::xdr::{Encode as _, Encoder};
use fusewire_codec::{Error, Length, Sink};

/// A message that is encoded while it passes the loop: numbers are gathered, contents pass from where they are.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'m> {
    message: &'m Message<'m>,
    element: Element,
    len: usize,
}

impl<'m> Leaving<'m> {
    /// Looks how long it will be.
    ///
    /// # Errors
    /// A field exceeds its bound.
    pub fn of(message: &'m Message<'m>, element: Element) -> Result<Leaving<'m>, Error> {
        let mut length = Length::default();
        message.encode(&mut Encoder::new(&mut length))?;
        let len = length.position();
        Ok(Leaving { message, element, len: len + element.fill_len(len) })
    }
}

impl Marshal for Leaving<'_> {
    fn marshalled_len(&self) -> usize {
        self.len
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        let Leaving { message, element, len } = *self;
        let is_data = message.body.contents().is_some();
        let mut to = Encoder::new(Swapping::new(to, is_data, element));
        // It was counted, so it fits.
        let _ = message.encode(&mut to);
        let mut to = to.into_inner();
        let fill = len.saturating_sub(to.position()).min(8);
        let _ = to.put(&[0; 8][..fill]);
    }
}

/// The bytes of a message, as they would enter the pipeline.
///
/// # Errors
/// A field exceeds its bound.
pub fn emit(message: &Message<'_>, element: Element) -> Result<Vec<u8>, Error> {
    let leaving = Leaving::of(message, element)?;
    let mut bytes = vec![0; leaving.len];
    let whole = marshal(&leaving, &mut bytes);
    debug_assert!(whole, "a message is as long as it says");
    Ok(bytes)
}
